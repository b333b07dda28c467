"""`--trace __main__:NAME`: the program's own functions, in all ways that a program is run."""

import subprocess

import pytest
from conftest import PYTHON, clean_environment

SHOWS_ITSELF = """\
from __future__ import annotations
import sys
def step(x): return x
print(hasattr(step, "__wrapped__"), __name__, __file__, sys.argv, sys.path[0], __loader__.__class__.__name__, __spec__)
print(sorted(n for n in globals() if not n.startswith('__')))
"""


def test_a_script_sees_itself_as_ever(run_host, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s.py").write_text(SHOWS_ITSELF)
    plain = subprocess.run(
        [PYTHON, "d/s.py", "-x"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
    )
    done = run_host("--intercept", "__main__:step", "d/s.py", "-x")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == plain.stdout.replace("False", "True", 1)


@pytest.mark.parametrize("text", ["def step(x):\n    return x\n\n\n1 / 0\n", "step = 1\nx = = 2\n", "step = 1\nraise SystemExit(7)\n", "step = 1\nprint('é')\nraise KeyboardInterrupt\n"])  # fmt: skip
def test_a_script_ends_as_ever(run_host, tmp_path, text):
    (tmp_path / "s.py").write_text(text)
    plain = subprocess.run(
        [PYTHON, "s.py"], capture_output=True, text=True, cwd=tmp_path, env=clean_environment()
    )
    done = run_host("--trace", "__main__:step", "s.py")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("tracehost: ")]
    assert (done.returncode, done.stdout, lines) == (
        plain.returncode,
        plain.stdout,
        plain.stderr.splitlines(),
    )


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_script_whose_name_is_not_ascii(run_host, tmp_path, locale):
    """It is looked for before Python starts."""
    name = "größe.py"
    (tmp_path / name).write_text("def step(x): pass\nprint(hasattr(step, '__wrapped__'))\n")
    done = run_host("--trace", "__main__:step", name, env={"LC_ALL": locale})
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_all_ways_to_run_a_program(run_host, tmp_path):
    """-c, -m of a module and of a package, a folder; and of standard input that it is not supported."""
    text = "def step(x): return x\nprint(hasattr(step, '__wrapped__'))\n"
    for name in ("mod.py", "pkg/__main__.py", "pkg/__init__.py", "folder/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if name.endswith("__init__.py") else text)
    for words in (["-c", text], ["-m", "mod"], ["-m", "pkg"], ["folder"]):
        done = run_host("--intercept", "__main__:step", *words)
        assert (done.stdout, done.stderr) == ("True\n", ""), words
    done = run_host("--trace", "__main__:step", "-", stdin=text)
    assert (done.stdout, done.stderr) == (
        "False\n",
        "tracehost: --trace __main__:step: step never came to be in the program; in standard input functions can't be "
        "traced: only in a script named *.py, with -m and with -c\n",
    )
    done = run_host("--trace", "mod:step", "-m", "mod")
    assert (
        done.stderr
        == "tracehost: --trace mod:step: mod ran as the program itself; write __main__:step\n"
    )


BINDS = """\
import functools, torch
step = None
def twice(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args) * 2
    return wrapper
if True:
    @twice
    def step(x): return x + 1
class Net(torch.nn.Module):
    def forward(self, x): return x * 3
    @staticmethod
    def fixed(x): return x - 1
    @classmethod
    def of(cls, x): return x / 2
    class Inner:
        def deep(self, x): return x
    size = property(lambda self: 1)
x = torch.ones(2)
print(step(x).tolist(), Net()(x).tolist(), Net.fixed(x).tolist(), Net().fixed(x).tolist(), Net.of(x).tolist(), Net.Inner().deep(x).tolist())
import tracehost
print(*sorted(f"{e.function}:{e.kind}" for e in tracehost.events()))
"""


def test_names_of_the_program_that_other_modules_define(run_host, tmp_path):
    (tmp_path / "lib.py").write_text("def step(x): return x\ndef other(x): return x\n")
    (tmp_path / "s.py").write_text(
        "from lib import *\nimport lib\nprint(hasattr(step, '__wrapped__'), hasattr(lib.step, '__wrapped__'))\n"
        "with open(__file__) as file: step = lib.other\nprint(hasattr(step, '__wrapped__'))\n"
    )
    done = run_host("--intercept", "__main__:step", "s.py")
    assert (done.stdout, done.stderr) == ("True False\nTrue\n", "")


def test_methods_of_all_kinds_and_decorated_functions(run_host, tmp_path):
    (tmp_path / "s.py").write_text(BINDS)
    names = ("step", "Net.forward", "Net.fixed", "Net.of", "Net.Inner.deep", "Net.size")
    done = run_host(*[w for n in names for w in ("--trace", f"__main__:{n},name={n[-5:]}")], "s.py")
    assert (
        done.stderr
        == "tracehost: --trace __main__:Net.size: Net.size is no function (it is a property)\n"
    )
    assert done.stdout.splitlines() == [
        "[4.0, 4.0] [3.0, 3.0] [0.0, 0.0] [0.0, 0.0] [0.5, 0.5] [1.0, 1.0]",
        ".deep:trace et.of:trace fixed:trace rward:trace step:trace",
    ]
