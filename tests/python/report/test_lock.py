"""`tracehost lock` writes the signatures that calls trace; `--frozen` allows no others."""

import errno
import os
import resource
import signal
import stat
import subprocess
from pathlib import Path

import pytest
import tracehost_lock as lock
from conftest import HOST, PYTHON, clean_environment
from tracehost_commands.files import write
from tracehost_lock import gate

HEAD = """# tracehost lock, version 1
# Calls may trace these signatures alone where `tracehost run --frozen` runs a program.
# `tracehost lock` writes this file; `tracehost lock --update` adds to it.
"""

NET = """
import sys
import torch, tracehost

@tracehost.function
def step(x, n=1):
    return x * n

for size in sys.argv[1:]:
    step(torch.ones(8, int(size)))
"""


@pytest.fixture
def locked(run_host, tmp_path):
    """locked(program, *args) -> the lines of the lock of net.py, which runs `program`."""

    def made(program, *args, options=(), env=None):
        (tmp_path / "net.py").write_text(program)
        done = run_host("lock", *options, "net.py", *args, env=env)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "tracehost.lock").read_text()
        assert text.startswith(HEAD)
        return text.removeprefix(HEAD).splitlines()

    return made


def test_an_example_whose_size_changes(run_host, locked, tmp_path):
    assert locked(NET, "3") == ["net.step(x: float32[8, 3], n=1)"]
    done = run_host("run", "--frozen", "net.py", "3", "3")
    assert (done.returncode, done.stderr) == (0, "")
    done = run_host("--frozen", "net.py", "3", "4")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "tracehost.TraceError: net.py:10: step (net.py:5) is not locked for this call: x: float32[8, 4] is not "
        "locked, the lock has float32[8, 3]. Pass what is locked, or run 'tracehost lock' to write tracehost.lock again."
    )
    assert "tracehost: " not in done.stderr  # the traceback has said it


def test_an_error_that_is_caught_ends_with_3(run_host, locked, tmp_path):
    locked(NET, "3")
    caught = NET.replace(
        "    step(torch.ones(8, int(size)))",
        "    try:\n        step(torch.ones(8, int(size)))\n    except tracehost.TraceError: pass",
    )
    (tmp_path / "net.py").write_text(caught)
    done = run_host("--frozen", "net.py", "4", "4", "5")
    assert done.returncode == 3
    first, *rest = done.stderr.splitlines()
    assert first == "tracehost: 2 calls are not locked (--frozen)"
    assert [line.startswith("net.py:11: step (net.py:5) is not locked") for line in rest] == [True] * 2  # fmt: skip
    done = run_host("--frozen", "net.py", "3")
    assert (done.returncode, done.stderr) == (0, "")


MANY = """
import enum, functools
import torch, tracehost

class Mode(enum.Enum):
    FAST = 1

class Config:
    pass

class Layer(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
    @tracehost.function
    def run(self, x):
        return x * self.k

class Shown:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __hash__(self): return self.n
    def __repr__(self): return f"<Shown\\n at {hex(id(self))}>"

def make(k):
    @tracehost.function
    def inner(x, *rest, mode=None, **more):
        return x + k
    return inner

x = torch.ones(2)
for k in (1, 2):
    layer = Layer(k)
    layer.run(x)
    make(k)(x, 1.5, mode=Mode.FAST, text="a, b: (\\n", config=Config())
make(3)(x, Shown(1), lambda: 0, (x, [x]), {"k": None})
tracehost.function(lambda x: x + 1)(torch.ones(16))
tracehost.function(lambda x: x + 1)(torch.ones(4))
with torch.no_grad(), torch.autocast("cpu"):
    make(1)(x.double())
SCALE = 1
@tracehost.function
def scaled(x):
    return x * SCALE
for SCALE in (1, 2, 3, 3):
    scaled(x)
scaled(x.requires_grad_())

@tracehost.function(input_signature=[tracehost.TensorSpec([None])])
def declared(x): return x + 1
declared(torch.ones(3)), declared(torch.ones(4))
@tracehost.function(reduce_retracing=True)
def reduced(x): return x + 1
for n in (1, 2, 3, 4): reduced(torch.ones(n, 3))
@tracehost.function
def unused(x): return x
unused.get_concrete_function(x)
part = tracehost.function(functools.partial(torch.add, x))
part(x)
"""


