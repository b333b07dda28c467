"""What installed files, folders and variables say of the installation; neither torch nor tracehost is imported.

A check yields a verdict, what was found, and a fix."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..commands import commands
from ..options import nearest

REPAIR = "run scripts/setup or pip install again"
PYTHON = ".".join(map(str, sys.version_info[:3]))
# What notebooks need, and from which version on; the last one for --html alone.
FLOORS = {"nbformat": "5.9", "nbclient": "0.10", "ipykernel": "6.29", "ipython": "8.20", "matplotlib-inline": "0.1",
          "nbconvert": "7.0"}  # fmt: skip

Rows = Iterator[tuple[str, str] | tuple[str, str, str]]


class Finding(NamedTuple):
    verdict: str
    """OK, WARN or FAIL"""
    what: str
    fix: str = ""


def run(checks: Iterable[Callable[[], Rows]]) -> Iterator[Finding]:
    for check in checks:
        try:
            for verdict, what, *fix in check():
                yield Finding(verdict, what, *(fix or [REPAIR if verdict == "FAIL" else ""]))
        except Exception as error:  # a check that fails is no reason to leave the others out
            yield Finding("FAIL", f"{check.__name__.replace('_', ' ')}: {one_line(error)}", REPAIR)


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def host_version() -> str:
    return sys._xoptions.get("tracehost") or built("version")


def version_lines() -> str:
    return f"tracehost {host_version()}\nPython {PYTHON}\ntorch {_torch_version() or 'not installed'}\n"


def built(fact: str) -> str:
    """What the tracehost package was built for, as `python` or `torch`; "": there is no package."""
    return next(iter(re.findall(f"^{fact}=(.*)", _text("tracehost", "build_info.txt"), re.M)), "")


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version)]


def _source(module: str) -> Path:
    """Where an import would find it."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin if spec and spec.origin else "/nowhere/at all")


def _text(module: str, name: str) -> str:
    file = _source(module)
    file = file.with_name(name) if file.name == "__init__.py" else file
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _torch_version() -> str:
    found = re.findall(r"^__version__ = ['\"]([^'\"]+)", _text("torch", "version.py"), re.M)
    return next(iter(found), "")


def environment() -> Rows:
    chosen_by = sys._xoptions.get("tracehost-environment", "sys.executable")
    if sys.prefix == sys.base_prefix:
        yield "FAIL", f"no virtual environment ({chosen_by})", f"{REPAIR}, or name one: --python <venv>"  # fmt: skip
    else:
        yield "OK", f"environment {sys.prefix}, from {chosen_by}"


def python() -> Rows:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    library = next(iter(re.findall(r"/\S*/libpython3\.\S+$", maps, re.M)), "none")
    what, wanted = f"Python {PYTHON}, libpython {library}", built("python") or PYTHON
    if wanted != PYTHON:
        verdict = "WARN" if numbers(wanted)[:2] == numbers(PYTHON)[:2] else "FAIL"
        yield verdict, f"{what}: built for Python {wanted}", f"rebuild: {REPAIR}"
    elif os.path.realpath(built("libpython") or library) != os.path.realpath(library):
        yield "WARN", f"{what}: built for {built('libpython')}", f"unset LD_LIBRARY_PATH, or rebuild: {REPAIR}"  # fmt: skip
    else:
        yield "OK", what


def executable() -> Rows:
    what = f"sys.executable {sys.executable}"
    if not os.path.exists(sys.executable):
        yield "FAIL", f"{what} does not exist: no child process can start"
    elif os.path.basename(sys.executable) != "tracehost-python":
        fix = f"install tracehost into that environment: cmake --install <build> --prefix {sys.prefix}"
        yield "WARN", f"{what}: child processes run in plain Python, outside the host", fix
    else:
        yield "OK", what


def torch() -> Rows:
    version, wanted = _torch_version(), built("torch")
    oldest, newest = built("torch_oldest") or "0", built("torch_newest") or "99"
    install = f"pip install torch=={wanted or newest + '.*'}"
    if not version:
        yield "FAIL", f"no torch in {sysconfig.get_path('platlib')}", install if wanted else REPAIR
    elif not numbers(oldest) <= numbers(version)[:2] <= numbers(newest):
        yield "FAIL", f"torch {version} is outside the supported {oldest} to {newest}", f"{install}, or {REPAIR}"  # fmt: skip
    elif numbers(version)[:2] != numbers(wanted or version)[:2]:
        yield "FAIL", f"torch {version}, but tracehost was built for torch {wanted}", f"{install}, or rebuild: {REPAIR}"  # fmt: skip
    else:
        yield "OK", f"torch {version} (supported: {oldest} to {newest})"


