"""C code in a side of an `if`: it does nothing where the side is not taken, and does all once where it is."""

import json
import struct
import threading

import numpy as np
import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

PROGRAM = """
import gc, json, locale, logging, os, pickle, queue, random, resource, shutil, signal, socket, subprocess, sys, tempfile
import threading, time, types, warnings
import numpy as np
import torch
import tracehost

warnings.simplefilter("ignore")
here = tempfile.mkdtemp()
os.chdir(here)
seen, armed = [], False


WATCHED = ("open", "os.", "socket.", "subprocess.", "shutil.", "signal.", "time.", "tempfile.", "fcntl.", "resource.", "pty.", "syslog.")


def hook(event, args):
    if not armed or not event.startswith(WATCHED) or event == "os.listdir":  # an import looks there
        return
    if event == "open" and (str(args[0]).endswith((".py", ".pyc")) or not isinstance(args[0], (str, bytes))):
        return  # a source, read to convert it
    seen.append(event)


sys.addaudithook(hook)


def side(call):
    def body(x):
        if x.sum() > 5:
            call()
        return x * 2

    return body


def state():
    shown = [dict(os.environ), os.getcwd(), sorted(os.listdir(here)), gc.isenabled(), signal.getsignal(signal.SIGUSR1)]
    shown += [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), locale.setlocale(locale.LC_ALL)]
    return repr([*shown, threading.active_count(), sys.getswitchinterval(), list(map(str, warnings.filters)), LOG, Q.qsize()])


def watched(function, x):
    global armed
    seen.clear()
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    before, armed = state(), True
    try:
        result = function(x)
    except BaseException as error:
        result = type(error).__name__
    armed = False
    return result, list(seen), before, state()


def in_thread(call, *args):
    thread = threading.Thread(target=call, args=args)
    thread.start()
    thread.join()


def count(path):
    with open(path, "a") as f:
        f.write("x")


LOG, Q, RNG = [], queue.Queue(), random.Random(3)
CALLS = {
    "open": lambda: open("made", "w").close(),
    "append": lambda: count("log"),
    "mkdir": lambda: os.makedirs("folder", exist_ok=True),
    "tempfile": lambda: tempfile.mkdtemp(dir=here),
    "environ": lambda: os.environ.update(A_SIDE=str(len(os.environ))),
    "putenv": lambda: os.putenv("A_SIDE", "1"),
    "chdir": lambda: os.chdir(here),
    "umask": lambda: os.umask(0o22),
    "kill": lambda: os.kill(os.getpid(), signal.SIGURG),
    "signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "socket": lambda: socket.socket().close(),
    "subprocess": lambda: subprocess.run(["true"]),
    "sleep": lambda: time.sleep(0.001),
    "thread": lambda: in_thread(LOG.append, 1),
    "queue": lambda: Q.put(1),
    "gc": lambda: gc.disable(),
    "print": lambda: print("from a side", file=sys.stderr),
    "stdout": lambda: sys.stderr.write("from a side"),
    "os.write": lambda: os.write(2, b"from a side"),
    "logging": lambda: logging.error("from a side"),
    "warn": lambda: warnings.warn("from a side"),
    "filters": lambda: warnings.simplefilter("error"),
    "random": lambda: random.random(),
    "seed": lambda: random.seed(random.random()),
    "numpy": lambda: np.random.rand(),
    "array": lambda: np.save("array.npy", np.ones(2)),
    "save": lambda: torch.save([1], "saved.pt"),
    "pickle": lambda: pickle.dump(1, open("pickled", "wb")),
    "exit": lambda: sys.exit(3),
    "exec": lambda: exec("LOG.append(1)"),
    "eval": lambda: eval("LOG.append(1)"),
    "sys": lambda: sys.setswitchinterval(0.004),
    "import": lambda: __import__("this_is_no_module"),
    "map": lambda: list(map(LOG.append, [1])),
    "sorted": lambda: sorted([2, 1], key=LOG.append),
    "partial": lambda: __import__("functools").partial(LOG.append, 1)(),
    "copy": lambda: shutil.copyfile(__file__, "copy.txt"),
    "rlimit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
}
MODULES = ["posix", "time", "_signal", "_socket", "gc", "sys", "select", "fcntl", "resource", "_thread", "_io", "_locale"]
# What would end the test, were it called.
DEADLY = "kill abort fork exec spawn _exit exit reboot raise_signal pthread setpgid setsid setuid setgid setre setgroups initgroups settrace setprofile call_tracing nice sched sleep pause wait alarm sigwait setitimer breakpointhook displayhook excepthook unraisablehook _debugmallocstats chroot interrupt_main stack_size input set_wakeup_fd close closerange dup".split()
VALUES = [0, 1, "name", b"bytes", None, 0.5, (1, 2), "/tmp"]

found = {"quiet": [], "twice": [], "random": [], "tried": 0}
for name, call in CALLS.items():
    result, events, before, after = watched(tracehost.function(side(call)), torch.ones(2))
    if events or before != after or not torch.is_tensor(result):
        found["quiet"].append([name, events, str(result)])
for name, call in CALLS.items():
    plain = watched(side(call), torch.ones(2) * 4)
    traced = watched(tracehost.function(side(call)), torch.ones(2) * 4)
    if plain[1] != traced[1] or str(plain[0]) != str(traced[0]):
        found["twice"].append([name, plain[1], traced[1], str(plain[0]), str(traced[0])])
draw = random.Random(1)
functions = []
for module in MODULES:
    held = sys.modules.get(module) or __import__(module)
    functions += [f for n, f in sorted(vars(held).items()) if isinstance(f, types.BuiltinFunctionType) and not any(d in n for d in DEADLY)]
for _ in range(200):
    function, args = draw.choice(functions), [draw.choice(VALUES) for _ in range(draw.randrange(3))]
    result, events, before, after = watched(tracehost.function(side(lambda: function(*args))), torch.ones(2))
    found["tried"] += 1
    if events or before != after or not torch.is_tensor(result):
        found["random"].append([function.__module__, function.__name__, repr(args), events, str(result)])
sys.stderr.flush()
print(json.dumps(found))
"""