def test_what_is_written(run_host, locked, tmp_path):
    first = locked(MANY)
    assert first == [
        "__main__.partial(args=(float32[2], requires_grad,), kwargs={})",
        "net.<lambda>(x: float32[4])",
        "net.<lambda>(x: float32[16])",
        "net.Layer.run(self=<Layer object>, x: float32[2])",
        "net.declared(x: float32[None])",
        "net.make.<locals>.inner(x: float32[2], rest=(1.5,), mode=Mode.FAST, more={'text': 'a, b: (\\n', 'config': <Config object>})",
        "net.make.<locals>.inner(x: float32[2], rest=(<Shown\\n>, <function <lambda>>, (x, [x]), {'k': None}), mode=None, more={})",
        "net.make.<locals>.inner(x: float64[2], rest=(), mode=None, more={}) with grad mode off, autocast on cpu bfloat16",
        "net.reduced(x: float32[1, 3])",
        "net.reduced(x: float32[None, 3])",
        "net.scaled(x: float32[2]); 3 traces",
        "net.scaled(x: float32[2], requires_grad)",
    ]
    assert locked(MANY) == first
    done = run_host("--frozen", "net.py")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def lock_of_many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    (folder / "net.py").write_text(MANY)
    subprocess.run([HOST, "lock", "net.py"], cwd=folder, env=clean_environment(), check=True)
    return (folder / "tracehost.lock").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("(1, 2, 3, 3)", "(1, 2, 3, 4)"),
            "scaled (net.py:42) is traced again for (x: float32[2]), and the lock allows 3 traces: 'SCALE (net.py)', "
            "which the body reads, is 4, not 3. Keep it the same, or run 'tracehost lock --update' to allow one more.",
        ),
        (
            ("torch.ones(n, 3)", "torch.ones(n, 4)"),
            "reduced (net.py:52) is not locked for this call: x: float32[1, 4] is not locked, the lock has "
            "float32[1, 3] or float32[None, 3].",
        ),
        (
            ("torch.no_grad(), ", ""),
            "is not locked for this call: autocast on cpu bfloat16 is not locked, the lock has grad mode off, "
            "autocast on cpu bfloat16.",
        ),
        (("x, 1.5, mode", "x, 2.5, mode"), "rest=(2.5,) is not locked, the lock has (1.5,)."),
        (("mode=Mode.FAST", "mode='x'"), "mode='x' is not locked, the lock has Mode.FAST."),
        (
            ("def unused(x): return x\n", "def unused(x): return x\nunused(x)\n"),
            "unused (net.py:55) is not in tracehost.lock. Run 'tracehost lock --update' to add it.",
        ),
        (("for k in (1, 2):\n    layer = Layer(k)\n", "for k in (1, 2):\n    layer = Layer(k)\n    if k == 2: layer.run(x); layer.k = 5\n"),
         "run (net.py:15) is traced again for (self=<Layer object>, x: float32[2]), and the lock allows 1 trace: "
         "'self.k', which the body reads, is 5, not 2."),
    ],
)  # fmt: skip
def test_what_is_not_locked(run_host, lock_of_many, tmp_path, change, message):
    (tmp_path / "tracehost.lock").write_text(lock_of_many)
    assert change[0] in MANY
    (tmp_path / "net.py").write_text(MANY.replace(*change))
    done = run_host("--frozen", "net.py")
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]


