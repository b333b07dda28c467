"""Calls in a body to code that no graph can hold the insides of: each run of the graph makes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from .. import _tracehost
from .._arguments.dtypes import name_of
from .._errors import TraceError
from . import custom_forward
from .traced_number import TracedNumber


def call(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """Call it, and record that: an `autograd.Function`'s `apply`, a method of a scripted module.

    Its insides run in Python (or in TorchScript) at each run of the graph, with the tensors and numbers of that
    run; other arguments are what they were. Gradients are its own. A forward of ops alone that needs no gradient is
    recorded instead.

    Raises:
        TraceError: at a run, if it returns something else than when it was traced.
    """
    if custom_forward.is_recorded(function, args, kwargs):
        return custom_forward.recorded(function, args)
    made = Call(function, name, args or (), kwargs or {})
    tensors, made.tensors = made.tensors, None
    return made.structured(_tracehost.record_foreign(made, tensors, name))


class Call:
    """One such call: what the graph keeps of it."""

    __slots__ = ("exact", "function", "leaves", "name", "result", "tensors", "tree", "where")

    def __init__(self, function: Any, name: str, args: Any, kwargs: Any) -> None:
        self.function = function
        self.name = name
        self.where = _tracehost.here()
        self.exact = not _tracehost.has_dynamic_sizes()
        self.result: tuple[Any, list[Any]] | None = None
        """structure of what it returned at the trace; its leaves, of tensors dtype and shape"""
        leaves, self.tree = _pytree.tree_flatten((args, kwargs))
        self.tensors: list[torch.Tensor] | None = []
        self.leaves: list[Any] = []
        for leaf in leaves:
            self._add(leaf)

    def _add(self, leaf: Any) -> None:
        if type(leaf) is TracedNumber:
            given = _input_of(leaf)
            if given is None:
                leaf = _tracehost._number_value(leaf)
            else:
                self.tensors.append(given)
                leaf = _NUMBER
        elif isinstance(leaf, torch.Tensor):
            self.tensors.append(leaf)
            leaf = _TENSOR
        self.leaves.append(leaf)

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        each = iter(tensors)
        leaves = [
            next(each) if leaf is _TENSOR else _number_of(next(each)) if leaf is _NUMBER else leaf
            for leaf in self.leaves
        ]
        args, kwargs = _pytree.tree_unflatten(leaves, self.tree)
        values, tree = _pytree.tree_flatten(self.function(*args, **kwargs))
        told = [self._told(value) for value in values]
        if self.result is None:
            self.result = tree, told
        elif self.result != (tree, told):
            self._reject(tree, told)
        return [value for value in values if isinstance(value, torch.Tensor)]

    def structured(self, results: list[torch.Tensor]) -> Any:
        tree, told = self.result
        each = iter(results)
        return _pytree.tree_unflatten(
            [next(each) if type(leaf) is _Like else leaf for leaf in told], tree
        )

    def _told(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return _Like((value.dtype, tuple(value.shape) if self.exact else value.dim()))

    def _reject(self, tree: Any, told: list[Any]) -> None:
        before, kept = self.result
        if tree != before:
            what = f"{tree}, and {before} when it was traced"
        else:
            i = next(i for i, (a, b) in enumerate(zip(told, kept)) if a != b)
            of = f" as result {i}" if len(told) > 1 else ""
            what = f"{told[i]}{of}, and {kept[i]} when it was traced"
        raise TraceError(
            f"{self.name} at {self.where} returned {what}: what follows it in the graph is made for that. "
            "Move the call out of the function, or make it return the same for such arguments."
        )


def _input_of(number: TracedNumber) -> torch.Tensor | None:
    """The tensor that gives a number to each run. None: it is the number that it was."""
    if _tracehost._number_is_size(number):
        return number
    if not _tracehost._number_is_read(number):
        return None
    if _tracehost._number_has_no_text(number):  # in a staged block it has no value
        _tracehost._number_abandons(number, "as an argument of a call")
        return None
    return _tracehost._number_tensor(number)


def _number_of(tensor: torch.Tensor) -> bool | int | float:
    return int(tensor) if type(tensor) is TracedNumber else tensor.item()


class _Like(tuple):
    """A tensor's dtype and shape, or number of dimensions."""

    def __repr__(self) -> str:
        name, shape = name_of(self[0]), self[1]
        if isinstance(shape, tuple):
            return f"a tensor {name}{list(shape)}"
        return f"a {name} tensor of {shape} dimensions"


_TENSOR, _NUMBER = object(), object()
