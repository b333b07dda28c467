"""Calls in a body to code that no graph can hold the insides of: each run of the graph makes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from .. import _tracehost
from .._arguments.dtypes import name_of
from .._errors import TraceError
from . import closed_over, custom_forward
from .traced_number import TracedNumber

# torch 2.11's checkpoint() keeps the inputs by this Function, and asks its result's grad_fn for them. It computes nothing.
_SAVES_INPUTS = "_NoopSaveInputs"


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
    if getattr(getattr(function, "__self__", None), "__name__", "") == _SAVES_INPUTS:
        return _tracehost.unrecorded(function, *(args or ()), **(kwargs or {}))
    made = Call(function, name, args or (), kwargs or {})
    tensors, made.tensors = made.tensors, None
    return made.structured(_tracehost.record_foreign(made, tensors, name))


class Call:
    """One such call: what the graph keeps of it."""

    __slots__ = (
        "exact",
        "function",
        "leaves",
        "makers",
        "name",
        "result",
        "tensors",
        "tree",
        "where",
    )

    def __init__(self, function: Any, name: str, args: Any, kwargs: Any) -> None:
        self.function = function
        self.name = name
        self.where = _tracehost.here()
        self.exact = not _tracehost.has_dynamic_sizes()
        self.result: tuple[Any, list[Any]] | None = None
        """structure of what it returned at the trace; its leaves, of tensors dtype and shape"""
        leaves, self.tree = _pytree.tree_flatten((args, kwargs))
        self.tensors: list[torch.Tensor] | None = []
        add = self._add()
        self.makers = [_tracehost.unobserved(closed_over.maker, leaf, add) for leaf in leaves]
        """of the leaves that have something of the call"""
        self.leaves = [None if m else leaf for m, leaf in zip(self.makers, leaves)]
        self._check_class()

    def _add(self) -> closed_over.Add:
        add = closed_over.adding(self.tensors)

        def checked(value: Any) -> closed_over.Maker | None:
            read = type(value) is TracedNumber and _tracehost._number_is_read(value)
            if read and _tracehost._number_has_no_text(value):  # in a staged block
                _tracehost._number_abandons(value, "as an argument of a call")
            return add(value)

        return checked

    def _check_class(self) -> None:
        """A class that the body made: its functions must not reach what the body computed."""
        cls = getattr(self.function, "__self__", None)
        if not isinstance(cls, type) or "<locals>" not in cls.__qualname__:
            return
        reached: list[torch.Tensor] = []
        for value in vars(cls).values():
            function = getattr(value, "__func__", value)
            _tracehost.unobserved(closed_over.maker, function, reached.append)
        if any(not _tracehost.reaches(t) for t in reached):
            raise TraceError(
                f"{self.name} at {self.where} uses a tensor or number of this call that its class reaches by "
                "itself: a later call would use this call's value. Pass it as an argument."
            )

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        given = closed_over.Given(tensors)
        leaves = [m(given) if m else leaf for m, leaf in zip(self.makers, self.leaves)]
        args, kwargs = _pytree.tree_unflatten(leaves, self.tree)
        values, tree = _pytree.tree_flatten(self.function(*args, **kwargs))
        if (changed := given.changed()) is not None:
            raise TraceError(
                f"{self.name} at {self.where} changed a {type(changed).__name__} that holds a "
                "tensor or number of the call. Return what it computes."
            )
        described = [self._described(value) for value in values]
        if self.result is None:
            self.result = tree, described
        elif self.result != (tree, described):
            self._reject(tree, described)
        return [value for value in values if isinstance(value, torch.Tensor)]

    def structured(self, results: list[torch.Tensor]) -> Any:
        tree, described = self.result
        each = iter(results)
        return _pytree.tree_unflatten(
            [next(each) if type(leaf) is _Like else leaf for leaf in described], tree
        )

    def _described(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return _Like((value.dtype, tuple(value.shape) if self.exact else value.dim()))

    def _reject(self, tree: Any, described: list[Any]) -> None:
        before, kept = self.result
        if tree != before:
            what = f"{tree}, and {before} when it was traced"
        else:
            i = next(i for i, (a, b) in enumerate(zip(described, kept)) if a != b)
            of = f" as result {i}" if len(described) > 1 else ""
            what = f"{described[i]}{of}, and {kept[i]} when it was traced"
        raise TraceError(
            f"{self.name} at {self.where} returned {what}: what follows it in the graph is made for that. "
            "Move the call out of the function, or make it return the same for such arguments."
        )


class _Like(tuple):
    """A tensor's dtype and shape, or number of dimensions."""

    def __repr__(self) -> str:
        name, shape = name_of(self[0]), self[1]
        if isinstance(shape, tuple):
            return f"a tensor {name}{list(shape)}"
        return f"a {name} tensor of {shape} dimensions"