REDUCED = """
import sys, torch, tracehost
@tracehost.function(reduce_retracing=True)
def reduced(x): return x + BODY
for n in sys.argv[1:]: reduced(torch.ones(int(n), 3))
"""


def test_dynamic_sizes_of_the_lock_take_others(run_host, locked, tmp_path):
    program = REDUCED.replace("BODY", "1")
    assert locked(program, "1", "2") == [
        "net.reduced(x: float32[1, 3])",
        "net.reduced(x: float32[None, 3])",
    ]
    for sizes in (("2", "1", "7"), ("5", "6", "7", "8")):
        done = run_host("--frozen", "net.py", *sizes)
        assert (done.returncode, done.stderr) == (0, "")
    # The body has come to need each size: each is a trace.
    (tmp_path / "net.py").write_text(REDUCED.replace("BODY", "len(str(int(x.shape[0])))"))
    done = run_host("--frozen", "net.py", "5", "6", "7", "8")
    assert done.returncode == 1
    assert (
        "reduced (net.py:3) is traced for (x: float32[7, 3]), where the lock has one trace for (x: float32[None, 3]): "
        "argument 'x', dimension 0, is 7, not 6. Keep these sizes dynamic, or run"
        in done.stderr.splitlines()[-1]
    )


def test_update_adds_and_lock_writes_again(run_host, locked, tmp_path):
    locked(NET, "3")
    path = tmp_path / "tracehost.lock"
    path.chmod(0o640)
    both = ["net.step(x: float32[8, 3], n=1)", "net.step(x: float32[8, 16], n=1)"]
    assert locked(NET, "16", options=["--update"]) == both
    assert locked(NET, "3", options=["--update"]) == both
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert locked(NET, "16") == both[1:]
    done = run_host("lock", "--output", "other.lock", "--update", "net.py", "5")
    assert done.returncode == 0
    assert done.stderr == "tracehost: other.lock has 1 signature of 1 Function\n"
    assert locked(NET, "16", env={"TRACEHOST_LOCK_UPDATE": "1"}) == both[1:]
    done = run_host("--frozen=other.lock", "net.py", "5")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_without_traces(locked):
    assert locked("print()") == []


