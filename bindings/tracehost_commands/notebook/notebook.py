"""tracehost notebook: which notebooks, from where, to where."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..errors import UsageError, need
from . import document, parameters

PACKAGES = ["nbformat", "nbclient", "ipykernel"]


def main(options: Namespace, notebooks: list[str]) -> int:
    if not notebooks:
        raise UsageError("'notebook' takes at least one notebook; try 'tracehost help notebook'")
    if options.inplace and options.output is not None:
        raise UsageError("--inplace and --output say different things; give one of them")
    need("nbformat", what="tracehost notebook")
    if options.list_params:
        for source in notebooks:
            sys.stdout.write(parameters.listing(document.read(source)))
        return 0
    need(*PACKAGES, what="tracehost notebook")
    if options.html is not None:
        need("nbconvert", what="--html")
    if len(notebooks) > 1:
        return _several(options, notebooks)
    return _one(options, notebooks[0])


def _one(options: Namespace, source: str) -> int:
    from .runner import Runner

    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"there is no folder '{options.cwd}' (--cwd)")
    notebook = document.read(source)
    language = notebook.metadata.get("kernelspec", {}).get("language") or notebook.metadata.get(
        "language_info", {}
    ).get("name", "python")
    if language != "python":
        raise UsageError(f"{source} is a notebook of {language}, not of Python")
    values = parameters.given(options.param, options.param_file)
    shown = "notebook" if source == document.STDIN else Path(source).name
    parameters.inject(notebook, values, shown)
    if values and parameters.defaults(notebook) is None:
        sys.stderr.write(
            f"tracehost: {shown}: no cell is tagged `parameters`: the values go to the top\n"
        )
    target = _target(options, source)
    return Runner(options, notebook, shown, _folder(options, source), target).run()


def _folder(options: Namespace, source: str) -> str:
    if options.cwd is not None:
        return os.path.abspath(options.cwd)
    return os.getcwd() if source == document.STDIN else os.path.dirname(os.path.abspath(source))


def _target(options: Namespace, source: str) -> Path | None:
    """Where the result goes; None: to stdout. Raises UsageError where something else is in its place."""
    if options.inplace:
        if source == document.STDIN:
            raise UsageError("--inplace needs a file, not standard input")
        return Path(source)
    name = "notebook" if source == document.STDIN else Path(source).stem
    said = options.output
    if said == document.STDOUT or (said is None and source == document.STDIN):
        return None
    if said is None:
        target = Path(source).with_name(f"{name}.out.ipynb")
    elif os.path.isdir(said):
        target = Path(said) / f"{name}.ipynb"
    else:
        target = Path(said)
    if source != document.STDIN and target.exists() and os.path.samefile(target, source):
        raise UsageError(f"{target} is the notebook itself; --inplace writes into it")
    if target.exists() and not options.force and not document.is_ours(target):
        raise UsageError(
            f"{target} already exists and was not written by tracehost; use --force to overwrite it"
        )
    return target


def _several(options: Namespace, notebooks: list[str]) -> int:
    """A process of its own for each; the exit code is that of the first that failed."""
    if document.STDIN in notebooks:
        raise UsageError("standard input can be run alone only")
    if options.output is not None:
        with contextlib.suppress(OSError):
            if not options.output.endswith(".ipynb"):
                os.makedirs(options.output, exist_ok=True)
        if not os.path.isdir(options.output):
            raise UsageError(
                f"--output takes a folder for several notebooks, got '{options.output}'"
            )
    if options.html:
        raise UsageError("--html takes no file for several notebooks; each page has its name")
    targets = [_target(options, source).resolve() for source in notebooks]
    for target in targets:
        if targets.count(target) > 1:
            raise UsageError(f"two of the notebooks would be written to {target}")
    # What is shared with `run` has reached the environment.
    own = [one for one in options.given if not one.option.shared and one.option.name != "jobs"]
    words = [word for one in own for word in one.words]
    jobs = _Jobs(max(1, options.jobs))
    codes = jobs.run([[*words, "--", source] for source in notebooks])
    return next((code for code in codes if code), 0)


class _Jobs:
    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running: list[subprocess.Popen[Any]] = []
        self._lock = threading.Lock()
        self._stopped: int | None = None

    def run(self, commands: list[list[str]]) -> list[int]:
        from ..signals import passed_on, reraise

        with passed_on(self._signal), ThreadPoolExecutor(self._at_once) as pool:
            codes = list(pool.map(self._one, commands))
        if self._stopped is not None:
            reraise(self._stopped)
        return codes

    def _one(self, words: list[str]) -> int:
        command = [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "tracehost_commands",
            "notebook",
        ]
        environment = os.environ | ({"TRACEHOST_NOTEBOOK_LINES": "1"} if self._at_once > 1 else {})
        with self._lock:
            if self._stopped is not None:
                return 128 + self._stopped
            # In a session of its own: a Ctrl-C reaches it by us alone, once.
            process = subprocess.Popen([*command, *words], start_new_session=True, env=environment)
            self._running.append(process)
        code = process.wait()
        with self._lock:
            self._running.remove(process)
        return 128 - code if code < 0 else code

    def _signal(self, number: int) -> None:
        with self._lock:
            self._stopped = number
            for process in self._running:
                process.send_signal(number)
