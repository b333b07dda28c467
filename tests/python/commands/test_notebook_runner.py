"""`tracehost notebook`: exit codes, what is saved when, signals, parameters, several at a time."""

import json
import os
import signal
import subprocess

import pytest
from conftest import clean_environment
from notebook_support import load, notebook, save, texts


@pytest.fixture
def run(run_host, tmp_path):
    """run(notebook, *options) -> (CompletedProcess, result or None), in a folder of its own."""

    def run(made, *options, name="n.ipynb", **more):
        save(tmp_path / name, made)
        done = run_host("notebook", *options, name, **more)
        out = tmp_path / name.replace(".ipynb", ".out.ipynb")
        return done, load(out) if out.exists() else None

    return run


def test_a_failed_cell(run):
    done, result = run(notebook("print('one')", "x = 1\n\nx / 0", "print('three')"))
    assert done.returncode == 1
    assert done.stdout == "one\n"
    assert (
        "tracehost: n.ipynb: cell 2 of 3, line 3: ZeroDivisionError: division by zero\n"
        in done.stderr
    )
    assert "\x1b" not in done.stderr
    assert [texts(cell) for cell in result.cells] == [
        "one\n",
        "ZeroDivisionError: division by zero\n",
        "",
    ]


def test_errors_that_are_allowed(run):
    made = notebook("1 / 0", ("print('left out')", "slow"), "print('next')")
    done, result = run(made, "--allow-errors", "--skip-tag", "slow")
    assert (done.returncode, done.stdout) == (0, "next\n")
    assert [cell.execution_count for cell in result.cells] == [1, None, 2]
    assert (
        "cell 1 of 2: " in done.stderr and ", ZeroDivisionError: division by zero\n" in done.stderr
    )


@pytest.mark.parametrize(
    ("source", "code"),
    [("import sys; sys.exit(0)", 0), ("exit", 0), ("raise SystemExit('no')", 1)],
)
def test_a_notebook_that_ends_itself(run, source, code):
    done, result = run(notebook("1", source, "print('never')"))
    assert (done.returncode, done.stdout) == (code, "")
    assert [cell.execution_count for cell in result.cells] == [1, 2, None]


def test_a_kernel_that_aborts(run):
    done, result = run(notebook("print('one')", "import os; os.abort()", "print('three')"))
    assert done.returncode == 138
    assert "tracehost: n.ipynb: cell 2 of 3: the kernel died of SIGABRT\n" in done.stderr
    assert texts(result.cells[0]) == "one\n"
    assert result.cells[1].outputs[-1].evalue == "the kernel died of SIGABRT"


def test_a_kernel_that_dies_after_its_reply(run):
    """The cell that brought it about is named, not the next one."""
    cell = "import os, tracehost_commands.notebook.in_kernel as hidden\nhidden.after_cell = os.abort\nprint('one')"
    done, result = run(notebook(cell, "print('two')"))
    assert done.returncode == 138
    assert "tracehost: n.ipynb: cell 1 of 2: the kernel died of SIGABRT\n" in done.stderr
    assert texts(result.cells[0]).startswith("one\nDeadKernelError: the kernel died of SIGABRT\n")
    assert result.cells[1].outputs == []


def test_a_thread_that_reads_in_c_code(run):
    """It holds C's lock of its file until the last cell: from glibc 2.41 on exit() waits for that lock,
    of any program."""
    cell = (
        "import ctypes, os, threading\nlibc = ctypes.CDLL(None)\nlibc.fdopen.restype = ctypes.c_void_p\n"
        "reader, writer = os.pipe()\nfile = ctypes.c_void_p(libc.fdopen(reader, b'r'))\n"
        "threading.Thread(target=libc.fgetc, args=(file,), daemon=True).start()\nprinted = libc.puts(b'from C')"
    )
    made = notebook(cell, "print('next')", "os.close(writer)")
    done, result = run(made, "--timeout=60")
    assert (done.returncode, done.stdout) == (0, "from C\nnext\n"), done.stderr
    assert texts(result.cells[0]) == "from C\n"


# In C code that no signal gets out of.
HANG = (
    "import ctypes, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
    "print('hangs', flush=True)\nctypes.CDLL(None).sleep(600)"
)


