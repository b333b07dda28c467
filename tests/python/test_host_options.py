"""Options that say what calls do, and what is written at exit: they reach tracehost in the program."""

import os

import pytest

PROGRAM = """import torch, tracehost
@tracehost.function
def f(x):
    return x + 1
for n in range(1, 7):
    f(torch.ones(n))
print(f.tracing_count(), f.stats()["eager"])
"""


@pytest.fixture
def run(run_host, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return lambda *args, **env: run_host(*args, "program.py", env=env)


@pytest.mark.parametrize(
    ("options", "variables", "printed"),
    [([], {}, "6 0"),
     (["--eager"], {}, "0 6"),
     (["--eager=false"], {"TRACEHOST_EAGER": "true"}, "6 0"),
     ([], {"TRACEHOST_EAGER": "1"}, "0 6"),
     (["--stance=eager_on_miss"], {}, "0 6"),
     (["--stance=default"], {"TRACEHOST_EAGER": "true"}, "6 0"),
     ([], {"TRACEHOST_STANCE": "eager"}, "0 6")],
)  # fmt: skip
def test_what_calls_do(run, options, variables, printed):
    done = run("--retrace-warn=off", *options, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{printed}\n", "")


def test_a_stance_under_which_a_call_fails(run):
    done = run("--stance=fail_on_miss")
    assert done.returncode == 1
    assert "TraceError" in done.stderr


def test_retraces_are_warned_of_as_often_as_said(run):
    assert "5 out of the last 5 calls" in run().stderr
    done = run("--retrace-warn=3")
    assert "3 out of the last 3 calls" in done.stderr
    assert run(TRACEHOST_RETRACE_WARN="off").stderr == ""
    assert run("--retrace-warn=10").stderr == ""


def test_without_warnings_none_comes_at_an_eviction_either(run_host):
    program = PROGRAM.replace("@tracehost.function", "@tracehost.function(limit=1)")
    assert "RetraceWarning" in run_host("-c", program).stderr
    done = run_host("--retrace-warn=off", "-c", program)
    assert (done.stdout, done.stderr) == ("6 0\n", "")


def test_metrics_are_written_at_exit_by_the_first_process(run_host, tmp_path):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import tracehost'], check=True)"
    done = run_host("--metrics-file=m.prom", "--retrace-warn=off", "-c", f"{PROGRAM}\n{child}")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "m.prom").read_text()
    assert 'result="trace"} 6\n' in text or "6\n" in text
    assert text.startswith("# HELP tracehost_")
    assert os.listdir(tmp_path) == ["m.prom"]


def test_metrics_on_standard_error_beside_the_report(run):
    done = run("--metrics-file=-", "--report", "--retrace-warn=off")
    assert "# TYPE tracehost_calls_total counter\n" in done.stderr
    assert "main cause" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("EAGER", "yes", "TRACEHOST_EAGER takes true or false, got 'yes'"),
     ("RETRACE_WARN", "0", "TRACEHOST_RETRACE_WARN takes a whole number from 1 on, or off, got '0'"),
     ("STANCE", "x", "TRACEHOST_STANCE takes default, eager, eager_on_miss, eager_on_error or fail_on_miss, got 'x'")],
)  # fmt: skip
def test_variables_that_are_wrong(run, name, value, message):
    done = run(**{f"TRACEHOST_{name}": value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tracehost: {message}\n"


def test_variables_that_are_wrong_under_plain_python(monkeypatch):
    from tracehost import _variables

    for name, value, message in (
        ("EAGER", "yes", "TRACEHOST_EAGER takes true or false, got 'yes'"),
        ("STANCE", "x", "TRACEHOST_STANCE: there is no stance 'x'; there are 'default', "),
        ("RETRACE_WARN", "0", "TRACEHOST_RETRACE_WARN takes a whole number from 1 on, or off, got '0'"),
    ):  # fmt: skip
        with monkeypatch.context() as patch, pytest.raises(ValueError) as raised:
            patch.setenv(f"TRACEHOST_{name}", value)
            _variables.apply()
        assert str(raised.value).startswith(message)


def test_doctor_runs_a_graph_whatever_is_set(run_host):
    done = run_host("doctor", env={"TRACEHOST_STANCE": "fail_on_miss", "TRACEHOST_EAGER": "false"})
    assert done.returncode == 0, done.stdout
    assert "  stance = fail_on_miss (TRACEHOST_STANCE)\n" in done.stdout
