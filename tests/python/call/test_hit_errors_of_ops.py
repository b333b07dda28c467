"""Errors that depend on values, so that only a hit can meet them: eager's, for many kinds of op."""

import re

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

I = torch.tensor  # noqa: E741
EYE, ZERO, ONE = torch.eye(3), torch.zeros(3, 3), torch.eye(3)
NAN = torch.full((3, 3), float("nan"))
X = torch.arange(12.0).view(3, 4)
GOOD, BAD = I([0, 1]), I([0, 9])

# What is run, arguments that pass, arguments of the same signature that fail.
CASES = {
    "inv": (torch.linalg.inv, (EYE,), (ZERO,)),
    "solve": (lambda a: torch.linalg.solve(a, ONE), (EYE,), (ZERO,)),
    "cholesky": (torch.linalg.cholesky, (EYE,), (-EYE,)),
    "eigh": (torch.linalg.eigh, (EYE,), (NAN,)),
    "svd": (lambda a: torch.linalg.svd(a).S, (EYE,), (NAN,)),
    "lstsq": (lambda a: torch.linalg.lstsq(a, ONE).solution, (EYE,), (NAN,)),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a, 1), (EYE,), (ZERO,)),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, -1), (EYE,), (ZERO,)),
    "lu_solve": (lambda a: torch.linalg.inv_ex(a, check_errors=True)[0], (EYE,), (ZERO,)),
    "index": (lambda i: X[i], (GOOD,), (BAD,)),
    "two indices": (lambda i: X[i, i], (GOOD,), (BAD,)),
    "negative index": (lambda i: X[i], (GOOD,), (-BAD,)),
    "index_put": (lambda i: X.clone().index_put_((i,), I(1.0)), (GOOD,), (BAD,)),
    "index_select": (lambda i: X.index_select(0, i), (GOOD,), (BAD,)),
    "index_fill": (lambda i: X.index_fill(0, i, 1.0), (GOOD,), (BAD,)),
    "index_copy": (lambda i: X.index_copy(0, i, X[:2]), (GOOD,), (BAD,)),
    "index_add": (lambda i: X.index_add(0, i, X[:2]), (GOOD,), (BAD,)),
    "gather": (lambda i: X.gather(0, i[None]), (GOOD,), (BAD,)),
    "scatter": (lambda i: X.scatter(0, i[None], 1.0), (GOOD,), (BAD,)),
    "scatter_add": (lambda i: X.scatter_add(0, i[None], X), (GOOD,), (BAD,)),
    "scatter_reduce": (lambda i: X.scatter_reduce(0, i[None], X, "sum"), (GOOD,), (BAD,)),
    "take": (lambda i: X.take(i), (GOOD,), (I([0, 99]),)),
    "put": (lambda i: X.put(i, X[0, :2]), (GOOD,), (I([0, 99]),)),
    "embedding": (lambda i: F.embedding(i, X), (GOOD,), (BAD,)),
    "embedding_bag": (lambda i: F.embedding_bag(i[None], X), (GOOD,), (BAD,)),
    "one_hot": (lambda i: F.one_hot(i, 3), (GOOD,), (BAD,)),
    "one_hot of negatives": (lambda i: F.one_hot(i, 3), (GOOD,), (-GOOD,)),
    "bincount": (torch.bincount, (GOOD,), (-GOOD,)),
    "cross_entropy": (lambda i: F.cross_entropy(X[:2], i), (GOOD,), (BAD,)),
    "nll_loss": (lambda i: F.nll_loss(X[:2], i), (GOOD,), (BAD,)),
    "multi_margin_loss": (lambda i: F.multi_margin_loss(X[:2], i), (GOOD,), (BAD,)),
    "binary_cross_entropy": (
        lambda p: F.binary_cross_entropy(p, torch.ones(3)),
        (torch.rand(3),),
        (torch.full((3,), 2.0),),
    ),
    "integers divided by zero": (lambda a, b: a // b, (GOOD, I([1, 2])), (GOOD, I([1, 0]))),
    "remainder": (lambda a, b: a % b, (GOOD, I([1, 2])), (GOOD, I([1, 0]))),
    "repeat_interleave": (lambda n: X[0, :2].repeat_interleave(n), (GOOD,), (-GOOD,)),
    "multinomial": (lambda p: torch.multinomial(p, 1), (torch.ones(3),), (-torch.ones(3),)),
    "bernoulli": (torch.bernoulli, (torch.ones(3),), (torch.full((3,), 2.0),)),
    "normal": (lambda s: torch.normal(0.0, s), (torch.ones(3),), (-torch.ones(3),)),
    "poisson": (torch.poisson, (torch.ones(3),), (-torch.ones(3),)),
    "histc": (lambda x: torch.histc(x, 4), (torch.ones(3),), (torch.full((3,), float("inf")),)),
    "a product with a mask": (
        lambda m: X[0, :2] @ X[m],
        (I([True, True, False]),),
        (I([True] * 3),),
    ),
    "sizes by a mask": (lambda m: X[m] + X[:2], (I([True, True, False]),), (I([True] * 3),)),
    "a view by a mask": (
        lambda m: X[0][m].view(2, 1),
        (I([True, True, False, False]),),
        (I([True] * 3 + [False]),),
    ),
    "cat by a mask": (
        lambda m: torch.stack([X[:, 0][m], X[0, :2]]),
        (I([True, True, False]),),
        (I([True] * 3),),
    ),
    "pack_padded_sequence": (
        lambda n: torch.nn.utils.rnn.pack_padded_sequence(X[:2, :, None], n, True).data,
        (I([3, 2]),),
        (I([2, 3]),),
    ),
    "tensor_split": (lambda x: torch.max(x[x > 0], 0).values, (torch.ones(3),), (-torch.ones(3),)),
    "median of nothing": (lambda x: x[x > 0].amax(), (torch.ones(3),), (-torch.ones(3),)),
    "kthvalue": (
        lambda m: X[0][m].kthvalue(2).values,
        (I([True] * 4),),
        (I([True] + [False] * 3),),
    ),
    "a narrow by a mask": (
        lambda m: X[0][m].narrow(0, 0, 3),
        (I([True] * 4),),
        (I([True] + [False] * 3),),
    ),
    "searchsorted": (
        lambda i: torch.searchsorted(X[0], X[1], sorter=i),
        (torch.arange(4),),
        (torch.arange(4) + 9,),
    ),
    "view by strides": (lambda a: (a * 2).view(-1), (torch.ones(2, 3),), (torch.ones(3, 2).t(),)),
    "view_as_complex": (
        lambda a: torch.view_as_complex(a * 2),
        (torch.ones(2, 2),),
        (torch.ones(2, 2).t(),),
    ),
    "cholesky in a block": (
        lambda a: torch.linalg.cholesky(a) if a.sum() != 0 else a,
        (EYE,),
        (-EYE,),
    ),
}


