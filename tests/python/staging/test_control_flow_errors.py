"""Errors in staged code: those of the branch not taken wait until it is."""

import contextlib
import inspect
import re
import traceback

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

P, N = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


def n(value):
    return torch.tensor(value)


def in_a_branch(x, k):
    if x.sum() > 0:
        x = x.view(7)
    return x + k


def in_a_loop(x, k):
    for _ in range(k):
        if x.sum() > 0:
            x = x.view(7)
        x = x + 1
    return x


def in_nested_branches(x, k):
    if k > 0:
        if x.sum() > 0:
            x = torch.cat([x, x.view(7)])
        else:
            x = x * 2
    return x


CALLS = [(P, n(2)), (N, n(2)), (N, n(0)), (P, n(0)), (N, n(1))]


@pytest.mark.parametrize("function", [in_a_branch, in_a_loop, in_nested_branches])
@pytest.mark.parametrize("first", range(1, len(CALLS)))
def test_an_op_that_fails_in_a_branch_fails_where_it_is_taken(function, first):
    staged = tracehost.function(function)
    for call in CALLS[first:] + CALLS[:first]:
        try:
            expected = function(*call)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=r"shape '\[7\]' is invalid"):
                staged(*call)
            assert "[7]" in str(error)
        else:
            torch.testing.assert_close(staged(*call), expected)
    assert staged.tracing_count() <= 2  # the first call may fail, and make none


def test_a_loops_body_that_catches_what_an_op_raises_is_rejected():
    @tracehost.function
    def staged(x, k):
        for _ in range(k):
            try:
                x = x @ torch.ones(5)
            except RuntimeError:
                x = x + 1
        return x

    with pytest.raises(tracehost.TraceError, match="a graph can't catch what its ops raise"):
        staged(P, n(2))


