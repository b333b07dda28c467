"""any, all, in, min, max, sorted and sum of tensors: the values, types and exceptions of eager Python, in one graph."""

import copy

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


def t(*values):
    return torch.tensor(values)


VECTORS = (t(1.0, 2.0, 3.0), t(-1.0, -2.0, -3.0), t(3.0, 1.0, 3.0), t(0.0, 0.0, 0.0))
INTEGERS = (t(1, 2, 3), t(-1, -2, -3), t(3, 1, 3), t(0, 0, 0))
NAN = float("nan")
MISSING = (t(NAN, 1.0, 2.0), t(1.0, NAN, 2.0), t(2.0, 1.0, NAN), t(NAN, NAN, NAN))
INFINITE = (t(-float("inf"), NAN, -float("inf")), t(float("inf"), NAN, 1.0))


def same(expected, got):
    """Values, types, dtypes and structure."""
    assert type(expected) is type(got), (expected, got)
    if isinstance(expected, torch.Tensor):
        assert expected.dtype == got.dtype and expected.shape == got.shape
        assert torch.equal(expected.nan_to_num(7), got.nan_to_num(7)), (expected, got)
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(got)
        for e, g in zip(expected, got, strict=True):
            same(e, g)
    else:
        assert expected == got


def helper(values):
    return max(values) - min(values)


class Model:
    bound = 2.5

    def within(self, x):
        return all(v < self.bound for v in x)


def branch_of_any(x):
    if any(x):
        return x * 2
    return x - 1


def loop_of_reductions(x):
    total = x.sum() * 0
    for i in tracehost.range(3):
        best = max(x, key=lambda v: -abs(v - i))
        total = total + best * 2
        if i in x and not any(v > 2 for v in x):
            total = total + min(x[0], x[2])
    return total


def first_at_most(x):
    """The generator asks no further than in Python, which would fail."""
    return any(v > 2 if i < 2 else x[5] > 2 for i, v in enumerate(x))


EXACT = {
    "any": lambda x: any(x),
    "all": lambda x: all(x),
    "any of a list": lambda x: any([x[0] > 1, x[1] > 1, False]),
    "any of a tuple that holds True": lambda x: any((x[0] > 1, True)),
    "all of a list that holds 0": lambda x: all([x[0] > 1, 0]),
    "all of numbers": lambda x: all([x[0].item(), x[1].item()]),
    "any of a generator": lambda x: any(v > 2 for v in x),
    "all of a generator": lambda x: all(v > 0 for v in x),
    "any of rows of one": lambda x: any(x[:, None]),
    "any of nothing": lambda x: (any(x[:0]), all(x[:0]), any([]), all(())),
    "any of a part that is gone over": lambda x: any(v > 2 for v in x[1:]),
    "all of an expression that is gone over": lambda x: all(v > 2 for v in (x * 2)[:2]),
    "any of a dict's values": lambda x: any({"a": x[0] > 2, "b": x[1] > 2}.values()),
    "not any": lambda x: not any(x),
    "any and all": lambda x: any(x) and all(v > 0 for v in x),
    "all of what a generator enumerates": lambda x: all(v > i - 5 for i, v in enumerate(x)),
    "any of pairs": lambda x: any((a - b).abs() > 1 for a, b in zip(x, x * 2)),
    "in a tensor": lambda x: (3 in x, 3.0 not in x, x[0] in x, x[0].item() in x),
    "in a list": lambda x: (x[0] in [1, 2], x[0] not in [x[1], x[2]], 2 in [x[0], x[1]]),
    "in a list of numbers": lambda x: 3 in [x[0].item(), x[1].item()],
    "itself in a list": lambda x: (x in [x], x not in (x, x)),
    "None in a list": lambda x: None in [x[0], x[1]],
    "max": lambda x: max(x),
    "min": lambda x: min(x),
    "max of two": lambda x: max(x[0], x[1]),
    "max of three": lambda x: max(x[0], x[1], x[2]),
    "min of a list": lambda x: min([x[0], x[1], x[2]]),
    "max of a generator": lambda x: max(v * 2 for v in x),
    "max of numbers": lambda x: max([v.item() for v in x]),
    "max with a default": lambda x: (max(x, default=1), max([], default=x[0])),
    "max by key": lambda x: max(x, key=lambda v: -v),
    "min by key": lambda x: min([x[0], x[1]], key=abs),
    "max of rows by key": lambda x: max(torch.stack([x, x * 2]), key=lambda r: r.sum()),
    "max of arguments by key": lambda x: max(x[0], x[1], key=lambda v: v * v),
    "sum": lambda x: (sum(x), sum(x, 10), sum([x[0], x[1]]), sum(v * v for v in x)),
    "sorted": lambda x: sorted(x),
    "sorted in reverse": lambda x: sorted(x, reverse=True),
    "sorted by key": lambda x: sorted(x, key=lambda v: -v),
    "sorted rows": lambda x: sorted(torch.stack([x, x * 2, -x]), key=lambda r: r.sum()),
    "sorted numbers": lambda x: sorted([v.item() for v in x], reverse=True),
    "of a function": helper,
    "of a method": Model().within,
    "in a branch": branch_of_any,
    "in a loop": loop_of_reductions,
}


