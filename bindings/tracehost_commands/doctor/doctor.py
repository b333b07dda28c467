"""tracehost doctor: all checks, and the settings that differ from the defaults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator

from ..commands import commands
from ..errors import UsageError
from ..reading import all_given
from .checks import INSTALLED, OTHERS, Finding, Rows, host_version, run, variables


def main(options: Namespace, words: list[str]) -> int:
    if words:
        raise UsageError(f"'doctor' takes no argument '{words[0]}'")
    settings = all_given(options.given)
    if not options.json:
        _print(f"tracehost {host_version()}")
    found: list[Finding] = []
    for finding in _all(found):
        found.append(finding)
        if not options.json:
            fix = f"\n      fix: {finding.fix}" if finding.fix else ""
            _print(f"{finding.verdict:4}  {finding.what}{fix}")
    rows = [{"name": g.option.full_name, "values": g.texts, "origin": g.origin} for g in settings]
    if options.json:
        document = {"schema": "tracehost.doctor/1", "tracehost": host_version(), "ok": not _failed(found),
                    "checks": [finding._asdict() for finding in found], "settings": rows}  # fmt: skip
        _print(json.dumps(document, indent=1))
        return int(_failed(found))
    _print("settings:" if rows else "all settings are the defaults")
    for given in settings:
        _print(f"  {given.option.full_name} = {', '.join(given.texts)} ({given.origin})")
    return int(_failed(found))


def _print(text: str) -> None:
    """A path need not be UTF-8."""
    print(text.encode(errors="backslashreplace").decode(), flush=True)


def _failed(found: list[Finding]) -> bool:
    return any(finding.verdict == "FAIL" for finding in found)


def _all(found: list[Finding]) -> Iterator[Finding]:
    """`found`: those that the caller has got so far."""
    yield from run(INSTALLED)
    if not _failed(found):  # else torch's import says the same once more, less clearly
        yield from run([in_child, *OTHERS])
    yield from run([variables])


def in_child() -> Rows:
    """Its last other line is the trouble, if it ends badly."""
    command = [sys.executable, "-P", "-m", f"{__package__}.with_torch"]
    # What a run writes, this child does not write.
    left_out = {option.variable for option in commands()["run"].settings()}
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
                             env=variables)  # fmt: skip
    last = ""
    for line in child.stdout or ():
        cells = line.rstrip("\n").split("\t")
        if len(cells) == 3 and cells[0] in ("OK", "WARN", "FAIL"):
            yield cells[0], cells[1], cells[2]
        elif line.strip():
            last = f": {line.strip()}"
    code = child.wait()
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        yield "FAIL", f"a child process that imports torch ended with {how}{last}"
