"""tracehost.range, cond and while_loop: in a trace, without autograph, and outside of traces."""

import collections

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.tensor([1.0, -2.0, 3.0])


def counted(n, x):
    total = x * 0
    for i in tracehost.range(n):
        total = total + x * i
    return total


# ---- range


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_range_of_a_tensor_is_one_trace_for_any_count(dtype):
    staged = tracehost.function(counted)
    with assert_traces(staged, 1):
        for n in (5, 0, 3, 1):
            x = X.clone().requires_grad_()
            y = X.clone().requires_grad_()
            n = torch.tensor(n, dtype=dtype)
            result, expected = staged(n, x), counted(n, y)
            torch.testing.assert_close(result, expected)
            result.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)


def test_range_of_an_int_is_a_loop_of_the_graph():
    staged = tracehost.function(counted)
    graph = str(staged.get_concrete_function(1000, X).graph)
    assert graph.count("prim::Loop") == 1
    assert graph.count("aten::mul") == 2
    torch.testing.assert_close(staged(1000, X), X * 499500)


@pytest.mark.parametrize("args", [(4,), (2, 7), (1, 9, 3), (9, 1, -3), (3, 3)])
def test_range_has_the_items_of_pythons(args):
    @tracehost.function
    def total(x, *args):
        for i in tracehost.range(*args):
            x = x * 10 + i
        return x

    start = torch.tensor(0)
    expected = 0
    for i in range(*args):
        expected = expected * 10 + i
    assert total(start, *args).item() == expected
    assert total(start, *(torch.tensor(a) for a in args)).item() == expected


def test_range_of_a_size_that_may_differ():
    @tracehost.function
    def f(x):
        for i in tracehost.range(x.shape[0]):
            x = x + i
        return x

    concrete = f.get_concrete_function(tracehost.TensorSpec([None]))
    for n in (3, 5, 1):
        torch.testing.assert_close(concrete(torch.ones(n)), torch.ones(n) + sum(range(n)))


def test_range_outside_of_a_trace_is_pythons():
    assert tracehost.range(5) == range(5)
    assert tracehost.range(torch.tensor(1), 7, torch.tensor(2)) == range(1, 7, 2)


def test_range_of_ints_is_pythons_where_python_iterates():
    @tracehost.function(autograph=False)
    def f(x):
        for i in tracehost.range(3):
            x = x + i
        return x

    torch.testing.assert_close(f(X), X + 3)


def test_range_errors():
    with pytest.raises(TypeError, match="^range expected 1 to 3 arguments, got 0$"):
        tracehost.range()
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        tracehost.range(2.5)

    @tracehost.function
    def floats(n):
        for _ in tracehost.range(n):
            n = n + 1
        return n

    with pytest.raises(tracehost.StagingError, match="takes integers and integer tensors"):
        floats(torch.tensor(2.0))

    @tracehost.function(autograph=False, value_reads="error")
    def unstaged(n):
        return [n + i for i in tracehost.range(n)]

    with pytest.raises(tracehost.ValueReadError, match="test_explicit_control_flow.py"):
        unstaged(torch.tensor(2))


# ---- cond


@pytest.mark.parametrize("autograph", [True, False])
def test_cond_is_one_trace_for_both_branches(autograph):
    def f(x):
        double = lambda y: {"a": y * 2, "b": (y + 1, 3)}  # noqa: E731
        return tracehost.cond(x.sum() > 0, double, lambda y: {"a": y - 1, "b": (y, 3)}, (x,))

    staged = tracehost.function(f, autograph=autograph)
    with assert_traces(staged, 1):
        for sign in (1, -1, 1):
            x, y = (X.clone() * sign).requires_grad_(), (X.clone() * sign).requires_grad_()
            result, expected = staged(x), f(y)
            assert list(result) == ["a", "b"] and result["b"][1] == 3
            torch.testing.assert_close(result["a"], expected["a"])
            torch.testing.assert_close(result["b"][0], expected["b"][0])
            (result["a"] * result["b"][0]).sum().backward()
            (expected["a"] * expected["b"][0]).sum().backward()
            torch.testing.assert_close(x.grad, y.grad)


