"""tracehost export: graphs of a function, requested by their signatures, into an archive."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from argparse import Namespace

import tracehost
from tracehost import ConcreteFunction, Function
from tracehost._archive import describe, shown_path

from .arguments import arguments, check_fits, device
from .errors import CommandError, UsageError
from .options import only
from .target import find


def main(options: Namespace, targets: list[str]) -> int:
    target = only(targets, "'export' takes one MODULE:FUNCTION or SCRIPT.py:FUNCTION")
    if options.output is None:
        raise UsageError("'export' needs the file to write: -o OUT")
    if options.device is not None and not options.signature:
        raise UsageError("--device is that of tensors in --signature; give one")
    on = device(options.device)
    signatures = [arguments(text, on) for text in options.signature]
    _check_writable(options.output)  # before code of the user's runs

    function = find(target)
    if not isinstance(function, (Function, ConcreteFunction)):
        function = tracehost.function(function)
    if signatures and isinstance(function, ConcreteFunction):
        raise UsageError(f"{target} is a ConcreteFunction, which has a signature")
    for text, given in zip(options.signature, signatures):
        check_fits(text, given, inspect.signature(function))
    name = options.name or target.rpartition(":")[2].rpartition(".")[2]
    try:
        made = [function.get_concrete_function(*s) for s in signatures] or function
        tracehost.save(options.output, {name: made}, source_paths=options.source_paths)
        shown = describe(tracehost.load(options.output, sha256=""))
    except tracehost.Error as error:
        raise CommandError(str(error)) from None
    sys.stdout.write(shown + "\n")
    return 0


def _check_writable(path: str) -> None:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        code = errno.EISDIR
    elif os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"cannot write '{shown_path(path)}': it is no regular file")
    elif not os.path.isdir(folder):
        code = errno.ENOENT
    elif not os.access(folder, os.W_OK):
        code = errno.EACCES
    else:
        return
    raise UsageError(f"cannot write '{shown_path(path)}': {os.strerror(code)}")
