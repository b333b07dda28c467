"""Options of commands in Python: what is said of mistakes, their variables, and who wins."""

import json
import os
import signal
import subprocess

import pytest
from conftest import HOST
from tracehost_commands.commands import commands
from tracehost_commands.errors import CommandError, UsageError
from tracehost_commands.options import FLAG
from tracehost_commands.reading import all_given, read


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Also undoes what read() does to the environment."""
    for name in [name for name in os.environ if name.startswith("TRACEHOST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", os.environ.copy())


def said(name, *words):
    """`name=values origin` of all that says something"""
    options, _ = read(name, list(words))
    return [f"{g.option.full_name}={','.join(g.texts)} {g.origin}" for g in options.given]


def complaint(name, *words):
    with pytest.raises(UsageError) as caught:
        read(name, list(words))
    return str(caught.value)


def test_the_table_of_the_binary_is_the_one_that_is_installed(run_host):
    done = run_host("--options-json")
    from tracehost_commands import commands as table

    with open(table.OF_RUN, encoding="utf-8") as file:
        assert json.loads(done.stdout) == json.load(file)
    assert json.loads(done.stdout)["commands"] == list(commands())


def test_commands_that_are_older_than_the_binary(tmp_path):
    """The binary has a command that the package does not know."""
    words = [HOST.with_name("tracehost-python"), "-m", "tracehost_commands", "later", "x"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "tracehost: tracehost_commands is older than the binary, and has no command 'later'; "
        "run scripts/setup or pip install again\n",
    )


def test_a_table_that_is_gone(monkeypatch, tmp_path):
    from tracehost_commands import commands as table

    commands.cache_clear()
    monkeypatch.setattr(table, "OF_RUN", f"{tmp_path}/none.json")
    with pytest.raises(
        CommandError, match=r"^cannot read .*none\.json: .*; run scripts/setup or pip"
    ):
        read("kernel", ["list"])


def test_the_table_needs_no_python(run_host, tmp_path):
    done = run_host("--options-json", env={"PYTHONHOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_options_stand_among_the_words():
    words = ["a", "--inplace", "b", "--timeout", "3", "-p", "x=-1", "-j4", "--", "--force", "-"]
    options, rest = read("notebook", words)
    assert rest == ["a", "b", "--force", "-"]
    assert (options.inplace, options.timeout, options.jobs) == (True, 3.0, 4)
    assert (options.param, options.force, options.output) == (["x=-1"], False, None)
    assert (options.start_timeout, options.html) == (60.0, None)
    options, rest = read("notebook", ["--output", "--force", "-p", "-x=1", "a"])
    assert (options.output, options.force, options.param, rest) == ("--force", False, ["-x=1"], ["a"])  # fmt: skip
    assert (read("notebook", ["--html"])[0].html, read("notebook", ["--html=x"])[0].html) == ("-", "x")  # fmt: skip
    assert read("notebook", ["--html", "a"])[1] == ["a"], "an optional value is behind ="
    assert read("export", ["m:f", "--signature", "f32[?], -1"])[0].signature == ["f32[?], -1"]


WRONG = [
    ("notebook", ["-z", "a"], "unknown option '-z' (try 'tracehost help notebook')"),
    ("notebook", ["--parm=a=1"], "unknown option '--parm'; did you mean '--param NAME=VALUE'? (try 'tracehost help notebook')"),
    ("inspect", ["--js"], "unknown option '--js'; did you mean '--json'? (try 'tracehost help inspect')"),
    ("export", ["--singature", "f32[]"], "unknown option '--singature'; did you mean '--signature ARGUMENTS'? (try 'tracehost help export')"),
    ("inspect", ["-o", "a"], "unknown option '-o' (try 'tracehost help inspect')"),
    ("inspect", ["--output", "a"], "option '--output' does not apply to 'inspect'; try 'tracehost help inspect'"),
    ("kernel", ["--report", "list"], "option '--report' does not apply to 'kernel'; try 'tracehost help kernel'"),
    ("notebook", ["-o"], "the required argument for option '--output' is missing; try 'tracehost help notebook'"),
    ("notebook", ["-o", "a", "--output=b"], "option '--output' cannot be specified more than once; try 'tracehost help notebook'"),
    ("notebook", ["--inplace=x"], "--inplace takes true or false, got 'x'"),
    ("notebook", ["--timeout=x"], "--timeout takes a non-negative number, got 'x'"),
    ("notebook", ["--timeout=nan"], "--timeout takes a non-negative number, got 'nan'"),
    ("notebook", ["--timeout=1_0"], "--timeout takes a non-negative number, got '1_0'"),
    ("notebook", ["-j", "1.5"], "--jobs takes a non-negative integer, got '1.5'"),
    ("notebook", ["-j", "-1"], "--jobs takes a non-negative integer, got '-1'"),
    ("notebook", ["--retrace-warn=0"], "--retrace-warn takes off, error or a whole number from 1 on, got '0'"),
    ("repl", ["--stance=x"], "--stance takes default, eager, eager_on_miss, eager_on_error or fail_on_miss, got 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words", "message"), WRONG)
def test_options_that_are_wrong(name, words, message):
    assert complaint(name, *words) == message


def test_every_option_has_a_variable(monkeypatch):
    for command in commands().values():
        if command.name in ("run", "help"):  # the binary's; it has none
            continue
        for option in command.settings():
            text = "true" if option.kind is FLAG else (option.kind.choices or ["7"])[-1]
            with monkeypatch.context() as patch:
                patch.setenv(option.variable, text)
                wanted = f"{option.full_name}={text} {option.variable}"
                assert said(command.name) == [wanted]


def test_names_of_variables():
    names = {o.name: o.variable for o in commands()["notebook"].settings()}
    assert names["jobs"] == "TRACEHOST_NOTEBOOK_JOBS"
    assert names["max-retraces-per-cell"] == "TRACEHOST_NOTEBOOK_MAX_RETRACES_PER_CELL"
    assert names["stance"] == "TRACEHOST_STANCE"
    assert not {"help", "version"} & {o.name for o in commands()["doctor"].settings()}


def test_an_option_wins(monkeypatch):
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_JOBS", "wrong, and not read")
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "3")
    wanted = ["notebook.jobs=4 --jobs", "notebook.timeout=3 TRACEHOST_NOTEBOOK_TIMEOUT"]
    assert said("notebook", "-j4", "a.ipynb") == wanted


def test_an_option_wins_over_the_variable_of_one_that_it_excludes(monkeypatch):
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_OUTPUT", "o")
    monkeypatch.setenv("TRACEHOST_REPL_PLAIN", "1")
    assert said("notebook", "--inplace") == ["notebook.inplace=true --inplace"]
    assert said("repl", "--ipython") == ["repl.ipython=true --ipython"]
    options, _ = read("repl", ["--ipython=false"])
    assert (options.ipython, options.plain) == (False, True)
    assert read("repl", ["--plain=false"])[0].plain is False


def test_flags_are_switched_off(monkeypatch):
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "1")
    assert read("notebook", [])[0].allow_errors is True
    assert read("notebook", ["--allow-errors=false"])[0].allow_errors is False
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "0")
    assert read("notebook", [])[0].allow_errors is False
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "")
    assert said("notebook") == []


def test_an_option_that_may_be_repeated_has_a_value_on_each_line(monkeypatch):
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_PARAM", "c=3\nd=x y\n")
    options, _ = read("notebook", ["--skip-tag=a", "--skip-tag=b"])
    assert (options.skip_tag, options.param) == (["a", "b"], ["c=3", "d=x y"])


def test_a_variable_that_is_wrong(monkeypatch):
    monkeypatch.setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "soon")
    assert complaint("notebook") == "TRACEHOST_NOTEBOOK_TIMEOUT takes a non-negative number, got 'soon'"  # fmt: skip
    assert said("repl") == [], "it is another command's"
    with pytest.raises(UsageError, match="TRACEHOST_NOTEBOOK_TIMEOUT"):
        all_given([])


def test_all_that_is_set_is_shown_whoever_it_is_for(monkeypatch):
    monkeypatch.setenv("TRACEHOST_EXPORT_NAME", "f")
    monkeypatch.setenv("TRACEHOST_REPORT", "-")
    monkeypatch.setenv("TRACEHOST_PYTHON", "v")
    options, _ = read("doctor", ["--python=v"])
    shown = [f"{g.option.full_name}={','.join(g.texts)} {g.origin}" for g in all_given(options.given)]  # fmt: skip
    assert sorted(shown) == ["export.name=f TRACEHOST_EXPORT_NAME", "python=v --python", "report=- TRACEHOST_REPORT"]  # fmt: skip


def test_what_is_shared_with_run_reaches_the_environment(monkeypatch):
    monkeypatch.setenv("TRACEHOST_STANCE", "eager_on_miss")
    read("export", [])
    assert os.environ["TRACEHOST_STANCE"] == "eager_on_miss"
    read("notebook", ["--eager", "--trace=a:f", "--trace", "b:g"])
    found = {name: text for name, text in os.environ.items() if name.startswith("TRACEHOST_")}
    assert found == {"TRACEHOST_EAGER": "true", "TRACEHOST_TRACE": "a:f\nb:g"}


def test_options_in_front_of_the_command_are_its_own(run_host, tmp_path):
    wanted = f"tracehost: there is no kernel at {tmp_path}/k/share/jupyter/kernels/tracehost\n"
    assert run_host("kernel", "uninstall", "--prefix", "k").stderr == wanted
    done = run_host("--stance", "eager", "kernel", "list")
    assert done.stderr == "tracehost: option '--stance' does not apply to 'kernel'; try 'tracehost help kernel'\n"  # fmt: skip


def test_a_command_does_not_write_the_files_of_a_run(run_host, tmp_path):
    env = {"TRACEHOST_REPORT": str(tmp_path / "r.txt"), "TRACEHOST_MAX_RETRACES": "0"}
    (tmp_path / "m.py").write_text(
        "import os, tracehost\nprint(sorted(n for n in os.environ if n[:10] == 'TRACEHOST_'))\n"
        "@tracehost.function\ndef f(x): return x + 1\n"
    )
    done = run_host("export", "m.py:f", "-o", "f.pt", "--signature=f32[2]", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[]\n")
    assert not (tmp_path / "r.txt").exists()


def test_interception_in_a_command(run_host, tmp_path):
    (tmp_path / "m.py").write_text("def f(x): return x + 1\n")
    (tmp_path / "init.py").write_text("import sys, m; print(type(m.f).__name__)\n")
    words = ("repl", "--plain", "-i", "init.py")
    done = run_host(*words, "--trace", "m:f", env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout.splitlines()[:1] == ["Function"], done.stderr
    done = run_host("repl", "--trace", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing" in done.stderr


def test_a_reader_that_has_gone_ends_a_command_as_it_ends_other_tools():
    """`tracehost doctor | head -1`"""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [HOST, "inspect", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
