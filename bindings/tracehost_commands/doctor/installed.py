"""What installed files say of Python, torch and tracehost; neither torch nor tracehost is imported."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path

from .findings import REPAIR, Findings, fail, ok, warn

PYTHON = ".".join(map(str, sys.version_info[:3]))


def host_version() -> str:
    return sys._xoptions.get("tracehost") or built("version")


def version_lines() -> str:
    return f"tracehost {host_version()}\nPython {PYTHON}\ntorch {_torch_version() or 'not installed'}\n"


def built(fact: str) -> str:
    """What the tracehost package was built for, as `python` or `torch`; "": there is no package."""
    try:
        text = _source("tracehost").with_name("build_info.txt").read_text(encoding="utf-8")
    except OSError:
        return ""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line).get(fact, "")


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version)]


def _source(module: str) -> Path:
    """Where an import would find it."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin if spec and spec.origin else "/nowhere/at all")


def _torch_version() -> str:
    file = _source("torch")
    file = file.with_name("version.py") if file.name == "__init__.py" else file
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return next(iter(re.findall(r"^__version__ = ['\"]([^'\"]+)", text, re.M)), "")


def environment() -> Findings:
    chosen_by = sys._xoptions.get("tracehost-environment", "sys.executable")
    if sys.prefix == sys.base_prefix:
        yield fail(f"no virtual environment ({chosen_by})", f"{REPAIR}, or name one: --python <venv>")  # fmt: skip
    else:
        yield ok(f"environment {sys.prefix}, from {chosen_by}")


def python() -> Findings:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    library = next(iter(re.findall(r"/\S*/libpython3\.\S+$", maps, re.M)), "none")
    what, wanted = f"Python {PYTHON}, libpython {library}", built("python") or PYTHON
    if numbers(wanted)[:2] != numbers(PYTHON)[:2]:
        yield fail(f"{what}: built for Python {wanted}", f"rebuild: {REPAIR}")
    elif wanted != PYTHON:
        yield warn(f"{what}: built for Python {wanted}", f"rebuild: {REPAIR}")
    elif os.path.realpath(built("libpython") or library) != os.path.realpath(library):
        yield warn(f"{what}: built for {built('libpython')}", f"unset LD_LIBRARY_PATH, or rebuild: {REPAIR}")  # fmt: skip
    else:
        yield ok(what)


def executable() -> Findings:
    what = f"sys.executable {sys.executable}"
    if not os.path.exists(sys.executable):
        yield fail(f"{what} does not exist: no child process can start")
    elif os.path.basename(sys.executable) != "tracehost-python":
        install = f"cmake --install <build> --prefix {sys.prefix}"
        yield warn(f"{what}: child processes run in plain Python, outside the host",
                   f"install tracehost into that environment: {install}")  # fmt: skip
    else:
        yield ok(what)


def torch() -> Findings:
    version, wanted = _torch_version(), built("torch")
    oldest, newest = built("torch_oldest") or "0", built("torch_newest") or "99"
    install = f"pip install torch=={wanted or newest + '.*'}"
    if not version:
        yield fail(f"no torch in {sysconfig.get_path('platlib')}", install if wanted else REPAIR)
    elif not numbers(oldest) <= numbers(version)[:2] <= numbers(newest):
        yield fail(f"torch {version} is outside the supported {oldest} to {newest}", f"{install}, or {REPAIR}")  # fmt: skip
    elif numbers(version)[:2] != numbers(wanted or version)[:2]:
        yield fail(f"torch {version}, but tracehost was built for torch {wanted}", f"{install}, or rebuild: {REPAIR}")  # fmt: skip
    else:
        yield ok(f"torch {version} (supported: {oldest} to {newest})")


def package() -> Findings:
    version = built("version")
    what = f"tracehost package {version}"
    if not version:
        yield fail(f"no tracehost package in {sysconfig.get_path('platlib')}")
    elif version != host_version():
        yield fail(f"{what}, but this binary is {host_version()}")
    elif not list(_source("tracehost").parent.glob("_tracehost.*.so")):
        yield fail(f"{what} has no extension module")
    else:
        yield ok(what)


CHECKS = [environment, python, executable, torch, package]