def test_calls_of_a_side_happen_as_in_eager(run_host, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_host("program.py", timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["quiet"] == [] and found["twice"] == [] and found["random"] == []
    assert found["tried"] == 200


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_lock_in_a_side_that_is_not_taken_stays_free(kind):
    lock = kind()

    def body(x):
        if x.sum() > 3:
            with lock:
                x = x * 2
        return x

    f = tracehost.function(body)
    for value in (1.0, 5.0, 1.0, 5.0):
        x = torch.full((2,), value)
        assert torch.equal(f(x), body(x))
        assert lock.acquire(blocking=False)
        lock.release()


def test_bytes_and_arrays_of_a_side_that_is_not_taken():
    packed, array = bytearray(8), np.zeros(2)

    def body(x):
        if x.sum() > 3:
            struct.pack_into("d", packed, 0, float(len(packed)))
            np.copyto(array, array + 1)
        return x

    f = tracehost.function(body)
    for value, times in ((1.0, 0), (5.0, 1), (1.0, 1), (5.0, 2)):
        f(torch.full((2,), value))
        assert array.tolist() == [times, times]
        assert any(packed) == (times > 0)


def prints_in_a_side(x):
    if x.sum() > 0:
        x = x + 1
    else:
        print("negative")
    return x


def test_print_in_a_side_is_answered_by_tracehosts(capsys):
    line = prints_in_a_side.__code__.co_firstlineno
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(prints_in_a_side).get_concrete_function(tracehost.TensorSpec([3]))
    assert str(caught.value) == (
        f"a side of the if at test_impure_calls.py:{line + 1} calls print() at test_impure_calls.py:{line + 4}, and no "
        "graph can check the condition there: the trace has no values. Write tracehost.print(), which a graph calls, or "
        "decide by a Python value."
    )

    @tracehost.function
    def staged(x):
        if x.sum() > 0:
            x = x + 1
        else:
            tracehost.print("negative")
        return x

    staged.get_concrete_function(tracehost.TensorSpec([3]))
    with assert_traces(staged, 0):
        for sign in (1, -1, 1):
            torch.testing.assert_close(
                staged(torch.ones(3) * sign), torch.ones(3) * (2 if sign == 1 else -1)
            )
    assert capsys.readouterr().err == "negative\n"


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
def test_a_print_that_costs_a_trace_each_time_is_answered_by_tracehosts():
    f = tracehost.function(prints_in_a_side)
    with pytest.warns(
        tracehost.TraceWarning, match="Write tracehost.print\\(\\) there, which a graph calls.$"
    ):
        for _ in range(12):
            f(-torch.ones(3))


def of_a_packet(x):
    if x.sum() > 0:
        return torch.ops.aten.add(x, 1)
    return torch.ops.aten.mul(x, 2)


def of_an_overload(x):
    return torch.ops.aten.add.Tensor(x, 1) if x.sum() > 0 else torch.ops.aten.mul.Tensor(x, 2)


@pytest.mark.parametrize("body", [of_a_packet, of_an_overload])
def test_an_operator_under_a_default_device_is_pure(body):
    """The mode asks whether the operator is one of torch's factories, so for its hash."""
    f = tracehost.function(body)
    torch.set_default_device("cpu")
    try:
        with assert_traces(f, 1):
            for sign in (1, -1, 1, -1):
                x = torch.ones(3) * sign
                assert torch.equal(f(x), body(x))
    finally:
        torch.set_default_device(None)