def test_a_cell_that_hangs_in_native_code(run):
    done, result = run(notebook(HANG, "print('never')"), "--timeout", "2")
    assert done.returncode == 124
    assert "tracehost: n.ipynb: cell 1 of 2: the cell ran longer than 2 s\n" in done.stderr
    assert texts(result.cells[0]).endswith("CellTimeoutError: the cell ran longer than 2 s\n")
    assert result.cells[1].outputs == []


@pytest.fixture
def started(host, tmp_path):
    """started(notebook, *options) -> a running process that has printed its first line."""
    running = []

    def start(made, *options):
        save(tmp_path / "n.ipynb", made)
        process = subprocess.Popen(
            [host, "notebook", *options, "n.ipynb"],
            cwd=tmp_path,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout.readline() != ""
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_input_of_children_is_empty(run):
    made = notebook("import subprocess\nsubprocess.run('cat; echo end', shell=True, check=True);")
    done, _ = run(made, "--timeout=60", stdin="typed\n")
    assert (done.returncode, done.stdout) == (0, "end\n")


WAITS = "import time\nprint('waits', flush=True)\ntime.sleep(600)"


def test_an_interrupt(started, tmp_path):
    process = started(notebook(WAITS, "print('never')"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and out == ""
    result = load(tmp_path / "n.out.ipynb")
    assert texts(result.cells[0]) == "waits\nKeyboardInterrupt: \n"
    assert "tracehost: n.ipynb: cell 1 of 2: interrupted\n" in err


def test_an_interrupt_after_the_last_cell(started, tmp_path):
    """While the runner asks what the cell has traced."""
    cell = (
        "import time, tracehost_commands.notebook.in_kernel as hidden\n"
        "def after_cell():\n    print('waits', flush=True)\n    time.sleep(600)\n"
        "hidden.after_cell = after_cell"
    )
    process = started(notebook(cell))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and out == ""
    assert "tracehost: n.ipynb: cell 1 of 1: interrupted\n" in err
    assert load(tmp_path / "n.out.ipynb").cells[0].execution_count == 1


def test_a_second_interrupt_kills(started, tmp_path):
    process = started(notebook(HANG))
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "once more" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert texts(load(tmp_path / "n.out.ipynb").cells[0]) == "hangs\n"


def test_termination(started, tmp_path):
    process = started(notebook(WAITS))
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert texts(load(tmp_path / "n.out.ipynb").cells[0]).startswith("waits\n")


def test_it_is_saved_while_a_cell_runs(run):
    """The cell ends when it finds its own output in the file."""
    cell = (
        "import time\nprint('mark', 'er')\n"
        "while 'mark er' not in open('n.out.ipynb').read(): time.sleep(0.05)"
    )
    done, _ = run(notebook(cell), "--save-every=0.2", "--timeout=60")
    assert done.returncode == 0, done.stderr


def test_a_full_disk_loses_nothing(host, tmp_path):
    save(tmp_path / "n.ipynb", notebook("print('kept')", "print('x' * 100_000)"))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 32; trap '' XFSZ; exec {host} notebook n.ipynb"],
        cwd=tmp_path,
        env=clean_environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "tracehost: n.ipynb: cannot save to n.out.ipynb: File too large; " in done.stderr
    assert "-> NOT SAVED: n.out.ipynb: File too large\n" in done.stderr
    assert texts(load(tmp_path / "n.out.ipynb").cells[0]) == "kept\n"
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".tmp") == []


@pytest.fixture
def small_disk(host, tmp_path):
    """small_disk(script): bash in tmp_path, where the folder `disk` has 40 KB, and what is left there."""
    inside = "mkdir disk && mount -t tmpfs -o size=40k tmpfs disk || exit 99"
    outside = "cp -a disk left; exit $code"

    def run(script):
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", f"{inside}\n{script}\ncode=$?\n{outside}"],
            cwd=tmp_path,
            env=clean_environment(PATH=f"{host.parent}:{os.environ['PATH']}", TMPDIR=str(tmp_path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )  # fmt: skip
        if done.returncode in (1, 99) and not (tmp_path / "left").exists():
            pytest.skip(f"no disk of its own for a test here: {done.stderr.strip()}")
        return done, tmp_path / "left"

    return run


FULL = "No space left on device"


def test_a_result_that_a_full_disk_does_not_take(small_disk, tmp_path):
    """What was saved stays, and all of it is kept elsewhere."""
    save(tmp_path / "n.ipynb", notebook("print('kept')", "print('x' * 60_000)", "print('last')"))
    done, left = small_disk("tracehost notebook -o disk n.ipynb")
    assert done.returncode == 1
    said = f"tracehost: n.ipynb: cannot save to disk/n.ipynb: {FULL}; what was saved before is there, and it is tried again"
    assert done.stderr.count(said) == 1
    (rescued,) = tmp_path.glob("n-*.ipynb")
    assert (
        "3 cells in " in done.stderr
        and f" -> {rescued} (not disk/n.ipynb: {FULL})\n" in done.stderr
    )
    assert [texts(cell)[:6] for cell in load(rescued).cells] == ["kept\n", "xxxxxx", "last\n"]
    assert [texts(cell) for cell in load(left / "n.ipynb").cells] == ["kept\n", "", ""]
    assert sorted(p.name for p in left.iterdir()) == ["n.ipynb"]


def test_a_notebook_on_a_full_disk_stays_as_it_is(small_disk, tmp_path):
    save(tmp_path / "n.ipynb", notebook("open('ran', 'w')"))
    done, left = small_disk(
        "cp n.ipynb disk && head -c 100000 /dev/zero >disk/fill\n"
        "tracehost notebook --cwd . --inplace disk/n.ipynb"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"tracehost: cannot write disk/n.ipynb: {FULL}\n")
    assert (left / "n.ipynb").read_bytes() == (tmp_path / "n.ipynb").read_bytes()
    assert not (tmp_path / "ran").exists(), "no cell runs whose outputs would be lost"


def test_an_old_notebook_runs(run_host, tmp_path):
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Old"], "metadata": {}},
        {"cell_type": "code", "input": ["print('ran')"], "outputs": [{"output_type": "pyout", "prompt_number": 7, "text": ["stale"], "metadata": {}}], "language": "python", "prompt_number": 7, "collapsed": False, "metadata": {}},
    ]  # fmt: skip
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "old"}, "worksheets": [{"cells": cells}]}  # fmt: skip
    (tmp_path / "old.ipynb").write_text(json.dumps(old))
    done = run_host("notebook", "old.ipynb")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    result = load(tmp_path / "old.out.ipynb")
    assert (result.nbformat, result.nbformat_minor) == (4, 5)
    assert result.cells[0].source == "## Old" and texts(result.cells[1]) == "ran\n"
    assert json.loads((tmp_path / "old.ipynb").read_text()) == old


