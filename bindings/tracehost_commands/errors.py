"""What ends a command, with its exit code."""

from __future__ import annotations

import importlib.util


class CommandError(Exception):
    """Printed as one line; the exit code is the class's."""

    code = 1


class UsageError(CommandError):
    """The command line is wrong, or what it names can't be opened."""

    code = 2


class MissingPackage(CommandError):
    code = 69


def need(*packages: str, what: str) -> None:
    """Raise MissingPackage unless all are installed; each is a name to import, with its name at PyPI behind
    a colon where that is another."""
    missing = []
    for package in packages:
        module, _, project = package.partition(":")
        if importlib.util.find_spec(module) is None:
            missing.append(project or module)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingPackage(
            f"{what} needs {' and '.join(missing)}, which {verb} not installed: pip install {' '.join(missing)}"
        )
