"""tracehost.map_fn: as a plain loop, in a trace one loop of the graph."""

import numpy as np
import pytest
import torch
import tracehost
from eager_support import same, same_error
from tracehost import TensorSpec, map_fn


def rows(n, m=2):
    return torch.arange(1.0, 1 + n * m).reshape(n, m)


def halve(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


PROGRAMS = {
    "one tensor": lambda xs: map_fn(lambda x: x / x.sum(), xs),
    "a tuple in and out": lambda xs: map_fn(lambda ab: (ab[1], ab[0] * 2), (xs, xs + 1)),
    "a dict in, a tensor out": lambda xs: map_fn(
        lambda d: d["a"] @ d["b"], {"a": xs, "b": xs * 2}, fn_output_signature=torch.float32
    ),
    "tf's former dtype": lambda xs: map_fn(lambda x: x.argmax(), xs, dtype="int64"),
    "containers out": lambda xs: map_fn(
        lambda x: {"s": x.sum(), "l": [x, x > 2]},
        xs,
        fn_output_signature={"s": "float32", "l": [TensorSpec([2]), torch.bool]},
    ),
    "a number out": lambda xs: map_fn(lambda x: 3, xs, fn_output_signature="float32"),
    "a number of the graph out": lambda xs: map_fn(
        lambda x: x.sum().item() * 2, xs, fn_output_signature=np.float64
    ),
    "what it closes over": lambda xs: map_fn(lambda x: x * xs.sum(), xs),
    "another shape": lambda xs: map_fn(lambda x: torch.outer(x, x), xs),
    "nested": lambda xs: map_fn(lambda x: map_fn(lambda y: y * x.sum(), x), xs),
    "in place of a row": lambda xs: map_fn(lambda x: x.clone().mul_(2), xs),
    "the result's size": lambda xs: map_fn(lambda x: x * 2, xs).shape[0] + xs,
    "added to what it goes over": lambda xs: map_fn(lambda x: x * 2, xs) + xs,
    "a control flow of its own": lambda xs: map_fn(halve, xs),
}
NEEDS_AUTOGRAPH = ("a control flow of its own",)


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain_python(name, autograph):
    if not autograph and name in NEEDS_AUTOGRAPH:
        pytest.skip("a while on a tensor")
    same(PROGRAMS[name], (rows(3),), (-rows(3),), (rows(3) * 2,), autograph=autograph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_gradients(name):
    with torch.no_grad():
        same(PROGRAMS[name], (rows(3),), (-rows(3),), grad=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_any_number_of_rows(name):
    f = PROGRAMS[name]
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    traces = 3 if name == "nested" else 1  # the size of what an inner map_fn gives is read
    same(f, (rows(3),), (rows(1),), (rows(5),), staged=staged, traces=traces, grad=False)


def test_it_is_one_loop_of_the_graph():
    f = tracehost.function(PROGRAMS["one tensor"])
    graph = str(f.get_concrete_function(rows(100)).graph)
    assert graph.count("prim::Loop") == 1 and graph.count("aten::div") == 1
    assert f(rows(100)).shape == (100, 2)


def test_the_function_is_called_once_while_it_is_traced(capsys):
    f = tracehost.function(lambda xs: map_fn(lambda x: print("called") or x * 2, xs))
    for _ in range(2):
        f(rows(4))
    assert capsys.readouterr().out == "called\n"


def test_in_a_staged_loop_and_branch():
    def f(xs, n):
        for i in range(n):
            xs = map_fn(lambda x: x + i, xs)
        if xs.sum() > 20:
            return map_fn(lambda x: x * 2, xs)
        return xs

    args = [(rows(2), torch.tensor(n)) for n in (3, 0, 5)]
    same(
        f, *args, traces=2
    )  # the lambda reads i, so a loop without an iteration has a graph of its own
    same(f, *args[::-1], traces=2)


def test_random_numbers_are_those_of_eager():
    def f(xs):
        return map_fn(lambda x: x + torch.rand(2), xs)

    staged = tracehost.function(f)
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = f(rows(3))
        torch.manual_seed(seed)
        torch.testing.assert_close(staged(rows(3)), expected)


def test_second_gradients():
    def second(f):
        x = rows(3).requires_grad_()
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return h

    f = PROGRAMS["another shape"]
    torch.testing.assert_close(second(tracehost.function(f)), second(f))


def test_arrays_outside_of_a_trace():
    assert map_fn(lambda x: x * 2, np.arange(3)).tolist() == [0, 2, 4]


def test_in_a_nested_function():
    inner = tracehost.function(PROGRAMS["one tensor"])
    same(lambda xs: inner(xs) * 2, (rows(3),), (rows(3) * 2,))


# ---- No rows


def test_no_rows_of_a_declared_shape():
    def f(xs):
        return map_fn(lambda x: x.sum(), xs, fn_output_signature=TensorSpec([]))

    assert f(rows(0)).shape == (0,)
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    for n in (2, 0, 3):
        torch.testing.assert_close(staged(rows(n)), f(rows(n)))
    first = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    for n in (0, 2):
        torch.testing.assert_close(first(rows(n)), f(rows(n)))


def test_no_rows_of_no_known_shape():
    def f(xs):
        return map_fn(lambda x: x * 2, xs)

    line = f.__code__.co_firstlineno + 1
    text = (
        f"map_fn at test_map_fn.py:{line} goes over no rows, and no shape is known to give the result. "
        "Declare it, as in fn_output_signature=TensorSpec([3])."
    )
    same_error(f, (rows(0),), ValueError, text)
    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    torch.testing.assert_close(staged(rows(2)), rows(2) * 2)
    with pytest.raises(ValueError) as caught:
        staged(rows(0))
    assert str(caught.value).split("\n")[0] == text


# ---- Errors


def _line(f):
    return f"map_fn at test_map_fn.py:{f.__code__.co_firstlineno}: "


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda xs: map_fn(lambda x: x.argmax(), xs),
            TypeError,
            "{}fn returns torch.int64, and torch.float32 is expected, from elems or as declared. Write "
            "fn_output_signature=torch.int64.",
        ),
        (
            lambda xs: map_fn(lambda x: (x, x), xs),
            TypeError,
            "{}fn returns (torch.float32, torch.float32), and torch.float32 is expected, from elems or as "
            "declared. Write fn_output_signature=(torch.float32, torch.float32).",
        ),
        (
            lambda xs: map_fn(lambda x: "a", xs),
            TypeError,
            "{}fn returns <class 'str'>, and torch.float32 is expected, from elems or as declared. Return "
            "tensors, and numbers that the dtype can hold.",
        ),
        (
            lambda xs: map_fn(lambda x: 2.5, xs, fn_output_signature="int64"),
            TypeError,
            "{}fn returns torch.float32, and torch.int64 is expected, from elems or as declared. Write "
            "fn_output_signature=torch.float32.",
        ),
        (
            lambda xs: map_fn(lambda x: x, xs, fn_output_signature=TensorSpec([3])),
            ValueError,
            "{}fn returns a float32 tensor of shape [2] on cpu, and TensorSpec(shape=(3,), "
            "dtype=torch.float32, name=None) is declared",
        ),
        (
            lambda xs: map_fn(lambda x: x, [xs, xs[:1]]),
            ValueError,
            "map_fn takes tensors of one first size, got 3 and 1",
        ),
        (
            lambda xs: map_fn(lambda x: x, xs.sum()),
            ValueError,
            "map_fn takes tensors of at least one dimension as elems, got a float32 tensor of shape []",
        ),
        (
            lambda xs: map_fn(lambda x: x, [1, 2]),
            TypeError,
            "map_fn takes tensors as elems, in containers or alone, got int 1",
        ),
        (
            lambda xs: map_fn(lambda x: x, []),
            ValueError,
            "map_fn takes at least one tensor as elems, got []",
        ),
        (
            lambda xs: map_fn(3, xs),
            TypeError,
            "map_fn takes a callable as fn, got a int",
        ),
        (
            lambda xs: map_fn(lambda x: x, xs, fn_output_signature=3),
            TypeError,
            "map_fn's fn_output_signature is a dtype or a TensorSpec, or a container of them, got 3",
        ),
        (
            lambda xs: map_fn(lambda x: x, xs, torch.float32, fn_output_signature=torch.float32),
            TypeError,
            "map_fn() got both 'dtype' and 'fn_output_signature', which are the same",
        ),
    ],
)
def test_wrong_use(f, error, text):
    same_error(f, (rows(3),), error, text.format(_line(f)))


