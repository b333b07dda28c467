"""What Python's instructions mean, where versions of Python differ."""

from __future__ import annotations

import dis
from typing import Any

# Of 3.13, and of 3.14 where the frame keeps the reference.
_TWO_VARIABLES = ("_FAST_LOAD_FAST", "_BORROW_LOAD_FAST_BORROW")


def loaded(instruction: dis.Instruction) -> Any:
    """The name or constant that the instruction leaves on top of the stack; None for one that is no LOAD."""
    if instruction.opname.endswith(_TWO_VARIABLES):
        return instruction.argval[-1]
    return instruction.argval if instruction.opname.startswith("LOAD_") else None