def package() -> Rows:
    version = built("version")
    what = f"tracehost package {version}"
    if not version:
        yield "FAIL", f"no tracehost package in {sysconfig.get_path('platlib')}"
    elif version != host_version():
        yield "FAIL", f"{what}, but this binary is {host_version()}"
    elif not list(_source("tracehost").parent.glob("_tracehost.*.so")):
        yield "FAIL", f"{what} has no extension module"
    else:
        yield "OK", what


def notebooks() -> Rows:
    there = {}
    for project in FLOORS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            there[project] = importlib.metadata.version(project)
    old = [project for project in there if numbers(there[project]) < numbers(FLOORS[project])]
    missing = [project for project in FLOORS if project not in there]
    if missing:
        yield "WARN", f"for notebooks not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}"  # fmt: skip
    if old:
        what = ", ".join(f"{project} {there[project]} (needed: {FLOORS[project]})" for project in old)  # fmt: skip
        yield "WARN", f"for notebooks too old: {what}", f"pip install --upgrade {' '.join(old)}"
    if not missing and not old:
        yield "OK", f"notebooks: {', '.join(map(' '.join, there.items()))}"


def graphviz() -> Rows:
    dot = shutil.which("dot")
    if dot is None:
        yield "WARN", "no Graphviz: notebooks show graphs as text", "apt-get install graphviz"
    else:
        yield "OK", f"Graphviz {dot}"


def kernel() -> Rows:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return  # the check of packages reports it
    from ..notebook.kernel import FILE, is_ours

    found = KernelSpecManager().find_kernel_specs().items()
    ours = {name: Path(path) / FILE for name, path in found if is_ours(Path(path) / FILE)}
    for name, file in ours.items():
        content = json.loads(file.read_bytes())
        binary, prefix = content["argv"][0], content["metadata"]["tracehost"].get("prefix")
        again = f"tracehost kernel install --name {name}"
        if not os.access(binary, os.X_OK):
            yield "WARN", f"kernel {name}: its binary {binary} is gone", again
        elif prefix != sys.prefix:
            yield "WARN", f"kernel {name} is of another environment, {prefix}", f"{again}, or leave it"  # fmt: skip
        else:
            yield "OK", f"kernel {name}, {file.parent}"
    if not ours:
        yield "OK", "no kernel for JupyterLab (tracehost kernel install makes one)"


def places() -> Rows:
    try:
        folders = {tempfile.gettempdir(): "TMPDIR"}  # tries to write
    except OSError as error:
        yield "FAIL", f"no folder for temporary files: {error.strerror}", "set TMPDIR to one that you can write to"  # fmt: skip
        return
    with contextlib.suppress(ImportError):
        from jupyter_core.paths import jupyter_runtime_dir

        # The nearest that exists: the rest will be made.
        runtime = Path(jupyter_runtime_dir())
        existing = next(folder for folder in [runtime, *runtime.parents] if folder.is_dir())
        folders[str(existing)] = "JUPYTER_RUNTIME_DIR"
    bad = [folder for folder in folders if not _can_write(folder)]
    for folder in bad:
        yield "WARN", f"no file can be written in {folder}", f"free space there, or set {folders[folder]} to another"  # fmt: skip
    if not bad:
        yield "OK", f"files can be written in {', '.join(folders)}"
    if not _can_write(os.getcwd()):
        yield "WARN", f"no file can be written in {os.getcwd()}", "start from a folder of your own, or name one: -o, --report=FILE"  # fmt: skip


def _can_write(folder: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
            file.flush()
    except OSError:
        return False
    return True


def children_by_spawn() -> Rows:
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
    try:
        found = pool.submit(eval, "__import__('sys').executable").result(60)
    finally:
        for child in multiprocessing.active_children():
            child.kill()  # one that hangs would not end by itself
        pool.shutdown()
    if found == sys.executable:
        yield "OK", "multiprocessing starts children in the host (spawn)"
    else:
        yield "WARN", f"multiprocessing starts children in {found}, outside of the host", "leave multiprocessing.set_executable alone"  # fmt: skip


def variables() -> Rows:
    """Variables whose names look like those of tracehost, and are not. Others may mean something to other programs."""
    known = {o.variable for command in commands().values() for o in command.settings()}
    names = [name.removeprefix("TRACEHOST_") for name in [*known, "TRACEHOST_NOTEBOOK_LINES"]]
    for name in os.environ:
        own = name.removeprefix("TRACEHOST_")
        if own == name or own in names or name.endswith("_PID"):
            continue
        meant = nearest(own, names, 0.75)
        if meant:
            yield "WARN", f"{name} is not a tracehost variable", f"did you mean TRACEHOST_{meant}?"


INSTALLED = [environment, python, executable, torch, package]
OTHERS = [notebooks, graphviz, kernel, places, children_by_spawn]
