"""What a body does to a tensor's object: .data, requires_grad, detach_, resize_, set_."""

import pytest
import torch
import tracehost
from core_support import assert_same, check, fresh, gradients, place
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def x4(requires_grad=True):
    return torch.arange(1.0, 5.0, requires_grad=requires_grad)


def both(body, make, calls=4, traces=1):
    """Runs eager and Function each on state of its own; `make()` gives (state, args of call i)."""
    (mine, arguments), (theirs, expected_arguments) = make(), make()
    f = tracehost.function(lambda *args: body(mine, *args))
    with assert_traces(f, traces):
        for i in range(calls):
            expected = body(theirs, *expected_arguments(i))
            got = f(*arguments(i))
            assert_same(got, expected, f"the result of call {i}")
            assert_same(fresh(mine), fresh(theirs), f"the state after call {i}")
            for a, b in zip(mine, theirs):
                assert a.requires_grad == b.requires_grad and a.is_leaf == b.is_leaf
            leaves = [t for t in mine if t.requires_grad and t.is_leaf]
            others = [t for t in theirs if t.requires_grad and t.is_leaf]
            assert_same(
                gradients(got, leaves), gradients(expected, others), f"gradients of call {i}"
            )
    return f


READS = {
    "of an argument": lambda x: (x.data + 1, x * 2),
    "of a result": lambda x: (x * 2).data * x,
    "of a view": lambda x: (x * 2)[1:].data + x[1:],
    "its flags": lambda x: (x.data, x.data.requires_grad, x.data is x),
    "twice": lambda x: x.data * x.data.data,
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_data_is_read_without_a_history(name, requires_grad):
    check(READS[name], x4(requires_grad))


def test_writes_to_data_are_unknown_to_autograd():
    def body(state, x):
        (p,) = state
        y = p * p * x
        p.data.add_(x)  # backward of y uses the new values, as in eager
        p.data[1:].mul_(2)
        return y

    both(body, lambda: ([x4()], lambda i: (torch.full((4,), float(i)),)))


def test_copies_to_data():
    def body(state, x):
        for p in state:
            p.data.copy_(p.data * 0.5 + x)
        return state[0] * state[1]

    both(body, lambda: ([x4(), x4(False)], lambda i: (torch.full((4,), float(i)),)))


def test_data_is_set():
    def body(state, x):
        p, q = state
        p.data = x * 2
        y = p * q
        q.data = q.data.flip(0)
        p.data.add_(1)
        return y, p * 1

    both(body, lambda: ([x4(), x4()], lambda i: (torch.full((4,), float(i)),)))


def test_data_that_is_set_shares_memory():
    def body(state, x):
        (p,) = state
        y = x * 2
        p.data = y
        y.add_(1)
        return p * 1

    both(body, lambda: ([x4()], lambda i: (torch.full((4,), float(i)),)))


@pytest.mark.parametrize(
    "other, change",
    [
        (lambda x: x.detach().double(), "from float32[4] to float64[4]"),
        (lambda x: x.detach()[1:], "from float32[4] to float32[3]"),
    ],
)
def test_data_of_another_kind_is_rejected(other, change):
    def body(x):
        x.data = other(x)  # here
        return x

    with pytest.raises(tracehost.TraceError) as error:
        tracehost.function(body)(x4(False))
    assert str(error.value) == (
        f"the body sets Tensor.data at {place(body)}, and changes the tensor by that {change}. Do "
        "it outside of the function, or give the new tensor another name."
    )


def test_data_in_branches_and_requested_graphs():
    def body(x):
        if x.sum() > 0:
            y = x.data * 2
        else:
            y = x - 1
        return y.data + x

    f = tracehost.function(body)
    concrete = f.get_concrete_function(tracehost.TensorSpec([None], torch.float32))
    for sign in (1, -1, 1):
        x = x4(False) * sign
        assert_same(f(x), body(x))
        assert_same(concrete(x), body(x))


FLAGS = {
    "on a result": lambda x: (x.detach() * 2).requires_grad_() * 3,
    "returned": lambda x: (x.detach() * 2).requires_grad_(),
    "by name": lambda x: (x.detach() * 2).requires_grad_(requires_grad=True),
    "no change": lambda x: (x.detach() * 2).requires_grad_(False),
    "a factory's": lambda x: (torch.ones(4, requires_grad=True) * x.detach(), x),
    "a factory's, returned": lambda x: torch.zeros(2, requires_grad=True),
    "a literal's": lambda x: torch.tensor([1.0, 2.0], requires_grad=True) * 2,
    "new_": lambda x: (x.new_zeros(4, requires_grad=True) + x.detach(), 1),
    "like": lambda x: torch.rand_like(x.detach(), requires_grad=True) * 1,
    "full": lambda x: torch.full((2,), 1.5, requires_grad=True),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_of_tensors_made_in_the_body(name):
    def body(x):
        return FLAGS[name](x)

    f = check(body, x4())
    got, expected = f(x4()), body(x4())
    got, expected = (r[0] if isinstance(r, tuple) else r for r in (got, expected))
    assert got.is_leaf == expected.is_leaf and got.requires_grad == expected.requires_grad


def test_a_leaf_made_before_a_branch_that_uses_it():
    def body(x):
        w = torch.ones(4, requires_grad=True)
        if x.sum() > 0:
            y = w * 2
        else:
            y = w * 3
        return y

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for sign in (1, -1, 1, -1):
            x = x4(False) * sign
            assert_same(f(x), body(x))


def test_an_assigned_flag():
    def body(x):
        y = x.detach() * 2
        y.requires_grad = True
        z = y * 3
        with torch.no_grad():
            w = y * 4
        return y, z, w

    check(body, x4())


def test_flags_of_arguments_and_captures_are_set_by_hits():
    def body(state, x):
        (p,) = state
        x.requires_grad_()
        y = p * x
        p.requires_grad_(not p.requires_grad)
        return y, p * x

    # p's flag is part of the signature, x's is as well: two graphs in turn.
    both(body, lambda: ([x4(False)], lambda i: (torch.full((4,), float(i)),)), traces=2)

    f = tracehost.function(lambda x: x.requires_grad_() * 2)
    with assert_traces(f, 2):
        for _ in range(3):
            x = x4(False)
            assert f(x).requires_grad and x.requires_grad
            assert f(x).requires_grad


def test_eagers_errors_for_flags():
    for body, words in (
        (
            lambda x: (x * 2).requires_grad_(False),
            "you can only change requires_grad flags of leaf",
        ),
        (lambda x: x.long().requires_grad_(), "only Tensors of floating point"),
        (lambda x: setattr(x * 2, "requires_grad", False), "you can only change requires_grad"),
        (lambda x: setattr(x, "requires_grad", 1), "requires_grad must be a bool"),
    ):
        with pytest.raises(RuntimeError, match=words):
            tracehost.function(body)(x4())


def test_detach_in_place():
    def body(x):
        y = x * 2
        z = y * 3
        y.detach_()
        return y, z, y * x

    check(body, x4())

    def of_argument(state, x):
        p = state[0] * x
        p.detach_()
        return p, p.requires_grad

    both(of_argument, lambda: ([x4()], lambda i: (torch.full((4,), float(i)),)))
    f = tracehost.function(lambda x: x.detach_() * 2)
    for _ in range(3):
        x = x4() * 1
        assert not f(x).requires_grad and not x.requires_grad and x.is_leaf


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.rand(4)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_a_custom_function_draws_once_at_a_hit():
    check(lambda x: (Doubles.apply(x), torch.rand(2)), x4())
