"""What Python's instructions mean, where versions of Python differ."""

from __future__ import annotations

import dis
from typing import Any


def loaded(instruction: dis.Instruction) -> Any:
    """The name or constant that the instruction leaves on top of the stack; None for one that is no LOAD."""
    if instruction.opname.endswith("_FAST_LOAD_FAST"):  # of 3.13: two variables
        return instruction.argval[-1]
    return instruction.argval if instruction.opname.startswith("LOAD_") else None
