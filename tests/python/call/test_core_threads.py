"""Any thread may call: one trace a signature, others wait; a failed trace is everybody's own."""

import queue
import threading

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning"),
    pytest.mark.timeout(120),
]

X = torch.arange(4.0)
PATIENCE = 60  # seconds: only a test that fails waits so long


def all_end(threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "deadlock"


def together(count, work):
    """work(i) in `count` threads that start at once; their results or exceptions, in order."""
    barrier = threading.Barrier(count)
    results = [None] * count

    def run(i):
        barrier.wait(PATIENCE)
        try:
            results[i] = work(i)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    all_end(threads)
    return results


class Signal:
    """Built on a lock, in which the trace sees no state that changes."""

    def __init__(self):
        self.lock = threading.Lock()
        self.lock.acquire()

    def give(self):
        self.lock.release()

    def wait(self):
        self.lock.acquire(timeout=PATIENCE)


class Gate:
    def __init__(self):
        self.entered = Signal()
        self.go = Signal()


def test_eight_cold_threads_trace_once():
    for _ in range(5):
        f = tracehost.function(lambda x: (x * 2 + 1).sin())
        results = together(8, lambda i: f(X))
        assert all(torch.equal(r, (X * 2 + 1).sin()) for r in results)
        stats = f.stats()
        assert (stats["traces"], stats["hits"], stats["live"]) == (1, 7, 1)


def test_eight_hot_threads_agree():
    w = torch.ones(4, requires_grad=True)
    f = tracehost.function(lambda x: (x * w).exp().sum())
    f(X)

    def work(i):
        x = X + i
        values = [f(x) for _ in range(50)]
        (grad,) = torch.autograd.grad(values[-1], w)
        return values, grad

    for i, (values, grad) in enumerate(together(8, work)):
        x = X + i
        expected = (x * w).exp().sum()
        assert all(torch.equal(v, expected) for v in values)
        assert torch.equal(grad, torch.autograd.grad(expected, w)[0])
    assert f.tracing_count() == 1 and f.stats()["hits"] == 8 * 50


def test_eight_threads_with_signatures_of_their_own():
    f = tracehost.function(lambda x: x.sum() * len(x))
    results = together(8, lambda i: [f(torch.ones(i + 1)) for _ in range(20)])
    for i, values in enumerate(results):
        assert all(v == (i + 1) ** 2 for v in values)
    assert f.tracing_count() == f.stats()["live"] == 8


def test_threads_that_retrace_and_evict_at_once():
    f = tracehost.function(lambda x: x.sum() * len(x), limit=3)

    def work(i):
        return [f(torch.ones((i + j) % 12 + 1)) for j in range(48)]

    for i, values in enumerate(together(8, work)):
        assert [int(v) for v in values] == [((i + j) % 12 + 1) ** 2 for j in range(48)]
    stats = f.stats()
    assert stats["live"] == 3 and stats["traces"] - stats["evicted"] == 3
    assert stats["calls"] == 8 * 48


def test_others_wait_for_the_trace_that_is_under_way():
    gate = Gate()
    runs = []

    def body(x):
        runs.append(1)
        gate.entered.give()
        gate.go.wait()
        return x * 2

    f = tracehost.function(body)
    results = queue.SimpleQueue()
    threads = [threading.Thread(target=lambda: results.put(f(X))) for _ in range(8)]
    threads[0].start()
    gate.entered.wait()
    for thread in threads[1:]:
        thread.start()
    gate.go.give()
    all_end(threads)
    assert all(torch.equal(results.get_nowait(), X * 2) for _ in threads)
    assert len(runs) == f.tracing_count() == 1


def test_a_hit_of_another_signature_does_not_wait():
    gate = Gate()

    def body(x, wait):
        if wait:
            gate.entered.give()
            gate.go.wait()
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 3):
        f(X, False)
        thread = threading.Thread(target=lambda: f(X, True))
        thread.start()
        gate.entered.wait()
        assert torch.equal(f(X, False), X * 2)  # a hit
        assert torch.equal(f(torch.ones(9), False), torch.full((9,), 2.0))  # a trace
        gate.go.give()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_each_waiting_thread_runs_a_trace_that_failed_itself():
    runs = []

    def body(x):
        runs.append(1)
        raise ValueError(f"run {len(runs)}")

    f = tracehost.function(body)
    results = together(8, lambda i: f(X))
    assert sorted(str(e) for e in results) == sorted(f"run {i}" for i in range(1, 9))
    assert all(type(e) is ValueError for e in results)
    assert len(runs) == 8 and f.stats()["live"] == 0


