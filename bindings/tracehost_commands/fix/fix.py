"""tracehost fix: run a program, and print or write the changes that keep it from retracing."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CommandError, UsageError, need
from ..files import write
from ..running import failed, run
from . import found
from .diff import unified

if TYPE_CHECKING:
    from .edits import Edits, Left
    from .source import Source


def main(options: Namespace, program: list[str]) -> int:
    if not program:
        raise UsageError("'fix' takes a program: SCRIPT.py, -m MODULE or -c CODE")
    for word in program:
        if word.endswith(".ipynb"):
            raise UsageError(
                f"'{word}' is a notebook, which has no lines to change; make a script of it: "
                f"jupyter nbconvert --to script {word}"
            )
    need("libcst", what="'tracehost fix'")
    started = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="tracehost-fix-") as folder:
        code = run(program, {"TRACEHOST_FIXES": folder}, stdout=sys.stderr)
        if code != 0:
            return failed(code, "nothing is fixed")
        definitions = found.read(folder)
    from .edits import Edits

    edits = Edits(started)
    for one in definitions:
        for fix in one.fixes:
            edits.add(fix)
    return _finish(edits, [line for one in definitions for line in one.see], options.apply)


def _finish(edits: Edits, see: list[str], is_applied: bool) -> int:
    texts = edits.texts()
    for source, text in texts.items():
        sys.stdout.write(unified(source.shown, source.text, text, edits.fixes_of(source)))
    sys.stdout.flush()
    for one in edits.left:
        sys.stderr.write(f"tracehost: left to you: {_left(one)}\n")
    for line in see:
        sys.stderr.write(f"tracehost: left to you, no change can be written: {line}\n")
    if not (texts or edits.left or see):
        sys.stderr.write("tracehost: there is nothing to fix: no function was retraced often\n")
    if not is_applied:
        if texts:
            sys.stderr.write(
                "tracehost: no file is changed; 'tracehost fix --apply ...' writes these changes\n"
            )
        return 0
    for source, text in texts.items():
        _write(source, text)
        sys.stderr.write(f"tracehost: {source.shown} is written\n")
    return int(any(one.is_of_file for one in edits.left))


def _left(one: Left) -> str:
    why = f" ({one.why})" if one.why else ""
    return f"{one.fix.claim}: {one.fix.text}{why}"


def _write(source: Source, text: str) -> None:
    path = Path(os.path.realpath(source.file))
    try:
        if path.read_bytes() != source.data:
            raise CommandError(f"{source.shown} has changed since the run; run the command again")
        write(path, text.encode(source.encoding))
    except OSError as error:
        raise CommandError(f"cannot write '{source.shown}': {error.strerror}") from None
