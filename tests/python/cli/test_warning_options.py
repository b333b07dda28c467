"""`-W` and PYTHONWARNINGS entries that name tracehost's warning classes, which Python cannot import at its start."""

import subprocess

import pytest
from conftest import HOST, HOST_PYTHON, PYTHON, clean_environment

# What a warning of each class comes to.
WARNS = """
import sys, warnings
import tracehost
def outcome(category):
    with warnings.catch_warnings(record=True) as seen:
        try:
            warnings.warn("the text", category)
        except Warning:
            return "error"
    return "shown" if seen else "quiet"
print(outcome(tracehost.RetraceWarning), outcome(tracehost.TraceWarning), outcome(UserWarning))
"""
RETRACE = "tracehost.RetraceWarning"


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A folder for PYTHONPATH, with a tracehost that has the classes and imports no torch."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "tracehost").mkdir()
    (folder / "tracehost" / "_errors.py").write_text(
        "class RetraceWarning(UserWarning): ...\nclass TraceWarning(UserWarning): ...\n"
    )
    (folder / "tracehost" / "__init__.py").write_text(
        "from ._errors import RetraceWarning, TraceWarning\n"
    )
    return str(folder)


def run(*args, program=WARNS, variable=None, host=HOST, path=None):
    done = subprocess.run(
        [host, *args, "-c", program],
        env=clean_environment(PYTHONWARNINGS=variable, PYTHONPATH=path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("host", [HOST, HOST_PYTHON])
@pytest.mark.parametrize(
    ("args", "variable", "outcomes"),
    [
        (("-W", f"error::{RETRACE}"), None, "error shown shown"),
        (("-Wignore::tracehost.TraceWarning",), None, "shown quiet shown"),
        ((), f"error::{RETRACE}", "error shown shown"),
        ((), f"ignore,error::{RETRACE},error::tracehost.TraceWarning", "error error quiet"),
        (("-W", f"ignore::{RETRACE}"), f"error::{RETRACE}", "quiet shown shown"),
        (("-W", f"error::{RETRACE}", "-W", "ignore"), None, "quiet quiet quiet"),
        (("-W", "ignore", "-W", f"error::{RETRACE}"), None, "error quiet quiet"),
        (("-W", f"error::{RETRACE}", "-W", "ignore::UserWarning"), None, "quiet quiet quiet"),
        (
            ("-W", "ignore", "-W", f"error::{RETRACE}", "-W", "default::UserWarning"),
            None,
            "shown shown shown",
        ),
        (("-W", f"error:the text:{RETRACE}:__main__:7"), None, "error shown shown"),
        (("-W", f"error:the text:{RETRACE}:__main__:8"), None, "shown shown shown"),
        (("-W", f"error:another:{RETRACE}"), None, "shown shown shown"),
        (("-W", f"error::{RETRACE}:another"), None, "shown shown shown"),
        (("-W", "error::tracehost._errors.TraceWarning"), None, "shown error shown"),
    ],
)
def test_an_entry_holds_in_its_place(host, args, variable, outcomes, stub):
    done = run(*args, variable=variable, host=host, path=stub)
    assert (done.stdout, done.stderr) == (outcomes + "\n", "")


def test_options_and_variable_are_as_given():
    program = "import os, sys; print(sys.warnoptions, os.environ.get('PYTHONWARNINGS'), os.environb[b'PYTHONWARNINGS'])"
    args = ("-W", "ignore::UserWarning", "-W", f"error::{RETRACE}", "-W", "error")
    variable = f"default::{RETRACE},once"
    done = run(*args, program=program, variable=variable)
    expected = subprocess.run(
        [PYTHON, *args, "-c", program],
        env=clean_environment(PYTHONWARNINGS=variable),
        capture_output=True,
        text=True,
    )
    assert done.stdout == expected.stdout
    assert done.stderr == ""


FILTERS = "import warnings; print(*warnings.filters, sep='\\n')"


@pytest.mark.parametrize(
    "others",
    [
        ("error", "ignore::UserWarning", "error"),
        ("ignore::m.Missing", "error:a:DeprecationWarning:b:3"),
        ("once::UserWarning:m", "nonsense", "default::ResourceWarning"),
    ],
)
def test_the_other_entries_make_the_filters_that_python_makes(others):
    plain = [word for entry in others for word in ("-W", entry)]
    for place in range(len(others) + 1):
        entries = [*others[:place], f"error::{RETRACE}", *others[place:]]
        done = run(*(word for entry in entries for word in ("-W", entry)), program=FILTERS)
        expected = run(*plain, program=FILTERS, host=PYTHON)
        lines = [line for line in done.stdout.splitlines() if "tracehost" not in line]
        assert lines == expected.stdout.splitlines()
        assert done.stderr == expected.stderr
        assert done.stdout.count("<class 'tracehost.RetraceWarning'>") == 1


def test_nothing_is_imported_for_an_entry():
    program = "import sys; print([name for name in ('torch', 'tracehost') if name in sys.modules])"
    assert run("-W", f"error::{RETRACE}", program=program).stdout == "[]\n"


def test_a_filter_holds_in_blocks_that_copy_the_filters(stub):
    program = """
import warnings
with warnings.catch_warnings():
    import tracehost
    try:
        warnings.warn("a", tracehost.RetraceWarning)
    except tracehost.RetraceWarning:
        print("raised")
try:
    warnings.warn("b", tracehost.RetraceWarning)
except tracehost.RetraceWarning:
    print("raised")
"""
    assert run("-W", f"error::{RETRACE}", program=program, path=stub).stdout == "raised\nraised\n"


def test_a_retrace_ends_the_program():
    program = """
import torch, tracehost
f = tracehost.function(lambda x: x + 1)
try:
    for n in range(1, 9):
        f(torch.ones(n))
except tracehost.RetraceWarning:
    print("at", n)
"""
    assert run("-W", f"error::{RETRACE}", program=program).stdout == "at 5\n"


@pytest.mark.parametrize("entry", ["error::tracehost.RetraceWarnin", "error::tracehost.TraceError"])
def test_a_class_that_is_not_there(entry):
    name = entry.rpartition(".")[2]
    done = run("-W", entry)
    assert done.stdout == "shown shown shown\n"
    assert done.stderr == (
        f"Invalid -W option ignored: tracehost has no warning class '{name}'; "
        "tracehost has RetraceWarning, SideEffectWarning and TraceWarning\n"
    )
    assert run("-W", entry, program="pass").stderr == ""  # tracehost is not imported


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (f"error::{RETRACE}:m:x", "invalid lineno 'x'"),
        (f"bad::{RETRACE}", "invalid action: 'bad'"),
        (f"error::{RETRACE}:m:1:2", f"too many fields (max 5): 'error::{RETRACE}:m:1:2'"),
    ],
)
def test_an_entry_that_is_wrong_elsewhere(entry, why):
    assert run("-W", entry, program="pass").stderr == f"Invalid -W option ignored: {why}\n"


