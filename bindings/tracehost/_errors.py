"""What tracehost raises and warns with."""

from __future__ import annotations

from typing import Any

from ._cells import anywhere


class _Shown:
    """Where a text names a place in a notebook, it does so as the notebook does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*map(anywhere, args))


class Error(_Shown, Exception):
    """Base of all that tracehost raises of its own."""


class SignatureError(Error, TypeError):
    """An argument can't be compared, or does not fit a declared signature."""

    parameter: str = ""
    """which argument, where it does not fit: `batch['image']`"""
    expected: str = ""
    got: str = ""
    nearest: str = ""
    """the signature that comes closest: an archive's; for callers in C++ the declared one, too"""


class ValueReadError(Error, TypeError):
    """The body reads a traced tensor's value, which a graph can't repeat."""


class StagingError(Error):
    """Control flow on tensors that can't become part of a graph."""


class CaptureError(Error):
    """The body uses a tensor that later calls could not find again."""


class ArchiveError(Error):
    """An archive can't be written or read."""


class TraceError(Error):
    """Any other reason why a trace would not be right."""


class ImpureSide(BaseException):
    """Leaves a side of an `if` that does more than to compute. Staging catches it: no user sees it."""


class Interrupted(BaseException):
    """Ends a call from C++ that is to end (`tracehost::interrupt()`): text, code. No user sees it."""


class RetraceWarning(_Shown, UserWarning):
    """A function is traced again and again."""


class SideEffectWarning(_Shown, UserWarning):
    """The body changes Python state, which happens only when it is traced."""


class TraceWarning(_Shown, UserWarning):
    """Something about a trace that a user should know."""


# Users know them by the package's name: tracebacks, filters and pickles say tracehost.TraceError.
for _class in list(globals().values()):
    if isinstance(_class, type) and _class.__module__ == __name__:
        _class.__module__ = "tracehost"
