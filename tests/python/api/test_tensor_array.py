"""TensorArray: in loops and branches of a graph, and as a Python list outside of traces."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


def compare(f, *calls, traces=1):
    """Values and gradients of each call against plain Python, and the number of traces."""
    staged = tracehost.function(f)
    with assert_traces(staged, traces):
        for args in calls:
            given = [[_fresh(a) for a in args] for _ in range(2)]
            expected, result = f(*given[0]), staged(*given[1])
            torch.testing.assert_close(result, expected)
            if not result.requires_grad:
                continue
            (expected**2).sum().backward()
            (result**2).sum().backward()
            for a, b in zip(*given):
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    torch.testing.assert_close(b.grad, a.grad)
    return staged


def _fresh(a):
    if not isinstance(a, torch.Tensor):
        return a
    return a.clone().requires_grad_(a.is_floating_point())


def rows(n):
    return torch.arange(1.0, 1 + 2 * n).reshape(n, 2)


def n(value):
    return torch.tensor(value)


X = torch.tensor([1.0, 2.0])


# ---- In loops


def test_writes_in_a_loop_over_rows():
    def f(xs):
        out = tracehost.TensorArray(torch.float32, size=3)
        i = 0
        for x in xs:
            out = out.write(i, x * x)
            i = i + 1
        return out.stack()

    compare(f, (rows(3),), (-rows(3),))


def test_appends_in_a_loop_of_any_count():
    def f(x, n):
        out = tracehost.TensorArray()
        out.append(x)
        for i in tracehost.range(n):
            x = x * 2
            out.append(x + i)
        return out.stack()

    staged = compare(f, (X, n(3)), (X, n(0)), (X, n(7)))
    graph = str(staged.get_concrete_function(X, n(1)).graph)
    for op in ("tracehost::array_new", "aten::append", "aten::stack"):
        assert op in graph


def test_reads_what_earlier_iterations_wrote():
    def fibonacci(x, n):
        out = tracehost.TensorArray()
        out.append(x).append(x)
        for i in tracehost.range(n):
            out.append(out.read(i) + out.read(i + 1))
        return out.read(-1)

    compare(fibonacci, (X, n(5)), (X, n(1)), (X, n(8)))


def test_nested_loops():
    def f(x, n):
        out = tracehost.TensorArray()
        out.append(x)
        for i in tracehost.range(n):
            for j in tracehost.range(i):
                out.append(x * j)
        return out.stack()

    compare(f, (X, n(4)), (X, n(1)), (X, n(3)))


def test_an_array_of_each_iteration():
    def f(x, n):
        total = x.sum() * 0
        for i in tracehost.range(n):
            own = tracehost.TensorArray()
            own.append(x)
            for j in tracehost.range(i):
                own.append(x * j)
            total = total + own.stack().sum()
        return total

    compare(f, (X, n(4)), (X, n(0)), (X, n(2)))


def test_in_branches():
    def f(x, n):
        out = tracehost.TensorArray()
        out.append(x)
        if x.sum() > 0:
            out.append(x * 2)
        for i in tracehost.range(n):
            if i % 2 == 0:
                out.append(x * i)
            else:
                out.write(0, x * 10)
        return out.stack()

    compare(f, (X, n(4)), (-X, n(1)), (-X, n(0)), (X, n(0)))


def test_while_loop_writes():
    def f(x, n):
        out = tracehost.TensorArray()
        out.append(x)

        def body(i):
            out.append(x * i)
            return i + 1

        tracehost.while_loop(lambda i: i < n, body, (0,))
        return out.stack()

    compare(f, (X, n(4)), (X, n(0)))


def test_numbers_are_converted():
    def f(x, n):
        out = tracehost.TensorArray()
        out.append(1).append(2.5)
        for i in tracehost.range(n):
            out.append(i)
        return out.stack() * x.sum()

    compare(f, (X, n(4)), (X, n(0)))


def test_an_element_is_the_tensor_itself():
    def f(x, n):
        y = x * 1
        out = tracehost.TensorArray()
        out.append(y)
        for _ in tracehost.range(n):
            out.append(y)
            y.add_(1)
        return out.stack()

    staged = tracehost.function(f)
    for count in (2, 0, 3):
        torch.testing.assert_close(staged(X, n(count)), f(X, n(count)))


# ---- Without loops


def test_stack_gather_and_unstack():
    def f(xs):
        out = tracehost.TensorArray().unstack(xs)
        some = out.gather([2, 0]) + out.gather(torch.tensor([1, 1]))
        out.write(1, xs[0])
        return torch.cat([some, out.stack()]) * len(out)

    compare(f, (rows(3),), (-rows(3),))


def test_unrolled_appends_have_a_known_size():
    def f(x):
        out = tracehost.TensorArray()
        for k in range(3):
            out.append(x * k)
        assert len(out) == out.size() == out.stack().shape[0] == 3
        return sum(out) + out.stack().mean(0)

    compare(f, (X,), (-X,))


def test_size_in_a_graph():
    @tracehost.function
    def f(x, n):
        out = tracehost.TensorArray()
        for _ in tracehost.range(n):
            out.append(x)
        return len(out) * 2, out.size()

    with assert_traces(f, 1):
        for count in (2, 0, 5):
            a, b = f(X, n(count))
            assert (a, b) == (2 * count, count)


def test_from_specs():
    @tracehost.function
    def f(xs, n):
        out = tracehost.TensorArray()
        out.append(xs.sum(0))
        for x in xs:
            out.append(x)
        for i in tracehost.range(n):
            out.append(out.read(i) * 2)
        return out.stack()

    concrete = f.get_concrete_function(
        tracehost.TensorSpec([None, 2]), tracehost.TensorSpec([], torch.int64)
    )
    for count, repeat in ((3, 2), (5, 0), (1, 4)):
        args = rows(count), n(repeat)
        torch.testing.assert_close(concrete(*args), f.python_function(*args))


# ---- Errors: the same in a trace, at a hit and outside of traces


def stacked(x, n):
    out = tracehost.TensorArray()
    for _ in tracehost.range(n):
        out.append(x)
    return out.stack()


def filled(x, n):
    out = tracehost.TensorArray(size=2)
    for i in tracehost.range(n):
        out.write(i, x)
    return out.stack()


def read_at(x, n):
    out = tracehost.TensorArray(size=4)
    out.write(0, x)
    return out.read(n)


@pytest.mark.parametrize(
    ("f", "good", "bad", "error", "text"),
    [
        (
            stacked,
            2,
            0,
            RuntimeError,
            "stack() of a TensorArray without elements: there is no shape to give the result. Ask size() "
            "first, or write an element before.",
        ),
        (
            filled,
            2,
            1,
            RuntimeError,
            "stack() of a TensorArray whose element 1 of 2 is not written",
        ),
        (
            filled,
            2,
            3,
            IndexError,
            "element 2 is written to a TensorArray of size 2. Give it a larger size, or none "
            "(TensorArray(dtype)): then it grows.",
        ),
        (
            read_at,
            0,
            2,
            IndexError,
            "element 2 of a TensorArray is read before it is written",
        ),
        (read_at, 0, 4, IndexError, "element 4 is read of a TensorArray that has 4"),
    ],
)
def test_values_decide_errors(f, good, bad, error, text):
    staged = tracehost.function(f)
    for call in (f, staged):
        with pytest.raises(error) as caught:
            call(X, n(bad))
        assert str(caught.value).split("\n")[0] == text
    torch.testing.assert_close(staged(X, n(good)), f(X, n(good)))
    with pytest.raises(error) as caught:
        staged(X, n(bad))
    assert str(caught.value).split("\n")[0] == text


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (
            lambda a: a.append(X).append(X[:1]),
            ValueError,
            "an element of shape [1] is written to a TensorArray, or to a list that a loop fills, whose elements have shape [2]. Write elements of one shape: only a list that a loop over Python numbers fills may hold several",
        ),
        (
            lambda a: a.append(X.double()),
            ValueError,
            "a float64 tensor is written to a TensorArray of float32. Convert it, or give the array its dtype.",
        ),
        (lambda a: a.append("x"), TypeError, "a TensorArray takes tensors and numbers, not a str"),
        (
            lambda a: tracehost.TensorArray(size=2).append(X),
            ValueError,
            "append to a TensorArray whose size is given. Use write(index, value), or give it no size "
            "(TensorArray(dtype)): then it grows.",
        ),
        (
            lambda a: a.read(X),
            TypeError,
            "a TensorArray's index is an integer or an integer tensor of one element, not a float32 tensor of "
            "shape [2]",
        ),
        (lambda a: a.read(0), IndexError, "element 0 is read of a TensorArray that has 0"),
        (
            lambda a: a.append(X).append(X).write(-3, X),
            IndexError,
            "element -3 is written to a TensorArray of size 2. Give it a larger size, or none "
            "(TensorArray(dtype)): then it grows.",
        ),
        (
            lambda a: tracehost.TensorArray(size=-1),
            ValueError,
            "TensorArray's size must be at least 0, not -1",
        ),
        (
            lambda a: tracehost.TensorArray(float),
            TypeError,
            "TensorArray's dtype is a torch.dtype, its name ('float32') or numpy's, got <class 'float'> (type): "
            "write 'float32' or 'float64'",
        ),
    ],
)
def test_wrong_use(traced, wrong, error, text):
    def f(x):
        wrong(tracehost.TensorArray())
        return x

    with pytest.raises(error) as caught:
        (tracehost.function(f) if traced else f)(X)
    assert str(caught.value) == text


def test_the_size_that_a_graph_decides_is_a_number_of_the_graph():
    def first_size(x, n):
        out = tracehost.TensorArray()
        for _ in tracehost.range(n):
            out.append(x)
        return x * out.stack().shape[0], out.stack().shape[0]

    f = tracehost.function(first_size)
    with assert_traces(f, 1):
        for count in (2, 5, 1):
            y, size = f(X, n(count))
            assert type(size) is int and size == count
            assert torch.equal(y, X * count)
    rejected = tracehost.function(first_size, value_reads="error")
    with pytest.raises(tracehost.ValueReadError, match="test_tensor_array.py"):
        rejected(X, n(2))


def test_what_a_graph_decides_is_no_number():
    @tracehost.function
    def unrolled(x, n):
        out = tracehost.TensorArray()
        for _ in tracehost.range(n):
            out.append(x)
        return [e for e in out]

    with pytest.raises(tracehost.StagingError, match="needs the number of its elements"):
        unrolled(X, n(2))


def test_a_loop_reads_only_after_an_element_was_written():
    @tracehost.function(value_reads="error")
    def f(x, n):
        out = tracehost.TensorArray(size=4)
        for i in tracehost.range(n):
            x = x + out.read(i)
            out.write(i, x)
        return x

    with pytest.raises(tracehost.StagingError, match="Write an element before the block"):
        f(X, n(2))


def test_an_array_from_outside_is_not_written_by_a_loop():
    outside = tracehost.TensorArray()

    @tracehost.function
    def f(x, n):
        for _ in tracehost.range(n):
            outside.append(x)
        return x

    with pytest.raises(tracehost.StagingError, match="made outside of the traced function"):
        f(X, n(2))
    assert len(outside) == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda a, x: a.read(0) + x,
        lambda a, x: a.stack() + x,
        lambda a, x: a.concat() + x,
        lambda a, x: a.gather([0]) + x,
        lambda a, x: x * a.size(),
        lambda a, x: x * len(a),
        lambda a, x: sum(a) + x,
        lambda a, x: a.append(x).stack(),
        lambda a, x: a.write(0, x).stack(),
        lambda a, x: a.unstack(x[None]).stack(),
        lambda a, x: a.scatter([0], x[None]).stack(),
        lambda a, x: a.split(x[None], [1]).stack(),
    ],
)
@pytest.mark.parametrize("passed", [True, False])
def test_an_array_from_outside_is_not_used(use, passed):
    array = tracehost.TensorArray().append(X)
    line = use.__code__.co_firstlineno
    f = tracehost.function(use if passed else lambda x: use(array, x))
    with pytest.raises(tracehost.StagingError) as caught:
        f(*([array] if passed else []), X)
    assert str(caught.value).split("\n")[0] == (
        f"a TensorArray that was made outside of the traced function is used at test_tensor_array.py:{line}. Make "
        "it in the function, of a tensor that is passed: TensorArray(dtype).unstack(tensor)."
    )
    assert array.stack().tolist() == [[1.0, 2.0]]


def test_an_array_from_outside_in_python_of_the_graph():
    array = tracehost.TensorArray()
    f = tracehost.function(
        lambda x: tracehost.py_function(lambda t: array.append(t) and None, [x], None)
    )
    for k in (1, 2):
        f(X * k)
    assert array.stack().tolist() == [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize("autograph", [True, False])
def test_as_a_loop_variable_and_the_result_of_branches(autograph):
    def f(x, n):
        out = tracehost.TensorArray("float32", size=0, dynamic_size=True)
        out = tracehost.cond(n > 1, lambda: out.write(0, x), lambda: out.write(0, -x))
        i, out = tracehost.while_loop(
            lambda i, out: i < n, lambda i, out: (i + 1, out.write(i, out.read(0) * i)), [1, out]
        )
        return out.stack()

    staged = tracehost.function(f, autograph=autograph)
    with assert_traces(staged, 1):
        for count in (3, 0, 2):
            torch.testing.assert_close(staged(X, n(count)), f(X, n(count)))


def test_where_the_trace_is_given_up():
    def f(x):
        out = tracehost.TensorArray(size=2, element_shape=[2]).write(0, x)
        grows = tracehost.TensorArray(size=1, dynamic_size=True).write(0, -x)
        y = sum(x.numpy().tolist())
        doubled = tracehost.map_fn(lambda t: t * 2, out.stack())
        return grows.append(x).stack() * y, doubled, out.scatter([1], x[None]).concat()

    with tracehost.stance("eager_on_error"), pytest.warns(tracehost.TraceWarning):
        result = tracehost.function(f)(X)
    torch.testing.assert_close(result, f(X))


def test_an_array_of_another_call_is_rejected():
    kept = []

    @tracehost.function
    def f(x):
        if x.sum() > 0:
            own = tracehost.TensorArray()
            own.append(x)
            kept[:] = [own]
        return kept[0].stack()

    assert torch.equal(f(X.abs()), X.abs()[None])
    with pytest.raises(tracehost.StagingError, match="outside of the trace that it was made in"):
        f(-X.abs())
