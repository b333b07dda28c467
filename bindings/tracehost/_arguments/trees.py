"""Containers taken apart into leaves, and put together again: torch's pytrees.

torch's own functions would do. They are torch's code, though, whose reads a trace watches: a graph would hold
only until somebody registers another type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.utils import _pytree

_NAMEDTUPLE = _pytree.namedtuple


class Spec:
    """What leaves hang on. `kind` None: a leaf."""

    __slots__ = ("children", "context", "kind")

    def __init__(
        self, kind: Any = None, context: Any = None, children: Iterable[Spec] = ()
    ) -> None:
        self.kind, self.context, self.children = kind, context, tuple(children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return (
            self.kind is other.kind
            and self.context == other.context
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The containers, with these leaves."""
        each = iter(leaves)
        if self.kind is None:
            return next(each)
        children = [child.unflatten(each) for child in self.children]
        return _pytree.SUPPORTED_NODES[self.kind].unflatten_fn(children, self.context)


LEAF = Spec()


def flatten(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Spec]:
    """The leaves in order, and the rest."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf)


def _flatten(value: Any, leaves: list[Any], is_leaf: Any) -> Spec:
    kind = type(value)
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make"):
        kind = _NAMEDTUPLE
    node = None if is_leaf is not None and is_leaf(value) else _pytree.SUPPORTED_NODES.get(kind)
    if node is None:
        leaves.append(value)
        return LEAF
    children, context = node.flatten_fn(value)
    return Spec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def read_all(container: Any, keys: Iterable[Any]) -> None:
    """A trace that watches notes the length and each element as read."""
    for _ in container:
        pass
    for key in keys:
        container[key]
