"""tracehost.case and tracehost.switch_case: chains of if and elif, in a trace ifs of the graph."""

import pytest
import torch
import tracehost
from eager_support import same, same_error
from tracehost import case, switch_case
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0])


def n(value):
    return torch.tensor(value)


def double_or(x):
    if x.sum() > 2:
        return x * 2
    return x - 1


CASES = {
    "three ways": lambda x, k: case(
        [(k < 0, lambda: x * 2), (k == 0, lambda: x * 3)], default=lambda: x * 4
    ),
    "the first one that holds": lambda x, k: case(
        [(k < 2, lambda: x + 1), (k < 1, lambda: x + 2), (k < 3, lambda: x + 3)], lambda: x
    ),
    "a number read": lambda x, k: case(
        [(k.item() > 0, lambda: (x, 1)), (k.item() < 0, lambda: (x * 2, 2))], lambda: (x * 3, 3)
    ),
    "Python conditions too": lambda x, k: case(
        [(False, lambda: x), (k > 0, lambda: x * 2), (True, lambda: x * 3), (k < 5, lambda: x)]
    ),
    "exclusive": lambda x, k: case(
        [(k < 0, lambda: x), (k == 0, lambda: x * 3)], lambda: x * 4, exclusive=True
    ),
    "one case": lambda x, k: case(((k > 0, lambda: x * 2),), lambda: x),
    "nested": lambda x, k: case(
        [(k > 0, lambda: case([(k > 1, lambda: x)], lambda: x * 5))], lambda: -x
    ),
    "control flow in a function": lambda x, k: case(
        [(k > 0, lambda: double_or(x))], lambda: double_or(x * 3)
    ),
}
SWITCHES = {
    "a list": lambda x, k: switch_case(k, [lambda: x, lambda: x * 2, lambda: x * 3]),
    "a default": lambda x, k: switch_case(k, [lambda: x, lambda: x * 2], default=lambda: -x),
    "a dict": lambda x, k: switch_case(k, {3: lambda: x * 3, -1: lambda: x, 1: lambda: x * 2}),
    "pairs": lambda x, k: switch_case(k, [(1, lambda: x * 2), (0, lambda: x)]),
    "a number read": lambda x, k: switch_case(k.item(), [lambda: (x, 1), lambda: (x * 2, 2)]),
    "one function": lambda x, k: switch_case(k, [lambda: x * 2]),
    "int32": lambda x, k: switch_case(k.to(torch.int32).reshape(1), [lambda: x, lambda: x * 2]),
    "control flow in a function": lambda x, k: switch_case(
        k, [lambda: double_or(x), lambda: double_or(x * 3)]
    ),
}
CALLS = [(X, n(k)) for k in (-1, 0, 1, 2, 3, 7)]


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("f", [*CASES.values(), *SWITCHES.values()])
def test_as_plain_python(f, autograph):
    if not autograph and f in (
        CASES["control flow in a function"],
        SWITCHES["control flow in a function"],
    ):
        pytest.skip("an if on a tensor")
    same(f, *CALLS, autograph=autograph)
    same(f, *CALLS[::-1], autograph=autograph)


@pytest.mark.parametrize("f", [*CASES.values(), *SWITCHES.values()])
def test_without_gradients_and_in_a_loop(f):
    def loop(x, k):
        for i in tracehost.range(k):
            result = f(x, i)
            x = result[0] if isinstance(result, tuple) else result
        return x

    with torch.no_grad():
        same(f, *CALLS, grad=False)
    if f not in (CASES["a number read"], SWITCHES["a number read"], SWITCHES["int32"]):
        same(loop, *CALLS[1:5])


def test_a_number_of_python_chooses_at_the_trace():
    calls = []

    def f(x, k):
        return switch_case(k, [lambda: calls.append(0) or x, lambda: calls.append(1) or x * 2])

    staged = tracehost.function(f)
    for k, traces in ((0, 1), (1, 2), (0, 2), (True, 2)):
        if k is True:
            with pytest.raises(TypeError, match="switch_case takes an integer, got bool True"):
                staged(X, k)
            continue
        torch.testing.assert_close(staged(X, k), X * (k + 1))
        assert staged.tracing_count() == traces
    assert calls == [0, 1]


def test_without_a_default_the_largest_number_is_it():
    def f(x, k):
        return switch_case(k, {1: lambda: x * 2, 5: lambda: x * 3, 0: lambda: x})

    for call in (f, tracehost.function(f)):
        found = [call(X, n(k)).tolist() for k in (0, 1, 5, 4, -1)]
        assert found == [(X * by).tolist() for by in (1, 2, 3, 3, 3)]


