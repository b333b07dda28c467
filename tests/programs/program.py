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


def training(make_model: Callable, inputs: Callable, loss_of: Callable) -> Maker:
    """A whole training step: zero_grad, forward, loss, backward, AdamW; loss_of(model, **inputs)."""

    def make(decorate: Decorate) -> Program:
        model = make_model().train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

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
