"""What `package.module:function` and `script.py:object.method` name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

from .errors import UsageError


def find(target: str) -> Any:
    place, colon, path = target.rpartition(":")
    if not colon or not place or not path:
        raise UsageError(
            f"{target!r} names no function: write MODULE:FUNCTION or SCRIPT.py:FUNCTION"
        )
    found = _script(place) if place.endswith(".py") else _module(place)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(f"{place} has no {path!r}") from None
    return found


def _module(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    sys.argv = [name]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        raise UsageError(f"there is no module {name!r}; a script is named with its .py") from None


def _script(path: str) -> Any:
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
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
