"""tracehost lock: run a program, and write which signatures its calls traced.

The program runs in a process of its own, so this one learns how it ends. It writes events, as by `--events`, into a
folder; its children write theirs beside them.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import tracehost_lock
from tracehost_lock import Lock, LockError

from .errors import CommandError, UsageError
from .files import write
from .running import failed, run

# Those of `run` that would change what this process or the program writes, or forbid what is to be locked.
_LEFT_OUT = ("TRACEHOST_EVENTS", "TRACEHOST_EVENTS_PID", "TRACEHOST_FROZEN")


def main(options: Namespace, program: list[str]) -> int:
    if not program:
        raise UsageError("'lock' takes a program: SCRIPT.py, -m MODULE or -c CODE")
    for name in _LEFT_OUT:
        os.environ.pop(name, None)
    output = os.path.abspath(options.output)
    _check_writable(output)
    earlier = _read(output) if options.update and os.path.exists(output) else {}
    with tempfile.TemporaryDirectory(prefix="tracehost-lock-") as folder:
        events = os.path.join(folder, "run.jsonl")
        # This process owns `events`, so each other one has a file of its own. torchrun does not import tracehost, and
        # two of its children would both take the file for theirs.
        code = run(program, {"TRACEHOST_EVENTS": events, "TRACEHOST_EVENTS_PID": str(os.getpid())})
        if code != 0:
            return failed(code, f"{options.output} is not written")
        made = _locks(folder)
    _write(output, [earlier, *made])
    return 0


def _read(path: str) -> Lock:
    try:
        return tracehost_lock.read(path)
    except OSError as error:
        raise UsageError(f"cannot open '{path}': {error.strerror}") from None
    except LockError as error:
        raise UsageError(str(error)) from None


def _locks(folder: str) -> list[Lock]:
    """One of each process."""
    made = []
    try:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "run.jsonl*"))):
            with open(path, encoding="utf-8", errors="surrogateescape") as lines:
                made.append(tracehost_lock.of_events(lines))
        # Events are written without a word where the disk is full.
        with open(os.path.join(folder, "room"), "wb") as room:
            room.write(bytes(1 << 16))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "a line was cut off"
        raise CommandError(
            f"the events of the run cannot be read in {folder}: {why}; make room there, or set TMPDIR"
        ) from None
    return made


def _write(path: str, locks: list[Lock]) -> None:
    lock = tracehost_lock.merged(*locks)
    try:
        write(Path(path), tracehost_lock.text(lock))
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror}") from None
    signatures, functions = sum(map(len, lock.values())), len(lock)
    sys.stderr.write(
        f"tracehost: {os.path.basename(path)} has {_counted(signatures, 'signature')} of {_counted(functions, 'Function')}\n"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _check_writable(path: str) -> None:
    """Before the program runs."""
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise UsageError(f"cannot write '{path}': it is a folder")
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isfile(path) and os.path.exists(path):
            raise UsageError(f"cannot write '{path}': it is no regular file")
    try:
        descriptor, name = tempfile.mkstemp(prefix=".tracehost.lock-", dir=folder)
    except OSError as error:
        raise UsageError(
            f"cannot write '{path}': {error.strerror}; name a file in a directory you can write to"
        ) from None
    os.close(descriptor)
    os.unlink(name)
