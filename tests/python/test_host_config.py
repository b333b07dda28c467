"""Settings from variables and files, as they reach a program, a command in Python, and doctor."""

import pytest
from conftest import HOST

SHOW = "import os; print({k: v for k, v in os.environ.items() if k in ('TRACEHOST_REPORT', 'TRACEHOST_PYTHON')})"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "user" / "tracehost").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def ask(run_host, here):
    def run(*args, **env):
        return run_host(*args, env={"XDG_CONFIG_HOME": str(here / "user"), **env})

    return run


def test_a_file_reaches_the_program_and_its_children_as_a_variable(ask, here):
    (here / "tracehost.toml").write_text('report = "r.txt"\n')
    (here / "elsewhere").mkdir()
    child = f"import os, subprocess, sys; subprocess.run([{str(HOST)!r}, '-c', {SHOW!r}], cwd='elsewhere')"
    done = ask("-c", child)
    assert (done.returncode, done.stderr) == (0, "")
    assert eval(done.stdout) == {"TRACEHOST_REPORT": str(here / "r.txt")}
    assert eval(ask("-c", SHOW, TRACEHOST_REPORT="-").stdout) == {"TRACEHOST_REPORT": "-"}
    assert ask("--no-config", "-c", SHOW).stdout == "{}\n"


def test_python_can_come_from_a_file(ask, here):
    (here / "user" / "tracehost" / "config.toml").write_text('python = "/no/such/python"\n')
    file = here / "user" / "tracehost" / "config.toml"
    done = ask("-c", "0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"tracehost: no Python at '/no/such/python' ({file}:1); name an")
    venv = HOST.parent.parent
    assert (
        ask("-c", SHOW, TRACEHOST_PYTHON=str(venv)).stdout == f"{{'TRACEHOST_PYTHON': '{venv}'}}\n"
    )


def test_a_command_in_python_gets_what_files_say(ask, here):
    (here / "pyproject.toml").write_text('[tool.tracehost.kernel]\nname = "from-the-file"\n')
    asked = ("kernel", "uninstall", "--prefix", "k")
    kernels = here / "k/share/jupyter/kernels"
    assert ask(*asked).stderr == f"tracehost: there is no kernel at {kernels}/from-the-file\n"
    done = ask(*asked, TRACEHOST_KERNEL_NAME="from-a-variable")
    assert done.stderr == f"tracehost: there is no kernel at {kernels}/from-a-variable\n"
    done = ask(*asked, "--name", "given", TRACEHOST_KERNEL_NAME="from-a-variable")
    assert done.stderr == f"tracehost: there is no kernel at {kernels}/given\n"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [("reprot = true", 0, "./tracehost.toml:1: unknown key 'reprot'; did you mean 'report'?"),
     ("[notebook]\njobs = 'x'", 2, "./tracehost.toml:2: notebook.jobs takes a whole number from 0 on, got 'x'"),
     ("report = '/no/such/folder/r'", 2, "cannot write '/no/such/folder/r' (./tracehost.toml:1): No such file or directory; name a file in a directory you can write to")],
)  # fmt: skip
def test_mistakes(ask, here, text, status, message):
    (here / "tracehost.toml").write_text(text)
    done = ask("-c", "0")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"tracehost: {message}\n"


def test_a_file_that_is_no_toml_is_refused_with_its_line(ask, here):
    (here / "tracehost.toml").write_text("\n[notebook\n")
    done = ask("-c", "0")
    assert done.returncode == 2
    assert done.stderr.startswith("tracehost: ./tracehost.toml:2: ")


def test_a_file_that_is_not_there(ask):
    done = ask("--config", "x.toml", "-c", "0")
    assert done.returncode == 2
    assert done.stderr == "tracehost: cannot read 'x.toml' (--config): No such file or directory\n"


def test_doctor_shows_settings_and_mistakes(ask, here):
    (here / "tracehost.toml").write_text(
        "[notebook]\ntimeout = 60\n[repl]\nplian = true\ninit = 3\n"
    )
    (here / "torch.py").write_text("__version__ = '0.1'\n")  # found out at once
    shown = ask("doctor", TRACEHOST_NOTEBOOK_SKIP_TAG="slow\nbig", PYTHONPATH=str(here)).stdout
    assert (
        "WARN  ./tracehost.toml:4: unknown key 'repl.plian'; did you mean 'repl.plain'?\n" in shown
    )
    assert "FAIL  ./tracehost.toml:5: repl.init takes a path, got 3\n" in shown
    wanted = "settings:\n  notebook.skip-tag = slow, big (TRACEHOST_NOTEBOOK_SKIP_TAG)\n  notebook.timeout = 60 (./tracehost.toml:2)\n"
    assert shown.endswith(wanted)
    (here / "tracehost.toml").unlink()
    assert ask("doctor", PYTHONPATH=str(here)).stdout.endswith("all settings are the defaults\n")
