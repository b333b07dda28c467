"""The installed binary as a user meets it: help, commands, errors, and what reaches the program."""

import os
import pty
import re
import subprocess

import pytest
from conftest import HOST, HOST_PYTHON, ROOT, clean_environment

DATA = ROOT / "tests" / "python" / "data"


@pytest.mark.parametrize(
    ("args", "golden"),
    [(["--help"], "help.txt"), (["help"], "help.txt"), (["help", "run"], "help_run.txt"), (["run", "--help"], "help_run.txt"),
     (["--python=/no/such", "help"], "help.txt"), (["help", "doctor"], "help_doctor.txt"), (["doctor", "--help"], "help_doctor.txt"),
     (["help", "notebook"], "help_notebook.txt"), (["notebook", "--help"], "help_notebook.txt"),
     (["help", "kernel"], "help_kernel.txt"), (["kernel", "list", "--help"], "help_kernel.txt"),
     (["help", "repl"], "help_repl.txt"), (["repl", "--help"], "help_repl.txt"),
     (["help", "fix"], "help_fix.txt"), (["fix", "--help"], "help_fix.txt"),
     (["help", "lock"], "help_lock.txt"), (["lock", "--help"], "help_lock.txt"),
     (["help", "export"], "help_export.txt"), (["export", "--help"], "help_export.txt"),
     (["help", "inspect"], "help_inspect.txt"), (["inspect", "f.pt", "--help"], "help_inspect.txt"),
     (["help", "bench"], "help_bench.txt"), (["bench", "m:f", "--help"], "help_bench.txt"),
     (["help", "report"], "help_report.txt"), (["report", "--help"], "help_report.txt"),
     (["help", "completion"], "help_completion.txt"), (["completion", "--help"], "help_completion.txt")],
)  # fmt: skip
def test_help_is_as_recorded(run_host, args, golden):
    result = run_host(*args)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (DATA / golden).read_text()
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_version_is_three_lines(run_host):
    result = run_host("--version")
    assert result.returncode == 0
    assert re.fullmatch(
        r"tracehost \d+\.\d+\.\d+\nPython 3\.\d+\.\d+\ntorch 2\.\d+\.\d+\S*\n", result.stdout
    )


