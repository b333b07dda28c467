"""Whole training steps in one Function: 50 of them equal to eager to the bit."""

import copy

import pytest
import torch
import tracehost
from core_support import assert_same
from devices import DEVICES
from torch import nn
from tracehost.testing import assert_traces

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning"),
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
]

STEPS = 50


def network(device="cpu"):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)]
    return nn.Sequential(*layers).to(device)


def batches(device="cpu", count=STEPS):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        x = torch.randn(16, 6, generator=generator)
        y = torch.randint(0, 3, (16,), generator=generator)
        yield x.to(device), y.to(device)


class Training:
    """A model, its optimizer, and the body of one step."""

    def __init__(self, make, device="cpu", **options):
        self.model = network(device)
        self.optimizer = make(self.model.parameters())
        self.options = options

    def step(self, x, y):
        self.optimizer.zero_grad(self.options.get("set_to_none", True))
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        if "norm" in self.options:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.options["norm"])
        if "value" in self.options:
            nn.utils.clip_grad_value_(self.model.parameters(), self.options["value"])
        self.optimizer.step()
        return loss.detach()

    def state(self):
        return [
            [p.detach() for p in self.model.parameters()],
            [b.clone() for b in self.model.buffers()],
            [p.grad for p in self.model.parameters()],
            copy.deepcopy(self.optimizer.state_dict()),
        ]


def compare(make, traces, device="cpu", steps=STEPS, first=0, **options):
    """`first`: steps that eager makes before, so that the optimizer has its state."""
    eager, traced = Training(make, device, **options), Training(make, device, **options)
    step = tracehost.function(traced.step)
    with assert_traces(step, traces):
        for i, (x, y) in enumerate(batches(device, steps)):
            expected = eager.step(x, y)
            got = traced.step(x, y) if i < first else step(x, y)
            assert_same(got, expected, f"the loss of step {i}")
        assert_same(traced.state(), eager.state(), "the state")


SGD = {
    "plain": {},
    "weight_decay": {"weight_decay": 0.1},
    "maximize": {"maximize": True},
    "foreach": {"foreach": True},
    "single": {"foreach": False},
    "fused": {"fused": True},
}
MOMENTUM = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "dampening": {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
    "foreach": {"momentum": 0.9, "foreach": True},
    "fused": {"momentum": 0.9, "fused": True},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SGD)
def test_sgd(name, device):
    # zero_grad reads whether there is a gradient: there is none at the first step
    compare(lambda p: torch.optim.SGD(p, lr=0.1, **SGD[name]), traces=2, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MOMENTUM)
@pytest.mark.parametrize("first", [0, 1])
def test_sgd_with_momentum(name, device, first):
    # the first step makes the optimizer's state: its trace serves once
    compare(lambda p: torch.optim.SGD(p, lr=0.1, **MOMENTUM[name]), 2 - first, device, first=first)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"weight_decay": 0.1}])
@pytest.mark.parametrize("first", [0, 1])
def test_fused_adam(kind, options, first):
    compare(lambda p: kind(p, lr=0.01, fused=True, **options), 2 - first, first=first)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{"capturable": True}, {"fused": True}])
def test_adam_on_a_gpu(kind, options):
    compare(lambda p: kind(p, lr=0.01, **options), 1, "cuda", first=1)


@pytest.mark.parametrize(
    "options",
    [{"norm": 0.1}, {"value": 0.01}, {"set_to_none": False}, {"norm": 0.1, "value": 0.01}],
)
@pytest.mark.parametrize("foreach", [False, True])
def test_clipping_and_zeroing(options, foreach):
    compare(lambda p: torch.optim.SGD(p, lr=0.1, foreach=foreach), 2, **options)


def test_several_groups_and_frozen_parameters():
    def make(parameters):
        weight, bias, *rest = list(parameters)
        bias.requires_grad_(False)
        groups = [{"params": [weight, bias]}, {"params": rest, "lr": 0.01, "weight_decay": 0.1}]
        return torch.optim.SGD(groups, lr=0.1)

    compare(make, 2)


