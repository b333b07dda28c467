"""The lock: which signatures calls may trace, as a text file that is kept with the source.

    # tracehost lock, version 1
    train.Trainer.step(x: float32[8, 3], n=2)
    train.Trainer.step(x: float32[None, 3], n=2) with grad mode off
    train.loss(y: float32[8]); 3 traces

A line has a Function's module and qualified name, the arguments, and the modes that are not as usual. It ends with how
often one Function object may trace it, if more than once. Lines are sorted, and have no addresses and no line
numbers, so that a diff shows what a change adds. `tracehost lock` writes them from the events of a run, `tracehost run --frozen`
compares each trace with them (gate.py). The command starts without torch, so this is a package of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable

DEFAULT = "tracehost.lock"
VERSION = 1

Signatures = dict[str, int]
"""How often a Function object may trace a signature."""
Lock = dict[str, Signatures]
"""By the name of a Function."""

_HEAD = "# tracehost lock, version "
_ABOUT = (
    "# Calls may trace these signatures alone where `tracehost run --frozen` runs a program.\n"
    "# `tracehost lock` writes this file; `tracehost lock --update` adds to it.\n"
)
_LINE = re.compile(
    r"(?P<name>[\w.<>]+)(?P<signature>\(.*(?:\)|\.\.\.)(?: with [\w -].*)?)(?:; (?P<traces>[1-9][0-9]*) traces)?"
)
# Of an object without a text of its own, and of code: neither is the same in another run, or after another edit.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CODE_LINE = re.compile(r" at (?:<[^<>]*>|[^:<>]+):\d+(?=>)")


class LockError(ValueError):
    """A file is no lock: `tracehost.lock:3: ...`."""


def name_of(qualified: str, name: str, file: str) -> str:
    """The name of a Function in a lock: `train.Trainer.step`.

    Args:
        qualified: its module and qualified name; empty: it has none, and `name` is its name.
        file: where it is defined. It names the module that was started: `__main__` is another one each time.
    """
    stem = os.path.splitext(os.path.basename(file))[0]
    if stem == "__main__":  # of a folder or a zip
        stem = os.path.basename(os.path.dirname(file))
    module = "__main__" if not stem or file.startswith("<") else stem
    qualified = qualified or f"__main__.{name}"
    for started in ("__main__.", "__mp_main__."):
        if qualified.startswith(started):
            qualified = f"{module}.{qualified.removeprefix(started)}"
    return re.sub(r"[^\w.<>]", "_", qualified)


def stable(signature: str) -> str:
    """A signature without addresses and lines of code, on one line."""
    signature = _CODE_LINE.sub("", _ADDRESS.sub("", signature))
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in signature)


def at_commas(arguments: str, separator: str = ",") -> list[str]:
    """Split at separators that are in no brackets and quotes: the arguments of a signature."""
    parts, depth, quote, start, i = [], 0, "", 0, 0
    while i < len(arguments):
        c = arguments[i]
        if quote:
            i += c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "[({":
            depth += 1
        elif c in "])}":
            depth -= 1
        elif depth == 0 and arguments.startswith(separator, i):
            parts.append(arguments[start:i])
            start = i + len(separator)
        i += 1
    return [*parts, arguments[start:]]


def read(path: str) -> Lock:
    """The lock in a file.

    Raises:
        LockError: the file and line, and what is wrong there.
        OSError: the file cannot be read.
    """
    shown = os.path.basename(path)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError:
        raise LockError(
            f"{shown}:1: the file is not UTF-8 text. Write the lock again: {_again()}."
        ) from None
    head = lines[0] if lines else ""
    if not head.startswith(_HEAD):
        raise LockError(f"{shown}:1: a lock begins with '{_HEAD}{VERSION}'. {_restore()}")
    if head.removeprefix(_HEAD).strip() != str(VERSION):
        version = head.removeprefix(_HEAD).strip()
        raise LockError(
            f"{shown}:1: version {version} of the lock is not supported, but {VERSION}. {_restore()}"
        )
    lock: Lock = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        if not found:
            raise LockError(
                f"{shown}:{number}: {line[:60]!r} is no signature such as 'train.step(x: float32[8])'. {_restore()}"
            )
        _add(lock, found["name"], found["signature"], int(found["traces"] or 1))
    return lock


def text(lock: Lock) -> str:
    """The text of the file."""
    lines = [
        f"{name}{signature}{f'; {traces} traces' if traces > 1 else ''}\n"
        for name, signatures in sorted(lock.items())
        for signature, traces in sorted(signatures.items(), key=lambda item: _natural(item[0]))
    ]
    return f"{_HEAD}{VERSION}\n{_ABOUT}{''.join(lines)}"


def merged(*locks: Lock) -> Lock:
    """What any of them allows."""
    result: Lock = {}
    for lock in locks:
        for name, signatures in lock.items():
            for signature, traces in signatures.items():
                _add(result, name, signature, traces)
    return result


def of_events(lines: Iterable[str]) -> Lock:
    """What calls of one process traced, from its lines of `--events`.

    Raises:
        ValueError: a line was not written whole.
    """
    traces: Counter[tuple[int, str, str]] = Counter()
    for line in lines:
        event = json.loads(line)
        # A graph that was wrong after hits was a trace before.
        if "lock" in event and not event.get("requested") and not event.get("hits"):
            place = event["definition"] or {"file": ""}
            name = name_of(event["qualified"], event["function"], place["file"])
            traces[event["object"], name, stable(event["lock"])] += 1
    lock: Lock = {}
    for (_, name, signature), count in traces.items():
        _add(lock, name, signature, count)
    return lock


def _add(lock: Lock, name: str, signature: str, traces: int) -> None:
    signatures = lock.setdefault(name, {})
    signatures[signature] = max(signatures.get(signature, 0), traces)


def _natural(signature: str) -> list[str | int]:
    """8 before 16."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", signature))]


def _again() -> str:
    return "tracehost lock SCRIPT"


def _restore() -> str:
    return f"Restore the line, or write the file again with '{_again()}'."
