"""`tracehost notebook`: wrong use in one line, packages that are missing, options."""

import pytest
from notebook_support import notebook, save

USAGE = [
    ([], "'notebook' takes at least one notebook; try 'tracehost help notebook'"),
    (["--timeout=x", "n.ipynb"], "--timeout takes a non-negative number, got 'x'"),
    (["-j", "-1", "n.ipynb"], "--jobs takes a non-negative integer, got '-1'"),
    (["none.ipynb"], "cannot read none.ipynb: No such file or directory"),
    (["--cwd=none", "n.ipynb"], "there is no folder 'none' (--cwd)"),
    (["-o", "none/x.ipynb", "n.ipynb"], "cannot write none/x.ipynb: No such file or directory"),
    (["-o", "n.ipynb", "n.ipynb"], "n.ipynb is the notebook itself; --inplace writes into it"),
    (["--inplace", "-o", "x", "n.ipynb"], "--inplace and --output say different things; give one of them"),
    (["-p", "a", "n.ipynb"], "-p takes NAME=VALUE, got 'a'"),
    (["r.ipynb"], "r.ipynb is a notebook of R, not of Python"),
    (["t.py"], "t.py is not a notebook: it is not JSON: Expecting value: line 1 column 1 (char 0)"),
    (["--inplace", "t.py"], "t.py is not a notebook: it is not JSON: Expecting value: line 1 column 1 (char 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[" ".join(u[0]) for u in USAGE])
def test_bad_input_is_one_line(run_host, tmp_path, words, message):
    save(tmp_path / "n.ipynb", notebook("open('ran', 'w')"))
    save(
        tmp_path / "r.ipynb",
        notebook("1", kernelspec={"name": "ir", "display_name": "R", "language": "R"}),
    )
    (tmp_path / "t.py").write_text("print(1)\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = run_host("notebook", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tracehost: {message}\n")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_package_that_is_missing(run_host, tmp_path):
    """A folder in front of site-packages in which nothing of it can be found."""
    save(tmp_path / "n.ipynb", notebook("1"))
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(
        "import sys\nclass Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('ipykernel', 'IPython'): raise ImportError(name)\n"
        "import importlib.util as u\nfound = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('ipykernel', 'IPython') else found(name, *a)\n"
    )
    env = {"PYTHONPATH": str(tmp_path / "hide")}
    done = run_host("notebook", "n.ipynb", env=env)
    assert (done.returncode, done.stderr) == (
        69,
        "tracehost: tracehost notebook needs ipykernel, which is not installed: pip install ipykernel\n",
    )
    assert run_host("kernel", "list", env=env).returncode == 69
    assert run_host("repl", "--ipython", env=env).returncode == 69


def test_the_package_needs_none_of_them(run_host):
    """`import tracehost` stays what it is for programs."""
    names = ["IPython", "nbformat", "nbclient", "ipykernel", "matplotlib", "tracehost_commands"]
    done = run_host("-c", f"import sys, tracehost; print([n for n in {names} if n in sys.modules])")
    assert done.stdout == "[]\n"


def test_the_runner_needs_no_torch(run_host):
    done = run_host(
        "-c",
        "import sys, tracehost_commands.notebook.runner, tracehost_commands.notebook.kernel_engine\n"
        "print('torch' in sys.modules, 'tracehost' in sys.modules)",
    )
    assert done.stdout == "False False\n"
