"""`tracehost doctor`: what it finds in this installation, and what it says of broken ones."""

import ctypes
import importlib.metadata
import json
import multiprocessing.spawn
import re
import shutil
import subprocess
import sys

import pytest
import torch
import tracehost
from conftest import HOST, clean_environment
from tracehost_commands.doctor import checks, with_torch


def found(check):
    return [tuple(finding) for finding in checks.run([check])]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    return subprocess.run([HOST, "doctor"], capture_output=True, text=True, cwd=folder, env=clean_environment(
        XDG_CONFIG_HOME=str(folder), TRACEHOST_REPROT="x", TRACEHOST_OF_ANOTHER_PROGRAM="x"))  # fmt: skip


def test_all_is_checked(shown):
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    assert "FAIL" not in shown.stdout
    lines = re.findall(r"^(?:OK|WARN) +(.*)$", shown.stdout, re.MULTILINE)
    begins = [
        "environment ", "Python 3.", "sys.executable ", "torch 2.", "tracehost package ",
        "a child process imports tracehost ", "pybind11 internals v1", "a graph runs on cpu",
    ]  # fmt: skip
    assert [line[: len(begin)] for line, begin in zip(lines, begins)] == begins
    assert any("GPU" in line or "cuda" in line for line in lines[8:])
    for subject in ("tapes: kernels of", "notebooks", "Graphviz", "kernel", "written in", "multiprocessing starts children in the host"):  # fmt: skip
        assert any(subject in line for line in lines[8:]), subject
    assert shown.stdout.count("fix: ") == len(re.findall("^WARN", shown.stdout, re.MULTILINE))


def test_a_variable_that_is_misspelt(shown):
    assert (
        "WARN  TRACEHOST_REPROT is not a tracehost variable\n"
        "      fix: did you mean TRACEHOST_REPORT?\n"
    ) in shown.stdout
    assert "OF_ANOTHER" not in shown.stdout


def test_variables_that_are_nearly_ours(monkeypatch):
    names = ("REPORT", "REPORT_PID", "NOTEBOOK_LINES", "NOTEBOOK_TIMOUT", "UNLIKE_ANY_OTHER")
    monkeypatch.setattr(checks.os, "environ", {f"TRACEHOST_{name}": "1" for name in names})
    assert found(checks.variables) == [
        ("WARN", "TRACEHOST_NOTEBOOK_TIMOUT is not a tracehost variable", "did you mean TRACEHOST_NOTEBOOK_TIMEOUT?")
    ]  # fmt: skip


