"""tracehost.scan: as a plain loop, in a trace one loop of the graph."""

import pytest
import torch
import tracehost
from eager_support import same, same_error
from tracehost import TensorSpec, scan


def rows(n, m=2):
    return torch.arange(1.0, 1 + n * m).reshape(n, m) / 4


def clipped(a, x):
    a = a + x
    if a.sum() > 4:
        a = a * 0.5
    return a


PROGRAMS = {
    "sums": lambda xs: scan(lambda a, x: a + x, xs),
    "with an initializer": lambda xs: scan(lambda a, x: a * x, xs, torch.ones(2)),
    "a number first": lambda xs: scan(lambda a, x: a * 0.5 + x.sum(), xs, 0.0),
    "an int first": lambda xs: scan(lambda a, x: a + x.argmax(), xs, initializer=2),
    "backwards": lambda xs: scan(lambda a, x: a * x, xs, reverse=True),
    "backwards, with an initializer": lambda xs: scan(
        lambda a, x: a - x, xs, xs.sum(0), reverse=True
    ),
    "a tuple carried": lambda xs: scan(lambda a, x: (a[0] + x, a[1] * 2), xs, (torch.zeros(2), 1)),
    "a dict over a tuple": lambda xs: scan(
        lambda a, p: {"s": a["s"] + p[0] @ p[1]}, (xs, xs + 1), {"s": torch.zeros(())}
    ),
    "containers without an initializer": lambda xs: scan(
        lambda a, x: [a[0] + x[0], a[1] * x[1]], [xs, xs]
    ),
    "a number out": lambda xs: scan(lambda a, x: 3, xs, 0),
    "what it closes over": lambda xs: scan(lambda a, x: a * xs.mean() + x, xs),
    "in a second one": lambda xs: scan(lambda a, x: a + x, scan(lambda a, x: a * x, xs)) + xs,
    "an if": lambda xs: scan(clipped, xs),
}


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain_python(name, autograph):
    if not autograph and name == "an if":
        pytest.skip("an if on a tensor")
    same(PROGRAMS[name], (rows(3),), (-rows(3),), (rows(3) * 2,), autograph=autograph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_gradients(name):
    with torch.no_grad():
        same(PROGRAMS[name], (rows(3),), (-rows(3),), grad=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_any_number_of_rows(name):
    f = PROGRAMS[name]
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    same(f, (rows(3),), (rows(2),), (rows(5),), staged=staged, grad=False)


@pytest.mark.parametrize("first", [0, 1, 3])
def test_no_rows_of_an_initializer(first):
    f = PROGRAMS["with an initializer"]
    assert f(rows(0)).shape == (0, 2)
    torch.testing.assert_close(tracehost.function(f)(rows(0)), f(rows(0)))
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    for n in (first, 0, 1, 3):
        torch.testing.assert_close(staged(rows(n)), f(rows(n)))


def test_one_row():
    same(PROGRAMS["sums"], (rows(1),), (rows(1) * 2,))
    same(PROGRAMS["backwards"], (rows(1),), (rows(1) * 2,))


def test_no_rows_and_no_initializer():
    def f(xs):
        return scan(lambda a, x: a + x, xs)

    line = f.__code__.co_firstlineno + 1
    text = f"scan at test_scan.py:{line} goes over no rows, and has no initializer"
    same_error(f, (rows(0),), ValueError, text)
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    torch.testing.assert_close(staged(rows(2)), f(rows(2)))
    with pytest.raises(ValueError) as caught:
        staged(rows(0))
    assert str(caught.value).split("\n")[0] == text


def test_it_is_one_loop_of_the_graph():
    f = tracehost.function(PROGRAMS["sums"])
    graph = str(f.get_concrete_function(rows(50)).graph)
    assert graph.count("prim::Loop") == 1
    torch.testing.assert_close(f(rows(50)), rows(50).cumsum(0))


def test_in_a_staged_loop():
    def f(xs, n):
        for _ in range(n):
            xs = scan(lambda a, x: a + x, xs) * 0.5
        return xs

    same(f, *[(rows(3), torch.tensor(n)) for n in (2, 0, 3)])


AT = "scan at test_scan.py:{}: "


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda xs: scan(lambda a, x: a + x.sum(), xs, 0),
            TypeError,
            AT
            + "fn returns a float32 tensor of shape [] on cpu, the value before is an int64 tensor of shape [] "
            "on cpu. Give the initializer the dtype of the result.",
        ),
        (
            lambda xs: scan(lambda a, x: x, xs, 0.0),
            ValueError,
            AT
            + "fn returns a float32 tensor of shape [2], the value before is a float32 tensor of shape []. All "
            "states have one shape.",
        ),
        (
            lambda xs: scan(lambda a, x: (a, x), xs),
            TypeError,
            AT
            + "fn returns (torch.float32, torch.float32), the value before is torch.float32. Return the same "
            "containers.",
        ),
        (
            lambda xs: scan(lambda a, x: a, xs, "a"),
            TypeError,
            "scan takes tensors and numbers as its initializer, got str 'a'",
        ),
        (lambda xs: scan(None, xs), TypeError, "scan takes a callable as fn, got a NoneType"),
        (
            lambda xs: scan(lambda a, x: a, xs[0, 0]),
            ValueError,
            "scan takes tensors of at least one dimension as elems, got a float32 tensor of shape []",
        ),
    ],
)
def test_wrong_use(f, error, text):
    same_error(f, (rows(3),), error, text.format(f.__code__.co_firstlineno))


def test_sizes_that_may_all_differ():
    def f(xs):
        return scan(lambda a, x: a + x, xs, xs.sum(0) * 0)

    staged = tracehost.function(f, input_signature=[TensorSpec([None, None])])
    for shape in ((3, 2), (2, 5), (1, 1)):
        torch.testing.assert_close(staged(torch.ones(shape)), f(torch.ones(shape)))
    assert f(torch.ones(0, 4)).shape == staged(torch.ones(0, 4)).shape == (0, 4)
    assert staged.tracing_count() <= 2


class Last:
    row = None


def keeps(a, x):
    Last.row = x
    return a + x


def collects(xs):
    seen = []
    return scan(lambda a, x: seen.append(x) or a + x, xs)


def stores(xs):
    return scan(keeps, xs)


def catches(xs):
    def fn(a, x):
        raise ValueError("no")

    try:
        return scan(fn, xs)
    except ValueError:
        return xs


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(
    ("f", "at", "text"),
    [
        (collects, 2, "the body of a scan over a tensor at {} changes the list 'seen' in place"),
        (stores, 1, "the body of the scan at {} stores Last.row at "),
        (catches, 5, "the body of the scan at {} raises ValueError in the try statement around {}"),
    ],
)
def test_a_message_names_scan_at_its_line(f, at, text, autograph):
    where = f"test_scan.py:{f.__code__.co_firstlineno + at}"
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(f, autograph=autograph)(rows(2))
    assert str(caught.value).startswith(text.format(where, where))
