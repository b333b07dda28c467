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

    def unflatten(
        self,
        leaves: Iterable[Any],
        keys: Iterable[Any] | None = None,
        made: dict[Any, Any] | None = None,
    ) -> Any:
        """The containers, with these leaves.

        `keys`: one for each container, in the order of flatten()'s `containers`. Those of one key are one object,
        kept in `made`; None: an object of its own.
        """
        each = iter(leaves)
        if self.kind is None:
            return next(each)
        of_each = iter(keys) if keys is not None else None
        key = next(of_each) if of_each is not None else None
        children = [child.unflatten(each, of_each, made) for child in self.children]
        new = _pytree.SUPPORTED_NODES[self.kind].unflatten_fn(children, self.context)
        return new if key is None or made is None else made.setdefault(key, new)


LEAF = Spec()


def flatten(
    value: Any,
    is_leaf: Callable[[Any], bool] | None = None,
    containers: list[Any] | None = None,
) -> tuple[list[Any], Spec]:
    """The leaves in order, and the rest. The containers are appended to `containers`, the outer one first."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf, [] if containers is None else containers)


def _flatten(value: Any, leaves: list[Any], is_leaf: Any, containers: list[Any]) -> Spec:
    kind = type(value)
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make"):
        kind = _NAMEDTUPLE
    node = None if is_leaf is not None and is_leaf(value) else _pytree.SUPPORTED_NODES.get(kind)
    if node is None:
        leaves.append(value)
        return LEAF
    children, context = node.flatten_fn(value)
    containers.append(value)
    return Spec(kind, context, [_flatten(x, leaves, is_leaf, containers) for x in children])


def read_all(container: Any, keys: Iterable[Any]) -> None:
    """A trace that watches notes the length and each element as read."""
    for _ in container:
        pass
    for key in keys:
        container[key]