def test_a_folder_that_vanishes(run_host, tmp_path):
    save(tmp_path / "n.ipynb", notebook("import shutil; shutil.rmtree('results'); print('kept')"))
    (tmp_path / "results").mkdir()
    (tmp_path / "rescue").mkdir()
    env = {"TMPDIR": str(tmp_path / "rescue")}
    done = run_host("notebook", "-o", "results", "n.ipynb", env=env)
    assert done.returncode == 1
    (rescued,) = (tmp_path / "rescue").glob("n-*.ipynb")
    assert f"-> {rescued} (not results/n.ipynb: No such file or directory)" in done.stderr
    assert texts(load(rescued).cells[0]) == "kept\n"


def test_where_the_result_goes(run_host, tmp_path):
    made = notebook("print('one')")
    (tmp_path / "sub").mkdir()
    save(tmp_path / "sub" / "n.ipynb", notebook("import os\nprint(os.getcwd())"))
    done = run_host("notebook", "-o", "-", "sub/n.ipynb")
    assert texts(json_notebook(done.stdout).cells[0]) == f"{tmp_path}/sub\n"
    assert f"{tmp_path}/sub\n" in done.stderr
    done = run_host("notebook", "--cwd", ".", "--inplace", "--html", "sub/n.ipynb")
    assert done.stdout == f"{tmp_path}\n"
    assert texts(load(tmp_path / "sub" / "n.ipynb").cells[0]) == f"{tmp_path}\n"
    assert str(tmp_path) in (tmp_path / "sub" / "n.html").read_text()

    save(tmp_path / "n.ipynb", made)
    (tmp_path / "n.out.ipynb").write_text("{}")
    done = run_host("notebook", "n.ipynb")
    assert (done.returncode, done.stderr) == (
        2,
        "tracehost: n.out.ipynb already exists and was not written by tracehost; use --force to overwrite it\n",
    )
    assert (tmp_path / "n.out.ipynb").read_text() == "{}"
    for _ in range(2):  # the second time it is ours
        assert run_host("notebook", *(["-f"] if _ == 0 else []), "n.ipynb").returncode == 0
    done = run_host("notebook", "-", stdin=(tmp_path / "n.ipynb").read_text())
    assert texts(json_notebook(done.stdout).cells[0]) == "one\n"


