"""Shared by all tests: where the host is, and how to run a program in it."""

import os
import re
import signal
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import pytest

BIN = Path(sys.prefix) / "bin"
HOST = BIN / "tracehost"
HOST_PYTHON = BIN / "tracehost-python"
PYTHON = BIN / "python3"
ROOT = Path(__file__).resolve().parents[2]

# A job in the background has these ignored, and hands that on: programs under test meet them as at a terminal.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(
            ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL
        )


def pytest_addoption(parser):
    parser.addoption(
        "--sample", default="1:", metavar="N:SEED", help="one test in N, chosen by SEED"
    )
    parser.addoption(
        "--whole", default="$.", metavar="REGEX", help="files that --sample keeps whole"
    )


def pytest_collection_modifyitems(config, items):
    """--sample 20:2f1a --whole 'guards|core': one test in twenty, and all tests of these files."""
    n, _, seed = config.getoption("--sample").partition(":")
    whole = re.compile(config.getoption("--whole"))

    def is_taken(item) -> bool:
        chosen = zlib.crc32(f"{seed} {item.nodeid}".encode()) % int(n) == 0
        return chosen or bool(whole.search(item.nodeid.partition("::")[0]))

    left_out = [item for item in items if not is_taken(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if is_taken(item)]


def clean_environment(**changes: str | None) -> dict[str, str]:
    """The environment without what would change how Python or the host starts; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRACEHOST_", "LC_"))}
    for name in ("VIRTUAL_ENV", "LANG", "LANGUAGE", "PYTEST_CURRENT_TEST"):
        env.pop(name, None)
    env["LANG"] = "C.UTF-8"
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


# torchrun for two processes of this machine, which need not know its own name.
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--local-addr=localhost", "--nproc-per-node=2")  # fmt: skip
OF_TORCHRUN = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="session")
def host() -> Path:
    """The installed tracehost binary."""
    assert HOST.exists(), f"{HOST} is missing: run scripts/setup"
    return HOST


@pytest.fixture
def run_host(host, tmp_path):
    """run_host(*args, env={...}, stdin=...) -> CompletedProcess with text output, run in tmp_path."""

    def run(*args, env=None, stdin="", cwd=None, timeout=120):
        return subprocess.run(
            [host, *args],
            env=clean_environment(**(env or {})),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=cwd or tmp_path,
            timeout=timeout,
        )

    return run


@pytest.fixture
def change(request, monkeypatch):
    """change(name, value): sets a global of the test's module, undone after the test."""

    def set_global(name, value):
        monkeypatch.setitem(vars(request.module), name, value)

    return set_global


@pytest.fixture
def no_warnings():
    """Warnings are errors, but for those of retraces."""
    import tracehost

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        yield


@pytest.fixture
def model():
    import tracehost
    from environment_support import Model

    Model.run = tracehost.function(Model.body)
    return Model()


@pytest.fixture
def net():
    import torch
    from environment_support import Net

    torch.manual_seed(0)
    return Net().eval()
