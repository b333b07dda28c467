"""tracehost doctor: all checks, and the settings that differ from the defaults."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..commands import commands
from ..errors import UsageError
from ..options import nearest
from ..reading import all_given
from . import installed
from .findings import Finding, Findings, fail, ok, run, warn

# What notebooks need, and from which version on; the last one for --html alone.
FLOORS = {"nbformat": "5.9", "nbclient": "0.10", "ipykernel": "6.29", "ipython": "8.20", "matplotlib-inline": "0.1",
          "nbconvert": "7.0"}  # fmt: skip


def main(options: Namespace, words: list[str]) -> int:
    if words:
        raise UsageError(f"'doctor' takes no argument '{words[0]}'")
    settings = all_given(options.given)
    if not options.json:
        _print(f"tracehost {installed.host_version()}")
    found: list[Finding] = []
    for finding in _all(found):
        found.append(finding)
        if not options.json:
            fix = f"\n      fix: {finding.fix}" if finding.fix else ""
            _print(f"{finding.verdict:4}  {finding.what}{fix}")
    rows = [{"name": g.option.full_name, "values": g.texts, "origin": g.origin} for g in settings]
    if options.json:
        document = {"schema": "tracehost.doctor/1", "tracehost": installed.host_version(), "ok": not _failed(found),
                    "checks": [finding._asdict() for finding in found], "settings": rows}  # fmt: skip
        _print(json.dumps(document, indent=1))
        return int(_failed(found))
    _print("settings:" if rows else "all settings are the defaults")
    for row in rows:
        _print(f"  {row['name']} = {', '.join(row['values'])} ({row['origin']})")
    return int(_failed(found))


def _print(text: str) -> None:
    """A path need not be UTF-8."""
    print(text.encode(errors="backslashreplace").decode(), flush=True)


def _failed(found: list[Finding]) -> bool:
    return any(finding.verdict == "FAIL" for finding in found)


def _all(found: list[Finding]) -> Findings:
    """`found`: those that the caller has got so far."""
    yield from run(installed.CHECKS)
    if not _failed(found):  # else torch's import says the same once more, less clearly
        yield from run([_in_child, *CHECKS])
    yield from _variables()


def _in_child() -> Findings:
    """Its last other line is the trouble, if it ends badly."""
    command = [sys.executable, "-P", "-m", f"{__package__}.with_torch"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="backslashreplace")  # fmt: skip
    last = ""
    for line in child.stdout or ():
        cells = line.rstrip("\n").split("\t")
        if len(cells) == 3 and cells[0] in ("OK", "WARN", "FAIL"):
            yield Finding(*cells)
        elif line.strip():
            last = f": {line.strip()}"
    code = child.wait()
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        yield fail(f"a child process that imports torch ended with {how}{last}")


def _notebooks() -> Findings:
    missing, old, there = [], [], []
    for project, floor in FLOORS.items():
        try:
            version = importlib.metadata.version(project)
        except importlib.metadata.PackageNotFoundError:
            missing.append(project)
            continue
        there.append(f"{project} {version}")
        if installed.numbers(version) < installed.numbers(floor):
            old.append((f"{project} {version}", floor, project))
    if there and not missing and not old:
        yield ok(f"notebooks: {', '.join(there)}")
    if missing:
        yield warn(f"for notebooks not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")  # fmt: skip
    if old:
        what = ", ".join(f"{version} (needed: {floor})" for version, floor, _ in old)
        yield warn(f"for notebooks too old: {what}", f"pip install --upgrade {' '.join(p for _, _, p in old)}")  # fmt: skip


def _graphviz() -> Findings:
    dot = shutil.which("dot")
    if dot is None:
        yield warn("no Graphviz: notebooks show graphs as text", "apt-get install graphviz")
    else:
        yield ok(f"Graphviz {dot}")


def _kernel() -> Findings:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return  # the check of packages reports it
    from ..notebook.kernel import FILE, is_ours

    found = KernelSpecManager().find_kernel_specs()
    ours = {name: path for name, path in found.items() if is_ours(Path(path) / FILE)}
    for name, path in ours.items():
        content = json.loads((Path(path) / FILE).read_bytes())
        binary, prefix = content["argv"][0], content["metadata"]["tracehost"].get("prefix")
        again = f"tracehost kernel install --name {name}"
        if not os.access(binary, os.X_OK):
            yield warn(f"kernel {name}: its binary {binary} is gone", again)
        elif prefix != sys.prefix:
            yield warn(f"kernel {name} is of another environment, {prefix}", f"{again}, or leave it")  # fmt: skip
        else:
            yield ok(f"kernel {name}, {path}")
    if not ours:
        yield ok("no kernel for JupyterLab (tracehost kernel install makes one)")


def _places() -> Findings:
    try:
        temporary = tempfile.gettempdir()  # tries to write
    except OSError as error:
        yield fail(f"no folder for temporary files: {error.strerror}", "set TMPDIR to one that you can write to")  # fmt: skip
        return
    places = {temporary: "TMPDIR to another"}
    with contextlib.suppress(ImportError):
        from jupyter_core.paths import jupyter_runtime_dir

        places[_existing(jupyter_runtime_dir())] = "JUPYTER_RUNTIME_DIR to another"
    bad = [(place, fix) for place, fix in places.items() if not _can_write(place)]
    for place, fix in bad:
        yield warn(f"no file can be written in {place}", f"free space there, or set {fix}")
    if not bad:
        yield ok(f"files can be written in {', '.join(places)}")
    if not _can_write(os.getcwd()):
        yield warn(f"no file can be written in {os.getcwd()}", "start from a folder of your own, or name one: -o, --report=FILE")  # fmt: skip


def _existing(path: str) -> str:
    """It, or what of it is there: the rest will be made."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _can_write(folder: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
            file.flush()
    except OSError:
        return False
    return True


def _spawn() -> Findings:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send_executable, args=(theirs,))
    child.start()
    theirs.close()
    try:
        executable = ours.recv() if ours.poll(60) else None
    except EOFError:
        executable = None
    child.join(10)
    ours.close()
    if executable == sys.executable:
        yield ok("multiprocessing starts children in the host (spawn)")
    elif executable is None:
        child.kill()
        yield fail(f"multiprocessing starts no child (spawn): exit code {child.exitcode}")  # fmt: skip
    else:
        yield warn(f"multiprocessing starts children in {executable}, outside of the host", "leave multiprocessing.set_executable alone")  # fmt: skip


def _send_executable(pipe: Any) -> None:
    pipe.send(sys.executable)
    pipe.close()


CHECKS = [_notebooks, _graphviz, _kernel, _places, _spawn]


def _variables() -> Findings:
    """Variables whose names look like those of tracehost, and are not. Others may mean something to other programs."""
    known = {o.variable for command in commands().values() for o in command.settings()}
    names = [name.removeprefix("TRACEHOST_") for name in [*known, "TRACEHOST_NOTEBOOK_LINES"]]
    for name in os.environ:
        own = name.removeprefix("TRACEHOST_")
        if own == name or own in names or name.endswith("_PID"):
            continue
        meant = nearest(own, names, 0.75)
        if meant:
            yield warn(f"{name} is not a tracehost variable", f"did you mean TRACEHOST_{meant}?")  # fmt: skip
