"""Rows of pyro, and of Lightning: libraries that call what the user writes."""

import logging
import warnings

import torch
from torch.nn.functional import mse_loss

from programs.program import Decorate, Maker, Program, plain, trained


def rows() -> dict:
    return {
        "pyro/Normal.log_prob/inference": plain(log_prob),
        "pyro/log_prob of a model/inference": plain(log_prob_of_model),
        "pyro/log_prob of a model/training": likelihood,
        "pytorch_lightning/whole step/training": whole_step,
        "pytorch_lightning/training_step under Trainer.fit/training": fit("training_step"),
    }


def drawn(index: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 + index))


def log_prob():
    import pyro.distributions as dist

    def body(x, mean, scale):
        return dist.Normal(mean, scale).to_event(1).log_prob(x)

    return body, lambda i: (drawn(i, 5, 3), drawn(i + 50, 3), drawn(i + 90, 3).abs() + 0.1)


def model(x, y=None, slope=None):
    """Bayesian regression; a slope that is given is what was drawn."""
    import pyro
    import pyro.distributions as dist

    slope = pyro.sample("slope", dist.Normal(0.0, 1.0), obs=slope)
    sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
    with pyro.plate("data", x.size(0)):
        return pyro.sample("y", dist.Normal(slope * x, sigma + 0.1), obs=y)


def log_prob_of_model():
    from pyro import poutine

    def body(x, y):
        return poutine.trace(model).get_trace(x, y).log_prob_sum()

    return body, lambda i: (drawn(i, 6), drawn(i + 50, 6))


def likelihood(decorate: Decorate) -> Program:
    from pyro import poutine

    slope = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.Adam([slope], lr=0.1)

    @decorate
    def step(x, y):
        optimizer.zero_grad()
        loss = -poutine.trace(model).get_trace(x, y, slope).log_prob_sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    state = lambda: (slope, slope.grad, optimizer.state_dict())
    return Program(lambda i: step(drawn(i, 6), 2 * drawn(i, 6)), state)


def lightning_module():
    import pytorch_lightning as lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)
            )

        def loss(self, batch):
            x, y = batch
            return mse_loss(self.net(x), y)

        def training_step(self, batch, index=0):
            loss = self.loss(batch)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return Module()


def batch(index: int) -> list[torch.Tensor]:
    return [drawn(index, 6, 4), drawn(index + 50, 6, 1)]


def whole_step(decorate: Decorate) -> Program:
    module = lightning_module().train()
    optimizer = module.configure_optimizers()

    @decorate
    def step(given):
        optimizer.zero_grad()
        loss = module.training_step(given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(lambda index: step(batch(index)), lambda: trained(module, optimizer))


def fit(method: str) -> Maker:
    """An epoch of three batches a call; the trainer calls the decorated method."""

    def make(decorate: Decorate) -> Program:
        import pytorch_lightning as lightning

        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        module = lightning_module()
        setattr(module, method, decorate(getattr(module, method)))
        off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")

        def run(index):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trainer = lightning.Trainer(
                    max_epochs=1, accelerator="cpu", devices=1, **dict.fromkeys(off, False)
                )
                batches = [batch(3 * index + k) for k in range(3)]
                trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
            return dict(trainer.callback_metrics)

        return Program(run, module.state_dict)

    return make
