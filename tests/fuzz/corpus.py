"""Good archives of many kinds, each as bytes: what mutants are made from."""

from __future__ import annotations

import enum
import tempfile
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tracehost
from tracehost import TensorSpec

Pair = namedtuple("Pair", "first second")


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


@dataclass
class Batch:
    image: torch.Tensor
    scale: float = 2.0


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.Linear(4, 2)

    @tracehost.function
    def classify(self, x, temperature=2.0):
        hidden = torch.relu(self.norm(self.first(x)))
        return torch.softmax(self.last(hidden) / temperature, -1)


def newton(a):
    x = a
    while (x * x - a).abs().max() > 1e-3:
        x = (x + a / x) / 2
    return x


def branches(x):
    for row in x:
        if row.sum() > 1:
            x = x - row
        else:
            x = x + 1
    return x, x.shape[0]


def structured(batch, mode=Mode.PLUS, *rest, name="größe", dtype=torch.float64, **more):
    y = batch.image.to(dtype) * batch.scale
    return Pair(y, [y + r for r in rest]), {"mode": mode, name: (None, float("inf"), 1 + 2j)}


def numbers(x):
    n = x.sum().item()
    m = int(n) // 2
    return x * n, m, round(n, 1)


def checked(x):
    assert (x > 0).all(), "nur positive – bitte"
    return x[:, [0, 2]], torch.einsum("ij,kj->ik", x, x)


def grown(x, n):
    return x.reshape(x.shape[0] * 2, -1) + n if x.shape[0] % 2 == 0 else x * n


def arrays(x):
    rows = tracehost.TensorArray(torch.float32)
    for row in x:
        rows = rows.append(row * 2)
    return rows.stack()


def drawn(x):
    return x + torch.randn(3, generator=SEEDED)


SEEDED = torch.Generator()


def tensors() -> dict[str, torch.Tensor]:
    m = torch.eye(3) + 0.5
    return {
        "conjugated": torch.randn(3, 3, dtype=torch.cfloat).conj(),
        "sparse": m.to_sparse(),
        "half": m.half(),
        "view": torch.randn(10, 3)[2:5],
        "expanded": torch.randn(3).expand(3, 3),
        "truth": m > 1,
        "quantized": torch.quantize_per_tensor(m, 0.1, 0, torch.qint8),
        "channels": torch.quantize_per_channel(
            m, torch.ones(3), torch.zeros(3, dtype=torch.long), 0, torch.qint8
        ),
        "csr": m.to_sparse_csr(),
    }


def used(x, t, kind):
    if kind in ("sparse", "csr"):
        return torch.sparse.mm(t, x)
    if kind in ("quantized", "channels"):
        return x + t.dequantize()
    return torch.where(t, x, 0.0) if kind == "truth" else x.to(t.dtype) @ t


def _functions() -> list[Any]:
    x = torch.rand(4, 3) + 1
    net = Net().eval()
    net.classify.warm_up([TensorSpec([None, 3])], [TensorSpec([1, 3]), 1.0])
    made = [net.classify]
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (newton, (torch.tensor([4.0, 9.0]),), {}),
        (branches, (x,), {}),
        (structured, (Batch(x), Mode.MINUS, x, x), {"other": 10**30}),
        (structured, (Batch(x),), {"dtype": torch.float32}),
        (numbers, (x,), {}),
        (checked, (x,), {}),
        (arrays, (x,), {}),
        (drawn, (x,), {}),
    ]
    for body, args, kwargs in calls:
        function = tracehost.function(body)
        function(*args, **kwargs)
        made.append(function)
    sized = tracehost.function(grown)
    sized.warm_up([TensorSpec([None, 3]), TensorSpec([], torch.int64)])
    made.append(sized)
    for kind, tensor in tensors().items():
        function = tracehost.function(_over(tensor, kind), name=kind)
        function(torch.ones(3, 3))
        made.append(function)
    return made


def _over(tensor: torch.Tensor, kind: str) -> Any:
    """The tensor is reached, not passed: the archive has it."""

    def body(x):
        return used(x, tensor, kind)

    return body


def archives() -> list[bytes]:
    torch.manual_seed(0)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        functions = _functions()
        for number, function in enumerate(functions):
            path = Path(folder) / f"{number}.pt"
            tracehost.save(path, {"f": function}, source_paths=number % 2 == 1)
            made.append(path.read_bytes())
        path = Path(folder) / "all.pt"
        tracehost.save(path, {f"f{i}": f for i, f in enumerate(functions[:5])})
        made.append(path.read_bytes())
    return made
