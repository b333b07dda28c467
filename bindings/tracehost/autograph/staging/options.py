"""What the user says about a loop: `set_loop_options`, written first in its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(init=False)
class LoopOptions:
    """shape_invariants: variable's name, as written, -> a TensorSpec or shape. Both may be None."""

    shape_invariants: Mapping[str, Any] | None
    maximum_iterations: Any

    # Written out: code that a dataclass generates would count as the user's in a trace.
    def __init__(
        self, shape_invariants: Mapping[str, Any] | None = None, maximum_iterations: Any = None
    ) -> None:
        self.shape_invariants, self.maximum_iterations = shape_invariants, maximum_iterations


NO_OPTIONS = LoopOptions()


def set_loop_options(
    shape_invariants: Iterable[tuple[Any, Any]] | Mapping[str, Any] | None = None,
    maximum_iterations: Any = None,
) -> None:
    """Say what autograph can't see of a loop over tensors. Write it as the first statement of the loop's body.

    Args:
        shape_invariants: pairs of a variable and the shape that it keeps in every iteration, or a dict
            with the variables' names. A shape is a TensorSpec, or a list of sizes, None where one changes:
            `[(x, [None, 3])]`, `{"x": [None, 3]}`.
        maximum_iterations: the loop ends after so many iterations, in spite of its condition.

    In a loop that Python runs, it does nothing.

    Raises:
        TypeError: shape_invariants is no list of pairs and no dict.
    """
    _check(shape_invariants)


def loop_options(shape_invariants: Any = None, maximum_iterations: Any = None) -> LoopOptions:
    """What generated code calls in its place, before the loop. Pairs have been made a dict of names."""
    _check(shape_invariants)
    if shape_invariants is not None and not isinstance(shape_invariants, Mapping):
        raise TypeError(
            "set_loop_options: shape_invariants must be written out in the loop, as pairs of a variable and "
            f"a shape or as a dict of names, so that the variables are known; got {shape_invariants!r}"
        )
    return LoopOptions(shape_invariants, maximum_iterations)


def _check(invariants: Any) -> None:
    if invariants is None or isinstance(invariants, Mapping):
        return
    pairs = isinstance(invariants, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in invariants
    )
    if not pairs:
        raise TypeError(
            "set_loop_options: shape_invariants takes pairs of a variable and a shape, such as "
            f"[(x, [None, 3])], or a dict of names; got {invariants!r}"
        )
