"""Anomalies in windows of any length: a convolutional autoencoder on the yearly numbers of sunspots.

    scripts/run examples/06_anomaly_variable_windows.py

The years 1700 to 1900 train it; windows of 20 to 64 years from 1900 to 2008 are judged, in half of which
fourteen years are in a wrong order. What it shows, and asserts:
  1. windows that are padded to 32, 48 or 64 years are three traces, to train and to judge. As they are, they
     are a trace for each length that occurs;
  2. with a declared signature they are one trace, padded or not;
  3. the losses of training are those of plain PyTorch, bit for bit, and so are the scores;
  4. the errors of reconstruction separate the windows: an area under the ROC curve of more than 0.9.
"""

import copy
import warnings
from pathlib import Path

import numpy as np
import torch
import tracehost
from sklearn.metrics import roc_auc_score
from timing import Row, beside_eager, pay_once
from torch import nn
from torch.nn import functional as F
from tracehost import TensorSpec

BUCKETS = (32, 48, 64)
SHUFFLED = 14  # years

torch.set_num_threads(1)
pay_once()
torch.manual_seed(0)
chance = np.random.default_rng(0)
data = Path(__file__).parent / "data" / "sunspots.csv"  # a year and its number in each line
values = np.sqrt(np.loadtxt(data, delimiter=",", skiprows=1, dtype=np.float32)[:, 1]) / 10
train_part, test_part = values[:201], values[200:]


def window(part):
    """20 to 64 years in a row."""
    length = chance.integers(20, 65)
    start = chance.integers(0, len(part) - length + 1)
    return part[start : start + length].copy()


def disturbed(years):
    start = chance.integers(0, len(years) - SHUFFLED + 1)
    chance.shuffle(years[start : start + SHUFFLED])
    return years


def padded(windows):
    """Tensors of the first bucket that they fit in, [n, 1, bucket]; and which years are real, the same shape."""
    size = next(b for b in BUCKETS if b >= max(map(len, windows)))
    made, real = torch.zeros(len(windows), 1, size), torch.zeros(len(windows), 1, size)
    for i, years in enumerate(windows):
        made[i, 0, : len(years)] = torch.from_numpy(years)
        real[i, 0, : len(years)] = 1
    return made, real


model = nn.Sequential(
    nn.Conv1d(1, 16, 5, stride=2, padding=2),
    nn.GELU(),
    nn.Conv1d(16, 1, 5, stride=2, padding=2),
    nn.ConvTranspose1d(1, 16, 4, stride=2, padding=1),
    nn.GELU(),
    nn.ConvTranspose1d(16, 1, 4, stride=2, padding=1),
)


def errors(windows, real):
    """Mean squared error of each window: [n]."""
    found = model(F.pad(windows, (0, -windows.shape[2] % 4)))[:, :, : windows.shape[2]]
    return ((found - windows).square() * real).sum((1, 2)) / real.sum((1, 2))


def loss_of(windows, real):
    return errors(windows, real).mean()


def train(loss_of, batches, epochs=15):
    """From the same start each time; returns all losses."""
    model.load_state_dict(start)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(epochs):
        for batch in batches:
            loss = loss_of(*batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


def by_bucket(windows, batch=16):
    """Batches of windows that go into the same bucket; what is left over is dropped."""
    found = []
    for low, high in zip((0, *BUCKETS), BUCKETS):
        fit = [w for w in windows if low < len(w) <= high]
        found += [padded(fit[i : i + batch]) for i in range(0, len(fit) - batch + 1, batch)]
    return found


start = copy.deepcopy(model.state_dict())
batches = by_bucket([window(train_part) for _ in range(240)])

print("1. Training")
eager = train(loss_of, batches)
traced_loss = tracehost.function(loss_of)
losses = train(traced_loss, batches)
assert torch.equal(losses, eager)
assert traced_loss.tracing_count() == len(BUCKETS)
print(f"  {len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}, as plain PyTorch")
print("  calls {calls}, traces {traces}, hits {hits}".format(**traced_loss.stats()))

print("\n2. Judging windows, one by one")
windows = [window(test_part) for _ in range(100)]
windows += [disturbed(window(test_part)) for _ in range(100)]
wrong = [0] * 100 + [1] * 100
in_buckets = [padded([w]) for w in windows]
as_they_are = [(torch.from_numpy(w)[None, None], torch.ones(1, 1, len(w))) for w in windows]
any_length = [TensorSpec([None, 1, None])] * 2
lengths = len({len(w) for w in windows})
with torch.no_grad(), warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always", tracehost.RetraceWarning)
    for name, inputs, options, traces in (
        ("a trace a length", as_they_are, {}, lengths),
        ("padded", in_buckets, {}, len(BUCKETS)),
        ("declared", as_they_are, {"input_signature": any_length}, 1),
    ):
        judge = tracehost.function(errors, name="judge", **options)
        scores = torch.cat([judge(*w) for w in inputs])
        assert judge.tracing_count() == traces, (name, judge.tracing_count())
        assert torch.equal(scores, torch.cat([errors(*w) for w in inputs]))
        area = roc_auc_score(wrong, scores)
        ms = judge.stats()["trace_ms"]
        print(f"  {name:18}{traces:4} traces, {ms:6.1f} ms; area under the curve {area:.3f}")
        assert area > 0.9, area
        example = inputs[0]
        if name == "padded":
            row = Row("a window, padded", errors, judge, example, ms)
    print("\n" + str(told[0].message) + "\n")
    beside_eager([row])

print("\nThe report")
print(tracehost.report(), end="")