def json_notebook(text):
    import nbformat

    return nbformat.reads(text, as_version=4)


def test_parameters_reach_the_cells(run, tmp_path):
    made = notebook(
        ("a = 1\nb = 'x'", "parameters"), ("a = 99", "injected-parameters"), "print(a, b)"
    )
    (tmp_path / "p.yaml").write_text("a: 7\nb: [1, 2.5, null]\n")
    options = ("-P", "p.yaml", "-p", "a=it's", "-p", "b=x=y")
    done, result = run(made, *options)
    assert done.stdout == "it's x=y\n"
    assert [cell.metadata.get("tags") for cell in result.cells] == [
        ["parameters"],
        ["injected-parameters"],
        None,
    ]
    assert result.cells[1].source == "# Parameters\na = \"it's\"\nb = 'x=y'"
    done = run(made, "--list-params")[0]
    assert done.stdout == "a = 1\nb = 'x'\n"
    done = run(made, "-p", "c=1")[0]
    assert done.returncode == 2
    assert (
        done.stderr
        == "tracehost: n.ipynb has no parameter 'c'; it has a, b (--list-params shows them)\n"
    )


def test_parameters_set_by_unpacking(run):
    made = notebook(
        ("a, b = 1, 2\n(c, [d, *e]), f = pair\ng: int = 3", "parameters"), "print(a, b)"
    )
    made.cells[0].source = "pair = (1, (2, 3)), 4\n" + made.cells[0].source
    done, _ = run(made, "-p", "a=5", "-p", "f=6")
    assert (done.returncode, done.stdout) == (0, "5 2\n"), done.stderr
    done, _ = run(made, "--list-params")
    assert done.stdout == "pair = ((1, (2, 3)), 4)\na = 1\nb = 2\nc\nd\ne\nf\ng = 3\n"


def test_a_parameter_that_is_cut_off(run):
    done, _ = run(notebook("print(1)"), "-p", "widths=[1,2")
    assert (done.returncode, done.stderr) == (
        2,
        "tracehost: -p widths=[1,2 is not a Python literal, at column 1: '[' was never closed\n",
    )


def test_a_program_of_a_cell_that_fails(run, tmp_path):
    """`%run` itself succeeds, and shows the error."""
    (tmp_path / "bad.py").write_text("print('one')\n1 / 0\n")
    done, result = run(notebook("%run bad.py", "print('two')"))
    assert (done.returncode, done.stdout) == (1, "one\n")
    assert "tracehost: n.ipynb: cell 1 of 2: ZeroDivisionError: division by zero\n" in done.stderr
    done, result = run(notebook(("%run bad.py", "raises-exception"), "print('two')"))
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")


def test_explain_as_the_last_line_of_a_cell(run):
    made = notebook(STORM, "step.explain(torch.ones(9))")
    shown = texts(run(made)[1].cells[1])
    assert shown.startswith(
        "step (In[1]:2) called with (x: float32[9])\n  miss: it would be traced"
    )
    assert "x.shape[0]: 4 -> 9 (shape)" in shown


STORM = """\
import torch, tracehost
@tracehost.function
def step(x):
    return x + 1
for n in range(4):
    out = step(torch.ones(n + 1))"""


def test_too_many_retraces(run):
    made = notebook(STORM, "for n in range(3): step(torch.ones(n + 1))", "1")
    done, result = run(made, "--max-retraces-per-cell=2")
    assert done.returncode == 3
    complaint = done.stderr[
        done.stderr.index("tracehost: n.ipynb: cell 1: 3 retraces") :
    ].splitlines()
    assert (
        complaint[0]
        == "tracehost: n.ipynb: cell 1: 3 retraces, 2 allowed (--max-retraces-per-cell)"
    )
    assert len(complaint) == 4
    assert "argument 'x', dimension 0, was 1, is 2" in complaint[1]
    assert [cell.metadata.tracehost.retraces for cell in result.cells] == [3, 0, 0]
    assert [cell.metadata.tracehost.hits for cell in result.cells] == [0, 3, 0]


