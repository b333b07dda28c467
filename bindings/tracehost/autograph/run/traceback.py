"""Tracebacks as of plain Python: without the operators, each function of the user's once."""

from __future__ import annotations

import os
from types import TracebackType

from ..conversion.compile import is_generated, original_code, unconverted
from ..staging.where import line_of, user_frames

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def clean_traceback(error: BaseException) -> None:
    """Take autograph's own frames, and callers that are the same function of the user's, out of a traceback.

    Those of its causes and contexts too.
    """
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _cleaned(one.__traceback__)
        todo += [one.__cause__, one.__context__]


def _cleaned(first: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = first
    while entry is not None:
        code = entry.tb_frame.f_code
        if not code.co_filename.startswith(_FOLDER):
            if is_generated(code) and entries:
                entries.pop()  # the same function, at the header of the block that failed
            entries.append(entry)
        entry = entry.tb_next
    for entry, following in zip(entries, [*entries[1:], None]):
        entry.tb_next = following
    return entries[0] if entries else None


def why_not_converted() -> str | None:
    """Why Python runs the conditions of the user's code that runs now; None if autograph has staged them."""
    reason = None
    for frame in user_frames():
        code = frame.f_code
        if reason is not None:  # of code without a file: the line that calls it
            return f"{reason}; called at {line_of(frame)}"
        why = unconverted(code, frame.f_lineno)
        if why is None and original_code(code) is None:
            why = "it is called by code that is not converted"
        if why is None:
            return None
        reason = f"{code.co_name}: {why}"
        if os.path.exists(code.co_filename):
            return reason
    return reason
