"""Ctrl-C and other signals end a graph between two ops, as they end eager code."""

import signal
import threading
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
]

SOON = 0.3  # seconds: until the signal comes


class Stop(Exception):
    pass


@pytest.fixture
def stopped_soon():
    """stopped_soon(f, *args): calls f, which a signal's handler interrupts."""
    tracehost.function(count)(torch.tensor(0), FEW)  # imports what a loop needs
    before = signal.signal(signal.SIGALRM, handler)

    def call(f, *args):
        signal.setitimer(signal.ITIMER_REAL, SOON)
        with pytest.raises(Stop):
            f(*args)

    yield call
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def handler(number, frame):
    raise Stop


def count(turns, last):
    """Runs forever where `last` is so."""
    while turns < last:
        turns.add_(1)
    return turns * 2


FEW, NEVER = torch.tensor(3), torch.tensor(2**62)


def test_a_loop_ends_in_a_traced_call_and_in_a_hit(stopped_soon):
    f = tracehost.function(count)
    turns = torch.tensor(0)
    with assert_traces(f, 1):
        stopped_soon(f, turns, NEVER)
        assert turns > 3  # what was done is done
        assert f(torch.tensor(0), FEW) == 6 and f.stats()["hits"] == 0
        turns.zero_()
        stopped_soon(f, turns, NEVER)
        assert turns > 3
    assert f(torch.tensor(0), FEW) == 6


def test_a_long_graph_ends_between_two_ops(stopped_soon):
    matrix = torch.eye(1500)

    @tracehost.function
    def f(x, done):
        for _ in range(1500):
            done.add_(1)
            x = x @ x
        return x

    f(torch.eye(1), torch.tensor(0)), f(torch.eye(2), torch.tensor(0))  # dynamic sizes
    done = torch.tensor(0)
    stopped_soon(f, matrix, done)
    assert 0 < done < 1500


def test_a_graph_on_another_thread_goes_on(stopped_soon):
    turns, last = torch.tensor(0), torch.tensor(2**62)
    f = tracehost.function(count)
    f(torch.tensor(0), FEW)
    results, never = [], threading.Lock()
    thread = threading.Thread(target=lambda: results.append(f(turns, last)))
    thread.start()
    never.acquire()
    stopped_soon(never.acquire)
    assert results == []
    last.zero_()  # ends it
    thread.join()
    assert results == [turns * 2]


def test_a_handler_that_returns_interrupts_nothing():
    seen = []
    last = torch.tensor(2**62)
    before = signal.signal(signal.SIGALRM, lambda *_: (seen.append(1), last.zero_()))
    try:
        f = tracehost.function(count)
        f(torch.tensor(0), FEW)
        signal.setitimer(signal.ITIMER_REAL, SOON)
        f(torch.tensor(0), last)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [1]


TICKS = 0


def test_a_handler_is_no_part_of_the_body(change):
    """What it counts is not the body's change, and what it reads is no guard."""

    def tick(number, frame):
        change("TICKS", TICKS + 1)

    def body(x):
        signal.raise_signal(signal.SIGUSR1)
        return x * 2

    before = signal.signal(signal.SIGUSR1, tick)
    try:
        f = tracehost.function(body)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert f(torch.ones(1)) == f(torch.ones(1)) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert TICKS == 1 and f.tracing_count() == 1
    assert [w.category for w in seen] == [tracehost.TraceWarning]  # of raise_signal
    assert " calls _signal.raise_signal() at " in str(seen[0].message)


LOOPS = {
    "a loop": "    while x < 2 ** 62:\n        x = x + 1\n    return x\n",
    "a loop in a loop": "    while x < 2 ** 62:\n        while x < 2 ** 62:\n            x = x + 1\n    return x\n",
}


@pytest.mark.parametrize("before", [1, 3], ids=["a recording", "a settled call"])
@pytest.mark.parametrize("loop", LOOPS)
def test_ctrl_c_is_a_keyboard_interrupt(run_host, tmp_path, loop, before):
    (tmp_path / "program.py").write_text(
        "import signal, torch, tracehost\n"
        "@tracehost.function(optimize='exact')\n"
        f"def f(x):\n{LOOPS[loop]}"
        f"for _ in range({before}):\n    f(torch.tensor(2 ** 62))\n"
        "signal.signal(signal.SIGVTALRM, signal.default_int_handler)\n"
        f"signal.setitimer(signal.ITIMER_VIRTUAL, {SOON})\n"  # behind a recording, on a busy machine too
        "f(torch.tensor(0))\n"
    )
    done = run_host("program.py")
    line = 5 + (loop != "a loop")
    assert done.stderr.rstrip().splitlines()[-2:] == [
        "KeyboardInterrupt",
        f"in f (program.py:2), the op at program.py:{line}",
    ]
