"""What a row runs: a program made twice from one seed, once with its function decorated and once without."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Decorate = Callable[[Callable], Callable]


@dataclass
class Program:
    """run(i) makes the call of this number; state() is all that it may have changed."""

    run: Callable[[int], object]
    state: Callable[[], object]


# A maker of programs: it is given the decorator, tracehost's or one that does nothing.
Maker = Callable[[Decorate], Program]


def inference(make_model: Callable, inputs: Callable) -> Maker:
    """model(**inputs) without gradients; inputs(model, i) are those of the call of this number."""

    def make(decorate: Decorate) -> Program:
        model = make_model().eval()

        @decorate
        def forward(**given):
            return model(**given)

        def run(index):
            with torch.no_grad():
                return forward(**inputs(model, index))

        return Program(run, lambda: model.state_dict())

    return make


def training(
    make_model: Callable,
    inputs: Callable,
    loss_of: Callable,
    optimize: Callable = torch.optim.AdamW,
) -> Maker:
    """A whole training step: zero_grad, forward, loss, backward, the optimizer; loss_of(model, **inputs)."""

    def make(decorate: Decorate) -> Program:
        model = make_model().train()
        optimizer = optimize(model.parameters(), lr=1e-3)

        @decorate
        def step(**given):
            optimizer.zero_grad()
            loss = loss_of(model, **given)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Program(
            lambda index: step(**inputs(model, index)), lambda: trained(model, optimizer)
        )

    return make


def changing(make_model: Callable, inputs: Callable, loss_of: Callable) -> Maker:
    """A training step and a forward pass whose model, optimizer and modes change between the calls."""

    def make(decorate: Decorate) -> Program:
        model = make_model().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

        @decorate
        def step(**given):
            loss = loss_of(model, **given)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def run(index):
            change(index, model, optimizer)
            with torch.autocast("cpu", torch.bfloat16, enabled=index in (15, 16)):
                return step(**inputs(model, index))

        return Program(run, lambda: trained(model, optimizer))

    return make


def change(index: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What a user may do before the call of this number."""
    parameters = list(model.parameters())
    if index % 3 == 0:
        optimizer.zero_grad(set_to_none=index % 2 == 0)
    if index in (3, 12):
        model.eval()
    elif index in (6, 14):
        model.train()
    elif index in (4, 8):
        parameters[0].requires_grad_(index == 8)
    elif index == 5:
        model.load_state_dict({k: v * 0.5 if v.is_floating_point() else v for k, v in model.state_dict().items()})  # fmt: skip
    elif index == 7:
        optimizer.param_groups[0]["lr"] = 1e-2
    elif index == 9:
        drops = [m for m in model.modules() if isinstance(m, torch.nn.Dropout)]
        for drop in drops:
            drop.p = 0.3
    elif index == 10:
        optimizer.param_groups[0]["weight_decay"] = 0.1
    elif index == 11:
        with torch.no_grad():
            parameters[-1].add_(0.1)
    elif index == 13:
        parameters[1].data = parameters[1].detach() * 2
    elif index == 17:
        parameters[-1].grad = None
        optimizer.param_groups[0]["momentum"] = 0.5
    elif index == 18:
        optimizer.state.clear()


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict:
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return {
        "model": model.state_dict(),
        "gradients": gradients,
        "optimizer": optimizer.state_dict(),
    }


def plain(make: Callable) -> Maker:
    """A function of tensors without state: make() gives it and what makes its arguments."""

    def maker(decorate: Decorate) -> Program:
        body, inputs = make()
        function = decorate(body)
        return Program(lambda index: function(*inputs(index)), dict)

    return maker


def generator(index: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + index)