def test_what_it_raises_at_a_row():
    def f(xs):
        def root(x):
            if x.min() < 0:
                raise ValueError("negative")
            return x.sqrt()

        return map_fn(root, xs)

    staged = tracehost.function(f)
    for call in (f, staged):
        with pytest.raises(ValueError, match="negative"):
            call(-rows(2))
    torch.testing.assert_close(staged(rows(2)), f(rows(2)))
    with pytest.raises(ValueError, match="negative"):
        staged(-rows(2))


def test_a_declared_size_is_compared_at_each_call():
    def f(xs):
        return map_fn(lambda x: x * 2, xs, fn_output_signature=TensorSpec([2]))

    line = f.__code__.co_firstlineno + 1
    text = (
        f"map_fn at test_map_fn.py:{line}: fn returns {{}}, and TensorSpec(shape=(2,), dtype=torch.float32, "
        "name=None) is declared"
    )
    staged = tracehost.function(f, input_signature=[TensorSpec([3, None])])
    for call, what in (
        (f, "a float32 tensor of shape [5] on cpu"),
        (staged, "a float32 tensor of shape [5] on cpu"),
        (staged, "a tensor of another shape"),
    ):
        with pytest.raises(ValueError) as caught:
            call(rows(3, 5))
        assert str(caught.value).split("\n")[0] == text.format(what)
        if call is staged:
            torch.testing.assert_close(staged(rows(3)), rows(3) * 2)


class Last:
    row = None


def keeps(x):
    Last.row = x
    return x


def collects(xs):
    rows_seen = []
    return map_fn(lambda x: rows_seen.append(x) or x, xs)


def stores(xs):
    return map_fn(keeps, xs)


def catches(xs):
    def fn(x):
        raise ValueError("no")

    try:
        return map_fn(fn, xs)
    except ValueError:
        return xs


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(
    ("f", "at", "text"),
    [
        (
            collects,
            2,
            "the body of a map_fn over a tensor at {} changes the list 'rows_seen' in place",
        ),
        (stores, 1, "the body of the map_fn at {} stores Last.row at "),
        (
            catches,
            5,
            "the body of the map_fn at {} raises ValueError in the try statement around {}",
        ),
    ],
)
def test_a_message_names_map_fn_at_its_line(f, at, text, autograph):
    where = f"test_map_fn.py:{f.__code__.co_firstlineno + at}"
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(f, autograph=autograph)(rows(2))
    assert str(caught.value).startswith(text.format(where, where))
