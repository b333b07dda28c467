"""Options that say what calls do, and what is written at exit: they reach tracehost in the program."""

import os

import pytest
import tracehost
from tracehost_commands.doctor import with_torch

PROGRAM = """import torch, tracehost
@tracehost.function
def f(x):
    return x + 1
for n in range(1, 7):
    f(torch.ones(n))
print(f.tracing_count(), f.stats()["eager"])
"""


SHOW = "import os; print({k[10:]: v for k, v in sorted(os.environ.items()) if k.startswith('TRACEHOST_')})"


@pytest.mark.parametrize(
    ("options", "variables", "seen"),
    [(["--eager"], {}, {"EAGER": "true"}),
     (["--eager=false"], {"EAGER": "true"}, {"EAGER": "false"}),
     (["--stance=eager_on_miss"], {}, {"STANCE": "eager_on_miss"}),
     (["--stance=default"], {"EAGER": "true"}, {"STANCE": "default"}),
     ([], {"EAGER": "1", "STANCE": "eager"}, {"EAGER": "true", "STANCE": "eager"}),
     (["--retrace-warn", "off"], {"RETRACE_WARN": "3"}, {"RETRACE_WARN": "off"})],
)  # fmt: skip
def test_options_reach_the_program_as_variables(run_host, options, variables, seen):
    env = {f"TRACEHOST_{name}": value for name, value in variables.items()}
    done = run_host(*options, "-c", SHOW, env=env)
    assert (done.returncode, eval(done.stdout), done.stderr) == (0, seen, "")


def test_what_variables_do(run_host, tmp_path):
    """In one program that reads them again and again: each start would import torch."""
    (tmp_path / "program.py").write_text("""
import os, warnings, torch, tracehost
from tracehost import _variables
def outcome(limit=64, **variables):
    for name in ("EAGER", "STANCE", "RETRACE_WARN"):
        os.environ.pop("TRACEHOST_" + name, None)
    os.environ.update({"TRACEHOST_" + name: value for name, value in variables.items()})
    tracehost.run_functions_eagerly(False)
    tracehost.stance("default")
    tracehost._tracehost.set_retrace_limit(5)
    _variables.apply()
    f = tracehost.function(lambda x: x + 1, limit=limit)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            for n in range(1, 7):
                f(torch.ones(n))
        except tracehost.TraceError:
            return "TraceError"
    said = [str(w.message).partition(" calls")[0] for w in seen]
    tracehost.reset()
    return f.tracing_count(), f.stats()["eager"], said[:1], len(said)
print(outcome())
print(outcome(EAGER="true"), outcome(EAGER="1"), outcome(EAGER="false", RETRACE_WARN="off"))
print(outcome(STANCE="eager"), outcome(STANCE="eager_on_miss"), outcome(STANCE="fail_on_miss"))
print(outcome(RETRACE_WARN="3"), outcome(RETRACE_WARN="10"))
print(outcome(limit=1)[3], outcome(limit=1, RETRACE_WARN="off")[3])
""")
    done = run_host("program.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "(6, 0, ['5 out of the last 5'], 2)",
        "(0, 6, [], 0) (0, 6, [], 0) (6, 0, [], 0)",
        "(0, 6, [], 0) (0, 6, [], 0) TraceError",
        "(6, 0, ['3 out of the last 3'], 2) (6, 0, [], 0)",
        "3 0",
    ]


def test_metrics_are_written_at_exit_by_the_first_process(run_host, tmp_path):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import tracehost'], check=True)"
    program = f"{PROGRAM}\n{child}"
    done = run_host("--metrics-file=m.prom", "--report", "--retrace-warn=off", "-c", program)
    assert (done.returncode, done.stdout) == (0, "6 0\n")
    assert done.stderr.count("main cause") == 1, "the report is written beside it"
    text = (tmp_path / "m.prom").read_text()
    assert text.startswith("# HELP tracehost_")
    assert "# TYPE tracehost_calls_total counter\n" in text
    assert text.count('function="f (') > 1
    assert os.listdir(tmp_path) == ["m.prom"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("EAGER", "yes", "TRACEHOST_EAGER takes true or false, got 'yes'"),
     ("RETRACE_WARN", "0", "TRACEHOST_RETRACE_WARN takes off, error or a whole number from 1 on, got '0'"),
     ("STANCE", "x", "TRACEHOST_STANCE takes default, eager, eager_on_miss, eager_on_error or fail_on_miss, got 'x'")],
)  # fmt: skip
def test_variables_that_are_wrong(run_host, name, value, message):
    done = run_host("-c", "print()", env={f"TRACEHOST_{name}": value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tracehost: {message}\n"


def test_variables_that_are_wrong_under_plain_python(monkeypatch):
    from tracehost import _variables

    for name, value, message in (
        ("EAGER", "yes", "TRACEHOST_EAGER takes true or false, got 'yes'"),
        ("STANCE", "x", "TRACEHOST_STANCE: there is no stance 'x'; there are 'default', "),
        ("RETRACE_WARN", "0", "TRACEHOST_RETRACE_WARN takes off, error or a whole number from 1 on, got '0'"),
    ):  # fmt: skip
        with monkeypatch.context() as patch, pytest.raises(ValueError) as raised:
            patch.setenv(f"TRACEHOST_{name}", value)
            _variables.apply()
        assert str(raised.value).startswith(message)


def test_doctor_runs_a_graph_whatever_is_set():
    with tracehost.stance("fail_on_miss"):
        assert next(iter(with_torch.devices()))[0] == "OK"
    with tracehost.run_functions_eagerly(True):
        assert next(iter(with_torch.devices()))[0] == "OK"


def test_they_hold_in_a_notebook(run_host, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    cells = [nbformat.v4.new_code_cell(PROGRAM)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    done = run_host("notebook", "n.ipynb", env={"TRACEHOST_EAGER": "1"})
    assert (done.returncode, done.stdout) == (0, "0 6\n"), done.stderr


def test_a_command_in_python_gets_what_variables_say(run_host, tmp_path):
    asked = ("kernel", "uninstall", "--prefix", "k")
    kernels = tmp_path / "k/share/jupyter/kernels"
    env = {"TRACEHOST_KERNEL_NAME": "from-a-variable"}
    done = run_host(*asked, env=env)
    assert done.stderr == f"tracehost: there is no kernel at {kernels}/from-a-variable\n"
    done = run_host(*asked, "--name", "given", env=env)
    assert done.stderr == f"tracehost: there is no kernel at {kernels}/given\n"


def test_a_python_that_is_not_there_names_the_variable(run_host):
    done = run_host("-c", "0", env={"TRACEHOST_PYTHON": "/no/such/python"})
    assert done.returncode == 2
    assert done.stderr.startswith(
        "tracehost: no Python at '/no/such/python' (TRACEHOST_PYTHON); name an"
    )