def test_the_first_trace_fails_while_others_wait():
    gate = Gate()
    fails = [True]

    def body(x):
        if fails:
            fails.pop()
            gate.entered.give()
            gate.go.wait()
            raise ValueError("the first")
        return x * 2

    f = tracehost.function(body)
    outcome = {}

    with assert_traces(f, 1):

        def call(i):
            try:
                outcome[i] = f(X)
            except ValueError as error:
                outcome[i] = error

        threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        threads[0].start()
        gate.entered.wait()
        for thread in threads[1:]:
            thread.start()
        gate.go.give()
        all_end(threads)
        assert str(outcome[0]) == "the first"
        assert all(torch.equal(outcome[i], X * 2) for i in range(1, 8))


def test_two_functions_are_traced_at_once_in_two_threads():
    ping, pong = Signal(), Signal()

    def first(x):
        y = x * 2
        ping.give()
        pong.wait()  # the other trace is under way
        with torch.no_grad():
            y = y + 1
        ping.give()
        pong.wait()
        return y + x

    def second(x):
        ping.wait()
        y = x - 5
        pong.give()
        ping.wait()
        y = y * 3
        pong.give()
        return y

    f, g = tracehost.function(first), tracehost.function(second)
    a, b = together(2, lambda i: (f, g)[i](X))
    assert torch.equal(a, X * 3 + 1) and torch.equal(b, (X - 5) * 3)
    assert f.tracing_count() == g.tracing_count() == 1
    assert torch.equal(g(X + 1), (X - 4) * 3) and g.stats()["hits"] == 1


def test_eager_code_of_another_thread_is_not_recorded():
    gate = Gate()

    def body(x):
        gate.entered.give()
        gate.go.wait()
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        thread = threading.Thread(target=lambda: f(X))
        thread.start()
        gate.entered.wait()
        other = (X + 1).sum().item()  # a read here is nobody's business
        assert other == 10 and repr(X) == "tensor([0., 1., 2., 3.])"
        gate.go.give()
        thread.join(PATIENCE)
        assert torch.equal(f(X), X * 2)


def test_modes_belong_to_their_threads():
    f = tracehost.function(lambda x: x * 2)
    x = X.clone().requires_grad_()

    def work(i):
        with torch.set_grad_enabled(i % 2 == 0):
            return [f(x).requires_grad for _ in range(20)]

    for i, flags in enumerate(together(8, work)):
        assert flags == [i % 2 == 0] * 20
    assert f.tracing_count() == 2


def test_a_function_released_by_another_thread():
    for _ in range(20):
        box = [tracehost.function(lambda x: x * 2)]
        box[0](X)
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join(PATIENCE)
    assert torch.equal(tracehost.function(lambda x: x * 3)(X), X * 3)


def test_clear_while_others_call():
    f = tracehost.function(lambda x: x * 2)

    def work(i):
        for _ in range(30):
            if i == 0:
                f.clear()
            assert torch.equal(f(X), X * 2)

    assert together(4, work) == [None] * 4
    stats = f.stats()
    assert stats["calls"] == 120 and stats["live"] == 1


FIRST_ERRORS = """
import threading, torch, tracehost
start = threading.Barrier(8)
seen = []

@tracehost.function
def f(x, n):
    start.wait()
    raise ValueError(n)

def call(n):
    try:
        f(torch.ones(2), n)
    except ValueError as error:
        seen.append(error.args[0])

threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(seen))
"""


def test_the_first_errors_of_a_process_come_from_all_threads_at_once(run_host, tmp_path):
    """Each imports what an error needs, and so gives up the GIL."""
    (tmp_path / "program.py").write_text(FIRST_ERRORS)
    done = run_host("program.py")
    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]\n", done.stderr
