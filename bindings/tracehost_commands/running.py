"""A program in a process of its own, for a command that learns from its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import IO

from .signals import passed_on, reraise


def run(program: list[str], variables: dict[str, str], stdout: IO[str] | None = None) -> int:
    """Its exit code; -N: signal N ended it. A terminal sends Ctrl-C to it as well."""
    command = [sys.executable, *program]
    child = subprocess.Popen(command, env=os.environ | variables, stdout=stdout)

    def pass_on(number: int) -> None:
        if number != signal.SIGINT:
            child.send_signal(number)

    with passed_on(pass_on):
        return child.wait()


def failed(code: int, consequence: str) -> int:
    """Says how the program ended, and returns its exit code, or ends by its signal."""
    ended = f"the program ended with exit code {code}"
    if code < 0:
        ended = f"the program was ended by {signal.Signals(-code).name}"
    sys.stderr.write(f"tracehost: {consequence}: {ended}\n")
    if code < 0:
        reraise(-code)
    return code
