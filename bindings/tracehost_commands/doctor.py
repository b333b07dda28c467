"""The checks of `tracehost doctor` that need a running Python: a line each, `VERDICT<tab>what<tab>fix`.

The binary starts this in a child process, which is a check by itself, and reads the lines as they come. If
a check ends the process, the lines of the checks before it have been read."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPAIR = "run scripts/setup or pip install again"

# What notebooks need, and from which version on; the last one for --html alone.
FLOORS = {
    "nbformat": "5.9",
    "nbclient": "0.10",
    "ipykernel": "6.29",
    "ipython": "8.20",
    "matplotlib-inline": "0.1",
    "nbconvert": "7.0",
}


@dataclass
class Finding:
    verdict: str
    """OK, WARN or FAIL"""
    what: str
    fix: str = ""


def main(words: list[str], rest: list[str]) -> int:
    for check in CHECKS:
        try:
            findings = list(check())
        except Exception as error:  # a check that fails is no reason to leave the others out
            name = check.__name__.strip("_").replace("_", " ")
            findings = [Finding("FAIL", f"{name}: {_one_line(error)}", REPAIR)]
        for finding in findings:
            cells = (finding.verdict, finding.what, finding.fix)
            print("\t".join(" ".join(cell.split()) for cell in cells), flush=True)
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _import() -> Iterator[Finding]:
    try:
        import torch
        import tracehost
    except Exception as error:
        yield Finding(
            "FAIL", f"a child process cannot import tracehost: {_one_line(error)}", REPAIR
        )
        return
    yield Finding(
        "OK",
        f"a child process imports tracehost {tracehost.__version__}, torch {torch.__version__}",
    )


def _imported() -> bool:
    return "tracehost" in sys.modules


# Not what pybind11 keeps beside them, from Python 3.12 on: `..._call_once_storage__139...`.
_INTERNALS = re.compile(r"__pybind11_internals_(?!.*_call_once_storage_).*")


def _pybind11() -> Iterator[Finding]:
    """Classes that one extension module registers are seen by others of the same internals alone."""
    if not _imported():
        return
    found = sorted(key for key in _state() if _INTERNALS.fullmatch(key))
    names = ", ".join(key.removeprefix("__pybind11_internals_").strip("_") for key in found)
    if len(found) == 1:
        yield Finding("OK", f"pybind11 internals {names}, in torch and in tracehost")
    else:
        yield Finding(
            "FAIL",
            f"pybind11 internals differ between torch and tracehost: {names or 'none found'}",
            f"build tracehost with the headers of this torch: {REPAIR}",
        )


def _state() -> dict[Any, Any]:
    """Where extension modules keep what they share."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    # An address: a py_object would let go of a reference that is not ours.
    api.PyInterpreterState_GetDict.restype = ctypes.c_void_p
    api.PyInterpreterState_GetDict.argtypes = [ctypes.c_void_p]
    address = api.PyInterpreterState_GetDict(api.PyInterpreterState_Get())
    return {str(key): None for key in ctypes.cast(address, ctypes.py_object).value}


def _devices() -> Iterator[Finding]:
    """A graph, with one op at least, on each kind of device."""
    if not _imported():
        return
    import torch

    yield _graph(torch.device("cpu"), "")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        yield _graph(torch.device("cuda", 0), f" ({torch.cuda.get_device_name(0)})")
    elif said:
        yield Finding("WARN", f"CUDA: {said[0].message}", "see what nvidia-smi says of the driver")
    elif os.path.exists("/dev/nvidia0"):
        yield Finding(
            "WARN",
            f"there is a GPU, but torch {torch.__version__} does not see it",
            "install torch's CUDA build, and see what nvidia-smi and CUDA_VISIBLE_DEVICES say",
        )
    else:
        yield Finding("OK", "no GPU: graphs run on the CPU")


def _graph(device: Any, name: str) -> Finding:
    import torch
    import tracehost

    try:
        function = tracehost.function(lambda x: x * 2 + 1, name="doctor")
        x = torch.arange(4.0, device=device)
        tracehost.run_functions_eagerly(False)  # even if a variable sets it
        with tracehost.stance("default"):
            results = [function(x).tolist() for _ in range(2)]
    except Exception as error:
        where = "torch" if device.type == "cpu" else "the driver and CUDA's libraries"
        return Finding("FAIL", f"no graph runs on {device}{name}: {_one_line(error)}", f"check {where}, or {REPAIR}")  # fmt: skip
    if results != [[1.0, 3.0, 5.0, 7.0]] * 2 or function.tracing_count() != 1:
        return Finding("FAIL", f"a graph on {device}{name} gave {results}", REPAIR)
    return Finding("OK", f"a graph runs on {device}{name}")


