"""What `package.module:function` and `script.py:object.method` name."""

from __future__ import annotations

import operator
import os
import sys
from types import ModuleType
from typing import Any

from tracehost._embed import NotFound, import_file, import_module

from .errors import UsageError


def find(target: str) -> Any:
    place, colon, path = target.rpartition(":")
    if not colon or not place or not path:
        raise UsageError(
            f"{target!r} names no function: write MODULE:FUNCTION or SCRIPT.py:FUNCTION"
        )
    module = _script(place) if place.endswith(".py") else _module(place)
    try:
        found = operator.attrgetter(path)(module)
    except AttributeError:
        raise UsageError(f"{place} has no {path!r}") from None
    if not callable(found):
        raise UsageError(f"{target} is of type {type(found).__name__}, not a function")
    return found


def _module(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    sys.argv = [name]
    try:
        return import_module(name)
    except NotFound:
        raise UsageError(
            f"there is no module {name!r}, and no such file; a script needs its suffix .py"
        ) from None


def _script(path: str) -> ModuleType:
    """As a module of its name, so that its classes are found by that name where the archive is loaded."""
    try:
        open(path, "rb").close()
    except OSError as error:
        raise UsageError(f"cannot open '{path}': {error.strerror}") from None
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:  # such as json.py: others need theirs
        name += "_script"
    return import_file(name, path)
