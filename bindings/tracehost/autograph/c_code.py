"""What a user says of C code: no trace can observe it, and tracehost may have no rule for it."""

from __future__ import annotations

import types
from typing import Any

from .._tracehost import add_reads_only

_PYTHON_CODE = (types.FunctionType, types.MethodType)


def _names_of(code: Any) -> tuple[str, str]:
    """The module or type, and the name in it, as C code gives them."""
    if isinstance(code, types.ModuleType):
        return code.__name__, ""
    if isinstance(code, type):
        return f"{code.__module__}.{code.__qualname__}", ""
    kept_with = getattr(code, "__self__", None)
    of_class = getattr(code, "__objclass__", None)
    if of_class is None and kept_with is not None and not isinstance(kept_with, types.ModuleType):
        of_class = kept_with if isinstance(kept_with, type) else type(kept_with)
    name = getattr(code, "__name__", None)
    if (
        of_class is not None
        and not of_class.__module__.startswith("pybind11")
        and of_class.__name__ != "PyCapsule"
    ):
        return f"{of_class.__module__}.{of_class.__qualname__}", str(name)
    module = getattr(code, "__module__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError(
            f"autograph.reads_only takes a function, method, type or module of C code, got {code!r}, which has no name"
        )
    return module, name


def reads_only(code: Any) -> Any:
    """Say that C code only reads what it is given: graphs may hold its results.

    A trace can't observe C code. If tracehost has no rule for a call, and the call is given an object that was there before, the
    trace serves its own call only. After `reads_only(code)` the call counts as one that reads what its arguments
    hold. It reads no file and no state of its own that changes, and changes nothing. Later calls compare what the
    arguments hold.

    Args:
        code: a function or method of C code, a type (its constructor and methods), or a module (all that is in it
            and below it): `reads_only(cv2)`, `reads_only(orjson.dumps)`, `reads_only(tokenizers.Tokenizer)`.

    Returns:
        `code`, as it was given.

    Raises:
        TypeError: `code` is a Python function, whose code a trace observes, or has no name.
    """
    if isinstance(code, _PYTHON_CODE):
        raise TypeError(
            f"autograph.reads_only takes C code, got the Python function {code.__qualname__}: a trace observes what "
            "it reads"
        )
    of, name = _names_of(code)
    add_reads_only(of, name)
    if isinstance(code, type):
        add_reads_only(code.__module__, code.__qualname__)
    return code