def test_the_variable(run_host, locked, tmp_path):
    locked(NET, "3")
    assert run_host("net.py", "4", env={"TRACEHOST_FROZEN": "true"}).returncode == 1
    for value in ("1", str(tmp_path / "tracehost.lock")):
        done = subprocess.run(
            [PYTHON, "net.py", "4"],
            cwd=tmp_path,
            env=clean_environment(TRACEHOST_FROZEN=value),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1 and "is not locked" in done.stderr
    for value in ("0", ""):
        assert run_host("net.py", "4", env={"TRACEHOST_FROZEN": value}).returncode == 0
    # To lock is not frozen.
    done = run_host("lock", "net.py", "4", env={"TRACEHOST_FROZEN": "1"})
    assert done.returncode == 0, done.stderr


def test_each_stance_that_traces_is_frozen(run_host, locked, tmp_path):
    locked(NET, "3")
    assert run_host("--frozen", "--stance=eager_on_error", "net.py", "4").returncode == 1
    assert run_host("--frozen", "--eager", "net.py", "4").returncode == 0
    assert run_host("--frozen", "--stance=eager_on_miss", "net.py", "4").returncode == 0
    done = run_host("--frozen", "--stance=fail_on_miss", "net.py", "3")
    assert done.returncode == 1 and "stance 'fail_on_miss'" in done.stderr


CHILDREN = """
import multiprocessing, os, subprocess, sys
import torch, tracehost

@tracehost.function
def step(x):
    return x * 2

def work(size):
    return step(torch.ones(size)).sum().item()

if __name__ == "__main__":
    here, *sizes = map(int, sys.argv[1:])
    step(torch.ones(here))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(work, sizes[:1])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [here, *sizes[1:2]])
    os.mkdir("folder") if not os.path.exists("folder") else None
    child = "import net, sys; net.work(int(sys.argv[1]))"
    sys.exit(subprocess.run([sys.executable, "-c", child, str(sizes[2])], cwd="folder", env=os.environ | {"PYTHONPATH": os.getcwd()}).returncode)
"""


def test_children_are_locked_and_frozen(run_host, locked, tmp_path):
    assert locked(CHILDREN, "1", "2", "3", "4") == [f"net.step(x: float32[{n}])" for n in (1, 2, 3, 4)]  # fmt: skip
    done = run_host("--frozen", "net.py", "1", "2", "3", "4")
    assert (done.returncode, done.stderr) == (0, "")
    done = run_host("--frozen", "net.py", "1", "2", "9", "4")
    assert done.returncode == 1
    assert "x: float32[9] is not locked" in done.stderr


def test_children_of_a_program_that_does_not_import_tracehost(run_host, locked, tmp_path):
    (tmp_path / "child.py").write_text(NET)
    program = """
import subprocess, sys
children = [subprocess.Popen([sys.executable, "child.py", size]) for size in sys.argv[1:]]
sys.exit(max(child.wait() for child in children))
"""
    assert locked(program, "1", "2") == [f"child.step(x: float32[8, {n}], n=1)" for n in (1, 2)]
    assert run_host("--frozen", "net.py", "2", "1").returncode == 0
    assert run_host("--frozen", "net.py", "3").returncode == 1


def test_threads_that_wait_for_a_trace_count_once(run_host, locked, tmp_path):
    program = """
import threading, torch, tracehost
@tracehost.function
def step(x):
    return x * 2
start = threading.Barrier(8)
def call():
    start.wait()
    step(torch.ones(2))
threads = [threading.Thread(target=call) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    assert locked(program) == ["net.step(x: float32[2])"]
    done = run_host("--frozen", "net.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_traces_that_fail_are_locked(run_host, locked, tmp_path):
    program = """
import torch, tracehost
@tracehost.function
def broken(x):
    raise KeyError("its own")
for _ in range(2):
    try: broken(torch.ones(2))
    except KeyError: pass
@tracehost.function
def share(x):
    return x / sum(x.numpy().tolist())
import warnings
warnings.simplefilter("ignore")
with tracehost.stance("eager_on_error"):
    for _ in range(2): share(torch.ones(2))
    share(torch.ones(SIZE))
"""
    assert locked(program.replace("SIZE", "3")) == [
        "net.broken(x: float32[2]); 2 traces",
        "net.share(x: float32[2])",
        "net.share(x: float32[3])",
    ]
    done = run_host("--frozen", "net.py")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "net.py").write_text(program.replace("SIZE", "4"))
    done = run_host("--frozen", "net.py")
    assert done.returncode == 1 and "share (net.py:9) is not locked" in done.stderr


def test_a_run_of_pytest(run_host, tmp_path):
    (tmp_path / "test_net.py").write_text(
        "import torch, tracehost\n"
        "@tracehost.function\ndef step(x): return x * 2\n"
        "def test_a(): step(torch.ones(2))\n"
        "def test_b(): step(torch.ones(3))\n"
    )
    pytest_of = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    done = run_host("lock", *pytest_of, "-k", "test_a")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tracehost.lock").read_text()
    assert text == HEAD + "test_net.step(x: float32[2])\n"
    done = run_host("--frozen", *pytest_of)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "test_net.py:5: step (test_net.py:2) is not locked" in done.stdout
    done = run_host("lock", "-W", "error::UserWarning", *pytest_of, "-x")
    assert done.returncode == 0
    assert run_host("--frozen", *pytest_of).returncode == 0


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("-m", "net", "2"), "net"),
        (("folder", "2"), "folder"),
        (("-c", NET.replace("argv[1:]", "argv[1:2]"), "2"), "__main__"),
    ],
)
def test_names_of_what_python_starts(run_host, tmp_path, args, name):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(NET)
    done = run_host("lock", *args)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tracehost.lock").read_text()
    assert text == HEAD + f"{name}.step(x: float32[8, 2], n=1)\n"
    assert run_host("--frozen", *args).returncode == 0


def test_an_unchanged_script_by_trace(run_host, tmp_path):
    (tmp_path / "net.py").write_text("def step(x): return x * 2\n")
    (tmp_path / "main.py").write_text("import net, sys, torch\nnet.step(torch.ones(int(sys.argv[1])))\n")  # fmt: skip
    done = run_host("lock", "--trace", "net:step", "main.py", "3")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tracehost.lock").read_text()
    assert text == HEAD + "net.step(x: float32[3])\n"
    assert run_host("--frozen", "--trace", "net:step", "main.py", "4").returncode == 1


def test_a_program_that_fails_writes_nothing(run_host, tmp_path):
    (tmp_path / "net.py").write_text(NET + "raise SystemExit(7)\n")
    done = run_host("lock", "net.py", "3")
    assert done.returncode == 7
    assert done.stderr == (
        "tracehost: tracehost.lock is not written: the program ended with exit code 7\n"
    )
    (tmp_path / "net.py").write_text(NET + "import os; os.kill(os.getpid(), 9)\n")
    done = run_host("lock", "net.py", "3")
    assert done.returncode == -signal.SIGKILL
    assert done.stderr.endswith("is not written: the program was ended by SIGKILL\n")
    assert sorted(os.listdir(tmp_path)) == ["net.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "TRACEHOST_FROZEN: tracehost.lock:1: a lock begins with '# tracehost lock, version 1'.",
        ),
        ("step(x)\n", "tracehost.lock:1: a lock begins with"),
        (
            "# tracehost lock, version 2\n",
            "tracehost.lock:1: version 2 of the lock is not supported, but 1.",
        ),
        (
            HEAD + "\nnet.step(x: float32[8, 3], n=1\n",
            "tracehost.lock:5: 'net.step(x: float32[8, 3], n=1' is no signature such as 'train.step(x: float32[8])'. "
            "Restore the line, or write the file again with 'tracehost lock SCRIPT'.",
        ),
        (HEAD + "net.step(x); many traces\n", "tracehost.lock:4: 'net.step(x); many traces' is no"),
        (HEAD + "<<<<<<< ours\n", "tracehost.lock:4: '<<<<<<< ours' is no signature"),
        (HEAD + "net.step(x); 0 traces\n", "tracehost.lock:4: "),
    ],
)
def test_a_lock_that_was_edited_badly(run_host, tmp_path, text, message):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "tracehost.lock").write_text(text)
    done = run_host("--frozen", "net.py", "3")
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    done = run_host("lock", "--update", "net.py", "3")
    assert done.returncode == 2
    assert done.stderr.startswith("tracehost: tracehost.lock:")
    assert (tmp_path / "tracehost.lock").read_text() == text


def test_a_lock_that_is_no_text(run_host, tmp_path):
    (tmp_path / "tracehost.lock").write_bytes(b"\xff\xfe")
    with pytest.raises(lock.LockError, match=r"tracehost.lock:1: the file is not UTF-8 text"):
        lock.read(str(tmp_path / "tracehost.lock"))


def test_a_lock_that_is_not_there(run_host, tmp_path):
    (tmp_path / "net.py").write_text("print('ran')")
    done = run_host("--frozen", "net.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tracehost: cannot open '{tmp_path}/tracehost.lock' (--frozen): No such file or directory; "
        "write it with 'tracehost lock SCRIPT'\n"
    )


def test_the_command_line(run_host, tmp_path):
    (tmp_path / "net.py").write_text("print('ran')")
    done = run_host("lock")
    assert (done.returncode, done.stderr) == (
        2,
        "tracehost: 'lock' takes a program: SCRIPT.py, -m MODULE or -c CODE\n",
    )
    done = run_host("lock", "--output", "/nowhere/a.lock", "net.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tracehost: cannot write '/nowhere/a.lock': No such file or directory; "
        "name a file in a directory you can write to\n"
    )
    (tmp_path / "folder").mkdir()
    done = run_host("lock", "--output", "folder", "net.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert run_host("lock", "missing.py").returncode == 2


def test_a_full_disk_leaves_the_earlier_lock(tmp_path):
    path = tmp_path / "a.lock"
    write(path, lock.text({"net.step": {"(x)": 1}}))
    before = path.read_text()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            write(path, lock.text({"net.step": {"(x)": 1, "(y)": 1}}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["a.lock"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", lock.text({}))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == HEAD


def test_events_that_were_cut_off():
    with pytest.raises(ValueError):
        lock.of_events(['{"version":1,"event":"trace","lo'])


def test_what_is_written_is_read(tmp_path):
    made: lock.Lock = {
        "net.step": {"(x: float32[8], s=') with; 3 traces')": 2, "(x=...": 1, "()": 12},
        "net.make.<locals>.<lambda>": {"(x: float32[None]) with grad mode off": 1},
    }
    path = str(tmp_path / "a.lock")
    write(Path(path), lock.text(made))
    assert lock.read(path) == made
    with open(path, "a") as file:  # as a union merge leaves it
        file.write("net.step()\n\n# a comment\nnet.step(); 20 traces\n")
    assert lock.read(path)["net.step"]["()"] == 20


@pytest.mark.parametrize(
    ("qualified", "name", "file", "expected"),
    [
        ("pkg.net.Net.step", "step", "/a/net.py", "pkg.net.Net.step"),
        ("__main__.step", "step", "/a/train.py", "train.step"),
        ("__mp_main__.step", "step", "/a/train.py", "train.step"),
        ("__main__.step", "step", "/a/tool/__main__.py", "tool.step"),
        ("__main__.step", "step", "<string>", "__main__.step"),
        ("", "part", "/a/my-tool.py", "my_tool.part"),
        ("m.odd (name)", "", "", "m.odd__name_"),
    ],
)
def test_names(qualified, name, file, expected):
    assert lock.name_of(qualified, name, file) == expected


@pytest.mark.parametrize(
    ("wider", "signature", "dimensions"),
    [
        ("(x: float32[None, 3])", "(x: float32[8, 3])", 1),
        ("(x: float32[None, None])", "(x: float32[8, None])", 2),
        ("(x: float32[None, 3])", "(x: float32[8, 4])", 0),
        ("(x: float32[None], y=None)", "(x: float32[8], y=1)", 0),
        ("(x: float32[None])", "(x: float32[None])", 0),
        ("(x: float32[None])", "(x: float32[8]) with grad mode off", 0),
        ("(x: float32[8])", "(x: float32[8])", 0),
    ],
)
def test_dynamic_dimensions(wider, signature, dimensions):
    assert gate._dynamic_dimensions(wider, signature) == dimensions


def test_arguments_are_split_outside_of_brackets_and_quotes():
    arguments = ["a=[1, 2]", r"b='it\'s, c'", "d={'(': 1, 'e': 2}"]
    assert lock.at_commas(", ".join(arguments), ", ") == arguments


def test_messages_name_the_arguments():
    known = {"(x: float32[8], requires_grad, s='a, b=(', n=1)": 1, "(x: float32[9], s='c', n=2)": 1}
    assert gate._difference("(x: float32[8], s='a, b=(', n=1)", known) == (
        "x: float32[8] is not locked, the lock has float32[8], requires_grad"
    )
    many = {f"(n={n})": 1 for n in range(9)}
    assert gate._difference("(n=10)", many) == (
        "n=10 is not locked, the lock has 0, 1, 2 or 6 more"
    )