@pytest.mark.parametrize("inputs", [VECTORS, INTEGERS], ids=["floats", "ints"])
@pytest.mark.parametrize("name", EXACT)
def test_a_builtin_does_what_it_does_in_eager_python_in_one_graph(name, inputs):
    for first in range(len(inputs)):
        staged = tracehost.function(EXACT[name])
        # A comparison of floats that are sorted holds where none is NaN: that is checked.
        with assert_traces(staged, 1):
            for x in inputs[first:] + inputs[:first]:
                same(EXACT[name](x), staged(x.clone()))


@pytest.mark.parametrize("name", ["max", "min", "sorted", "any", "all", "max of three"])
def test_nan_is_where_python_leaves_it(name):
    staged = tracehost.function(EXACT[name])
    for x in MISSING + INFINITE:
        same(EXACT[name](x), staged(x))


@pytest.mark.parametrize(
    "name", ["max", "min", "sorted", "max by key", "sorted rows", "sum", "max of two"]
)
def test_gradients_reach_the_element_that_is_chosen(name):
    def gradient(function, x):
        x = x.clone().requires_grad_()
        result = function(x)
        parts = result if isinstance(result, (list, tuple)) else [result]
        torch.autograd.grad(sum((i + 1) * p.sum() for i, p in enumerate(parts)), x)
        return torch.autograd.grad(
            sum(
                (i + 1) * p.sum()
                for i, p in enumerate(function(x) if parts is result else [function(x)])
            ),
            x,
        )[0]

    staged = tracehost.function(EXACT[name])
    for x in VECTORS:
        assert torch.equal(gradient(staged, x), gradient(EXACT[name], x))


def counts_in_a_function(x):
    count, log = 0, []

    def asked(v):
        nonlocal count
        count += 1
        log.append(1)
        return v > 2

    return any(asked(v) for v in x), count, len(log)


def takes_from_an_iterator(x):
    rows = iter(x)
    return any(v > 2 for v in rows), [v * 2 for v in rows]


def takes_from_a_generator(x):
    rows = (v for v in x)
    return all(v < 2 for v in rows), [v * 2 for v in rows]


def filters(x):
    return any(v > 2 for v in x if v < 3), all(map(lambda v: v > 0, x))


@pytest.mark.parametrize(
    "function", [counts_in_a_function, takes_from_an_iterator, takes_from_a_generator, filters]
)
def test_a_generator_with_effects_is_asked_by_python(function):
    for first in range(len(VECTORS)):
        staged = tracehost.function(function)
        for x in VECTORS[first:] + VECTORS[:first]:
            same(function(x), staged(x))
        assert staged.tracing_count() > 1


