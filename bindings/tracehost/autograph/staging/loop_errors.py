"""Why a loop over a tensor can't be staged, and what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.utils import _pytree

from ..conversion.undefined import RETURN_VALUE
from .state import CONTAINERS, is_tensor, kind, type_of
from .stores import BlockStores
from .where import reject

_CARRIED = (torch.Tensor, int, float, *CONTAINERS)


class LoopErrors:
    """Of one loop: `what` it is, `where` it stands."""

    def __init__(self, names: tuple[str, ...], what: str, where: str) -> None:
        self.names, self.what, self.where = names, what, where

    def change(self, name: str, before: Any, now: Any, why: str) -> NoReturn:
        shown = "the value returned" if name == RETURN_VALUE else f"'{name}'"
        reject(
            f"{shown} can't be carried from one iteration of the {self.what} at {self.where} to the next: {why}, "
            f"from {kind(before)} to {kind(now)}. The condition or the iterable is a tensor, so one body has to "
            f"do for all iterations.{self._cure(name, before, now)}"
        )

    def shape(self, variable: int, old: list[int], new: list[int], shape: list[Any]) -> NoReturn:
        """For a variable that has to keep its shape. `shape`: an invariant that fits."""
        name = self.names[variable]
        if self.what == "while_loop":
            each = ["None"] * len(self.names)
            each[variable] = str(shape)
            remedy = f"pass shape_invariants=[{', '.join(each)}]"
        else:
            remedy = (
                "write as the first line of its body: "
                f"tracehost.autograph.set_loop_options(shape_invariants=[({name}, {shape})])"
            )
        reject(
            f"the shape of '{name}' changes in the {self.what} at {self.where} over a tensor, from "
            f"{old} to {new}. If that is meant, {remedy}"
        )

    def invariant(self, name: str, shape: list[Any], value: Any) -> NoReturn:
        reject(
            f"the shape invariant {shape} of '{name}' does not fit its value before "
            f"the {self.what} at {self.where}, {kind(value)}"
        )

    def not_assigned(self, name: str) -> NoReturn:
        reject(
            f"'{name}' is deleted, or not assigned on each path, in the body of the {self.what} at "
            f"{self.where} over a tensor; give it a value at the end of each iteration."
        )

    def read_before(self, name: str) -> NoReturn:
        reject(
            f"'{name}' is read in the body of the {self.what} at {self.where} over a tensor before the body assigns "
            "it: the first iteration has no value, and one body has to do for all. Give it a value before the loop."
        )

    def store(self, stores: BlockStores) -> NoReturn:
        reject(
            f"the body of the {self.what} at {self.where} stores {stores.first()}, in code that it calls, and a graph can't "
            "repeat that for each iteration. Return the value, assign it to a variable in the body, and store it "
            "behind the loop."
        )

    def _cure(self, name: str, before: Any, now: Any) -> str:
        if before is None:
            return f" Give it {_made_of(now)} before the loop."
        if bool in (type_of(before), type_of(now)):
            return " Give it one type before the loop and at the end of the body: int(...) or bool(...)."
        if is_tensor(before) and is_tensor(now) and before.dtype != now.dtype:
            return self._convert(name, before.dtype, now.dtype)
        if not isinstance(now, _CARRIED) and type(before) is type(now):
            return " A graph carries tensors and numbers: keep an int or a bool in its place."
        return ""

    def _convert(self, name: str, before: torch.dtype, now: torch.dtype) -> str:
        if self.what not in ("while", "for") or name == RETURN_VALUE:
            return f" Return it as {before} in each iteration, by to({before})."
        at_the_end = f"write {name} = {name}.to({before}) at the end of the body."
        if torch.promote_types(before, now) != now:  # an op would not: the body converts it
            return f" W{at_the_end[1:]}"
        return f" Write {name} = {name}.to({now}) before the loop. If the body itself converts it, {at_the_end}"

    def only_inside(self, name: str) -> str:
        if name == RETURN_VALUE:
            return (
                f"a value of another kind than a tensor or number is returned in the {self.what} at {self.where}, "
                "at an iteration that depends on values. Return a tensor or a number there."
            )
        return (
            f"'{name}' is assigned only in the {self.what} at {self.where}, which may have no "
            "iteration; give it a value before it."
        )


def _made_of(value: Any) -> str:
    """`a tuple of a float32 tensor of shape [1, 4] and a float32 tensor of shape [1, 4]`."""
    leaves = _pytree.tree_leaves(value)
    if is_tensor(value) or leaves == [value]:
        return kind(value)
    return f"{kind(value)} of {' and '.join(map(kind, leaves))}"
