"""Train a small classifier on handwritten digits, with forward and loss as one traced Function.

    scripts/run examples/quickstart.py

What it shows, and asserts:
  1. training runs on one graph; the smaller last batch of an epoch is exactly one more trace;
  2. the losses are those of plain PyTorch, bit for bit;
  3. a Python number that changes from call to call is a new trace each time, and tracehost says so;
  4. a tensor in its place: no more traces.
"""

import copy
from pathlib import Path

import numpy as np
import torch
import tracehost
from torch import nn
from torch.nn import functional as F

BATCH, EPOCHS, WARM_UP = 64, 4, 10

# 1,797 images of 8x8 pixels, and which digit each one is.
data = Path(__file__).parent / "data" / "digits.csv.gz"
digits = torch.from_numpy(np.loadtxt(data, delimiter=",", dtype=np.int64))
images, labels = digits[:, :-1].float() / 16, digits[:, -1]

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
start = copy.deepcopy(model.state_dict())


def loss_of(images, labels):
    return F.cross_entropy(model(images), labels)


def scaled_loss(images, labels, factor):
    """With plain SGD, a factor on the loss is a factor on the learning rate."""
    return factor * F.cross_entropy(model(images), labels)


def train(step, factor_at=None):
    """Trains from the same start each time; returns the loss of each step.

    `step` is one of the two functions above, or a Function made of it: forward and loss. backward()
    and the optimizer stay outside of it. Neither loading weights nor updating them is a new trace:
    the graph reads the model's parameters at each call.
    """
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = []
    for _ in range(EPOCHS):
        for batch, target in zip(images.split(BATCH), labels.split(BATCH)):
            more = [factor_at(len(losses))] if factor_at else []
            loss = step(batch, target, *more)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean()
    print(f"  {len(losses)} steps, last loss {losses[-1]:.4f}, {right:.1%} right")
    return torch.stack(losses)


def compare(losses, eager):
    """The losses must be those of plain PyTorch to the last bit."""
    print("  largest difference from plain PyTorch:", (losses - eager).abs().max().item())
    assert torch.equal(losses, eager)


def warm_up(step):
    """0.1, 0.2 ... 0.9, and 1.0 from then on."""
    return min(1.0, (step + 1) / WARM_UP)


def warm_up_tensor(step):
    return torch.tensor(warm_up(step))


print(f"{len(images)} images in batches of {BATCH}; the last batch has {len(images) % BATCH}")

print("\n1. Plain PyTorch")
eager = train(loss_of)

print("\n2. The same function, traced: one graph for full batches, one for the last batch")
step = tracehost.function(loss_of)
compare(train(step), eager)
print("  calls {calls}, traces {traces}, hits {hits}".format(**step.stats()))
assert step.tracing_count() == 2
assert step.stats()["hits"] == len(eager) - 2

print("\n3. A learning-rate warm-up with a Python number: a graph for each value")
print("   (the warning, on stderr, tells why and what to write instead)")
eager = train(scaled_loss, warm_up)
scaled_step = tracehost.function(scaled_loss)
compare(train(scaled_step, warm_up), eager)
print("  calls {calls}, traces {traces}, hits {hits}".format(**scaled_step.stats()))
assert scaled_step.tracing_count() == WARM_UP + 1  # one a value, and the last batch

print("\n4. The remedy, a tensor in its place: its value is not part of the signature")
before = scaled_step.tracing_count()
compare(train(scaled_step, warm_up_tensor), eager)
print(f"  {scaled_step.tracing_count() - before} more traces, however many values there are")
assert scaled_step.tracing_count() == before + 2  # full batches and the last batch, once more

print("\nThe report")
print(tracehost.report(), end="")
