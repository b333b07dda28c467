"""What fails where a program retraces: limits of the command line, `no_retraces`, the pytest plug-in."""

import subprocess
import sys
import threading

import pytest
import torch
import tracehost
from conftest import HOST, clean_environment

STEP = """
import torch, tracehost

@tracehost.function
def step(x):
    return x * 2

"""


@tracehost.function
def twice(x):
    return x * 2


def line_of(text: str) -> int:
    with open(__file__) as lines:
        return next(n for n, line in enumerate(lines, 1) if line.strip().endswith(text))


def test_no_retraces_lists_the_retraces_of_all_functions():
    other = tracehost.function(lambda x: x + 1)
    twice(torch.ones(1))
    with pytest.raises(AssertionError) as caught, tracehost.testing.no_retraces():
        other(torch.ones(1))  # its first trace
        twice(torch.ones(2))  # here
        other(torch.ones(3))  # there
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 retraces, none allowed:"
    assert lines[1].endswith(
        f"at test_gate.py:{line_of('# here')}: argument 'x', dimension 0, was 1, is 2"
    )
    assert lines[2].endswith(
        f"at test_gate.py:{line_of('# there')}: argument 'x', dimension 0, was 1, is 3"
    )
    assert len(lines) == 3


def test_no_retraces_allows_hits_first_traces_and_requests():
    fresh = tracehost.function(lambda x: x - 1)
    fresh(torch.ones(1))
    with tracehost.testing.no_retraces():
        fresh(torch.ones(1))
        tracehost.function(lambda x: x - 2)(torch.ones(1))
        fresh.get_concrete_function(torch.ones(7))


def test_no_retraces_counts_other_threads():
    fresh = tracehost.function(lambda x: x * 5)
    fresh(torch.ones(1))
    with (
        pytest.raises(AssertionError, match="1 retrace, none allowed"),
        tracehost.testing.no_retraces(),
    ):
        thread = threading.Thread(target=fresh, args=(torch.ones(2),))
        thread.start()
        thread.join()


def test_no_retraces_leaves_the_exception_of_its_block():
    fresh = tracehost.function(lambda x: x * 6)
    fresh(torch.ones(1))
    with pytest.raises(KeyError), tracehost.testing.no_retraces():
        fresh(torch.ones(2))
        raise KeyError


def test_no_retraces_that_is_not_entered_warns():
    with pytest.warns(
        RuntimeWarning, match=r"no_retraces checked nothing: write `with no_retraces\(\):`"
    ):
        tracehost.testing.no_retraces()


RETRACES = STEP + "for n in (1, 2, 3):\n    step(torch.ones(n))\n"


def test_max_retraces(run_host, tmp_path):
    (tmp_path / "net.py").write_text(RETRACES)
    done = run_host("--max-retraces", "1", "net.py")
    assert done.returncode == 3
    assert done.stderr == (
        "tracehost: 2 retraces, 1 allowed (--max-retraces)\n"
        "step (net.py:4): 2\n"
        "  why   argument 'x', dimension 0, took 3 values (1, 2, 3), from net.py:9\n"
        "  fix   @tracehost.function(reduce_retracing=True)   would save 1 of 3 traces\n"
        "  or    @tracehost.function(input_signature=[tracehost.TensorSpec([None], torch.float32)])   would save 2 of 3 traces\n"
    )
    done = run_host("--max-retraces=2", "net.py")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("end", "code"), [("raise SystemExit(5)", 5), ("1 / 0", 1), ("raise SystemExit(0)", 3)]
)
def test_max_retraces_keeps_the_code_of_a_program_that_failed(run_host, tmp_path, end, code):
    (tmp_path / "net.py").write_text(RETRACES + end + "\n")
    done = run_host("--max-retraces", "0", "net.py")
    assert done.returncode == code
    assert "2 retraces, 0 allowed (--max-retraces)\n" in done.stderr


def test_reset_and_other_files_do_not_open_the_gate(run_host, tmp_path):
    (tmp_path / "net.py").write_text(RETRACES + "tracehost.reset()\n")
    done = run_host("--max-retraces", "+1", "--report=/dev/full", "net.py")
    assert done.returncode == 3
    assert done.stderr.startswith("tracehost: 2 retraces, 1 allowed (--max-retraces)\n")


def test_max_retraces_is_of_the_first_process_alone(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'child.py']).returncode)\n"
    )
    (tmp_path / "child.py").write_text(RETRACES)
    done = run_host("--max-retraces", "0", "net.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_retrace_warn_error(run_host, tmp_path):
    (tmp_path / "net.py").write_text(STEP + "for n in range(1, 9):\n    step(torch.ones(n))\n")
    done = run_host("--retrace-warn", "error", "net.py")
    assert done.returncode == 1
    assert "line 9, in <module>\n    step(torch.ones(n))\n" in done.stderr
    assert (
        "RetraceWarning: 5 out of the last 5 calls to step (net.py:4) triggered retracing"
        in done.stderr
    )


def test_no_retraces_counts_through_a_reset():
    fresh = tracehost.function(lambda x: x * 8)
    fresh(torch.ones(1))
    with (
        pytest.raises(AssertionError, match="1 retrace, none allowed"),
        tracehost.testing.no_retraces(),
    ):
        fresh(torch.ones(2))
        tracehost.reset()


# The plug-in.

TESTS = (
    STEP.replace("import torch, tracehost", "import pytest, torch, tracehost")
    + """
@pytest.mark.max_traces(1)
def test_few():
    step(torch.ones(1))

@pytest.mark.max_traces(1)
def test_many():
    step(torch.ones(2))
    step(torch.ones(3))

@pytest.mark.no_retraces
def test_none():
    step(torch.ones(3))

@pytest.mark.no_retraces
def test_again():
    step(torch.ones(4))

@pytest.mark.max_traces(0)
def test_that_fails():
    step(torch.ones(5))
    assert False, "its own"

def test_fixture(tracehost_traces):
    step(torch.ones(6))
    assert [(trace.function, trace.call) for trace in tracehost_traces()] == [("step", "test_net.py:32")]

@pytest.mark.max_traces("2")
def test_wrong(): ...
"""
)


def pytest_of(tmp_path, *options: str) -> tuple[int, str]:
    (tmp_path / "test_net.py").write_text(TESTS)
    done = subprocess.run(
        [HOST, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_marks_of_the_plug_in(tmp_path):
    code, text = pytest_of(tmp_path, "--tracehost")
    assert code == 1
    assert "4 failed, 3 passed" in text
    why = "argument 'x', dimension 0, was"
    assert (
        f"2 traces, 1 allowed (max_traces):\n  step (test_net.py:4), at test_net.py:15: {why} 1, is 2\n"
        in text
    )
    assert f"1 retrace, none allowed:\n  step (test_net.py:4), at test_net.py:24: {why}" in text
    assert "AssertionError: its own" in text
    assert "max_traces takes one number of traces, got ('2',) {}" in text
    summary = text.partition("traces of tracehost")[2]
    assert "     2 traces " in summary and "test_net.py::test_many" in summary
    assert "test_that_fails" in summary.partition("short test summary")[0]
    assert "test_none" not in summary.partition("short test summary")[0]


def test_the_plug_in_imports_nothing_of_tracehost(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test(tracehost_traces):\n"
        "    assert tracehost_traces() == [] and 'tracehost' not in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
