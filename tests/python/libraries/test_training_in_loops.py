"""Backward passes in a loop over a tensor: Python runs the loop, and there is a graph for each number of iterations."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


class Training:
    def __init__(self):
        self.w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        self.optimizer = torch.optim.SGD([self.w], lr=0.1, momentum=0.9)

    def loss(self, x):
        return (self.w * x).pow(2).mean()

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.loss(x)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def steps(self, x, n):
        loss = 0.0
        for _ in range(n):
            loss = self.step(x)
        return loss

    def until(self, x, n):
        turns = 0
        while self.loss(x) > n:
            self.step(x)
            turns += 1
        return turns

    def attack(self, x, n):
        adversarial = x.detach().clone().requires_grad_()
        for _ in range(n):
            (gradient,) = torch.autograd.grad(self.loss(adversarial), adversarial)
            adversarial = (adversarial + 0.1 * gradient.sign()).detach().requires_grad_()
        return adversarial, adversarial.is_leaf


@pytest.mark.parametrize(
    ("name", "calls", "traces"),
    [
        ("steps", (2, 0, 3, 2, 0, 3), 4),
        ("until", (1.0, 0.2, 1.0), 3),
        ("attack", (2, 0, 3, 2, 0), 3),
    ],
)
def test_as_eager(name, calls, traces):
    eager, traced = Training(), Training()
    expected, f = getattr(eager, name), tracehost.function(getattr(traced, name))
    x = torch.tensor([1.0, -0.5, 2.0])
    with assert_traces(f, traces):
        for n in calls:
            assert repr(f(x, torch.tensor(n))) == repr(expected(x, torch.tensor(n))), n
            assert torch.equal(traced.w, eager.w)
            assert repr(traced.w.grad) == repr(eager.w.grad)
            assert traced.w._version == eager.w._version


def test_in_a_loop_that_is_too_long_to_unroll_it_is_an_error():
    training = Training()
    f = tracehost.function(training.steps)
    with pytest.raises(
        tracehost.StagingError, match=r"backward\(\).*test_training_in_loops\.py:2\d"
    ):
        f(torch.ones(3), torch.tensor(300))
    assert torch.equal(training.w, Training().w)
