"""Train a small convolutional network on handwritten digits, and export it.

    scripts/run examples/07_digits_train_export.py [ARCHIVE]

What it shows, and asserts:
  1. an epoch's smaller last batch is one trace more; the losses are those of plain PyTorch, bit for bit;
  2. more than 97 % of 360 digits that it has not seen are right;
  3. the archive gives for 20 reference images, of any number at a time, what the model gives; plain
     `torch.jit.load` opens it, too. A C++ program does the same in examples/cpp/classify_digits;
  4. times beside eager, printed: most of a step is in convolutions and the optimizer, so little is saved.
"""

import copy
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import tracehost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from timing import Row, beside_eager, pay_once
from torch import nn
from torch.nn import functional as F
from tracehost import TensorSpec

BATCH, EPOCHS = 64, 8


def digits():
    """Images, float32 [n, 1, 8, 8], and labels, int64 [n]: those to train with, then those to test with."""
    found = load_digits()
    images = (found.images / 16).astype("float32")[:, None]
    x, test_x, y, test_y = train_test_split(images, found.target, test_size=360, random_state=0)
    return tuple(torch.from_numpy(part) for part in (x, y, test_x, test_y))


def new_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )


def train(model, loss_of, x, y, epochs=EPOCHS):
    """Returns all losses. backward() and the optimizer stay outside of what is traced."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    order, losses = torch.Generator().manual_seed(0), []
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - epoch / epochs)
        for chosen in torch.randperm(len(x), generator=order).split(BATCH):
            loss = loss_of(x[chosen], y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


def main():
    torch.set_num_threads(1)
    pay_once()
    x, y, test_x, test_y = digits()
    model = new_model()
    start = copy.deepcopy(model.state_dict())

    def loss_of(images, labels):
        return F.cross_entropy(model(images), labels)

    print(f"1. {len(x)} images in batches of {BATCH}; the last batch has {len(x) % BATCH}")
    eager = train(model, loss_of, x, y)
    model.load_state_dict(start)
    traced_loss = tracehost.function(loss_of)
    losses = train(model, traced_loss, x, y)
    assert torch.equal(losses, eager)
    assert traced_loss.tracing_count() == 2
    print(f"  {len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}, as plain PyTorch")
    print("  calls {calls}, traces {traces}, hits {hits}".format(**traced_loss.stats()))

    print("\n2. Digits that it has not seen")
    model.eval()

    @tracehost.function(input_signature=[TensorSpec([None, 1, 8, 8])])
    def predict(images):
        scores = model(images).softmax(1)
        return {"scores": scores, "digit": scores.argmax(1)}

    with torch.no_grad():
        right = (predict(test_x)["digit"] == test_y).float().mean().item()
        print(f"  {right:.1%} of {len(test_x)} are right")
        assert right >= 0.97

        print("\n3. The archive")
        reference = test_x[:20]
        expected = predict(reference)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "digits.thz")
            predict.save(path)
            archive = tracehost.load(path)
            print(f"  {path.stat().st_size:,} bytes")
            print("  " + str(archive))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # torch deprecates TorchScript
                plain = torch.jit.load(path)
        assert predict.tracing_count() == 1
        eager_scores = model(reference).softmax(1)
        for size in (20, 1, 7):
            scores = torch.cat(
                [archive["predict"](part)["scores"] for part in reference.split(size)]
            )
            torch.testing.assert_close(scores, eager_scores, rtol=0, atol=1e-6)
        torch.testing.assert_close(archive["predict"](reference), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(
            list(plain(reference)), list(expected.values()), rtol=0, atol=1e-6
        )
        print(f"  its {len(reference)} reference images are read as {expected['digit'].tolist()}")

        print("\n4. What a call costs")
        traced_loss(x[:64], y[:64])  # without gradients it is another trace
        ms = traced_loss.stats()["trace_ms"], predict.stats()["trace_ms"]
        eager = predict.python_function
        rows = [
            Row("loss, 64 images", loss_of, traced_loss, (x[:64], y[:64]), ms[0]),
            Row("predict, 64 images", eager, predict, (test_x[:64],), ms[1]),
            Row("predict, 1 image", eager, predict, (test_x[:1],), ms[1]),
        ]
        beside_eager(rows)


if __name__ == "__main__":
    main()
