"""A CUDA device in host memory, for tests on a machine without a GPU: module and plugin of pytest.

`import standin` before torch, or `pytest -p standin` with this folder on PYTHONPATH. torch then has CUDA devices:
its own allocator, streams, events, generator and graphs run on the runtime of runtime/, and its kernels on the CPU
(kernels/). runtime/runtime.h says how, what this shows, and which environment variables there are.

The libraries are the target `standin` of CMake. STANDIN_LIBRARIES names their folder, build/standin by default.
"""

import ctypes
import os
import sys
from pathlib import Path

DEFAULT = Path(__file__).resolve().parents[2] / "build" / "standin"
LIBRARIES = Path(os.environ.get("STANDIN_LIBRARIES") or DEFAULT)

if any(name == "torch" for name in sys.modules):
    raise ImportError("import standin before torch: torch binds to the CUDA runtime that it finds")
if not (LIBRARIES / "libstandin_kernels.so").exists():
    raise ImportError(
        f"{LIBRARIES} has no simulated CUDA runtime: build the target standin, or set STANDIN_LIBRARIES"
    )


def _load(name, mode):
    return ctypes.CDLL(str(LIBRARIES / name), mode=mode)


_runtime = _load("libstandin_runtime.so", ctypes.RTLD_GLOBAL)
_driver = _load("libcuda.so.1", ctypes.RTLD_GLOBAL)

import torch  # noqa: E402  the libraries above come first

_kernels = _load("libstandin_kernels.so", ctypes.RTLD_LOCAL)

for _name, _result, *_arguments in (
    ("count", ctypes.c_long, ctypes.c_char_p),
    ("counter_name", ctypes.c_char_p, ctypes.c_int),
    ("reset", None),
    ("on_stream", ctypes.c_long, ctypes.c_void_p),
    ("initialised", ctypes.c_int, ctypes.c_int),
    ("fail_after", None, ctypes.c_long),
    ("fail_call", None, ctypes.c_char_p, ctypes.c_int),
    ("delay", None, ctypes.c_long),
    ("queued", ctypes.c_long),
    ("used", ctypes.c_size_t, ctypes.c_int),
):
    _function = getattr(_runtime, f"standin_{_name}")
    _function.restype = _result
    _function.argtypes = _arguments

replaced = _kernels.standin_install()
lazy = os.environ.get("STANDIN_LAZY", "0") not in ("", "0")

# cuDNN and the fused attention kernels are no ops of the dispatcher, so nothing replaces them.
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
# The tensors of tests are small, and threads would only wait for each other.
torch.set_num_threads(1)


def names():
    """The counters. Each is also counted as "gil_...", for calls made while the thread held the GIL."""
    found = []
    while (name := _runtime.standin_counter_name(len(found))) is not None:
        found.append(name.decode())
    return found


def count(name):
    """How often something happened since reset(), such as "kernel", "sync" or "gil_sync"."""
    counted = _runtime.standin_count(name.encode())
    if counted < 0:
        raise KeyError(f"no counter {name!r}; there are {', '.join(names())}, and gil_ before each")
    return counted


def counts():
    """All counters that are not zero."""
    return {n: c for name in names() for n in (name, f"gil_{name}") if (c := count(n))}


def reset():
    """Sets all counters to zero."""
    _runtime.standin_reset()


def on_stream(stream):
    """How many kernels were launched on a torch.cuda.Stream since reset()."""
    with torch.cuda.device(stream.device):
        return _runtime.standin_on_stream(stream.cuda_stream)


def initialised(device=-1):
    """True if the program has used the device; any device by default."""
    return bool(_runtime.standin_initialised(device))


def fail_after(kernels):
    """The kernel after so many more makes an illegal memory access: all later calls fail. -1 ends this."""
    _runtime.standin_fail_after(kernels)


def fail_call(name, times=1):
    """The next calls of cudaStreamBeginCapture, cudaStreamEndCapture, cudaGraphInstantiate, cudaGraphLaunch,
    cudaMalloc, or of cudaLaunchKernel in a capture fail; 0 ends this."""
    _runtime.standin_fail_call(name.encode(), times)


def delay(us):
    """Each synchronisation takes so many microseconds; 0 ends this."""
    _runtime.standin_delay(us)


def queued():
    """How many pieces of work have not run yet. Zero unless STANDIN_LAZY=1."""
    return _runtime.standin_queued()


def used(device=0):
    """Bytes that torch's allocator has taken from the device."""
    return _runtime.standin_used(device)


def pytest_report_header():
    streams = "lazy streams" if lazy else "eager streams"
    return f"cuda: simulated, {torch.cuda.device_count()} devices, {streams}, {replaced} ops"
