"""Learning rate schedulers in a traced step: their counters and rates are inputs of the graph. As eager, to the bit."""

import warnings

import pytest
import torch
import tracehost
from test_converted_libraries import FORMS, OPTIMIZERS, same
from torch import nn
from torch.optim import lr_scheduler as schedulers
from torch.optim.swa_utils import SWALR, AveragedModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
    pytest.mark.filterwarnings("error::tracehost.SideEffectWarning"),
    pytest.mark.filterwarnings("ignore:The epoch parameter"),
    pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad"),
]

# With the traces of 20 steps. The first one makes the optimizer's state. The second one has the numbers as inputs.
# Each `if` on them may need a graph for its other side.
SCHEDULERS = {
    "LambdaLR": (lambda o: schedulers.LambdaLR(o, lambda epoch: 0.95**epoch), 2),
    "MultiplicativeLR": (lambda o: schedulers.MultiplicativeLR(o, lambda epoch: 0.95), 2),
    "StepLR": (lambda o: schedulers.StepLR(o, 4, 0.5), 4),
    "MultiStepLR": (lambda o: schedulers.MultiStepLR(o, [3, 7]), 5),
    "ConstantLR": (lambda o: schedulers.ConstantLR(o), 5),
    "LinearLR": (lambda o: schedulers.LinearLR(o), 4),
    "ExponentialLR": (lambda o: schedulers.ExponentialLR(o, 0.9), 2),
    "PolynomialLR": (lambda o: schedulers.PolynomialLR(o, 10), 3),
    "CosineAnnealingLR": (lambda o: schedulers.CosineAnnealingLR(o, 10), 4),
    "ChainedScheduler": (
        lambda o: schedulers.ChainedScheduler(
            [schedulers.ConstantLR(o, 0.1, 3), schedulers.ExponentialLR(o, 0.9)], o
        ),
        4,
    ),
    "SequentialLR": (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.ConstantLR(o, 0.1, 3), schedulers.ExponentialLR(o, 0.9)], [5]
        ),
        8,
    ),
    "ReduceLROnPlateau": (lambda o: schedulers.ReduceLROnPlateau(o, patience=1), 6),
    "CyclicLR": (lambda o: schedulers.CyclicLR(o, 0.01, 0.1, step_size_up=4), 4),
    "CosineAnnealingWarmRestarts": (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 5), 4),
    "OneCycleLR": (lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=30), 5),
    "SWALR": (lambda o: SWALR(o, 0.05, anneal_epochs=5), 5),
}


def numbers_of(scheduler):
    """What it keeps, without objects."""
    return {
        name: value
        for name, value in vars(scheduler).items()
        if not callable(value) and not name.startswith(("optimizer", "_schedulers", "lr_lambdas"))
    }


def make(optimizer, schedule):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 1, bias=False))
    o = optimizer(net.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of SequentialLR, which calls its schedulers before a step
        s = schedule(o)

    def step(x):
        o.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        o.step()
        if isinstance(s, schedulers.ReduceLROnPlateau):
            s.step(loss)
        else:
            s.step()
        return loss

    def state():
        rates = [{k: v for k, v in group.items() if k != "params"} for group in o.param_groups]
        return [p.detach().clone() for p in net.parameters()], rates, numbers_of(s)

    return step, state


def compare(optimizer, schedule, traces, steps=20):
    eager, eager_state = make(optimizer, schedule)
    body, state = make(optimizer, schedule)
    f = tracehost.function(body)
    for step in range(steps):
        x = torch.randn(3, 4)
        assert same(eager(x), f(x)) and same(eager_state(), state()), step
    assert f.tracing_count() <= traces, f.report()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_in_the_step(name, optimizer):
    schedule, traces = SCHEDULERS[name]
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    compare(lambda p: getattr(torch.optim, optimizer)(p, lr=0.1, **options), schedule, traces + 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_with_a_scheduler(name, form):
    options = OPTIMIZERS[name] | ({} if name == "Muon" else FORMS[form])
    compare(
        lambda p: getattr(torch.optim, name)(p, **options),
        lambda o: schedulers.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        3,
    )


@pytest.mark.parametrize("form", [{}, {"foreach": True}, {"fused": True}])
def test_a_scheduler_outside_of_the_step_costs_one_trace(form):
    def run(traced):
        torch.manual_seed(0)
        net = nn.Linear(4, 1)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, **form)
        scheduler = schedulers.ExponentialLR(optimizer, 0.9)

        def step(x):
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        f = tracehost.function(step) if traced else step
        for _ in range(8):
            f(torch.randn(3, 4))
            scheduler.step()
        return net.weight.detach(), f

    (expected, _), (weight, f) = run(False), run(True)
    assert torch.equal(weight, expected)
    assert f.tracing_count() <= 3


def test_an_averaged_model_in_the_step():
    def run(traced):
        torch.manual_seed(0)
        net = nn.Linear(4, 1)
        averaged = AveragedModel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            averaged.update_parameters(net)

        f = tracehost.function(step) if traced else step
        for _ in range(6):
            f(torch.randn(3, 4))
        return [*averaged.state_dict().values()], f

    (expected, _), (got, f) = run(False), run(True)
    assert same(got, expected)
    assert f.tracing_count() <= 3