def test_a_size_that_may_differ():
    def f(x):
        big = case([(x.shape[0] > 3, lambda: x.sum())], lambda: x.prod())
        return big + switch_case(x.shape[0], {2: lambda: x[0]}, lambda: x[1])

    staged = tracehost.function(f, input_signature=[tracehost.TensorSpec([None])])
    for size in (2, 5, 3):
        x = torch.arange(1.0, 1 + size)
        torch.testing.assert_close(staged(x), f(x))


# ---- Errors


def test_no_condition_holds():
    def f(x, k):
        return case([(k < 0, lambda: x), (k == 0, lambda: x * 2)])

    line = f.__code__.co_firstlineno + 1
    text = (
        f"none of the 2 conditions of the case at test_cases.py:{line} holds, and it has no default"
    )
    same_error(f, (X, n(1)), ValueError, text, good=(X, n(0)))
    same_error(f, (X, 1), ValueError, text)


def test_two_conditions_hold():
    def f(x, k):
        return case([(k < 0, lambda: x), (k < 2, lambda: x * 2)], lambda: -x, exclusive=True)

    line = f.__code__.co_firstlineno + 1
    text = f"two or more of the 2 conditions of the case at test_cases.py:{line} are true, and exclusive=True allows one"
    same_error(f, (X, n(-1)), ValueError, text, good=(X, n(0)))
    same_error(f, (X, -1), ValueError, text)


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda x, k: case({k > 0: lambda: x}),
            TypeError,
            "case takes a list of pairs (condition, function), got a dict",
        ),
        (
            lambda x, k: case([]),
            ValueError,
            "case takes at least one pair (condition, function), got none",
        ),
        (
            lambda x, k: case([(True, lambda: x), 3]),
            TypeError,
            "case takes pairs (condition, function), pair 1 is 3",
        ),
        (
            lambda x, k: case([(k > 0, x)]),
            TypeError,
            "case takes a callable as function 0, got a Tensor",
        ),
        (
            lambda x, k: case([(k > 0, lambda: x)], 3),
            TypeError,
            "case takes a callable as default, got a int",
        ),
        (
            lambda x, k: switch_case(k, []),
            ValueError,
            "switch_case takes at least one function, got none",
        ),
        (
            lambda x, k: switch_case(k, [lambda: x, 3]),
            TypeError,
            "switch_case takes a callable as function 1, got a int",
        ),
        (
            lambda x, k: switch_case(k, {"a": lambda: x}),
            TypeError,
            "switch_case takes ints as numbers of its functions, got 'a'",
        ),
        (
            lambda x, k: switch_case(k, [(0, lambda: x), (0, lambda: x)]),
            ValueError,
            "switch_case has two functions of the number 0",
        ),
        (
            lambda x, k: switch_case(k, 3),
            TypeError,
            "switch_case takes a dict or a list of functions, got int 3",
        ),
        (
            lambda x, k: switch_case(x.sum(), [lambda: x, lambda: -x]),
            TypeError,
            "switch_case takes an integer, got a float32 tensor of shape []",
        ),
        (
            lambda x, k: switch_case(x.sum().item(), [lambda: x, lambda: -x]),
            TypeError,
            "switch_case takes an integer, got {}",
        ),
        (
            lambda x, k: switch_case(k > 0, [lambda: x, lambda: -x]),
            TypeError,
            "switch_case takes an integer, got a bool tensor of shape []",
        ),
        (
            lambda x, k: switch_case(k, [lambda: x], default=3),
            TypeError,
            "switch_case takes a callable as default, got a int",
        ),
    ],
)
def test_wrong_use(f, error, text):
    with pytest.raises(error) as caught:
        f(X, n(1))
    assert str(caught.value) == text.format("float 3.0")
    with pytest.raises(error) as caught:
        tracehost.function(f)(X, n(1))
    assert str(caught.value).split("\n")[0] == text.format("a traced float")


def test_results_that_do_not_agree():
    def body(x, k):
        return switch_case(k, [lambda: x, lambda: x.sum()])

    staged = tracehost.function(body)
    with assert_traces(staged, 2):
        assert torch.equal(staged(X, n(0)), X) and torch.equal(staged(X, n(1)), X.sum())
        assert torch.equal(staged(X, n(0)), X)
    with pytest.raises(
        tracehost.StagingError, match="differs between the branches of the switch_case"
    ):
        tracehost.function(body, value_reads="error")(X, n(0))
    with pytest.raises(tracehost.StagingError, match="Write .any\\(\\) or .all\\(\\)"):
        tracehost.function(lambda x: case([(x > 0, lambda: x)], lambda: -x))(X)
    with pytest.raises(tracehost.StagingError, match="Write .any\\(\\) or .all\\(\\)"):
        tracehost.function(lambda x: case([(x > 0, lambda: x)], lambda: -x, exclusive=True))(X)
