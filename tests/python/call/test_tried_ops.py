"""An op that raises for some values, called for its error alone, or in a `try` around what it writes: as eager."""

import warnings

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

TABLE = torch.arange(12.0).view(3, 4)
ONES = torch.ones(3, 3)
CALLS = 7


def square(call):
    """Positive definite in some calls."""
    return torch.eye(2) * (1 if call < 3 or call % 2 else -1)


def index(call):
    """In range in some calls."""
    return torch.tensor([0, 1, 2 if call < 3 or call % 2 else 7])


def definite(a):
    try:
        torch.linalg.cholesky(a)
    except torch.linalg.LinAlgError:
        return False
    return True


def repaired(a):
    try:
        torch.linalg.cholesky(a)
    except RuntimeError:
        a = a + 10 * torch.eye(2)
    return torch.linalg.inv(a)


def without_try(a):
    torch.linalg.cholesky(a)
    return a * 2


def unused_chain(a):
    try:
        torch.linalg.cholesky(a).sum().exp()
    except RuntimeError:
        return a * 0
    return a * 2


def failed_draw(a):
    first = torch.rand(2)
    try:
        second = torch.bernoulli(a[0])
    except RuntimeError:
        second = a[0] * 100
    return first, second, torch.rand(1)


LOOKS = {
    "getitem": lambda i: TABLE[i],
    "index_select": lambda i: TABLE.index_select(0, i),
    "embedding": lambda i: F.embedding(i, TABLE),
    "gather": lambda i: TABLE.gather(0, i[:, None]),
    "one_hot": lambda i: F.one_hot(i, 3),
    "take": lambda i: torch.take(TABLE, i * 4),
    "cross_entropy": lambda i: F.cross_entropy(TABLE, i, ignore_index=-5),
    "number": lambda i: TABLE[i[2].item()],
    "select": lambda i: TABLE.select(0, int(i[2])),
    "narrow": lambda i: TABLE.narrow(0, i[2].item(), 1),
    "division": lambda i: 6 // (i[2:] - 7),
}


def look(op):
    def body(i):
        try:
            op(i)
        except (IndexError, RuntimeError):
            return i * 0 - 1
        return i * 2

    return body


def set_item(key):
    def store(k, i):
        k[key(i)] = 1.0

    return store


WRITES = {
    "index_copy": lambda k, i: k.index_copy_(0, i, ONES),
    "index_add": lambda k, i: k.index_add_(0, i, ONES),
    "index_fill": lambda k, i: k.index_fill_(0, i, 3.0),
    "scatter": lambda k, i: k.scatter_(0, i[None], ONES),
    "scatter_add": lambda k, i: k.scatter_add_(0, i[None], ONES),
    "scatter_reduce": lambda k, i: k.scatter_reduce_(0, i[None], ONES, "sum"),
    "index_put": lambda k, i: k.index_put_((i,), ONES),
    "put": lambda k, i: k.put_(i + 4, ONES[0]),
    "rows": set_item(lambda i: i),
    "a_column": set_item(lambda i: (0, i)),
    "a_number": set_item(lambda i: i[2].item()),
    "select": lambda k, i: k.select(0, i[2].item()).add_(3),
    "narrow": lambda k, i: k.narrow(0, i[2].item(), 1).copy_(ONES[:1]),
}


def write(op):
    def make():
        cache, count = torch.zeros(3, 3), torch.zeros(())

        def body(i):
            count.add_(1)
            try:
                op(cache, i)
            except (IndexError, RuntimeError):
                cache.zero_()
            cache.add_(1)
            return cache.clone(), count.clone()

        return body

    return make


def outcome(call, *args):
    torch.manual_seed(3)
    try:
        result = call(*args)
    except RuntimeError as error:
        return type(error)
    if isinstance(result, tuple):
        return [t.tolist() for t in result]
    return result.tolist() if isinstance(result, torch.Tensor) else result


def compare(eager, mine, argument, optimize):
    f = tracehost.function(mine, optimize=optimize)
    with assert_traces(f, 1):
        for call in range(CALLS):
            assert outcome(f, argument(call)) == outcome(eager, argument(call)), f"call {call}"


@pytest.fixture(autouse=True, params=["exact", "off"])
def optimize(request):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield request.param


@pytest.mark.parametrize("body", [definite, repaired, without_try, unused_chain, failed_draw])
def test_an_error_of_a_matrix(body, optimize):
    compare(body, body, square, optimize)


@pytest.mark.parametrize("name", LOOKS)
def test_an_error_of_an_index(name, optimize):
    compare(look(LOOKS[name]), look(LOOKS[name]), index, optimize)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_fails(name, optimize):
    make = write(WRITES[name])
    compare(make(), make(), index, optimize)


def test_an_op_that_raises_at_no_value_is_left_out():
    """The op that nobody uses costs a hit nothing."""

    def body(x):
        torch.tanh(x)
        return x * 2

    f = tracehost.function(body)
    f(torch.ones(2))
    assert "tanh" not in str(f.get_concrete_function(torch.ones(2)).graph)


DROPS = {
    "dropout": lambda h, p: F.dropout(h, p),
    "torch": lambda h, p: torch.dropout(h, p, True),
    "alpha_dropout": lambda h, p: F.alpha_dropout(h, p, True),
    "feature_dropout": lambda h, p: torch.feature_dropout(h, p, True),
    "feature_alpha_dropout": lambda h, p: F.feature_alpha_dropout(h, p, True),
}


@pytest.mark.parametrize("first", [0.0, 0.5])
@pytest.mark.parametrize("name", DROPS)
def test_a_rate_that_is_zero_at_the_trace(name, first, optimize):
    """dropout(h, 0.0) is h itself; for another rate, h stays what it was."""

    def body(x, p):
        h = x * 2
        y = DROPS[name](h, p.item())
        z = DROPS[name](x, p.item()).relu_()
        return y, h, h + y, x * 1, z

    f = tracehost.function(body, optimize=optimize)
    with assert_traces(f, 1):
        for rate in (first, first, first, 0.5, 0.0, 0.3, 0.0):
            got, expected = ((torch.randn(4, 3).abs(), torch.tensor(rate)) for _ in range(2))
            expected[0].copy_(got[0])
            assert outcome(f, *got) == outcome(body, *expected), rate
            assert got[0].tolist() == expected[0].tolist()
