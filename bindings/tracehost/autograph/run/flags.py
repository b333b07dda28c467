"""Bools that an op takes as such: `x.sort(descending=flag)`. torch's argument parser takes no traced ones."""

from __future__ import annotations

import functools
from typing import Any

import torch

Place = int | str  # of a parameter: its number and its name
_BOOLS = {"bool", "Optional[bool]"}
# The parser takes a bool for these, and the graph's number for a traced one.
_OTHERS = {"number", "Optional[number]", "float", "Optional[float]", "Tensor", "Optional[Tensor]"}


def flags_of(name: str, owner: Any) -> frozenset[Place]:
    """The parameters of torch's function or method `name` that are bools."""
    of = owner.__name__ if isinstance(owner, type(torch)) else ""
    if owner is None or isinstance(owner, torch.Tensor) or of.startswith("torch."):
        return _flags(name)
    return frozenset()


@functools.cache
def _flags(name: str) -> frozenset[Place]:
    flags: set[Place] = set()
    others: set[Place] = set()
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        for place, argument in enumerate(schema.arguments):
            kind = str(argument.type)
            known = flags if kind in _BOOLS else others if kind in _OTHERS else set()
            known |= {argument.name} if argument.kwarg_only else {place, argument.name}
    return frozenset(flags - others)