class TwoParts(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def fail():
    raise ValueError("big")


def in_an_if(x):
    try:
        if x.sum() > 0:
            raise ValueError("big")
        return x
    except ValueError:
        return -x


def in_an_assert(x):
    try:
        assert x.sum() < 0
        return x
    except AssertionError:
        return -x


def in_a_conditional_expression(x):
    try:
        return fail() if x.sum() > 0 else x
    except ValueError:
        return -x


def in_an_and(x):
    try:
        if x.sum() > 0 and fail():
            return x * 2
        return x
    except ValueError:
        return -x


def in_a_cond(x):
    try:
        return tracehost.cond(x.sum() > 0, fail, lambda: x)
    except ValueError:
        return -x


def in_a_callee(x):
    def inner():
        if x.sum() > 0:
            raise ValueError("big")
        return x

    try:
        return inner()
    except ValueError:
        return -x


def in_a_with(x):
    with contextlib.suppress(ValueError):
        if x.sum() > 0:
            raise ValueError("big")
        x = x + 1
    return x


def in_a_with_around_a_loop(x):
    with contextlib.suppress(ValueError):
        for value in x:
            if value > 0:
                raise ValueError("big")
        x = x + 1
    return x


CAUGHT = [
    in_an_if,
    in_an_assert,
    in_a_conditional_expression,
    in_an_and,
    in_a_cond,
    in_a_callee,
    in_a_with,
    in_a_with_around_a_loop,
]


@pytest.mark.parametrize("function", CAUGHT)
def test_what_raises_and_is_caught_by_the_body_is_as_in_eager(function):
    if function is in_a_with_around_a_loop:
        return  # a loop of the graph: the next test
    staged = tracehost.function(function)
    with assert_traces(staged, 2):
        for x in (P, -P, P * 2, -P * 2, P):
            assert torch.equal(staged(x), function(x))
        assert staged.stats()["hits"] == 3


@pytest.mark.parametrize("function", CAUGHT)
def test_what_raises_at_the_trace_and_is_caught_by_the_body_is_rejected(function):
    staged = tracehost.function(function, validate="off", value_reads="error")
    what = "AssertionError" if function is in_an_assert else "ValueError"
    with assert_traces(staged, 0):
        with pytest.raises(tracehost.TraceError) as rejected:
            staged(P)
        line = function.__code__.co_firstlineno
        found = re.fullmatch(
            rf"(a branch|the for) at test_control_flow_errors.py:(\d+) raised {what}, and the body caught that and "
            "continued: a graph can raise, but not catch. Choose by the condition what is to be done instead, or put the try "
            "statement around the function's call.",
            str(rejected.value),
        )
        assert found, str(rejected.value)
        assert line < int(found[2]) <= line + 6


def test_what_raises_at_the_trace_past_another_except_clause_leaves_as_in_eager():
    @tracehost.function
    def staged(x):
        try:
            if x.sum() > 0:
                raise ValueError("big")
            return x
        except KeyError:
            return -x

    with assert_traces(staged, 0):
        with pytest.raises(ValueError, match="big"):
            staged(P)


def test_an_exception_whose_init_takes_other_arguments_keeps_its_type():
    @tracehost.function
    def staged(x):
        if x.sum() < 0:
            raise TwoParts("a", 3)
        return x

    staged(P)
    with pytest.raises(TwoParts, match=r"\('a', 3\)"):
        staged(N)


def number_or_vector(x):
    if x.sum() > 0:
        y = x.sum()
    else:
        y = x * 1
    return y * 2


def vector_or_number(x):
    if x.sum() > 0:
        y = x * 1
    else:
        y = x.sum()
    return y * 2


@pytest.mark.parametrize("body", [number_or_vector, vector_or_number])
def test_sides_with_other_numbers_of_dimensions(body):
    f = tracehost.function(body)
    for value in (1.0, -1.0, 2.0):
        x = torch.full((2,), value)
        got, expected = f(x), body(x)
        assert got.shape == expected.shape and torch.equal(got, expected)
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(body).get_concrete_function(tracehost.TensorSpec([2]))
    one, other = ("[]", "[2]") if body is number_or_vector else ("[2]", "[]")
    assert (
        f"it is a float32 tensor of shape {one} in one and a float32 tensor of shape {other} in the other "
        "(numbers of dimensions differ). Give it one kind, dtype and number of dimensions in both."
    ) in str(caught.value)


def test_the_dtype_that_a_loop_changes_is_named_with_what_to_write():
    @tracehost.function(value_reads="error")  # else the first iteration runs before the loop
    def staged(k):
        total = torch.zeros((), dtype=torch.int64)
        for i in range(k):
            total = total + i * 0.5
        return total

    with pytest.raises(tracehost.Error) as caught:
        staged(n(3))
    line = staged.python_function.__code__.co_firstlineno + 3
    assert str(caught.value) == (
        f"'total' can't be carried from one iteration of the for at test_control_flow_errors.py:{line} to the next: "
        "its dtype changes, from an int64 tensor of shape [] to a float32 tensor of shape []. The condition or the "
        "iterable is a tensor, so one body has to do for all iterations. Write total = total.to(torch.float32) "
        "before the loop. If the body itself converts it, write total = total.to(torch.int64) at the end of the body."
    )


def test_the_remedies_for_a_dtype_that_a_loop_changes_work():
    def before(k):
        total = torch.zeros((), dtype=torch.int64)
        total = total.to(torch.float32)
        for i in range(k):
            total = total + i * 0.5
        return total

    def at_the_end(k):
        total = torch.zeros((), dtype=torch.float32)
        for i in range(k):
            total = (total + i).to(torch.float16)
            total = total.to(torch.float32)
        return total

    for body in (before, at_the_end):
        staged = tracehost.function(body, value_reads="error")
        for k in (3, 0):
            torch.testing.assert_close(staged(n(k)), body(n(k)))

    @tracehost.function(value_reads="error")
    def narrows(k):
        total = torch.zeros((), dtype=torch.float32)
        for i in range(k):
            total = (total + i).to(torch.float16)
        return total

    text = "iterations. Write total = total.to(torch.float32) at the end of the body."
    with pytest.raises(tracehost.Error, match=re.escape(text) + "$"):
        narrows(n(3))


def raises_in_a_peeled_iteration(x, k):
    for _ in range(k):
        x = x[None]
        if k > 2:
            raise ValueError("too deep")
    return x


def is_impure(x, k):
    while k > 0:
        x.notes = k
        k = k - 1
    return x


def changes_its_kind(x, k):
    while k > 0:
        x = x[None]
        k = k - 1
    return x


@pytest.mark.parametrize("function", [raises_in_a_peeled_iteration, is_impure, changes_its_kind])
@pytest.mark.parametrize("value_reads", ["trace", "error"])
def test_no_exception_of_the_staging_is_in_a_traceback(function, value_reads):
    staged = tracehost.function(function, value_reads=value_reads)
    try:
        staged(P, n(9))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        assert "autograph.staging" not in text and "ImpureSide" not in text
        assert "During handling" not in text


def state_is_none(x, k):
    state = None
    for i in range(k):
        state = (x * i, x) if state is None else (state[0] + i, state[1])
    return state


def tensor_is_none(x, k):
    total = None
    while k > 0:
        total = x if total is None else total + x
        k = k - 1
    return total


def name_of_a_for(x, k):
    for i in range(k):
        y = x * i
    return y


def name_of_a_while(x, k):
    while k > 0:
        y = x * k
        k = k - 1
    return y


def name_read_before(x, k):
    out = x
    for i in range(k):
        if i > 0:
            out = out + y  # noqa: F821
        y = x * i
    return out


FIRST_ITERATIONS = {
    state_is_none: (
        "'state' can't be carried from one iteration of the for at {} to the next: its structure changes, from None "
        "to a tuple. The condition or the iterable is a tensor, so one body has to do for all iterations. Give it a "
        "tuple of a float32 tensor of shape [3] and a float32 tensor of shape [3] before the loop."
    ),
    tensor_is_none: (
        "'total' can't be carried from one iteration of the while at {} to the next: it is no tensor or number, from "
        "None to a float32 tensor of shape [3]. The condition or the iterable is a tensor, so one body has to do for "
        "all iterations. Give it a float32 tensor of shape [3] before the loop."
    ),
    name_of_a_for: (
        "'y' is assigned only in the for at {}, which may have no iteration; give it a value before it."
    ),
    name_of_a_while: (
        "'y' is assigned only in the while at {}, which may have no iteration; give it a value before it."
    ),
    name_read_before: (
        "'y' is read in the body of the for at {} over a tensor before the body assigns it: the first iteration has no "
        "value, and one body has to do for all. Give it a value before the loop."
    ),
}


@pytest.mark.parametrize("function", FIRST_ITERATIONS)
def test_a_loop_that_may_have_no_iteration_can_not_have_another_first_one(function):
    source, first = inspect.getsourcelines(function)
    loop = next(i for i, s in enumerate(source) if s.lstrip().startswith(("for", "while")))
    staged = tracehost.function(function, value_reads="error")
    with pytest.raises(tracehost.StagingError) as rejected:
        staged(P, n(3))
    assert str(rejected.value) == FIRST_ITERATIONS[function].format(
        f"test_control_flow_errors.py:{first + loop}"
    )


@pytest.mark.parametrize("function", [f for f in FIRST_ITERATIONS if f is not name_read_before])
def test_the_graph_checks_that_there_is_a_first_iteration_that_differs(function):
    staged = tracehost.function(function)
    with assert_traces(staged, 1):
        for count in (3, 1, 2, 5):
            torch.testing.assert_close(staged(P, n(count)), function(P, n(count)))
    names = function in (name_of_a_for, name_of_a_while)
    for _ in range(2):
        if names:
            with pytest.raises(UnboundLocalError, match="local variable 'y'"):
                staged(P, n(0))
        else:
            assert staged(P, n(0)) is None


def test_a_name_that_is_read_before_is_an_error_of_the_first_iteration():
    staged = tracehost.function(name_read_before)
    torch.testing.assert_close(staged(P, n(1)), P)


def test_a_shape_that_is_declared_is_kept():
    @tracehost.function
    def staged(x, k):
        for _ in range(k):
            tracehost.autograph.set_loop_options(shape_invariants=[(x, [3])])
            x = torch.cat([x, x])
        return x

    line = staged.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(tracehost.StagingError) as rejected:
        staged(P, n(3))
    assert str(rejected.value) == (
        f"the shape of 'x' changes in the for at test_control_flow_errors.py:{line} over a tensor, from [3] to [6]. If "
        "that is meant, write as the first line of its body: "
        "tracehost.autograph.set_loop_options(shape_invariants=[(x, [None])])"
    )


def test_under_a_size_that_is_declared_any_a_size_that_changes_is_declared_too():
    def grows(x, k):
        for _ in range(k):
            x = torch.cat([x, x[:1] * 2])
        return x

    def declared(x, k):
        for _ in range(k):
            tracehost.autograph.set_loop_options(shape_invariants=[(x, [None])])
            x = torch.cat([x, x[:1] * 2])
        return x

    signature = [tracehost.TensorSpec([None]), tracehost.TensorSpec([], torch.int64)]
    line = grows.__code__.co_firstlineno + 1
    with pytest.raises(tracehost.StagingError) as rejected:
        tracehost.function(grows, input_signature=signature)(P, n(3))
    assert str(rejected.value) == (
        f"the shape of 'x' changes in the for at test_control_flow_errors.py:{line} over a tensor, from [3] to [4]. If "
        "that is meant, write as the first line of its body: "
        "tracehost.autograph.set_loop_options(shape_invariants=[(x, [None])])"
    )
    staged = tracehost.function(declared, input_signature=signature)
    with assert_traces(staged, 1):
        for x, k in ((P, 3), (P[:1], 2), (P, 0)):
            torch.testing.assert_close(staged(x, n(k)), grows(x, k))


def test_under_a_size_that_is_declared_any_a_loop_may_have_no_iteration():
    @tracehost.function(input_signature=[tracehost.TensorSpec([None, 2])])
    def staged(x):
        for row in x:
            y = row * 2
        return y

    with assert_traces(staged, 1):
        for rows in (3, 1, 2, 5):
            x = torch.arange(2.0 * rows).view(rows, 2)
            assert torch.equal(staged(x), staged.python_function(x))
    with pytest.raises(UnboundLocalError):
        staged(torch.ones(0, 2))
    line = staged.__wrapped__.__code__.co_firstlineno + 2
    signature = [tracehost.TensorSpec([None, 2])]
    with pytest.raises(tracehost.StagingError) as rejected:
        tracehost.function(
            staged.python_function, input_signature=signature
        ).get_concrete_function()
    assert str(rejected.value) == (
        f"'y' is assigned only in the for at test_control_flow_errors.py:{line}, which may have no iteration; "
        "give it a value before it."
    )


def passes_temporaries(x):
    total = x[0] * 0
    for i, row in enumerate(x):
        print("body")
        part = row * i
        total = total + part
    for i, row in enumerate(x):
        part = row + i
        total = total + part
    return total


def uses_a_name_behind(x):
    total = x[0] * 0
    for i, row in enumerate(x):
        print("body")
        part = row * i
        total = total + part
    return total + part * i


@pytest.mark.parametrize(("function", "runs"), [(passes_temporaries, 1), (uses_a_name_behind, 3)])
def test_a_first_iteration_is_run_before_the_loop_only_where_that_is_needed(function, runs, capsys):
    log = []
    staged = tracehost.function(lambda x: function(x))
    x = torch.arange(6.0).view(3, 2)
    with assert_traces(staged, 1):
        result = staged(x)
        assert capsys.readouterr().out == "body\n" * runs  # 3: staged, run, staged again
        torch.testing.assert_close(result, function(x))
        torch.testing.assert_close(staged(x + 1), function(x + 1))


@pytest.mark.parametrize("op", ["t_", "squeeze_", "detach_", "requires_grad_"])
def test_an_op_that_changes_what_a_joined_variable_is_is_rejected(op):
    @tracehost.function
    def f(x):
        y = x
        if x.sum() > 0:
            y = x * 2
        getattr(y, op)()
        return y

    line = f.__wrapped__.__code__.co_firstlineno + 5
    with pytest.raises(tracehost.StagingError) as error:
        f(torch.ones(1, 3))
    name = "tracehost::requires_grad_" if op == "requires_grad_" else f"aten::{op}"
    assert str(error.value) == (
        f"{name} at test_control_flow_errors.py:{line} changes a tensor's sizes or history in place, and a "
        "staged branch or loop may have left that tensor as it was before it: it would change another "
        "variable, too. Use an op that returns a new tensor."
    )


def test_an_op_that_changes_what_a_view_of_a_joined_variable_is():
    def body(x):
        y = x
        if x.sum() > 0:
            y = x * 2
        z = y[:]
        z.t_()
        return y, z

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (torch.ones(2, 3), -torch.ones(2, 3)):
            for got, expected in zip(f(x), body(x), strict=True):
                assert torch.equal(got, expected)


def test_a_write_to_a_view_in_a_branch_that_is_not_taken():
    # Its kernel asks for sizes, in Python, while the tracer is on.
    def make():
        w = torch.linspace(-1, 1, 6).reshape(2, 3)
        p = torch.linspace(-0.5, 1, 3).requires_grad_()

        def body(x):
            if x.sum() > 0:
                w.copy_(x)
            w.mul_(p)
            return w * 1

        return body, w

    (body, w), (other, v) = make(), make()
    f = tracehost.function(body)
    with assert_traces(f, 2):
        for x in (torch.ones(3), -torch.ones(3), -torch.ones(3), torch.full((3,), 2.0)):
            assert torch.equal(f(x), other(x))
            assert torch.equal(w, v)
