"""The user's line, for messages."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

from .._tracehost import refuse_staging

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def line() -> str:
    """`train.py:12`: the innermost frame that is not tracehost's own, nor torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and f"{os.sep}torch{os.sep}" not in file:
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"


def frames_of(error: BaseException) -> str:
    """The user's frames that an exception has passed, innermost first, as the tracer writes them for an op."""
    found = [
        f"{frame.f_code.co_filename}({number}): {frame.f_code.co_name}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(_PACKAGE)
    ]
    return "\n".join(reversed(found)) + "\n"


def refuse(message: str) -> NoReturn:
    """Raises StagingError, and remembers it for a body that swallows it."""
    refuse_staging(message)
    raise AssertionError("unreachable")
