"""`--trace` and `--intercept`: what is typed, imported modules, children, decorators of any form."""

import re
import subprocess

import pytest
from conftest import HOST, HOST_PYTHON, PYTHON, clean_environment

# -- what is typed -----------------------------------------------------------------------------------------

TROUBLES = [
    (["--trace", "net:f,reduce_retracin"], "--trace net:f: tracehost.function has no option 'reduce_retracin' that can be given here; did you mean 'reduce_retracing'?"),
    (["--trace", "net:f,limit=0"], "--trace net:f: limit takes a whole number from 1 on, got '0'"),
    (["--trace", "net:f,watch=maybe"], "--trace net:f: watch takes true or false, got 'maybe'"),
    (["--trace", "dir/net.py:f"], "--trace dir/net.py:f: name the module, not the file: net:f, or __main__:f for the program itself"),
    (["--trace", "net.f"], "--trace net.f: write MODULE:FUNCTION, such as net:Net.forward or __main__:step"),
    (["--trace", "torch.nn:Linear.forward"], "--trace torch.nn:Linear.forward: that is PyTorch's own; name the function that calls it"),
    (["--intercept", "torch.compil"], "--intercept torch.compil: there is no such decorator; did you mean 'torch.compile'?"),
    (["--intercept", "njit"], "--intercept njit: there is no such decorator; write PACKAGE:NAME, or torch.compile, torch.jit.trace, torch.jit.script"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "line"), TROUBLES, ids=[" ".join(t[0]) for t in TROUBLES])
def test_what_cannot_be_meant_ends_the_program_before_it_starts(run_host, tmp_path, options, line):
    done = run_host(*options, "-c", "open('ran', 'w')")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tracehost: {line}\n")
    assert not (tmp_path / "ran").exists()


def test_names_that_are_not_there_are_told_and_the_program_goes_on(run_host, tmp_path):
    (tmp_path / "net.py").write_text("class Net:\n    def forward(self, x): pass\nLIMIT = 3\n")
    (tmp_path / "s.py").write_text("import net\ndef step(): pass\nprint('done')\n")
    targets = (
        "net:Net.forwrd",
        "net:Nett.forward",
        "net:LIMIT",
        "__main__:stp",
        "__main__:step.deep",
        "s:step",
        "s:stp",
        "nett:f",
    )
    options = [word for target in targets for word in ("--trace", target)]
    done = run_host(*options, "--intercept", "net:jit", "s.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.replace(f"{tmp_path}/", "").splitlines() == [
        "tracehost: --trace __main__:stp: the program defines no 'stp'; did you mean 'step'?",
        "tracehost: --trace net:Net.forwrd: net:Net has no 'forwrd' (net.py); did you mean 'forward'?",
        "tracehost: --trace net:Nett.forward: net has no 'Nett' (net.py); did you mean 'Net'?",
        "tracehost: --trace net:LIMIT: LIMIT is no function (it is an int)",
        "tracehost: --intercept net:jit: net has no 'jit' (net.py)",
        "tracehost: --trace __main__:step.deep: __main__:step has no 'deep' (s.py)",
        "tracehost: --trace s:step: no module 's' was imported; the program itself is __main__:step",
        "tracehost: --trace s:stp: no module 's' was imported; the program itself is __main__, which has no 'stp'; did you mean '__main__:step'?",
        "tracehost: --trace nett:f: no module 'nett' was imported; did you mean 'net'?",
    ]  # fmt: skip


def test_nothing_of_torch_is_imported_before_the_program_does(run_host):
    code = (
        "import sys; print([m for m in sys.modules if m.split('.')[0] in ('torch', 'tracehost')])"
    )
    done = run_host("--intercept", "torch.compile", "-c", code)
    assert done.stdout == "[]\n"
    assert done.stderr == "tracehost: --intercept torch.compile: no module 'torch' was imported\n"


def test_without_the_options_nothing_is_there(run_host):
    code = "import sys; print([m for m in sys.modules if 'interception' in m], len(sys.meta_path))"
    plain = subprocess.run(
        [PYTHON, "-c", code], capture_output=True, text=True, env=clean_environment()
    )
    assert run_host("-c", code).stdout == plain.stdout


# -- imported modules --------------------------------------------------------------------------------------


def test_modules_are_themselves_after_the_import(run_host, tmp_path):
    """Loader and source; imported by another first; reloaded; failing at the first try; what has no Function."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from . import user\n")
    (tmp_path / "pkg" / "net.py").write_text(
        "def f(x): return x\nclass K: pass\nasync def a(): pass\n"
    )
    (tmp_path / "pkg" / "user.py").write_text("from .net import f\n")
    (tmp_path / "bad.py").write_text(
        "import os\nif not os.path.exists('ok'): raise RuntimeError('first')\ndef f(x): return x\n"
    )
    (tmp_path / "s.py").write_text("""\
import importlib, inspect, pickle, sys
import pkg.net, pkg.user
print(type(pkg.net.f).__name__, pkg.user.f is pkg.net.f, type(pkg.net.__loader__).__name__, pkg.net.__loader__ is pkg.net.__spec__.loader)
print(inspect.getsource(pkg.net.f), pickle.loads(pickle.dumps(pkg.net.f)) is pkg.net.f)
before = pkg.net.f
importlib.reload(pkg.net)
print(type(pkg.net.f).__name__, pkg.net.f is before)
for _ in range(2):
    try:
        import bad
        print(type(bad.f).__name__)
    except RuntimeError as error:
        print(error, 'bad' in sys.modules)
        open('ok', 'w')
