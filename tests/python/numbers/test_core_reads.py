"""A read of a traced tensor's value is an error that names the line, never part of a graph."""

import bisect
import copy
import math
import operator
import pickle
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import tracehost
from core_support import check, place
from tracehost.testing import assert_traces

X = torch.arange(4.0)


def branch(x):
    if x.sum() > 0:  # here
        return x
    return -x


def loop(x):
    while x.sum() < 10:  # here
        x = x + 1
    return x


def asserts(x):
    assert x.sum() > 0  # here
    return x


def negated(x):
    return x if not x.any() else -x  # here


def both(x):
    return x.any() and x.all()  # here


def inner_helper(x):
    return x.sum().item()  # here


READS = {
    "bool": lambda x: bool(x.sum()),
    "int": lambda x: int(x.sum()),
    "float": lambda x: float(x.sum()),
    "complex": lambda x: complex(x.sum()),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "numpy(force)": lambda x: x.numpy(force=True),
    "np.asarray": lambda x: np.asarray(x),
    "detached numpy": lambda x: x.detach().numpy(),
    "cpu numpy": lambda x: x.cpu().numpy(),
    "__index__": lambda x: operator.index(x.sum().long()),
    "list index": lambda x: [1, 2, 3][x.argmin()],
    "range": lambda x: list(range(x.sum().long())),
    "round": lambda x: round(x.sum().item(), 2),
    "math": lambda x: math.sqrt(x.sum()),
    "format spec": lambda x: f"{x.sum():.3f}",
    "percent": lambda x: "%.2f" % x.sum(),
    "in list": lambda x: 3.0 in [x.sum()],
    "in tensor": lambda x: 3 in x,
    "sorted": lambda x: sorted(x),
    "list.sort": lambda x: [x[1], x[0]].sort(),
    "bisect": lambda x: bisect.bisect([1.0, 2.0], x.sum()),
    "any()": lambda x: any(x),
    "all()": lambda x: all(v > 0 for v in x),
    "filter": lambda x: list(filter(None, x)),
    "equal": lambda x: torch.equal(x, x + 1),
    "Tensor.equal": lambda x: x.equal(x),
    "allclose": lambda x: torch.allclose(x, x + 1),
    "is_nonzero": lambda x: x.sum().is_nonzero(),
    "torch.is_nonzero": lambda x: torch.is_nonzero(x.sum()),
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage(),
    "pickle": lambda x: pickle.dumps(x),
    "deepcopy": lambda x: copy.deepcopy(x),
    "dlpack": lambda x: x.__dlpack__(),
    "from_dlpack": lambda x: torch.from_dlpack(x),
    "tensor of it": lambda x: torch.tensor([x.sum(), 1.0]),
    "torch.Tensor of it": lambda x: torch.Tensor([x.sum(), 1.0]),
    "slice": lambda x: x[: x.sum().long()],
    "view": lambda x: x.view(x[2].long(), -1),
    "expand": lambda x: x.expand(x[2].long(), 4),
    "zeros": lambda x: torch.zeros(x[2].long()),
    "arange": lambda x: torch.arange(x[2]),
    "full": lambda x: torch.full((2,), x[2]),
    "alpha": lambda x: torch.add(x, x, alpha=x[2]),
    "dim": lambda x: x.sum(dim=x[0].long()),
    "dropout": lambda x: F.dropout(x, p=x[0]),
    "setitem": lambda x: [0, 0].__setitem__(x[0].long(), 1),
    "one_hot": lambda x: F.one_hot(x.long()).shape,
    "unique size": lambda x: torch.unique(x).shape,
    "split sizes": lambda x: x.split(x[2:].long().tolist()),
    "hex": lambda x: hex(x[2].long()),
    "divmod": lambda x: divmod(7, int(x[2])),
    "chr": lambda x: chr(x[2].long()),
    "__array__": lambda x: x.__array__(),
    "_version": lambda x: x._version,
    "map int": lambda x: list(map(int, x)),
    "print %": lambda x: print(f"{x[0]:>8}"),
    "manual_seed": lambda x: torch.manual_seed(x[0].long()),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_is_rejected_with_its_line(name):
    body = READS[name]
    f = tracehost.function(body, value_reads="error")
    with assert_traces(f, 0):
        for _ in range(2):
            with pytest.raises(tracehost.ValueReadError) as error:
                f(X)
            assert isinstance(error.value, TypeError) and isinstance(error.value, tracehost.Error)
            assert f" at test_core_reads.py:{body.__code__.co_firstlineno}" in str(error.value)
        assert f.stats()["live"] == 0


@pytest.mark.parametrize("body", [branch, loop, asserts, negated, both])
def test_without_autograph_control_flow_on_a_tensor_is_rejected_with_its_line(body):
    with pytest.raises(tracehost.ValueReadError) as error:
        tracehost.function(body, autograph=False, value_reads="error")(X)
    assert str(error.value) == (
        f"the body reads the value of a traced tensor (aten::is_nonzero) at {place(body)}, which a "
        "graph can't repeat. (It is not staged: autograph is off.) Keep the computation in tensors (torch.where, masks), or move the read "
        "out of the function."
    )


@pytest.mark.parametrize(
    "body",
    [
        lambda x: max(x),
        lambda x: min(x[0], x[1]),
        lambda x: 1 if x.sum() == 6 else 2,
        lambda x: 0 < x.sum() < 3,
        lambda x: x[x.sum().long() - 6],
    ],
)
def test_what_autograph_stages_is_no_read(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (X, X + 1, -X):
            try:
                expected = body(x)
            except IndexError as error:
                with pytest.raises(IndexError, match=re.escape(str(error))):
                    f(x)
                continue
            assert torch.equal(torch.as_tensor(f(x)), torch.as_tensor(expected))


def test_the_line_is_the_readers_own_in_a_helper():
    with pytest.raises(tracehost.ValueReadError, match=place(inner_helper)):
        tracehost.function(lambda x: inner_helper(x) * x, value_reads="error")(X)


def test_a_read_of_a_captured_tensor_is_rejected_too():
    weight = torch.ones(3)
    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(lambda x: x * weight.sum().item(), value_reads="error")(X)
    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(lambda x: x * float(weight.numpy()[0]))(X)


@pytest.mark.parametrize("name", ["bool", "item", "tolist", "numpy", "zeros", "view", "equal"])
def test_a_read_that_the_body_catches_is_rejected_all_the_same(name):
    read = READS[name]

    def body(x):
        try:
            read(x)
        except Exception:
            return x * 2
        return x * 3

    f = tracehost.function(body, value_reads="error")
    with assert_traces(f, 0):
        with pytest.raises(tracehost.ValueReadError, match="test_core_reads.py"):
            f(X)


def test_a_read_that_the_body_replaces_by_its_own_exception_is_rejected_all_the_same():
    def body(x):
        try:
            return x * x.sum().item()
        except TypeError as error:
            raise RuntimeError("no number") from error

    with pytest.raises(tracehost.ValueReadError, match="test_core_reads.py"):
        tracehost.function(body, value_reads="error")(X)


def test_the_cache_is_as_before_a_rejected_read():
    def body(x, read):
        return x * float(x.sum()) if read else x * 2

    f = tracehost.function(body, limit=1, value_reads="error")
    assert torch.equal(f(X, False), X * 2)
    for _ in range(3):
        with pytest.raises(tracehost.ValueReadError):
            f(X, True)
        assert torch.equal(f(X, False), X * 2)
    stats = f.stats()
    assert (stats["traces"], stats["live"], stats["evicted"], stats["hits"]) == (1, 1, 0, 3)


def test_a_text_that_is_kept_has_values_and_one_that_is_printed_has_none(capsys):
    texts = []

    def body(x):
        texts.append((f"{x}", str(x), repr(x), "%s" % x, f"{[x]}"))
        print(x, x * 2)
        return x * 2

    with pytest.warns(tracehost.SideEffectWarning):
        tracehost.function(body)(X)
    one = "<traced tensor float32[4]>"
    kept = repr(X)
    assert texts == [(kept, kept, kept, kept, f"[{kept}]")]
    assert capsys.readouterr().out == f"{one} {one}\n"


def test_a_capsule_of_the_memory_is_rejected():
    def body(x):
        torch.utils.dlpack.to_dlpack(x)
        return x * 2

    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(body)(X)


def test_eager_code_reads_as_always():
    tracehost.function(lambda x: x * 2)(X)
    assert X.tolist() == [0.0, 1.0, 2.0, 3.0] and f"{X[1]:.1f}" == "1.0" and X.numpy()[3] == 3
    assert repr(X) == "tensor([0., 1., 2., 3.])" and X.data is not X and bool(X.any())


def test_identity_and_hash_are_no_reads():
    def body(x, y):
        table = {x: 2.0, y: 3.0}
        return x * table[x] + y * table[y], x is y, id(x) == id(y), x is None

    check(body, X, X + 1)


def test_the_version_of_what_the_body_made():
    def body(x):
        y = x * 2
        before = y._version
        y.add_(1)
        return y * (y._version - before)

    f = tracehost.function(body)
    assert torch.equal(f(X), body(X)) and torch.equal(f(X + 1), body(X + 1))
    with pytest.raises(tracehost.ValueReadError, match="reads Tensor._version"):
        tracehost.function(lambda x: x * x._version)(X)


@pytest.mark.parametrize("autograph", [False, True])
def test_draws_of_numpy_are_told(autograph):
    f = tracehost.function(lambda x: x * np.random.beta(2.0, 2.0), autograph=autograph)
    with pytest.warns(tracehost.TraceWarning, match="uses numpy.random.beta at test_core_reads.py"):
        f(X)


@pytest.mark.parametrize("order", [(5, 2**63, 6, 2**64 - 1), (2**63, 5, 2**63, 6)])
def test_an_int_past_63_bits(order):
    def body(x):
        n = x.item()
        return n, n + 1, n // 3, [1] if n > 2**40 else [n]

    f = tracehost.function(body)
    for value in order:
        x = torch.tensor(value, dtype=torch.uint64)
        assert f(x) == body(x)


@pytest.mark.parametrize(
    "read",
    [
        lambda z: z.sum().item() * 2,
        lambda z: complex(z[0]),
        lambda z: z[0].item() if z.abs().sum() > 0 else 0,
        lambda z: z * z[1].item(),
    ],
)
def test_a_complex_number_is_traced_with_its_value(read):
    f = tracehost.function(lambda z: read(z))
    for dtype in (torch.complex64, torch.complex128):
        for values in ([1 + 2j, 3j], [1 + 2j, 3j], [1 - 2j, 3j], [0j, 0j], [1 + 2j, 3j]):
            z = torch.tensor(values, dtype=dtype)
            expected, result = read(z), f(z)
            assert type(result) is type(expected) and str(result) == str(expected)