PLACES = """import torch, tracehost
log = []
@tracehost.function
def step(x): return x + 1
@tracehost.function
def noted(x):
    log.append(1)
    return x
@tracehost.function
def reads(x): return x * x.sum().numpy().tolist()
@tracehost.function
def fails(x, i): return x[i]"""

CALLS = """for n in range(5):
    step(torch.ones(n + 1))
noted(torch.ones(2))"""

TOLD = """try: reads(torch.ones(2))
except tracehost.Error as error: print(error)
fails(torch.ones(2), torch.tensor(1))
try: fails(torch.ones(2), torch.tensor(5))
except IndexError as error: print(*error.__notes__)
event = tracehost.events(step)[-1]
print(event.definition, event.call)
print(tracehost.report())"""


def test_places_are_told_by_cell(run):
    """Not by the files that the kernel gives them, whose names say nothing."""
    done, result = run(notebook(PLACES, CALLS, TOLD))
    assert done.returncode == 0
    warned, told = (texts(cell) for cell in result.cells[1:])
    assert (
        "In[2]:2: RetraceWarning: 5 out of the last 5 calls to step (In[1]:3) triggered " in warned
    )
    assert "ipykernel" not in warned
    assert "took 5 values (1, 2, 3, 4, 5), from In[2]:2\n" in warned
    assert "noted (In[1]:5) changes log (In[1]) at In[1]:7 while it is traced" in warned
    error, note, event, head, *rows = told.splitlines()
    assert " at In[1]:10, which a graph can't repeat." in error
    assert note == "in fails (In[1]:11), the op at In[1]:12"
    assert event == "In[1]:3 In[2]:2"
    end = head.index("calls") + len("calls")
    calls = {row.split("  ")[0]: row[:end].split()[-1] for row in rows[:4]}
    assert calls == {
        "step (In[1]:3)": "5",
        "noted (In[1]:5)": "1",
        "reads (In[1]:9)": "1",
        "fails (In[1]:11)": "2",
    }


def test_several_notebooks(run_host, tmp_path):
    save(tmp_path / "a.ipynb", notebook("import os\nname = 'a'\nprint(os.getpid())"))
    save(tmp_path / "b.ipynb", notebook("import os\nprint(os.getpid(), 'name' in dir())\n1 / 0"))
    done = run_host("notebook", "-j", "2", "a.ipynb", "b.ipynb")
    assert done.returncode == 1
    first, second = (load(tmp_path / f"{n}.out.ipynb").cells[0] for n in "ab")
    assert texts(first).strip() != texts(second).split()[0]
    assert texts(second).split()[1] == "False"
    assert "tracehost: a.ipynb: 1 cells in " in done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["a.ipynb:", "b.ipynb:"]
    assert "tracehost: b.ipynb: cell 1 of 1, line 3: ZeroDivisionError" in done.stderr
    done = run_host("notebook", "-o", "new/results", "--allow-errors", "a.ipynb", "b.ipynb")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "new/results")) == ["a.ipynb", "b.ipynb"]
    done = run_host("notebook", "-o", "c.ipynb", "a.ipynb", "b.ipynb")
    assert (done.returncode, done.stderr) == (
        2,
        "tracehost: --output takes a folder for several notebooks, got 'c.ipynb'\n",
    )


def test_a_bar_on_a_terminal(host, tmp_path):
    import fcntl
    import pty
    import struct
    import termios

    save(tmp_path / "n.ipynb", notebook("print('shown')", "1"))
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))
    process = subprocess.Popen(
        [host, "notebook", "n.ipynb"],
        cwd=tmp_path,
        env=clean_environment(TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            data = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    os.close(leader)
    assert process.wait(timeout=60) == 0
    assert b"n.ipynb: 1/2 cells |" in shown and b"shown\r\n" in shown
    assert b"cell 1 of 2" not in shown and b"2 cells in " in shown
    assert json.loads((tmp_path / "n.out.ipynb").read_text())
