"""Python lists of tensors that loops of the graph append to."""

import pytest
import torch
import tracehost
from torch.utils._pytree import tree_leaves
from tracehost.testing import assert_traces

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(3))


def numbers(*counts):
    return [(X, torch.tensor(n)) for n in counts]


def outputs_of_steps(x, n):
    state, outputs = x[0] * 0, []
    for i in range(n):
        state = torch.tanh(state + x[i])
        outputs.append(state)
    return torch.stack(outputs)


def in_a_branch_and_read_afterwards(x):
    out = [x[0] * 2]
    for row in x:
        if row.sum() > 0:
            out.append(row * 3)
    total = x.sum() * 0
    for v in out:
        total = total + v.sum()
    return torch.cat(out).sum(), out[-1], total


def in_a_loop_of_a_loop(x, n):
    out = []
    for i in range(n):
        for j in range(n):
            out.append(x * i + j)
    return torch.stack(out, 1), torch.cat(out, dim=-1)


def in_a_while_with_a_number(x, n):
    out, k = [], 0.0
    while k < n:
        k += 0.5
        out.append(x * k)
    return torch.stack(out)


def two_lists(x, n):
    first, second = [], [x]
    for i in range(n):
        first.append(x + i)
        second.append(first[0] * 2)
    return torch.stack(first), torch.stack(second)


PROGRAMS = [
    (outputs_of_steps, numbers(3, 5, 1)),
    (in_a_branch_and_read_afterwards, [(X,), (-X,), (X.abs(),), (-X.abs(),)]),
    (in_a_loop_of_a_loop, numbers(2, 3)),
    (in_a_while_with_a_number, numbers(2, 3)),
    (two_lists, numbers(2, 4)),
]


def with_gradients(arguments):
    return [
        a.clone().requires_grad_() if a.dtype.is_floating_point else a.clone() for a in arguments
    ]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("body, calls", PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_values_and_gradients_are_eagers_with_one_trace(body, calls, first):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for call in [calls[first], *calls]:
            mine, eagers = with_gradients(call), with_gradients(call)
            result, expected = tree_leaves(f(*mine)), tree_leaves(body(*eagers))
            torch.testing.assert_close(result, expected)
            sum(t.sum() for t in result).backward()
            sum(t.sum() for t in expected).backward()
            torch.testing.assert_close(mine[0].grad, eagers[0].grad)


def aliased(x, n):
    out = []
    same = out
    for _i in range(n):
        out.append(x)
    return torch.stack(same)


def of_numbers(x, n):
    out = []
    for _i in range(n):
        out.append(3)
    return x * len(out)


@pytest.mark.parametrize("body", [aliased, of_numbers])
def test_what_could_not_follow_the_list_is_rejected(body):
    with pytest.raises(tracehost.StagingError, match="changes the list 'out' in place, which a"):
        tracehost.function(body, value_reads="error")(X, torch.tensor(2))


def test_elements_have_one_dtype():
    @tracehost.function
    def f(x, n):
        out = []
        for _i in range(n):
            out.append(x)
            out.append(x.double())
        return torch.stack(out)

    with pytest.raises(ValueError, match="a float64 tensor is written to a TensorArray of float32"):
        f(X, torch.tensor(2))


def test_other_uses_of_the_list_are_rejected():
    @tracehost.function(value_reads="error")
    def f(x, n):
        out = []
        for _i in range(n):
            out.append(x)
        return out.pop()

    with pytest.raises(tracehost.StagingError, match="its 'pop' at test_staged_lists.py:"):
        f(X, torch.tensor(2))


def test_a_rejected_loop_gives_the_list_back():
    def body(x, n):
        out = []
        for i in range(n):
            out.append(x * x.numpy().tolist()[0][0] + i)
        return torch.stack(out)

    f = tracehost.function(body)
    with tracehost.stance("eager_on_error"), pytest.warns(tracehost.TraceWarning):
        torch.testing.assert_close(f(X, torch.tensor(3)), body(X, 3))