def test_json(run_host, tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '0.1'\n")  # found out at once
    env = {"TRACEHOST_NOTEBOOK_PARAM": "a=1\nb=2", "PYTHONPATH": str(tmp_path)}
    done = run_host("doctor", "--json", env=env)
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert list(document) == ["schema", "tracehost", "ok", "checks", "settings"]
    assert (document["schema"], document["ok"]) == ("tracehost.doctor/1", False)
    assert document["tracehost"] == tracehost.__version__
    assert {"verdict", "what", "fix"} == set(document["checks"][0])
    wanted = [
        {"name": "notebook.param", "values": ["a=1", "b=2"], "origin": "TRACEHOST_NOTEBOOK_PARAM"},
        {"name": "doctor.json", "values": ["true"], "origin": "--json"},
    ]
    assert sorted(map(str, document["settings"])) == sorted(map(str, wanted))


def test_the_variables_of_a_run_are_shown_and_nothing_is_written(run_host, tmp_path):
    names = "REPORT", "METRICS_FILE", "EVENTS"
    env = {f"TRACEHOST_{name}": str(tmp_path / name) for name in names}
    env |= {"TRACEHOST_MAX_RETRACES": "3", "TRACEHOST_INTERCEPT": "torch.compile"}
    done = run_host("doctor", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.partition("settings:\n")[2].splitlines()
    wanted = {name.lower().removeprefix("tracehost_").replace("_", "-"): name for name in env}
    assert sorted(shown) == sorted(f"  {o} = {env[n]} ({n})" for o, n in wanted.items())
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_value_of_a_variable_is_an_error(run_host):
    done = run_host("doctor", "--json", env={"TRACEHOST_MAX_RETRACES": "none"})
    assert done.returncode == 2
    assert done.stderr == (
        "tracehost: TRACEHOST_MAX_RETRACES takes a non-negative integer, got 'none'\n"
    )


@pytest.fixture
def with_other_torch(run_host, tmp_path):
    """with_other_torch(source, *words) -> `tracehost doctor`, where `import torch` runs the source"""

    def run(source, *words):
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text(source)
        (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{torch.__version__}'\n")
        return run_host("doctor", *words, env={"PYTHONPATH": str(tmp_path)})

    return run


def test_a_child_that_dies_is_told_of(with_other_torch):
    done = with_other_torch("import os\nprint('last words', flush=True)\nos.abort()\n")
    assert done.returncode == 1
    assert re.search(r"OK +tracehost package .*\nFAIL  a child process that imports torch ended with ", done.stdout)  # fmt: skip
    assert re.search(r"ended with (exit code 134|signal 6).*: last words\n", done.stdout)
    assert "multiprocessing" in done.stdout, "the other checks are made"


def test_a_torch_that_cannot_be_imported(with_other_torch):
    done = with_other_torch("raise ImportError('libtorch.so is gone')\n")
    assert done.returncode == 1
    assert "FAIL  a child process that imports torch ended with exit code 1: ImportError: libtorch.so is gone\n" in done.stdout  # fmt: skip
    assert "pybind11" not in done.stdout and "multiprocessing" in done.stdout


def test_another_torch_on_the_path(run_host, tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '2.9.0'\n")
    done = run_host("doctor", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "FAIL  torch 2.9.0 is outside the supported 2.11 to 2.15\n" in done.stdout
    assert "child process" not in done.stdout


def test_a_python_that_cannot_start(tmp_path):
    """Its standard library is gone: no line of Python runs."""
    env = clean_environment(PYTHONHOME=str(tmp_path))
    done = subprocess.run([HOST, "doctor"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert done.stdout.startswith("tracehost ")
    assert re.search(
        r"FAIL  Python 3\.\d+\.\d+ \(/.*libpython.*\) runs no checks: Python cannot start: .+\n      fix: ", done.stdout
    )  # fmt: skip
    done = subprocess.run([HOST, "doctor", "--json"], capture_output=True, text=True, env=env)
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (1, False)
    assert "Python cannot start" in document["checks"][-1]["what"]
    done = subprocess.run([HOST, "kernel", "list"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert re.search(r"^tracehost: Python cannot start: .*; 'tracehost doctor' says what is wrong$", done.stderr, re.M)  # fmt: skip
    done = subprocess.run([HOST, "docter"], capture_output=True, text=True, env=env)
    assert done.returncode == 2
    assert (
        "tracehost: 'docter' is no option, file or command (try 'tracehost help')\n" in done.stderr
    )


def test_a_python_that_crashes_at_its_start(run_host, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os.abort()\n")
    done = run_host("doctor", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "runs no checks: Python ended with signal 6\n      fix: " in done.stdout


@pytest.fixture
def installation(tmp_path, monkeypatch):
    """installation(torch=..., module=..., **facts): what installed files say; None leaves a file out."""

    def make(torch="2.15.0+cu132", module=True, **facts):
        known = {"version": "0.2.0", "python": checks.PYTHON, "torch": "2.15.0", "torch_oldest": "2.11", "torch_newest": "2.15"}  # fmt: skip
        for name in ("torch", "tracehost"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
        (tmp_path / "torch" / "version.py").write_text(
            f"__version__ = '{torch}'\n" if torch else ""
        )
        text = "".join(f"{name}={value}\n" for name, value in (known | facts).items() if value)
        (tmp_path / "tracehost" / "build_info.txt").write_text(text)
        if module:
            (tmp_path / "tracehost" / "_tracehost.cpython-313.so").touch()
        monkeypatch.setattr(checks, "_source", lambda name: tmp_path / name / "__init__.py")
        monkeypatch.setitem(sys._xoptions, "tracehost", "0.2.0")

    return make


BROKEN = [
    ({"torch": ""}, checks.torch, "no torch in ", "pip install torch==2.15.0"),
    ({"torch": "2.9.1"}, checks.torch, "torch 2.9.1 is outside the supported 2.11 to 2.15", "pip install torch=="),
    ({"torch": "2.10.0"}, checks.torch, "torch 2.10.0 is outside the supported", "pip install torch=="),
    ({"torch": "3.0.0"}, checks.torch, "torch 3.0.0 is outside the supported", "pip install torch=="),
    ({"torch": "2.12.0"}, checks.torch, "torch 2.12.0, but tracehost was built for torch 2.15.0", "pip install torch=="),
    ({"version": None}, checks.package, "no tracehost package in ", checks.REPAIR),
    ({"version": "0.0.1"}, checks.package, "tracehost package 0.0.1, but this binary is 0.2.0", checks.REPAIR),
    ({"module": False}, checks.package, "tracehost package 0.2.0 has no extension module", checks.REPAIR),
    ({"python": "3.9.2"}, checks.python, "Python 3.", "rebuild: "),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "check", "what", "fix"), BROKEN)
def test_installations_that_are_broken_in_one_way(installation, facts, check, what, fix):
    installation(**facts)
    ((verdict, said, remedy),) = found(check)
    assert verdict == "FAIL" and said.startswith(what) and remedy.startswith(fix)


def test_installations_that_are_fine(installation):
    installation()
    assert {found(check)[0][0] for check in (checks.torch, checks.package, checks.python)} == {"OK"}  # fmt: skip
    installation(torch="2.15.1")
    assert found(checks.torch)[0][0] == "OK", "a patch release of torch"


def test_children_outside_the_host(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    assert found(checks.executable)[0][0] == "WARN"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert found(checks.executable)[0][0] == "FAIL"


def test_packages_that_are_missing_or_old(monkeypatch):
    versions = {"nbformat": "5.9.0", "nbclient": "0.9.1", "ipykernel": "6.29.5", "ipython": "8.9"}

    def version(project):
        if project in versions:
            return versions[project]
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert found(checks.notebooks) == [
        ("WARN", "for notebooks not installed: matplotlib-inline, nbconvert", "pip install matplotlib-inline nbconvert"),
        ("WARN", "for notebooks too old: nbclient 0.9.1 (needed: 0.10), ipython 8.9 (needed: 8.20)", "pip install --upgrade nbclient ipython"),
    ]  # fmt: skip
    versions |= {"nbclient": "0.10rc1", "ipython": "9.0.1", "matplotlib-inline": "0.1.7"}
    versions |= {"nbconvert": "7.17.2"}
    assert [verdict for verdict, _, _ in found(checks.notebooks)] == ["OK"]


def test_pybind11_of_this_installation():
    # In a process of its own: a library that another test imports may have a pybind11 of its own.
    program = "import torch, tracehost; from tracehost_commands.doctor import with_torch; print(*with_torch.pybind11())"
    done = subprocess.run([HOST, "-c", program], capture_output=True, text=True, check=True)
    assert "'OK'" in done.stdout, done.stdout


def test_pybind11_of_another_version(monkeypatch):
    keys = [
        "__pybind11_internals_v11_x__",
        "__pybind11_internals_v12_x__",
        "__pybind11_internals_v12_x___call_once_storage__139",
        "__pybind11_module_cache",
    ]
    monkeypatch.setattr(with_torch, "_state", lambda: dict.fromkeys(keys[1:]))
    assert found(with_torch.pybind11) == [("OK", "pybind11 internals v12_x, in torch and in tracehost", "")]  # fmt: skip
    monkeypatch.setattr(with_torch, "_state", lambda: dict.fromkeys(keys))
    (verdict, what, fix) = found(with_torch.pybind11)[0]
    assert (verdict, what) == ("FAIL", "pybind11 internals differ between torch and tracehost: v11_x, v12_x")  # fmt: skip
    assert fix.endswith("run scripts/setup or pip install again")


def test_the_state_of_extension_modules_is_only_read():
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("PyInterpreterState_GetDict", api))
    state = ctypes.cast(get(api.PyInterpreterState_Get()), ctypes.py_object).value
    before = sys.getrefcount(state)
    assert with_torch._state().keys() == with_torch._state().keys() == state.keys()
    assert sys.getrefcount(state) == before


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(with_torch.os.path, "exists", lambda path: False)
    assert found(with_torch.devices) == [("OK", "a graph runs on cpu", ""), ("OK", "no GPU: graphs run on the CPU", "")]  # fmt: skip
    monkeypatch.setattr(with_torch.os.path, "exists", lambda path: path == "/dev/nvidia0")
    assert found(with_torch.devices)[1][:2] == ("WARN", f"there is a GPU, but torch {torch.__version__} does not see it")  # fmt: skip

    def too_old():
        with_torch.warnings.warn("the driver is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    assert found(with_torch.devices)[1][:2] == ("WARN", "CUDA: the driver is too old")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, on which the graph runs")
def test_a_device_that_fails(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "H100")
    verdict, what, fix = found(with_torch.devices)[1]
    assert verdict == "FAIL" and what.startswith("no graph runs on cuda:0 (H100): ")
    assert "the driver" in fix


@pytest.mark.parametrize("level", ["default", "avx2"])
def test_tapes(run_host, level):
    shown = run_host("doctor", env={"ATEN_CPU_CAPABILITY": level}).stdout
    if level == "default":
        assert "OK    tapes: kernels of DEFAULT; machine code needs AVX2 or AVX512\n" in shown
    elif torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("the CPU has no AVX2")
    else:
        assert "OK    tapes: kernels of AVX2, and machine code\n" in shown


def test_graphviz(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert found(checks.graphviz) == [("WARN", "no Graphviz: notebooks show graphs as text", "apt-get install graphviz")]  # fmt: skip
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    assert found(checks.graphviz) == [("OK", "Graphviz /usr/bin/dot", "")]


def test_kernels(monkeypatch, tmp_path):
    pytest.importorskip("jupyter_client")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    cases = {"of-this": [sys.executable, sys.prefix], "of-another": [sys.executable, "/other"], "gone": ["/no/such", sys.prefix]}  # fmt: skip
    for name, (binary, prefix) in cases.items():
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        content = {"argv": [binary], "display_name": name, "language": "python", "metadata": {"tracehost": {"prefix": prefix}}}  # fmt: skip
        (folder / "kernel.json").write_text(json.dumps(content))
    shown = {what: (verdict, fix) for verdict, what, fix in found(checks.kernel)}
    assert shown[f"kernel of-this, {tmp_path}/kernels/of-this"] == ("OK", "")
    assert shown["kernel of-another is of another environment, /other"] == ("WARN", "tracehost kernel install --name of-another, or leave it")  # fmt: skip
    assert shown["kernel gone: its binary /no/such is gone"] == ("WARN", "tracehost kernel install --name gone")  # fmt: skip


@pytest.mark.parametrize(
    ("program", "verdict", "what"),
    [
        ("/bin/false", "FAIL", "children by spawn: Broken"),
        (sys.prefix + "/bin/python", "WARN", "multiprocessing starts children in "),
    ],
)
def test_children_that_do_not_run_in_the_host(monkeypatch, program, verdict, what):
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", program.encode())
    ((found_verdict, said, fix),) = found(checks.children_by_spawn)
    assert (found_verdict, said[: len(what)], bool(fix)) == (verdict, what, True)


def test_places_that_cannot_be_written(monkeypatch):
    here = checks.os.getcwd()
    monkeypatch.setattr(checks, "_can_write", lambda folder: folder != here)
    assert [(f[0], f[1]) for f in found(checks.places)][-1] == ("WARN", f"no file can be written in {here}")  # fmt: skip
    monkeypatch.setattr(checks, "_can_write", lambda folder: False)
    assert {f[0] for f in found(checks.places)} == {"WARN"}
    assert all(f[2] for f in found(checks.places))


def test_a_folder_that_is_not_there_cannot_be_written(tmp_path):
    assert checks._can_write(str(tmp_path))
    assert not checks._can_write(str(tmp_path / "none"))


def test_a_check_that_fails_leaves_the_others():
    def broken():
        raise RuntimeError("two\nlines\tand a tab")
        yield

    first, second = checks.run([broken, checks.graphviz])
    assert first == ("FAIL", "broken: RuntimeError: two lines and a tab", checks.REPAIR)
    assert "Graphviz" in second.what
