"""Where a decorator was called, and by whom."""

from __future__ import annotations

import os
import sys
from types import FrameType

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def caller() -> FrameType:
    """Who called into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame or sys._getframe()


def place(frame: FrameType) -> str:
    text = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    if "IPython" not in sys.modules:
        return text
    from tracehost._cells import in_cells

    return in_cells(text)


def is_of(frame: FrameType, package: str) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return name == package or name.startswith(package + ".")


def is_librarys_own(frame: FrameType, package: str) -> bool:
    """A module of the user's may use its own decorator, a library's use is an affair of its own."""
    from tracehost._tracehost import origin

    return is_of(frame, package) and origin(frame.f_code.co_filename) != "user"
