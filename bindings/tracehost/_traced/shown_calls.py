"""The calls that show their arguments: whether one computes them now. autograph/run/shown.py says what the arguments are then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .._tracehost import here

_calls = threading.local()


def under_way() -> list[Any]:
    """For the calls whose arguments this thread computes now, one in the other: what the callee does with them."""
    return _calls.__dict__.setdefault("under_way", [])


def is_shown() -> bool:
    """Whether an argument of a call that shows its arguments is computed now, or shown."""
    calls = under_way()
    return bool(calls and calls[-1])


def note_unknown_text() -> None:
    """A number without a value gets a text. Code that does more than raise with the text may look into it."""
    if not is_shown():
        _calls.unknown_texts = unknown_texts() + 1
        _calls.unknown_at = here()


def unknown_texts() -> int:
    """How many such texts this thread has made, but for those of exceptions."""
    return _calls.__dict__.get("unknown_texts", 0)


def unknown_text_at() -> str:
    """The line that has made the last of them; `train.py:12`."""
    return _calls.__dict__.get("unknown_at", "")


def forget_unknown_texts(since: int) -> None:
    """All but the first `since` are of code that is no part of the graph, or that does nothing but raise."""
    _calls.unknown_texts = since


def forget_shown(since: int = 0) -> None:
    """An exception has ended the calls whose arguments were computed, but for the first `since`."""
    del under_way()[since:]


def for_people(make: Callable[[], str]) -> str:
    """`make()`, a text that is shown and not kept: a tensor in it shows its dtype and shape."""
    calls = under_way()
    depth = len(calls)
    calls.append(True)
    try:
        return make()
    finally:
        del calls[depth:]
