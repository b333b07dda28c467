"""The user's line, for messages."""

from __future__ import annotations

import dis
import os
import sys
import traceback
import types
from collections.abc import Iterator
from typing import NoReturn

from ..._traced.raised import shown
from ..._tracehost import (
    abandons,
    here,
    is_of_signal,
    note_raised,
    origin,
    outer_frame,
    reaches,
    reject_staging,
    without_data,
)

_PLAIN = (str, int, float, bool, type(None))
_INSTEAD = (
    "a graph can raise, but not catch. Choose by the condition what is to be done instead, or put the try "
    "statement around the function's call."
)


def _is_users(code: types.CodeType) -> bool:
    return origin(code.co_filename) in ("user", "package")


def user_frames(outer: types.FrameType | None = None) -> Iterator[types.FrameType]:
    """Frames that run the user's code or a package's; innermost first, up to `outer`."""
    frame = sys._getframe(1)
    while frame is not None and frame is not outer:
        if _is_users(frame.f_code):
            yield frame
        frame = frame.f_back


def line_of(frame: types.FrameType) -> str:
    """`train.py:12`."""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def line() -> str:
    """The user's line that runs now; `train.py:12 (in timm/layers/drop.py:30)` where it has called a package."""
    return here()


def place_of(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost of the user's frames that an exception has passed and goes to."""
    passed = [(f.f_code, number) for f, number in traceback.walk_tb(error.__traceback__)]
    for code, number in passed[::-1]:
        if _is_users(code):
            return code.co_filename, number
    frame = next(user_frames(), None)
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def described(error: Exception) -> tuple[str, str, str, tuple[str, int]]:
    """What the graph raises in its place: class, text, what else it has, file and line."""
    return *shown(error), place_of(error)


def is_plain_error(error: Exception) -> bool:
    """Whether a graph makes the like: a new one of a class of Python's own, of texts and numbers alone."""
    return (
        type(error).__module__ == "builtins"
        and not reaches(error)
        and error.__cause__ is None
        and not error.__dict__
        and all(type(x) in _PLAIN or type(x).__name__ == "TracedNumber" for x in error.args)
    )


def raised_by_statement(error: BaseException) -> bool:
    """Whether a `raise` or `assert` has raised it, not C code."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    return dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def is_interrupt(error: BaseException) -> bool:
    """Whether a signal has raised it, at some line: it is no part of what the program computes."""
    if isinstance(error, KeyboardInterrupt) and not raised_by_statement(error):
        return True  # Python's own handler has
    return is_of_signal(error)


def _catches(frame: types.FrameType) -> bool:
    """Whether the frame is in a try statement with an except clause."""
    code, at = frame.f_code, frame.f_lasti
    if not code.co_exceptiontable:
        return False
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        if not entry.start <= at <= entry.end:
            continue
        for instruction in dis.get_instructions(code):
            if instruction.offset < entry.target:
                continue
            name = instruction.opname
            if name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT"):
                return True
            if name in ("RERAISE", "WITH_EXCEPT_START"):
                break
    return False


# Behind PUSH_EXC_INFO, where the handler of a `with` begins.
_WITH_EXCEPT_START = dis.opmap["WITH_EXCEPT_START"]


def is_suppressed() -> bool:
    """Whether a `with` of the body may suppress what is raised now, or an `except` catch it."""
    frame, outer = sys._getframe(1), outer_frame()
    while frame is not None and frame is not outer:
        code = frame.f_code
        if code.co_exceptiontable and _is_users(code) and (_catches(frame) or _is_in_with(frame)):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _is_in_with(frame: types.FrameType) -> bool:
    code, at = frame.f_code, frame.f_lasti
    return any(
        entry.start <= at <= entry.end and code.co_code[entry.target + 2] == _WITH_EXCEPT_START
        for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    )


def is_caught() -> bool:
    """Whether the body may catch what is raised now."""
    return any(map(_catches, user_frames(outer_frame())))


def check_not_caught(error: Exception, what: str) -> None:
    """A graph raises, but can't catch: a body that would catch what a block raises is unsupported."""
    for frame in user_frames(outer_frame()):
        if _catches(frame):
            reject(
                f"{what} raises {type(error).__name__} in the try statement around {line_of(frame)}: "
                + _INSTEAD
            )


def reject_if_caught(error: Exception, what: str) -> None:
    """The same for what has run for real. A body that caught it and continued is unsupported at its end."""
    note_raised(
        f"{what} raised {type(error).__name__}, and the body caught that and continued: {_INSTEAD}"
    )


def reject_here(message: str) -> None:
    """reject(). Returns where the body continues without a trace, from here on."""
    try:
        reject(message)
    except Exception:
        if without_data() or not abandons():
            raise


def reject(message: str) -> NoReturn:
    """Raises StagingError, and remembers it for a body that swallows it. What a side without data has raised is no
    context of it: nothing of the call has failed."""
    try:
        reject_staging(message)
    except Exception as error:
        error.__suppress_context__ = True
        raise
    raise AssertionError("unreachable")