NOTE = re.compile(
    r"in body \(test_hit_errors_of_ops.py:\d+\), the op at test_hit_errors_of_ops.py:\d+"
)


def caught(call, args):
    try:
        call(*args)
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("name", CASES)
def test_a_hit_raises_what_eager_raises(name):
    op, good, bad = CASES[name]

    def body(*args):
        return op(*args)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        f(*good)
        expected = caught(body, bad)
        if expected is None:
            pytest.fail(f"eager takes the bad arguments of {name}")
        for _ in range(2):
            got = caught(f, bad)
            assert type(got) is type(expected) and str(got) == str(expected)
            assert len(got.__notes__) == 1 and NOTE.fullmatch(got.__notes__[0])
            f(*good)


KINDS = [ValueError, KeyError, TypeError, NotImplementedError, torch.OutOfMemoryError, OSError]


@pytest.mark.parametrize("kind", KINDS)
def test_what_called_code_raises_passes_through(kind):
    fails = []

    def called(x):
        if fails:
            raise kind("no")
        return x * 2

    f = tracehost.function(lambda x: tracehost.py_function(called, [x], torch.float32, shape=(2,)))
    x = torch.ones(2)
    with assert_traces(f, 1):
        f(x)
        fails.append(1)
        with pytest.raises(kind) as error:
            f(x)
        assert type(error.value) is kind


def test_memory_that_is_not_there():
    def body(n):
        return torch.empty(n.shape[0], 1 << 60)

    f = tracehost.function(body)
    expected, got = caught(body, (torch.ones(2),)), caught(f, (torch.ones(2),))
    assert type(got) is type(expected) and str(got) == str(expected)


@pytest.mark.parametrize(
    "op",
    [
        lambda a: (a * 2).view(-1),
        lambda a: torch.view_as_complex(a * 2),
        lambda a: (a * 2).view(torch.float64),
        lambda a: (a * 2).view(4).numel(),
    ],
)
def test_an_error_by_strides_of_what_nobody_uses(op):
    """The view's values are not used, and the body asks whether there is one."""

    def body(a):
        try:
            op(a)
        except RuntimeError:
            return a * 3
        return a * 1

    f = tracehost.function(body)
    good, bad = torch.ones(2, 2), torch.ones(2, 4)[:, ::2].t()
    for x in (good, good, bad, good, good, good, bad, good):
        assert torch.equal(f(x), body(x))