def test_python_personality_knows_no_option_of_ours(tmp_path):
    result = subprocess.run([HOST_PYTHON, "--version"], capture_output=True, text=True)
    assert re.fullmatch(r"Python 3\.\d+\.\d+\n", result.stdout)
    result = subprocess.run([HOST_PYTHON, "--report", "-c", "1"], capture_output=True, text=True)
    assert result.returncode == 2
    assert re.search("unknown option:? --report", result.stderr, re.IGNORECASE)
    result = subprocess.run([HOST_PYTHON, "doctor"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    assert "can't open file" in result.stderr


ERRORS = [
    (["--reprot", "s.py"], 2, "unknown option '--reprot'; did you mean '--report[=FILE]'? (try 'tracehost help run')"),
    (["--optimise", "off", "s.py"], 2, "unknown option '--optimise'; did you mean '--optimize exact|off'? (try 'tracehost help run')"),
    (["--eagre", "s.py"], 2, "unknown option '--eagre'; did you mean '--eager'? (try 'tracehost help run')"),
    (["--quite-different", "s.py"], 2, "unknown option '--quite-different' (try 'tracehost help run')"),
    (["docter"], 2, "'docter' is neither a file nor a command; did you mean 'doctor'? (try 'tracehost help')"),
    (["notebok"], 2, "'notebok' is neither a file nor a command; did you mean 'notebook'? (try 'tracehost help')"),
    (["benhc"], 2, "'benhc' is neither a file nor a command; did you mean 'bench'? (try 'tracehost help')"),
    (["benchmark"], 2, "'benchmark' is neither a file nor a command; did you mean 'bench'? (try 'tracehost help')"),
    (["--report", "out.txt", __file__], 2, "can't open 'out.txt'; '--report' takes its value behind '=': --report=out.txt"),
    (["zebra"], 2, "'zebra' is neither a file nor a command; the commands are run, lock, fix, notebook, kernel, repl, export, inspect, bench, report, doctor, completion, help (try 'tracehost help')"),
    (["doctor", "--report"], 2, "option '--report' does not apply to 'doctor'; try 'tracehost help doctor'"),
    (["doctor", "now"], 2, "'doctor' takes no argument 'now'"),
    (["help", "rum"], 2, "no command 'rum'; did you mean 'run'? (try 'tracehost help')"),
    (["--python"], 2, "the required argument for option '--python' is missing; try 'tracehost help run'"),
    (["--python=/no/such/python", "-c", "1"], 2, "no Python at '/no/such/python' (--python); name an interpreter or the directory of a virtual environment"),
    (["--report=/no/such/folder/r", "-c", "1"], 2, "cannot write '/no/such/folder/r' (--report): No such file or directory; name a file in a directory you can write to"),
    (["--report=/", "-c", "1"], 2, "cannot write '/' (--report): Is a directory; name a file in a directory you can write to"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "status", "message"), ERRORS, ids=[" ".join(e[0]) for e in ERRORS]
)
def test_bad_input_is_one_line(run_host, args, status, message):
    result = run_host(*args)
    assert (result.returncode, result.stdout) == (status, "")
    assert result.stderr == f"tracehost: {message}\n"


def test_report_that_cannot_be_written_stops_before_the_program(run_host, tmp_path):
    run_host("--report=/no/such/folder/r", "-c", "open('ran', 'w')")
    assert not (tmp_path / "ran").exists()


def test_environment_of_another_python_is_rejected(run_host, tmp_path):
    (tmp_path / "old" / "bin").mkdir(parents=True)
    (tmp_path / "old" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.8.10\n")
    result = run_host(f"--python={tmp_path}/old", "-c", "1")
    assert result.returncode == 2
    assert f"{tmp_path}/old is of Python 3.8.10, but this host embeds Python 3." in result.stderr
    assert len(result.stderr.splitlines()) == 1


SHOW = "import os; print({k: v for k, v in os.environ.items() if k.startswith('TRACEHOST_')})"


def test_settings_reach_the_program_by_the_environment(run_host, tmp_path):
    assert run_host("-c", SHOW).stdout == "{}\n"
    result = run_host("--report=r.txt", "-c", SHOW + "\nprint(os.getpid())")
    settings, pid = result.stdout.splitlines()
    assert eval(settings) == {
        "TRACEHOST_REPORT": str(tmp_path / "r.txt"),
        "TRACEHOST_REPORT_PID": pid,
    }
    assert eval(run_host("--report", "-c", SHOW).stdout)["TRACEHOST_REPORT"] == "-"


def test_twin_of_report_names_the_first_process_only(run_host):
    child = f"import subprocess, sys; subprocess.run([{str(HOST)!r}, '-c', 'import os; print(os.environ[\"TRACEHOST_REPORT_PID\"])'])"
    result = run_host(
        "-c", "import os; print(os.getpid(), flush=True)\n" + child, env={"TRACEHOST_REPORT": "-"}
    )
    first, seen_by_child = result.stdout.split()
    assert seen_by_child == first


def test_virtual_env_of_another_place_does_not_count_here(run_host, tmp_path):
    # The binary lies in a virtual environment: that one is meant, as with python.
    result = run_host("-c", "import sys; print(sys.prefix)", env={"VIRTUAL_ENV": str(tmp_path)})
    assert result.stdout.strip() == str(HOST.parent.parent)


def test_binary_outside_any_environment(tmp_path):
    (tmp_path / "bin").mkdir()
    binary = tmp_path / "bin" / "tracehost"
    binary.write_bytes(HOST.read_bytes())
    binary.chmod(0o755)
    show = [binary, "-c", "import sys; print(sys.prefix, sys.executable)"]
    venv = str(HOST.parent.parent)

    def ask(**env):
        done = subprocess.run(
            show, capture_output=True, text=True, cwd=tmp_path, env=clean_environment(**env)
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert ask() == [venv, str(HOST_PYTHON)], "the one it was built for"
    assert ask(VIRTUAL_ENV=venv) == [venv, str(HOST_PYTHON)]
    assert ask(TRACEHOST_PYTHON=venv) == [venv, str(HOST_PYTHON)]
    assert ask(TRACEHOST_PYTHON=venv + "/bin/python") == [venv, str(HOST_PYTHON)]
    # A fresh environment without tracehost: VIRTUAL_ENV is honoured, children are plain Python.
    subprocess.run([HOST_PYTHON, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    assert ask(VIRTUAL_ENV=str(tmp_path / "v")) == [
        str(tmp_path / "v"),
        str(tmp_path / "v" / "bin" / "python3"),
    ]
    # A link to the binary is the binary.
    link = tmp_path / "linked"
    link.symlink_to(HOST)
    show[0] = link
    assert ask() == [venv, str(HOST_PYTHON)]


def test_name_alone_at_a_terminal_is_a_short_help(host):
    leader, follower = pty.openpty()
    result = subprocess.run([host], stdin=follower, capture_output=True, text=True, timeout=30)
    os.close(leader)
    os.close(follower)
    assert result.returncode == 0
    assert result.stdout.startswith("usage: tracehost ")
    assert len(result.stdout.splitlines()) <= 12


def test_doctor_says_what_to_do(run_host, tmp_path):
    subprocess.run([HOST_PYTHON, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    result = run_host("doctor", "--python", tmp_path / "v")
    assert result.returncode == 1
    assert "FAIL  no torch in " in result.stdout
    assert "FAIL  no tracehost package in " in result.stdout
    assert result.stdout.count("fix: ") == len(
        re.findall("^(FAIL|WARN)", result.stdout, re.MULTILINE)
    )
