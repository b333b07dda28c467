"""The staged side of each operator: what happens where a value is a traced tensor."""

from __future__ import annotations

from typing import Any

from .._tracehost import recording
from ._branches import if_stmt
from ._conditions import and_, and_test, assert_stmt, if_exp, not_, or_, or_test
from ._iterables import Staged, enumerate_, len_, range_, zip_
from ._loops import for_rest, for_stmt, while_stmt
from ._returns import return_value
from ._state import is_read, is_tensor
from ._subscripts import Subscripted

__all__ = [
    "Subscripted",
    "and_",
    "and_test",
    "assert_stmt",
    "enumerate_",
    "for_rest",
    "for_stmt",
    "if_exp",
    "if_stmt",
    "is_staged",
    "len_",
    "not_",
    "or_",
    "or_test",
    "range_",
    "return_value",
    "while_stmt",
    "zip_",
]


def is_staged(value: Any) -> bool:
    """Whether the value is a tensor (or a range, enumerate, zip over one) of this thread's trace."""
    return (is_tensor(value) or isinstance(value, Staged) or is_read(value)) and recording()