@pytest.mark.parametrize("first", range(len(VECTORS)))
def test_a_generator_asks_no_further_than_in_python(first):
    staged = tracehost.function(first_at_most)
    with assert_traces(staged, 1):
        for x in (t(1.0, 5.0, 3.0), t(5.0, 1.0, 3.0), *VECTORS[first:], *VECTORS[:first]):
            try:
                expected = first_at_most(x)
            except IndexError as error:
                with pytest.raises(IndexError, match=str(error)):
                    staged(x)
            else:
                same(expected, staged(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: any(x[0]),
        lambda x: any([x]),
        lambda x: any(v for v in [x]),
        lambda x: all(torch.stack([x, x])),
        lambda x: max(x[0]),
        lambda x: max(x[:0]),
        lambda x: min([x, x]),
        lambda x: sorted([x, x]),
        lambda x: sorted(x[0]),
        lambda x: x in [x + 1, x],
        lambda x: "a" in x,
        lambda x: max(x, x, default=1),
        lambda x: any(x, x),
    ],
)
def test_what_fails_in_eager_python_fails_likewise(function):
    with pytest.raises(Exception) as expected:
        function(VECTORS[0])
    with pytest.raises(type(expected.value)) as got:
        tracehost.function(function)(VECTORS[0])
    assert str(got.value).startswith(str(expected.value))


@pytest.mark.parametrize("name", ["any", "in a list", "any of a generator", "in a branch"])
def test_they_are_reads_where_reads_are_errors(name):
    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(EXACT[name], value_reads="error")(VECTORS[0])


def test_max_reads_no_value():
    staged = tracehost.function(EXACT["max"], value_reads="error")
    with assert_traces(staged, 1):
        for x in VECTORS:
            same(EXACT["max"](x), staged(x))


def test_sorted_in_a_branch_that_the_trace_did_not_run_raises_where_a_key_is_nan():
    @tracehost.function
    def f(x):
        if x[0] > 0:
            return sorted(x)
        return sorted(x, reverse=True)

    with assert_traces(f, 1):
        for x in VECTORS:
            same(f.python_function(x), f(x))
        line = f.python_function.__code__.co_firstlineno + 4
        with pytest.raises(ValueError) as raised:
            f(t(-1.0, NAN, 2.0))
        assert str(raised.value) == (
            f"sorted() at test_builtins_of_tensors.py:{line} has a NaN among its keys, in a branch or loop that the trace did "
            "not run: then there is no order. Sort outside of the block, or give a key that is never NaN."
        )
    with assert_traces(f, 1):
        same(sorted(MISSING[1]), f(MISSING[1]))  # in the branch that it ran, the graph checks


def test_an_element_of_another_dtype_or_shape_is_chosen_by_a_check():
    def body(x):
        return max(x[0], x[1].long()), min([x[:1], x[2]])

    staged = tracehost.function(body)
    for x in VECTORS:
        same(body(x), staged(x))
    assert staged.tracing_count() > 1


def test_objects_are_chosen_by_a_traced_key():
    names = ["a", "b", "c"]

    @tracehost.function
    def best(x):
        return max(names, key=lambda n: x[names.index(n)]), sorted(
            names, key=lambda n: x[names.index(n)]
        )

    for x in VECTORS:
        assert best(x) == best.python_function(copy.deepcopy(x))
    assert best.tracing_count() > 1


def dot(x, y):
    total = x.sum() * 0
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def test_a_strict_zip_compares_lengths():
    f = tracehost.function(dot)
    with assert_traces(f, 1):
        for x in VECTORS:
            assert torch.equal(f(x, x + 1), dot(x, x + 1))
    with pytest.raises(ValueError, match=r"^zip\(\) argument 2 is shorter than argument 1$"):
        dot(t(1.0, 2.0), t(3.0))
    with pytest.raises(ValueError, match=r"^zip\(\) argument 2 is shorter than argument 1$"):
        f(t(1.0, 2.0), t(3.0))


def test_a_strict_zip_of_dynamic_lengths_is_rejected():
    spec = tracehost.TensorSpec([None])
    f = tracehost.function(dot, input_signature=[spec, spec])
    said = r"^zip\(strict=True\) at test_builtins_of_tensors\.py:\d+ compares lengths that may differ between calls\. Compare"
    with pytest.raises(tracehost.StagingError, match=said):
        f(t(1.0, 2.0), t(3.0, 4.0))
