"""tracehost report: a page of a run, from the file of `--events`."""

from __future__ import annotations

import os
from argparse import Namespace

from tracehost._reports import run
from tracehost._reports.page import document

from .errors import CommandError, UsageError
from .options import only


def main(options: Namespace, files: list[str]) -> int:
    file = only(files, "'report' takes one FILE")
    # A child's run.jsonl.71 has a page of its own.
    output = options.output or (
        file if file.endswith(".html") else file.removesuffix(".jsonl") + ".html"
    )
    if not output.endswith((".html", ".json")):
        raise UsageError(f"--output takes a name that ends in .html or .json, got '{output}'")
    if os.path.exists(output) and os.path.samefile(file, output):
        raise UsageError(f"'{file}' would be overwritten; name another file by --output")
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            made = run.of_lines(lines)
    except OSError as error:
        raise UsageError(f"cannot open '{file}': {error.strerror}") from None
    except ValueError as error:
        raise CommandError(
            f"'{file}' is not a file that 'tracehost --events FILE SCRIPT.py' wrote: {error}"
        ) from None
    try:
        with open(output, "wb") as to:
            to.write(document(output, made).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write '{output}': {error.strerror}") from None
    return 0
