"""Signals of a command that waits for others."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def passed_on(receiver: Callable[[int], None]) -> Iterator[None]:
    earlier = {n: signal.signal(n, lambda number, _: receiver(number)) for n in NUMBERS}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def reraise(number: int) -> None:
    """End by a signal, as a shell expects it of what was interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