""")
    names = ("pkg.net:f", "bad:f", "pkg.net:K", "pkg.net:a")
    done = run_host(*[w for n in names for w in ("--trace", n)], "s.py")
    assert done.stdout.splitlines() == [
        "Function True SourceFileLoader True",
        "def f(x): return x",
        " True",
        "Function False",
        "first False",
        "Function",
    ]
    lines = re.sub(r" at 0x\w+", "", done.stderr).splitlines()
    assert sorted(set(lines)) == [
        "tracehost: --trace pkg.net:K: it stays as it is: <class 'pkg.net.K'> is a class: decorate one of its methods (forward, __call__), or an instance",
        "tracehost: --trace pkg.net:a: it stays as it is: <function a> is async: a graph can't wait. Decorate what it calls",
    ]  # fmt: skip


# -- children ----------------------------------------------------------------------------------------------

WORKERS = """\
import multiprocessing as mp, os, subprocess, sys, torch
from helper import scaled, kind, compiled_in_child
from torch.utils.data import DataLoader

@torch.compile
def local(x): return x + 1

class Data:
    def __len__(self): return 4
    def __getitem__(self, i): return scaled(torch.tensor(float(i)))

if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.apply(kind), pool.apply(scaled, (torch.tensor(3.0),)), pool.apply(local, (torch.tensor(1.0),)))
        model = torch.compile(torch.nn.Linear(1, 1, bias=False))
        with torch.no_grad(): model.weight.fill_(2.0)
        print(*pool.apply(compiled_in_child, (model,)))
    print([b.tolist() for b in DataLoader(Data(), batch_size=2, num_workers=1)])
"""
HELPER = """\
import torch

@torch.compile(mode="default")
def scaled(x): return x * 2

def kind(): return type(scaled).__name__

def compiled_in_child(model):
    return type(model).__name__, model(torch.ones(1)).tolist(), list(model.state_dict())
"""


def test_children_inherit_it_and_take_over_functions_and_models(run_host, tmp_path):
    (tmp_path / "s.py").write_text(WORKERS)
    (tmp_path / "helper.py").write_text(HELPER)
    done = run_host("--intercept", "torch.compile", "s.py")
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert out[0] == "Function tensor(6.) tensor(2.)"
    assert out[1] == "OptimizedModule [2.0] ['_orig_mod.weight']"
    assert out[2] == "[[0.0, 2.0], [4.0, 6.0]]"
    assert (
        done.stderr
        == "tracehost: torch.compile at helper.py:3: mode has no meaning for tracehost, and is left out\n"
    )


def test_variables_say_the_same_and_the_options_win(run_host, tmp_path):
    (tmp_path / "fast.py").write_text(FAST)
    code = "import fast; print(hasattr(fast.jit, '__wrapped__'), hasattr(fast.Tools.jit, '__wrapped__'))"
    both = {"TRACEHOST_INTERCEPT": "fast:jit;fast:Tools.jit"}
    for host in (HOST, HOST_PYTHON):
        done = subprocess.run(
            [host, "-c", code],
            capture_output=True,
            text=True,
            env=clean_environment(**both),
            cwd=tmp_path,
        )
        assert (done.stdout, done.stderr) == ("True True\n", "")
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    assert run_host("--intercept", "fast:jit", "-c", child, env=both).stdout == "True False\n"


# -- decorators --------------------------------------------------------------------------------------------

DECORATED = """\
import functools, sys
import torch
from torch import compile as compile_it
from fast import jit, Tools

seen = {}
seen["bare"] = torch.compile(lambda x: x)
seen["with backend"] = torch.compile(backend="eager")(lambda x: x)
seen["from torch import compile"] = compile_it(lambda x: x)
seen["partial"] = functools.partial(torch.compile, dynamic=True)(lambda x: x)

def make():
    @torch.compile(fullgraph=True)
    def inner(x): return x
    return inner

seen["in a function"] = make()

class K:
    @torch.compile
    def method(self, x): return x
    @staticmethod
    @torch.compile
    def fixed(x): return x
    @torch.compile
    @staticmethod
    def fixed_below(x): return x

seen["method"] = K().method.__func__
seen["static"] = K.fixed
seen["static below"] = K.fixed_below
seen["jit"] = jit(lambda x: x)
seen["jit with options"] = jit("f8", parallel=True)(lambda x: x)
seen["jit in a class"] = Tools.jit(lambda x: x)
for name, made in seen.items():
    print(name, type(made).__name__)
print(make().__name__, make().__qualname__, make().__doc__)
try:
    torch.compile(lambda x: x, wrong=1)
except TypeError as error:
    print(error)
from torch.nn.attention import flex_attention
print(torch.compile.__name__, torch.compile.__module__)
"""
FAST = """\
def jit(*args, **options): raise AssertionError("it was not replaced")
class Tools:
    @staticmethod
    def jit(f): raise AssertionError("it was not replaced")
"""


def test_decorators_in_all_their_forms(run_host, tmp_path):
    (tmp_path / "s.py").write_text(DECORATED)
    (tmp_path / "fast.py").write_text(FAST)
    options = (
        "--intercept",
        "torch.compile",
        "--intercept",
        "fast:jit",
        "--intercept",
        "fast:Tools.jit",
    )
    done = run_host(*options, "s.py")
    assert done.stdout.splitlines() == [
        "bare Function", "with backend Function", "from torch import compile Function", "partial Function",
        "in a function Function", "method Function", "static Function", "static below Function",
        "jit Function", "jit with options Function", "jit in a class Function",
        "inner make.<locals>.inner None",
        "got an unexpected keyword argument 'wrong'",
        "compile torch",
    ]  # fmt: skip
    assert done.stderr.splitlines() == [
        "tracehost: torch.compile at s.py:8: backend has no meaning for tracehost, and is left out",
        "tracehost: fast.jit at s.py:33: 'f8', parallel have no meaning for tracehost, and are left out",
    ]
