"""`python -m tracehost_commands COMMAND [WORD...]`, as the binary calls it."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from .commands import commands
from .completion import answer
from .errors import CommandError, UsageError
from .help import help_of, misspelt
from .options import PROGRAM
from .reading import read
from .signals import reraise

# Commands of which a folder has more than one file.
_FOLDERS = {
    "notebook": ".notebook",
    "kernel": ".notebook",
    "bench": ".bench",
    "fix": ".fix",
    "doctor": ".doctor",
}


def main() -> int:
    command, *words = sys.argv[1:]
    try:
        code = _run(command, words)
        if sys.stdout is not None:
            sys.stdout.flush()  # else the end of Python finds a pipe that is closed
        return code
    except CommandError as error:
        sys.stderr.write(f"tracehost: {error}\n")
        return error.code
    except KeyboardInterrupt:
        reraise(signal.SIGINT)
        raise
    except BrokenPipeError:  # `tracehost doctor | head -1`
        reraise(signal.SIGPIPE)
        raise


def _run(command: str, words: list[str]) -> int:
    if command == "completion" and words[:2] == ["words", "--"]:
        sys.stdout.write(answer(words[2:]))
        return 0
    if command == "misspelt":
        raise UsageError(misspelt(words[0]))
    if command not in commands():
        raise CommandError(
            f"tracehost_commands is older than the binary, and has no command '{command}'; "
            "run scripts/setup or pip install again"
        )
    own, _ = commands()[command].own(words)
    if command == "doctor" and "--version" in own:
        from .doctor.checks import version_lines

        sys.stdout.write(version_lines())
        return 0
    if command == "help" or "--help" in own:
        sys.stdout.write(help_of(words if command == "help" else [command]))
        return 0
    options, rest = read(command, words)
    # A program runs in a process of its own, and doctor runs no code of the user's.
    if commands()[command].words is not PROGRAM and command != "doctor":
        _intercept()
    module = importlib.import_module(f"{_FOLDERS.get(command, '')}.{command}", __package__)
    return module.main(options, rest)


def _intercept() -> None:
    """`--trace` and `--intercept` for the code that a command imports, unless the binary has done it already."""
    asked = os.environ.get("TRACEHOST_TRACE") or os.environ.get("TRACEHOST_INTERCEPT")
    if not asked or "tracehost_interception" in sys.modules:
        return
    from tracehost_interception import install

    trouble = install("tracehost_commands")
    if trouble is not None:
        raise UsageError(trouble)


if __name__ == "__main__":
    sys.exit(main())