def test_cond_writes_only_in_the_branch_that_is_chosen():
    @tracehost.function
    def f(x, y):
        return tracehost.cond(x.sum() > 0, lambda: y.add_(1).sum(), lambda: y.mul_(3).sum())

    with assert_traces(f, 1):
        for sign, expected in ((1, 3.0), (-1, 6.0), (1, 3.0)):
            y = torch.full((3,), 2.0)
            f(X * sign, y)
            assert y.tolist() == [expected] * 3


def branch_with_if(x):
    if x[0] > 2:
        return x * 2
    return x


def test_cond_converts_its_functions():
    @tracehost.function
    def f(x):
        return tracehost.cond(x.sum() > 0, branch_with_if, branch_with_if, [x])

    with assert_traces(f, 1):
        for x in (X, X * 4, -X):
            torch.testing.assert_close(f(x), branch_with_if(x))


def test_cond_of_a_python_value_is_plain():
    assert tracehost.cond(True, lambda: 1, lambda: 2) == 1
    assert tracehost.cond(torch.tensor(0), lambda: 1, lambda: 2) == 2


def test_cond_errors():
    with pytest.raises(TypeError, match="^cond takes a callable as false_fn, got a int$"):
        tracehost.cond(True, lambda: 1, 2)
    with pytest.raises(TypeError, match="^cond takes operands as a tuple or list, got a Tensor$"):
        tracehost.cond(True, lambda x: 1, lambda x: 2, X)

    @tracehost.function(value_reads="error")
    def structures(x):
        return tracehost.cond(x.sum() > 0, lambda: x, lambda: (x,))

    with pytest.raises(
        tracehost.StagingError,
        match=r"'the result' differs between the branches of the cond at test_explicit_control_flow.py:\d+",
    ):
        structures(X)

    @tracehost.function
    def elements(x):
        return tracehost.cond(x > 0, lambda: x, lambda: x)

    with pytest.raises(tracehost.StagingError, match="the condition of the cond .* one value"):
        elements(X)


# ---- while_loop


def power(x, n):
    return tracehost.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), (0, x))


@pytest.mark.parametrize("autograph", [True, False])
def test_while_loop_is_one_trace_for_any_count(autograph):
    staged = tracehost.function(power, autograph=autograph)
    with assert_traces(staged, 1):
        for n in (3, 0, 5):
            x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
            (i, result), (j, expected) = staged(x, torch.tensor(n)), power(y, torch.tensor(n))
            assert type(i) is int and i == j == n
            torch.testing.assert_close(result, expected)
            result.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)


Pair = collections.namedtuple("Pair", "n x")


def test_while_loop_keeps_the_structure():
    def f(x):
        plus = lambda n, s: Pair(n + 1, {"y": s["y"] * 2})  # noqa: E731
        return tracehost.while_loop(lambda n, s: n < 4, plus, Pair(0, {"y": x}))

    result, expected = tracehost.function(f)(X), f(X)
    assert type(result) is type(expected) is Pair
    torch.testing.assert_close(result.x["y"], expected.x["y"])
    single = tracehost.while_loop(lambda n: n < 3, lambda n: n + 1, [0])
    assert single == [3]


def test_while_loops_nest():
    def f(x, n):
        def outer(i, y):
            inner = tracehost.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + x), (0, y))
            return i + 1, inner[1] * 2

        return tracehost.while_loop(lambda i, y: i < n, outer, (0, x))[1]

    staged = tracehost.function(f)
    with assert_traces(staged, 1):
        for n in (4, 1, 0):
            torch.testing.assert_close(staged(X, torch.tensor(n)), f(X, torch.tensor(n)))


