"""tracehost repl: IPython where it is installed, else CPython's own prompt."""

from __future__ import annotations

import importlib.util
import os
import sys
from argparse import Namespace

from .errors import UsageError, need


def main(options: Namespace, arguments: list[str]) -> int:
    if options.ipython and options.plain:
        raise UsageError("--ipython and --plain say different things; give one of them")
    if options.init is not None and not os.path.isfile(options.init):
        raise UsageError(f"there is no file '{options.init}' (--init)")
    if options.ipython:
        need("IPython:ipython", what="tracehost repl --ipython")
    if options.plain or importlib.util.find_spec("IPython") is None:
        _plain(options, arguments)
    return _ipython(options, arguments)


def _plain(options: Namespace, arguments: list[str]) -> None:
    """Python's own prompt is only had at its start, so Python starts again: -i, with a script or without.
    Input that is no terminal is read as at a prompt, too."""
    script = [options.init] if options.init is not None else []
    words = arguments if script else (["-", *arguments] if arguments else [])
    os.execv(sys.executable, [sys.executable, "-i", *script, *words])


def _ipython(options: Namespace, arguments: list[str]) -> int:
    import IPython

    # As `ipython` has it: the current folder is on the path.
    sys.path.insert(0, "")
    words = ["--no-confirm-exit"]
    if options.init is not None:
        words += ["-i", options.init, *(["--", *arguments] if arguments else [])]
    sys.argv = [options.init or "", *arguments]
    IPython.start_ipython(argv=words)
    return 0
