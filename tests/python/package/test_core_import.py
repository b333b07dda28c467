"""`import tracehost` on a machine that does not fit, the report at exit, and what is never used."""

import io
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
import tracehost
from conftest import HOST, PYTHON, ROOT, clean_environment

PACKAGE = Path(tracehost.__file__).parent


@pytest.fixture
def installed(tmp_path):
    """installed(version="...") -> a copy of the package whose build_info.txt says something else."""

    def make(**changes):
        copy = tmp_path / "tracehost"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so", "lib"))
        lines = (copy / "build_info.txt").read_text().splitlines()
        info = dict(line.split("=", 1) for line in lines) | changes
        (copy / "build_info.txt").write_text("".join(f"{k}={v}\n" for k, v in info.items()))
        return info

    return make


def fail(tmp_path, *options):
    """The last line of the traceback of `import tracehost` from the copy; the only one of its text."""
    done = subprocess.run(
        [PYTHON, *options, "-c", "import tracehost"],
        env=clean_environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    (index,) = [i for i, line in enumerate(lines) if line.startswith("ImportError: ")]
    assert index == len(lines) - 1, done.stderr
    return lines[-1]


def test_torch_is_missing(installed, tmp_path):
    info = installed()
    minor = ".".join(info["torch"].split(".")[:2])
    line = fail(tmp_path, "-S")  # without site-packages
    assert re.fullmatch(
        rf"ImportError: tracehost needs torch {re.escape(minor)}\.\*, which \S+ does not have: "
        rf"pip install torch=={re.escape(info['torch'])}",
        line,
    )


def test_another_minor_version_of_torch(installed, tmp_path):
    info = installed()
    minor = ".".join(info["torch"].split(".")[:2])
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.3.1+cpu'\n")
    assert fail(tmp_path) == (
        f"ImportError: tracehost was built for torch {minor}.*, this is 2.3.1+cpu: build it again "
        f"(pip install . in its sources), or pip install torch=={info['torch']}"
    )


def test_a_torch_that_is_broken_says_so_itself(installed, tmp_path):
    installed()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import no_such_dependency\n")
    done = subprocess.run(
        [PYTHON, "-c", "import tracehost"],
        env=clean_environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'no_such_dependency'"


@pytest.mark.parametrize(
    ("claimed", "message"),
    [
        (
            "version_info = (3, 15, 0)",
            "tracehost does not support Python 3.15 yet: use Python 3.11 to 3.14",
        ),
        (
            "abiflags = 't'",
            "tracehost needs the GIL, which this free-threaded build of Python does not have: use the usual build",
        ),
    ],
)
def test_a_python_that_is_unsupported(claimed, message):
    code = f"import sys; sys.{claimed}; import tracehost"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {message}"


IN_A_SUBINTERPRETER = """
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ModuleNotFoundError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
run(interpreters.create(), "try: import tracehost\\nexcept ImportError as error: print(error, flush=True)")
"""


def test_a_subinterpreter_is_rejected():
    done = subprocess.run(
        [PYTHON, "-c", IN_A_SUBINTERPRETER], capture_output=True, text=True, timeout=100
    )
    assert done.stdout == (
        "tracehost works in the main interpreter of a process only: import it there, not in a subinterpreter\n"
    )


def test_another_python(installed, tmp_path):
    running = ".".join(map(str, sys.version_info[:3]))
    installed(python="3.4.1")
    assert fail(tmp_path) == (
        f"ImportError: tracehost was built for Python 3.4.1, this is {running}: build it again for "
        "this one (pip install . in its sources)"
    )


ELSEWHERE = {
    "libpython": (
        {"libpython": "/elsewhere/libpython3.so"},
        r"ImportError: tracehost was built with /elsewhere/libpython3.so, but \S+ is loaded: run it with "
        r"the interpreter of its own virtual environment, or build it again",
    ),
    "installation of the same Python": (
        {"stdlib": "/elsewhere/lib/python3"},
        r"ImportError: tracehost was built for the Python of /elsewhere/lib/python3, but this environment has "
        r"that of \S+: build it again for this one \(pip install \. in its sources\)",
    ),
}


@pytest.mark.parametrize("another", ELSEWHERE)
def test_another(another, installed, tmp_path):
    built, message = ELSEWHERE[another]
    installed(**built)
    done = subprocess.run(
        [HOST, "-c", "import tracehost"],
        env=clean_environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert re.fullmatch(message, done.stderr.splitlines()[-1])


PROGRAM = """
import torch, tracehost

@tracehost.function
def step(x):
    return x * 2

for n in (2, 2, 3):
    step(torch.ones(n))
print("done")
"""


def test_the_report_at_exit(run_host, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run_host("--report", "train.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    header, row, total = done.stderr.splitlines()
    assert header.split("  ")[0] == "function" and header.split()[-2:] == ["main", "cause"]
    assert re.fullmatch(
        r"step \(train\.py:4\) +3 +1 +2 +0 +2 +33\.3 % +[\d.]+  'x' dimension 0", row
    )
    assert re.fullmatch(r"total +3 +1 +2 +0 +2 +33\.3 % +[\d.]+", total)


def test_the_report_in_a_file(run_host, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run_host("--report=table.txt", "train.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert (tmp_path / "table.txt").read_text().splitlines()[1].startswith("step (train.py:4) ")


def test_the_report_after_an_exception(run_host, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM + "raise SystemExit(3)\n")
    done = run_host("--report", "train.py")
    assert done.returncode == 3 and "step (train.py:4)" in done.stderr


def test_no_report_unless_asked(run_host, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run_host("train.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_module_works_under_plain_python(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        [PYTHON, tmp_path / "train.py"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_functions_of_a_module_that_live_until_exit(run_host, tmp_path):
    (tmp_path / "train.py").write_text(
        PROGRAM
        + """
import threading
w = torch.nn.Linear(2, 2)
f = tracehost.function(lambda x: w(x))
f(torch.ones(2))
threading.Thread(target=lambda: [f(torch.ones(2)) for _ in range(2000)]).start()
"""
    )
    done = run_host("train.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def code_lines(file):
    """(number, line) without comments and texts: `--intercept torch.jit.trace` is a name that users type."""
    text = file.read_text()
    if file.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            yield number, re.sub(r"\"(\\.|[^\"\\])*\"|//.*", "", line)
        return
    lines: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            lines[token.start[0]] = lines.get(token.start[0], "") + " " + token.string
    yield from lines.items()


def test_torchs_own_trace_and_script_are_never_used():
    forbidden = re.compile(
        r"\bjit\s*\.\s*(trace|script|trace_module)\b|create_function_from_trace|create_method_from_trace"
        r"|_jit_script_compile|tracePythonFunction|jit/python/script_init"
    )
    files = [
        file
        for folder in ("host", "bindings")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".h", ".cpp", ".py"}
    ]
    assert len(files) > 50
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line}"
        for file in files
        for number, line in code_lines(file)
        if forbidden.search(line)
    ]
    assert found == []


def test_no_function_of_torch_jit_is_called(run_host, tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "def reject(*args, **kwargs):\n"
        "    raise AssertionError('torch.jit was used')\n"
        "torch.jit.trace = torch.jit.script = reject\n"
        "torch._C._create_function_from_trace = reject\n" + PROGRAM
    )
    done = run_host("train.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
