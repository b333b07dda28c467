"""Raises, in one line, for a torch or a Python that the compiled part was not built for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_lines = Path(__file__).with_name("build_info.txt").read_text(encoding="utf-8").splitlines()
_built = dict(line.split("=", 1) for line in _lines if "=" in line)
VERSION = _built["version"]


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _loaded_libpython() -> str | None:
    """The libpython that this process runs on; None for a statically linked interpreter."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[-1]
        if os.path.basename(path).startswith("libpython3."):
            return path
    return None


def _is_subinterpreter() -> bool:
    try:
        import _interpreters as interpreters
    except ModuleNotFoundError:  # up to Python 3.12
        import _xxsubinterpreters as interpreters
    return interpreters.get_current() != interpreters.get_main()


def check() -> None:
    """Raise ImportError if torch is missing or of another minor version, or if this is another Python."""
    running = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 15):
        raise ImportError(
            f"tracehost does not support Python {_minor(running)} yet: use Python 3.11 to 3.14"
        )
    if "t" in sys.abiflags:
        raise ImportError(
            "tracehost needs the GIL, which this free-threaded build of Python does not have: use the usual build"
        )
    if _is_subinterpreter():
        raise ImportError(
            "tracehost works in the main interpreter of a process only: import it there, not in a subinterpreter"
        )
    if _minor(running) != _minor(_built["python"]):
        raise ImportError(
            f"tracehost was built for Python {_built['python']}, this is {running}: "
            f"build it again for this one (pip install . in its sources)"
        )
    library, built = _loaded_libpython(), _built.get("libpython", "")
    if library and built and os.path.realpath(library) != os.path.realpath(built):
        raise ImportError(
            f"tracehost was built with {built}, but {library} is loaded: "
            f"run it with the interpreter of its own virtual environment, or build it again"
        )
    # pip installs a wheel into environments of every Python 3.X.*; the host would run one's library with another's modules.
    modules, built = os.path.realpath(os.path.dirname(os.__file__)), _built.get("stdlib", "")
    if library and built and modules != built:
        raise ImportError(
            f"tracehost was built for the Python of {built}, but this environment has that of {modules}: "
            f"build it again for this one (pip install . in its sources)"
        )
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"tracehost needs torch {_minor(_built['torch'])}.*, which {sys.executable} does not have: "
            f"pip install torch=={_built['torch']}"
        ) from None
    if _minor(torch.__version__) != _minor(_built["torch"]):
        raise ImportError(
            f"tracehost was built for torch {_minor(_built['torch'])}.*, this is {torch.__version__}: "
            f"build it again (pip install . in its sources), or pip install torch=={_built['torch']}"
        )
