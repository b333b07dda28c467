"""Checks of `tracehost doctor` that import torch: a line each, `VERDICT<tab>what<tab>fix`.

The doctor starts this in a child process. If the import or a check ends the process, the lines before it have been read."""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from typing import Any

import torch
import tracehost

from .checks import REPAIR, Rows, one_line, run


def imports() -> Rows:
    versions = f"tracehost {tracehost.__version__}, torch {torch.__version__}"
    yield "OK", f"a child process imports {versions}"


# Not what pybind11 keeps beside them, from Python 3.12 on: `..._call_once_storage__139...`.
_INTERNALS = re.compile(r"__pybind11_internals_(?!.*_call_once_storage_).*")


def pybind11() -> Rows:
    """Classes that one extension module registers are seen by others of the same internals alone."""
    found = sorted(key for key in _state() if _INTERNALS.fullmatch(key))
    names = ", ".join(key.removeprefix("__pybind11_internals_").strip("_") for key in found)
    if len(found) == 1:
        yield "OK", f"pybind11 internals {names}, in torch and in tracehost"
    else:
        yield (
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


def devices() -> Rows:
    """A graph on each kind of device."""
    yield _graph(torch.device("cpu"), "")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        yield _graph(torch.device("cuda", 0), f" ({torch.cuda.get_device_name(0)})")
    elif said:
        yield "WARN", f"CUDA: {said[0].message}", "see what nvidia-smi says of the driver"
    elif os.path.exists("/dev/nvidia0"):
        fix = "install torch's CUDA build, and see what nvidia-smi and CUDA_VISIBLE_DEVICES say"
        yield "WARN", f"there is a GPU, but torch {torch.__version__} does not see it", fix
    else:
        yield "OK", "no GPU: graphs run on the CPU"


def _graph(device: torch.device, name: str) -> tuple[str, str, str]:
    try:
        function, results = _called(2, device)
    except Exception as error:
        where = "torch" if device.type == "cpu" else "the driver and CUDA's libraries"
        return "FAIL", f"no graph runs on {device}{name}: {one_line(error)}", f"check {where}, or {REPAIR}"  # fmt: skip
    if results != [[1.0, 3.0, 5.0, 7.0]] * 2 or function.tracing_count() != 1:
        return "FAIL", f"a graph on {device}{name} gave {results}", REPAIR
    return "OK", f"a graph runs on {device}{name}", ""


def tapes() -> Rows:
    """What serves settled calls with optimize="exact"."""
    level = torch.backends.cpu.get_cpu_capability()
    try:
        (graph,) = _called(4, optimize="exact")[0].specializations()
    except Exception as error:
        yield "FAIL", f"no call runs with optimize=exact: {one_line(error)}"
        return
    if "region" in graph.runs_by:
        yield "OK", f"tapes: kernels of {level}, and machine code"
    elif not graph.runs_by.startswith("a tape"):
        yield "WARN", f"no tapes: {graph.runs_by} serves", REPAIR
    elif level in ("AVX2", "AVX512"):
        fix = f"allow the process executable memory, or install libxbyak-dev and {REPAIR}"
        yield "WARN", f"tapes: kernels of {level}, and no machine code", fix
    else:
        yield "OK", f"tapes: kernels of {level}; machine code needs AVX2 or AVX512"


def _called(times: int, device: Any = "cpu", **options: Any) -> tuple[Any, list[Any]]:
    """A Function of two ops that was called, even if a variable says otherwise, and its results."""
    function = tracehost.function(lambda x: x * 2 + 1, name="doctor", **options)
    tracehost.run_functions_eagerly(False)
    with tracehost.stance("default"), torch.no_grad():
        x = torch.arange(4.0, device=device)
        return function, [function(x).tolist() for _ in range(times)]


CHECKS = [imports, pybind11, devices, tapes]


if __name__ == "__main__":
    for found in run(CHECKS):
        print("\t".join(" ".join(cell.split()) for cell in found), flush=True)