def test_a_learning_rate_that_changes_is_seen_and_named():
    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    eager, traced = Training(make), Training(make)
    step = tracehost.function(traced.step)
    schedules = [
        torch.optim.lr_scheduler.StepLR(t.optimizer, step_size=4, gamma=0.5)
        for t in (eager, traced)
    ]
    with assert_traces(step, 3):
        for x, y in batches(count=8):
            assert_same(step(x, y), eager.step(x, y))
            for schedule in schedules:
                schedule.step()
        assert_same(traced.state()[:3], eager.state()[:3])
    (cause,) = tracehost.events()[-1].causes
    assert "param_groups[0]['lr']" in cause and "was 0.1, is 0.05" in cause


def test_a_learning_rate_in_a_tensor_does_not_retrace():
    def make(parameters):
        return torch.optim.SGD(parameters, lr=torch.tensor(0.1), fused=True)

    eager, traced = Training(make), Training(make)
    step = tracehost.function(traced.step)
    with assert_traces(step, 2):
        for x, y in batches(count=8):
            assert_same(step(x, y), eager.step(x, y))
            for t in (eager, traced):
                t.optimizer.param_groups[0]["lr"].mul_(0.9)
        assert_same(traced.state()[:3], eager.state()[:3])


def test_gradients_of_two_micro_batches():
    def make():
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            total = 0.0
            for a, b in zip(x.chunk(2), y.chunk(2), strict=True):
                loss = nn.functional.cross_entropy(model(a), b) / 2
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            optimizer.zero_grad()
            return total

        return model, step

    (model, eager), (other, body) = make(), make()
    step = tracehost.function(body)
    with assert_traces(step, 1):
        for x, y in batches():
            assert_same(step(x, y), eager(x, y))
        assert_same(list(other.parameters()), list(model.parameters()))


def test_two_optimizers_that_train_against_each_other():
    def make():
        torch.manual_seed(0)
        maker, judge = nn.Linear(4, 6), nn.Linear(6, 1)
        make_step = torch.optim.SGD(maker.parameters(), lr=0.1)
        judge_step = torch.optim.SGD(judge.parameters(), lr=0.1)
        loss = nn.functional.binary_cross_entropy_with_logits

        def step(noise, real):
            fake = maker(noise)
            judge_step.zero_grad()
            right, wrong = judge(real), judge(fake.detach())
            (loss(right, torch.ones_like(right)) + loss(wrong, torch.zeros_like(wrong))).backward()
            judge_step.step()
            make_step.zero_grad()
            fooled = judge(fake)
            loss(fooled, torch.ones_like(fooled)).backward()
            make_step.step()
            return fooled.detach()

        return [maker, judge], step

    (nets, eager), (others, body) = make(), make()
    step = tracehost.function(body)
    with assert_traces(step, 2):
        for x, _ in batches(count=10):
            assert_same(step(x[:, :4], x), eager(x[:, :4], x))
        for a, b in zip(others, nets, strict=True):
            assert_same(list(a.parameters()), list(b.parameters()))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_an_adam_that_reads_its_step_count(kind, foreach, first):
    compare(lambda p: kind(p, lr=0.01, foreach=foreach), 2 - first, first=first)


OTHERS = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "NAdam", "RAdam"]
OTHERS += ["RMSprop", "Rprop"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_optimizers(name):
    compare(lambda p: getattr(torch.optim, name)(p), 2)


def test_lbfgs_is_rejected_by_name():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters())

    def step(x):
        model(x).sum().backward()
        optimizer.step(lambda: 0.0)

    with pytest.raises(tracehost.TraceError) as error:
        tracehost.function(step)(torch.ones(2, 6))
    line = step.__code__.co_firstlineno + 2
    assert str(error.value) == (
        f"the body runs torch.optim.LBFGS at test_training_steps.py:{line}, which chooses its next step by numbers that "
        "it computes. Call its step() outside of the function, with a function that computes the loss."
    )
