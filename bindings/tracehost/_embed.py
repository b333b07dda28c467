"""What a C++ program asks of Python: where its Functions are, and what of them runs without Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

from . import _archive
from ._tracehost import Function


def find(module: str, name: str) -> tuple[Any, Function]:
    """A Function, and before it the instance that it is a method of, or None.

    Raises:
        LookupError: there is no such file, or no Function of that name in it.
    """
    found: Any = _loaded(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise LookupError(f"{module} has no {name!r}: there is no {part!r}") from None
    method = isinstance(found, types.MethodType)
    function = found.__func__ if method else found
    if not isinstance(function, Function):
        raise LookupError(
            f"{name!r} of {module} is a {type(found).__name__}, no Function: decorate it with "
            "@tracehost.function"
        )
    return found.__self__ if method else None, function


def entry(function: Function) -> tuple[str, dict[str, Any], list[Any]]:
    """Its name, defaults, and each specialization whose Python values are still as at the trace."""
    return _archive.entry(function.name, function.python_function, _archive.live(function)[0])


def _loaded(module: str) -> types.ModuleType:
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = _found(module)
    name = os.path.basename(path)[:-3]
    known = sys.modules.get(name)
    if known is not None and os.path.realpath(getattr(known, "__file__", None) or "") == path:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made


def _found(file: str) -> str:
    for folder in ("", *sys.path):
        path = os.path.join(folder, file)
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise LookupError(f"there is no file {file}, neither in {os.getcwd()} nor on sys.path")