def test_while_loop_with_a_changing_shape():
    def f(x):
        return tracehost.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, torch.cat([y, y])),
            [0, x],
            shape_invariants=[None, [None]],
        )[1]

    torch.testing.assert_close(tracehost.function(f)(X), f(X))


@pytest.mark.parametrize("n", [0, 2, 9])
def test_while_loop_ends_after_its_maximum(n):
    def f(x, n):
        step = lambda i, y: (i + 1, y * 2)  # noqa: E731
        return tracehost.while_loop(lambda i, y: i < 4, step, [0, x], maximum_iterations=n)[1]

    staged = tracehost.function(f)
    torch.testing.assert_close(staged(X, n), X * 2 ** min(n, 4))
    torch.testing.assert_close(staged(X, torch.tensor(n)), X * 2 ** min(n, 4))
    torch.testing.assert_close(f(X, n), X * 2 ** min(n, 4))


def test_while_loop_of_a_python_condition():
    @tracehost.function
    def f(x, n):
        return tracehost.while_loop(lambda y: True, lambda y: y * 2, [x], maximum_iterations=n)[0]

    for n in (1, 3, torch.tensor(2), torch.tensor(0)):
        torch.testing.assert_close(f(X, n), X * 2 ** int(n))


def test_while_loop_from_specs():
    f = tracehost.function(power)
    concrete = f.get_concrete_function(
        tracehost.TensorSpec([3]), tracehost.TensorSpec([], torch.int64)
    )
    torch.testing.assert_close(concrete(X, torch.tensor(2))[1], X**3)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((1, lambda: 1, []), TypeError, "while_loop takes a callable as cond, got a int"),
        ((lambda: 1, 1, []), TypeError, "while_loop takes a callable as body, got a int"),
        (
            (lambda: 1, lambda: 1, X),
            TypeError,
            "while_loop takes loop_vars as a tuple or list, got a Tensor",
        ),
        (
            (lambda a: True, lambda a: (a, a), [1]),
            ValueError,
            "while_loop's body returned 2 values for 1 loop variables; it must return all of them, in "
            "their order",
        ),
        (
            (lambda a: True, lambda a: a, [1], None, -1),
            ValueError,
            "while_loop's maximum_iterations must be at least 0, not -1",
        ),
        (
            (lambda a: True, lambda a: a, [1], [None, None]),
            ValueError,
            "while_loop takes one shape invariant for each of the 1 loop variables (None: its shape does "
            "not change), got [None, None]",
        ),
    ],
)
def test_while_loop_arguments(arguments, error, text):
    with pytest.raises(error) as caught:
        tracehost.while_loop(*arguments)
    assert str(caught.value) == text


def test_while_loop_names_a_variable_by_its_place():
    @tracehost.function
    def grows(x):
        return tracehost.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y, y])), (0, x)
        )

    with pytest.raises(tracehost.StagingError) as caught:
        grows(X)
    assert "the shape of 'loop_vars[1]' changes in the while_loop at test_explicit" in str(
        caught.value
    )
    assert "pass shape_invariants=[None, [None]]" in str(caught.value)

    @tracehost.function
    def dtypes(x):
        return tracehost.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.double()), (0, x))

    with pytest.raises(tracehost.StagingError, match=r"'loop_vars\[1\]' can't be carried"):
        dtypes(X)


class AnyName:
    """Its attributes are read by names that code has in variables."""

    name = "any"

    def __getattr__(self, name):
        return getattr(torch, name)


def test_staging_watches_nothing_of_its_own():
    any_name = AnyName()

    @tracehost.function
    def f(x):
        x = any_name.cos(x)
        for i in tracehost.range(3):
            x = x + i
        if x.sum() > 0:
            x = x + 1
        return tracehost.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + 1), (0, x))[1]

    with assert_traces(f, 1):
        for x in (X, -X, X * 2):
            f(x)
