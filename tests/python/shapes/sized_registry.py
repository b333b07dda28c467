"""The list of functions that use sizes, and tensors for them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

SIZED: dict[str, "Sized"] = {}


@dataclass(frozen=True)
class Sized:
    """A function and the shapes of its arguments; n and m are dynamic."""

    function: Callable
    shapes: tuple[str, ...]

    def tensors(self, n: int, m: int) -> list[torch.Tensor]:
        made = []
        for index, shape in enumerate(self.shapes):
            sizes = [{"n": n, "m": m}.get(d) if d in "nm" else int(d) for d in shape.split()]
            generator = torch.Generator().manual_seed(n * 100 + m * 10 + index)
            made.append(torch.rand(sizes, generator=generator) * 2 - 1)
        return made

    def declared(self) -> list[list[int | None]]:
        return [[None if d in "nm" else int(d) for d in shape.split()] for shape in self.shapes]


def sized(*shapes: str) -> Callable:
    def add(function: Callable) -> Callable:
        assert function.__name__ not in SIZED
        SIZED[function.__name__] = Sized(function, shapes or ("n 4",))
        return function

    return add
