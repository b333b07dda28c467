"""What helps where a program of the other rows is unsupported: the read is moved out of the function, as the error says."""

import torch

from programs import other_rows, probabilistic_rows, vision_rows
from programs.program import Decorate, Maker, Program, plain, trained


def rows() -> dict[str, Maker]:
    transforms = {
        f"torchvision/{name} in py_function/transform": plain(called(name))
        for name in ("RandomErasing", "RandomResizedCrop")
    }
    return transforms | {
        "gpytorch/ExactGP, the optimizer's step decorated/training": gaussian_process,
        "torchdiffeq/dopri5, network decorated/training": differential_equation,
        "pyro/log_prob of a model, without validation/training": without_validation,
        "pytorch_lightning/loss under Trainer.fit/training": probabilistic_rows.fit("loss"),
    }  # fmt: skip


def called(name: str):
    """Python draws where the picture is cut, at each call."""

    def make():
        import tracehost

        body, inputs = vision_rows.transform(name, vision_rows.TRANSFORMS[name])()
        return lambda image: tracehost.py_function(body, [image], torch.float32), inputs

    return make


def gaussian_process(decorate: Decorate) -> Program:
    return other_rows.gaussian_process(whole=False)(decorate)


def differential_equation(decorate: Decorate) -> Program:
    """The solver chooses its steps outside; the network that it calls has one graph."""
    model = other_rows.field()
    model.net.forward = decorate(model.net.forward)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run(index):
        optimizer.zero_grad()
        loss = other_rows.end_of_path(model, **other_rows.times("dopri5")(model, index))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(run, lambda: trained(model, optimizer))


def without_validation(decorate: Decorate) -> Program:
    """pyro's check for nan hangs on a hook of the gradient."""
    import pyro

    pyro.enable_validation(False)
    return probabilistic_rows.likelihood(decorate)