def _tapes() -> Iterator[Finding]:
    """What serves settled calls with optimize="exact"."""
    if not _imported():
        return
    import torch
    import tracehost

    level = torch.backends.cpu.get_cpu_capability()
    try:
        function = tracehost.function(lambda x: x * 2 + 1, name="doctor", optimize="exact")
        tracehost.run_functions_eagerly(False)
        with tracehost.stance("default"), torch.no_grad():
            for _ in range(4):
                function(torch.arange(4.0))
        (graph,) = function.specializations()
    except Exception as error:
        yield Finding("FAIL", f"no call runs with optimize=exact: {_one_line(error)}", REPAIR)
        return
    if "region" in graph.runs_by:
        yield Finding("OK", f"tapes: kernels of {level}, and machine code")
    elif not graph.runs_by.startswith("a tape"):
        yield Finding("WARN", f"no tapes: {graph.runs_by} serves", REPAIR)
    elif level in ("AVX2", "AVX512"):
        fix = f"allow the process executable memory, or install libxbyak-dev and {REPAIR}"
        yield Finding("WARN", f"tapes: kernels of {level}, and no machine code", fix)
    else:
        yield Finding("OK", f"tapes: kernels of {level}; machine code needs AVX2 or AVX512")


def _notebooks() -> Iterator[Finding]:
    missing, old, there = [], [], []
    for project, floor in FLOORS.items():
        try:
            version = importlib.metadata.version(project)
        except importlib.metadata.PackageNotFoundError:
            missing.append(project)
            continue
        there.append(f"{project} {version}")
        if _numbers(version) < _numbers(floor):
            old.append((f"{project} {version}", floor, project))
    if there and not missing and not old:
        yield Finding("OK", f"notebooks: {', '.join(there)}")
    if missing:
        yield Finding("WARN", f"for notebooks not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")  # fmt: skip
    if old:
        what = ", ".join(f"{version} (needed: {floor})" for version, floor, _ in old)
        yield Finding("WARN", f"for notebooks too old: {what}", f"pip install --upgrade {' '.join(p for _, _, p in old)}")  # fmt: skip


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version)]


def _graphviz() -> Iterator[Finding]:
    dot = shutil.which("dot")
    if dot is None:
        yield Finding(
            "WARN", "no Graphviz: notebooks show graphs as text", "apt-get install graphviz"
        )
    else:
        yield Finding("OK", f"Graphviz {dot}")


def _kernel() -> Iterator[Finding]:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return  # the check of packages reports it
    from .notebook.kernel import FILE, is_ours

    found = KernelSpecManager().find_kernel_specs()
    ours = {name: path for name, path in found.items() if is_ours(Path(path) / FILE)}
    for name, path in ours.items():
        content = json.loads((Path(path) / FILE).read_bytes())
        binary, prefix = content["argv"][0], content["metadata"]["tracehost"].get("prefix")
        again = f"tracehost kernel install --name {name}"
        if not os.access(binary, os.X_OK):
            yield Finding("WARN", f"kernel {name}: its binary {binary} is gone", again)
        elif prefix != sys.prefix:
            yield Finding("WARN", f"kernel {name} is of another environment, {prefix}", f"{again}, or leave it")  # fmt: skip
        else:
            yield Finding("OK", f"kernel {name}, {path}")
    if not ours:
        yield Finding("OK", "no kernel for JupyterLab (tracehost kernel install makes one)")


def _places() -> Iterator[Finding]:
    try:
        temporary = tempfile.gettempdir()  # tries to write
    except OSError as error:
        yield Finding("FAIL", f"no folder for temporary files: {error.strerror}", "set TMPDIR to one that you can write to")  # fmt: skip
        return
    places = {temporary: "TMPDIR to another"}
    with contextlib.suppress(ImportError):
        from jupyter_core.paths import jupyter_runtime_dir

        places[_existing(jupyter_runtime_dir())] = "JUPYTER_RUNTIME_DIR to another"
    bad = [(place, fix) for place, fix in places.items() if not _can_write(place)]
    for place, fix in bad:
        yield Finding(
            "WARN", f"no file can be written in {place}", f"free space there, or set {fix}"
        )
    if not bad:
        yield Finding("OK", f"files can be written in {', '.join(places)}")
    if not _can_write(os.getcwd()):
        yield Finding("WARN", f"no file can be written in {os.getcwd()}", "start from a folder of your own, or name one: -o, --report=FILE")  # fmt: skip


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


def _spawn() -> Iterator[Finding]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_tell_executable, args=(theirs,))
    child.start()
    theirs.close()
    try:
        executable = ours.recv() if ours.poll(60) else None
    except EOFError:
        executable = None
    child.join(10)
    ours.close()
    if executable == sys.executable:
        yield Finding("OK", "multiprocessing starts children in the host (spawn)")
    elif executable is None:
        child.kill()
        yield Finding("FAIL", f"multiprocessing starts no child (spawn): exit code {child.exitcode}", REPAIR)  # fmt: skip
    else:
        yield Finding("WARN", f"multiprocessing starts children in {executable}, outside of the host", "leave multiprocessing.set_executable alone")  # fmt: skip


def _tell_executable(pipe: Any) -> None:
    pipe.send(sys.executable)
    pipe.close()


CHECKS: list[Callable[[], Iterator[Finding]]] = [
    _import,
    _pybind11,
    _devices,
    _tapes,
    _notebooks,
    _graphviz,
    _kernel,
    _places,
    _spawn,
]