CHILD = """
import multiprocessing, os, subprocess, sys, tempfile
child = '''
import warnings, tracehost
def raises(*_):
    try:
        warnings.warn("a", tracehost.RetraceWarning)
    except Warning:
        return "raised"
    return "shown"
if __name__ == "__main__":
    print(raises())
'''
if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "child.py"), "w") as file:
        file.write(child)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] += os.pathsep + folder
    done = subprocess.run([sys.executable, "-Wdefault", os.path.join(folder, "child.py")], stdout=-1, text=True, stderr=-3)
    print("subprocess", done.stdout.strip())
    import child
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(child.raises, [1])[0])
"""


def test_children(tmp_path, stub):
    """By -W those of multiprocessing, by the variable all of them: as Python hands entries on."""
    (tmp_path / "s.py").write_text(CHILD)
    for args, variable, of_subprocess in (
        (("-W", f"error::{RETRACE}"), None, "shown"),
        ((), f"error::{RETRACE}", "shown"),  # -Wdefault comes later
    ):
        done = subprocess.run(
            [HOST, *args, "s.py"],
            cwd=tmp_path,
            env=clean_environment(PYTHONWARNINGS=variable, PYTHONPATH=stub),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"subprocess {of_subprocess}",
            "fork raised",
            "spawn raised",
            "forkserver raised",
        ]
        assert "Invalid" not in done.stderr


def test_a_subprocess_has_the_variable(stub):
    program = """
import subprocess, sys
child = "import warnings, tracehost; warnings.warn('a', tracehost.RetraceWarning)"
print(subprocess.run([sys.executable, "-c", child], stderr=-1, text=True).stderr.splitlines()[-1])
"""
    done = run(program=program, variable=f"error::{RETRACE}", path=stub)
    assert done.stdout == "tracehost._errors.RetraceWarning: a\n"
