"""tracehost inspect: what is in an archive."""

from __future__ import annotations

import errno
import json
import os
import sys
from argparse import Namespace

import tracehost
from tracehost import _archive

from .arguments import device
from .errors import CommandError, UsageError
from .options import only


def main(options: Namespace, files: list[str]) -> int:
    file = only(files, "'inspect' takes one FILE")
    if options.json + (options.graph is not None) + (options.code is not None) > 1:
        raise UsageError("give one of --json, --graph and --code")
    try:
        # A pipe is rejected below. Without this flag, the open would wait for a writer.
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))
        if os.path.isdir(file):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise UsageError(f"cannot open '{_archive.shown_path(file)}': {error.strerror}") from None
    try:
        text = _text(file, options)
    except IndexError as error:  # there is no graph of that number
        raise UsageError(str(error)) from None
    except tracehost.Error as error:
        makes = (
            f"; 'tracehost export {file}:FUNCTION -o FILE' makes one"
            if file.endswith(".py")
            else ""
        )
        raise CommandError(f"{error}{makes}") from None
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def _text(file: str, options: Namespace) -> str:
    if options.json:
        return json.dumps(_archive.manifest_of(file), indent=1)
    archive = tracehost.load(file, device=device(options.device), sha256="")
    if options.graph is not None:
        return str(_archive.graph_of(archive, options.graph))
    if options.code is not None:
        return _archive.code_of(archive, options.code)
    return _archive.describe(archive)
