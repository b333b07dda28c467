"""What a C++ program asks of Python: where its Functions are, and what of them runs without Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

from . import _archive
from ._concrete import brief
from ._embed_arguments import fitting
from ._function import _signature
from ._tracehost import Function

__all__ = ["NotFound", "complete", "entry", "find", "fitting", "misfit"]


class NotFound(LookupError):
    """No such file, module or Function."""


def find(module: str, name: str) -> tuple[Any, Function]:
    """A Function, and before it the instance that it is a method of, or None.

    Raises:
        NotFound: there is no such file, or no Function of that name in it.
    """
    found: Any = _loaded(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotFound(f"{module} has no {name!r}: there is no {part!r}") from None
    method = isinstance(found, types.MethodType)
    function = found.__func__ if method else found
    if not isinstance(function, Function):
        raise NotFound(
            f"{name!r} of {module} is a {type(found).__name__}, no Function: decorate it with "
            "@tracehost.function"
        )
    return found.__self__ if method else None, function


def entry(function: Function) -> tuple[str, dict[str, Any], list[Any]]:
    """Its name, defaults, and each specialization whose Python values are still as at the trace."""
    return _archive.entry(function.name, function.python_function, _archive.live(function)[0])


def complete(function: Function, error: Any) -> None:
    """What a caller in C++ learns besides: the parameters, as they are declared."""
    if not error.nearest:
        error.nearest = _declared(function)


_BINDING = {
    "missing a required": ("a value", "nothing"),
    "multiple values": ("one value", "two"),
    "unexpected keyword": ("no such argument", "a value"),
    "too many positional": ("fewer arguments by place", "more"),
    "without a name after": ("arguments by place first", "one behind an argument by name"),
}


def misfit(function: Function, why: str) -> tuple[str, str, str, str]:
    """Parameter, expected, got and nearest signature of a call that does not fit the parameters."""
    for part, (expected, got) in _BINDING.items():
        if part in why:
            named = why.rpartition("'")[0].rpartition("'")[2] if why.endswith("'") else ""
            return named, expected, got, _declared(function)
    return "", "", "", _declared(function)


def _declared(function: Function) -> str:
    """`(x: float32[None, 4], by=2)`: the parameters as they are declared."""
    try:
        parameters = list(_signature(function.python_function).parameters.values())
    except (TypeError, ValueError):
        return ""
    specs = list(function.input_signature or ())
    if parameters and parameters[0].name == "self":
        del parameters[0]
    shown = []
    for p in parameters:
        if specs:
            shown.append(f"{p.name}: {brief(specs.pop(0))}")
        else:
            shown.append(str(p.replace(annotation=p.empty)))
    return f"({', '.join(shown)})"


def _loaded(module: str) -> types.ModuleType:
    if not module.endswith(".py"):
        return import_module(module)
    path = _found(module)
    name = os.path.basename(path)[:-3]
    known = sys.modules.get(name)
    if known is not None and os.path.realpath(getattr(known, "__file__", None) or "") == path:
        return known
    return import_file(name, path)


def import_module(name: str) -> types.ModuleType:
    """Raises NotFound where there is no such module. One that the module imports is its own affair."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NotFound(f"there is no module {name} on sys.path: {error}") from None


def import_file(name: str, path: str) -> types.ModuleType:
    """Run a file as the module of that name."""
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
    raise NotFound(f"there is no file {file}, neither in {os.getcwd()} nor on sys.path")
