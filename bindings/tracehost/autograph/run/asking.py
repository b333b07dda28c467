"""`any(v > 0 for v in x)`: a generator without effects, which any() and all() may ask value by value.

`conversion/asking.py` finds such generators.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from ..._tracehost import recording
from ..staging.iterables import Staged
from ..staging.state import is_tensor


class Asked:
    """A generator without effects, for any() and all()."""

    def __init__(self, values: Iterator[Any]) -> None:
        self.values = values


def asked(function: Any, make: Callable[[Any], Iterator[Any]], gone_over: Any) -> Any:
    """What generated code gives to `function` in place of the generator."""
    values = make(gone_over)
    again = is_tensor(gone_over) or isinstance(gone_over, (list, tuple, range, dict, Staged))
    if again and recording() and function in (builtins.any, builtins.all):
        return Asked(values)
    return values
