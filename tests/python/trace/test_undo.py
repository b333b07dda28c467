"""What changes before a check that fails is restored: values, versions, `.grad`s, generators. Then another graph serves the call."""

import pytest
import torch
import tracehost
from core_support import place
from torch import nn
from torch.nn.utils import clip_grad_norm_

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

GENERATOR = torch.Generator()
FACTORS = (1.0, -2.0, 0.5)


def factor(x):
    """Needs the number itself: 0, 1 or 2 of the three inputs below."""
    return FACTORS[int(x[0, 0].long())]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.norm(self.first(x))).mean()


class Case:
    def __init__(self, momentum=0.9):
        torch.manual_seed(0)
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=momentum)
        self.buffer = torch.zeros(6, 4)

    def state(self):
        tensors = [*self.model.parameters(), *self.model.buffers(), self.buffer]
        grads = [p.grad for p in self.model.parameters()]
        versions = [t._version for t in tensors]
        momenta = [self.optimizer.state[p].get("momentum_buffer") for p in self.model.parameters()]
        kept = [None if t is None else t.detach().clone() for t in (*tensors, *grads, *momenta)]
        return versions, kept, torch.rand(2), torch.rand(2, generator=GENERATOR)


def step_after_zero_grad(case, x):
    case.optimizer.zero_grad()
    loss = case.model(x) * factor(x)
    loss.backward()
    case.optimizer.step()
    return loss


def check_after_backward(case, x):
    case.optimizer.zero_grad()
    loss = case.model(x)
    loss.backward()
    clip_grad_norm_(case.model.parameters(), 0.1)
    scale = factor(x)
    case.optimizer.step()
    return loss * scale


def check_after_step(case, x):
    case.optimizer.zero_grad()
    loss = case.model(x)
    loss.backward()
    case.optimizer.step()
    return loss * factor(x)


def gradients_add_up(case, x):
    loss = case.model(x)
    loss.backward()
    return loss * factor(x)


def two_backwards(case, x):
    case.optimizer.zero_grad()
    case.model(x).backward()
    first = factor(x)
    case.model(x * first).backward()
    return case.model.first.weight.grad * factor(x)


def gradients_in_place(case, x):
    case.optimizer.zero_grad(set_to_none=False)
    loss = case.model(x) * factor(x)
    loss.backward()
    return loss


def gradients_are_scaled(case, x):
    for p in case.model.parameters():
        if p.grad is None:
            p.grad = torch.ones_like(p)
        else:
            p.grad.mul_(0.5)
    return x * factor(x)


def penalty(case, x):
    y = x.clone().requires_grad_()
    loss = case.model(y)
    (slope,) = torch.autograd.grad(loss, y, create_graph=True)
    scale = factor(x)
    case.optimizer.zero_grad()
    (loss + slope.norm() * scale).backward()
    case.optimizer.step()
    return loss


def draws(case, x):
    y = torch.rand(3, generator=GENERATOR) + torch.rand(3)
    y = y * factor(x)
    return y + torch.rand(3, generator=GENERATOR)


def values(case, x):
    case.buffer.add_(x)
    case.buffer[1:, :2].mul_(3)
    case.buffer.t()[0] = 7
    first = factor(x)
    case.buffer.sub_(1)
    return case.buffer * first * factor(x)


def lists(case, x):
    with torch.no_grad():
        torch._foreach_add_(list(case.model.parameters()), 0.5)
        case.buffer.copy_(x)
    return case.model(x) * factor(x)


def between_checks(case, x):
    first = factor(x)
    case.buffer.add_(first)
    second = factor(x + 0)
    case.buffer.add_(second)
    return case.buffer.clone()


PROGRAMS = [step_after_zero_grad, check_after_backward, check_after_step, gradients_add_up]
PROGRAMS += [two_backwards, gradients_in_place, gradients_are_scaled, penalty, draws, values]
PROGRAMS += [lists, between_checks]


def inputs():
    for k in range(12):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(k))
        x[0, 0] = (0, 1, 0, 2, 1, 1)[k % 6]
        yield x


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("body", PROGRAMS)
def test_a_call_is_as_in_eager_after_a_check_that_failed(body, autograph):
    f = tracehost.function(body, autograph=autograph)
    eager, traced = Case(), Case()
    for k, x in enumerate(inputs()):
        torch.manual_seed(k), GENERATOR.manual_seed(k)
        expected = body(eager, x)
        after = eager.state()
        torch.manual_seed(k), GENERATOR.manual_seed(k)
        got = f(traced, x)
        assert torch.equal(got, expected)
        versions, *rest = traced.state()
        assert versions == after[0]
        torch.testing.assert_close(rest, list(after[1:]), rtol=0, atol=0)
    assert f.tracing_count() <= 6 and f.stats()["hits"] >= 6


def test_what_autograd_saved_outside_is_not_seen_as_changed():
    """Putting back values must not bump the version that a backward pass compares."""
    scale = torch.tensor([2.0, 3.0])

    def body(x):
        scale.mul_(2)
        y = x * FACTORS[int(x[0].long())]
        scale.div_(2)
        return y

    def late(x):
        if x[0] > 0:
            return x * 2
        scale.add_(1)
        return -x

    f = tracehost.function(late, autograph=False)
    f(torch.tensor([-1.0, 1.0])), f(torch.tensor([1.0, 1.0]))
    w = torch.ones(2, requires_grad=True)
    loss = (w * scale).sum()
    f(torch.tensor([1.0, 1.0]))
    loss.backward()
    assert torch.equal(w.grad, scale)

    g = tracehost.function(body)
    for first in (0.0, 1.0, 0.0, 2.0):
        before = scale._version
        g(torch.tensor([first, 1.0]))
        assert scale._version == before + 2 and torch.equal(scale, torch.tensor([3.0, 4.0]))


HOOKED = torch.ones(2, requires_grad=True)
HOOKED.register_hook(lambda grad: grad * 2)


def a_hook(w, x):
    (HOOKED * x).sum().backward()  # effect


OUTER = {}


def through_a_graph_from_outside(w, x):
    (OUTER["y"] * x).sum().backward()  # effect


def a_resize(w, x):
    x.resize_(8)  # effect


def into_out(w, x):
    torch.add(x, 1, out=x)  # effect


def a_history(w, x):
    x.mul_(w.sum())  # effect


def a_py_function(w, x):
    tracehost.py_function(lambda t: t * 2, [x], torch.float32)  # effect


@pytest.mark.parametrize(
    "effect",
    [a_hook, through_a_graph_from_outside, a_resize, into_out, a_history, a_py_function],
)
def test_an_effect_that_cannot_be_taken_back_is_rejected_with_both_lines(effect):
    w = torch.ones(2, requires_grad=True)
    OUTER["y"] = w * 3

    def body(w, x):
        effect(w, x)
        return FACTORS[int(w.detach()[0].long())]  # here

    f = tracehost.function(body)
    with pytest.raises(tracehost.ValueReadError) as error:
        f(w, torch.ones(2))
    assert f"at {place(body)}, after " in str(error.value)
    assert f" at {place(effect, '# effect')}, which could not be taken back" in str(error.value)
