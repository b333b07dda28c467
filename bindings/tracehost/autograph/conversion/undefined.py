"""What a variable holds before its first assignment, and how generated code reads such a variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Generated variables that are part of a block's state beside the user's own.
PREFIX = "ag__"
RETURN_FLAG = "ag__do_return"
RETURN_VALUE = "ag__retval"
BREAK_FLAG = "ag__break_"
CONTINUE_FLAG = "ag__continue_"
MATCHED_FLAG = "ag__matched_"
SUBJECT = "ag__subject_"  # of a match; no flag


class Undefined:
    """Stands for 'not assigned'. Test for it by type: a user's value may answer any attribute."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<'{self.name}' is not assigned>"

    def read(self) -> Any:
        """The error of reading it in the function that owns it. A subclass may explain more."""
        raise UnboundLocalError(
            f"cannot access local variable '{self.name}' where it is not associated with a value"
        )


def is_undefined(value: Any) -> bool:
    return issubclass(type(value), Undefined)


def ld(value: Any) -> Any:
    """A local variable's value, or Python's error if it has none."""
    return value.read() if issubclass(type(value), Undefined) else value


def ldf(value: Any) -> Any:
    """The same for a variable of an enclosing function: Python's error has another type and text."""
    if issubclass(type(value), Undefined):
        if type(value) is Undefined:
            raise NameError(
                f"cannot access free variable '{value.name}' where it is not associated with a value "
                "in enclosing scope",
                name=value.name,
            )
        return value.read()
    return value


def ldu(read: Callable[[], Any], name: str) -> Any:
    """A variable that is not ours to declare (global, of an unconverted function): it may be missing."""
    try:
        return read()
    except NameError:
        return Undefined(name)
