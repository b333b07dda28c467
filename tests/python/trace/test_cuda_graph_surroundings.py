"""CUDA graphs beside what else a process does: streams, threads, captures of its own, modes."""

import gc
import sys
import threading

import pytest
import torch
import tracehost
from cuda_graphs import NEEDED, chain, function, served_by, settled

pytestmark = NEEDED


def test_streams_in_turn():
    """Results of one stream are the inputs of the next, which waits for it."""
    f = settled()
    streams = [torch.cuda.Stream(), torch.cuda.default_stream(), torch.cuda.Stream()]
    x = y = torch.ones(3, device="cuda")
    for i in range(12):
        stream = streams[i % 3]
        stream.wait_stream(streams[(i - 1) % 3])
        with torch.cuda.stream(stream):
            x.record_stream(stream)
            y.record_stream(stream)
            x, y = f(x), chain(y)
    torch.cuda.synchronize()
    assert torch.equal(x, y)
    assert served_by(f) == "a CUDA graph (12 ops)"


def test_a_stream_that_the_caller_does_not_wait_for():
    """Two streams without an order between them: the capture's own memory is used by one after the other."""
    f = settled(size=1 << 12)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [torch.full((1 << 12,), float(i), device="cuda") for i in range(10)]
    torch.cuda.synchronize()
    found = []
    for i, x in enumerate(inputs):
        with torch.cuda.stream(streams[i % 2]):
            found.append(f(x))
    torch.cuda.synchronize()
    for x, y in zip(inputs, found, strict=True):
        assert torch.equal(y, chain(x))


def test_sizes_of_one_function_on_two_streams():
    """Their captures share memory, and no stream waits for the other one by itself."""
    f = function(chain)
    inputs = [torch.full((1000 + i % 2,), float(i), device="cuda") for i in range(24)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    found = []
    for i, x in enumerate(inputs):
        with torch.cuda.stream(streams[i % 2]):
            found.append(f(x))
    torch.cuda.synchronize()
    for x, y in zip(inputs, found, strict=True):
        assert torch.equal(y, chain(x))
    assert f.stats()["captured"] == 2


def queue_up():
    """Work of the current stream, behind which later work of this stream waits."""
    y = torch.ones(3, device="cuda")
    for _ in range(8):
        y = chain(y)


def test_a_function_is_dropped_while_another_stream_replays():
    """Its memory is that of the stream that it was captured on, which may use it again."""
    f = settled()
    x, other = torch.full((3,), 5.0, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(other):
        queue_up()
        y = f(x)
    del f
    gc.collect()
    later = [torch.full((3,), 99.0, device="cuda") for _ in range(64)]
    torch.cuda.synchronize()
    assert torch.equal(y, chain(x))
    assert all(t.eq(99).all() for t in later)


@pytest.mark.parametrize("calls", [1, 2])
def test_the_result_of_a_warm_run_is_dropped_before_its_reader_runs(calls):
    """Warm runs allocate on a stream of their own: the next one of another Function may get that memory."""
    f, many = settled(calls=calls), settled(lambda x: [x + i for i in range(12)], calls=calls)
    x, z = torch.full((3,), 5.0, device="cuda"), torch.full((3,), 99.0, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        y = f(x)
        queue_up()
        read = y + 0
        del y
    with torch.cuda.stream(torch.cuda.Stream()):
        many(z)
        torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    assert torch.equal(read, chain(x))


def test_a_write_is_seen_by_the_stream_that_waits():
    total = torch.zeros(3, device="cuda")

    def body(x):
        total.add_(chain(x))
        return total * 2

    f, side, main = function(body), torch.cuda.Stream(), torch.cuda.current_stream()
    x = torch.ones(3, device="cuda")
    expected = torch.zeros(3)
    for i in range(12):
        side.wait_stream(main)
        with torch.cuda.stream(side if i % 2 else main):
            y = f(x)
        main.wait_stream(side)
        expected += chain(torch.ones(3))
        assert torch.allclose(y.cpu(), expected * 2)
        assert torch.allclose(total.cpu(), expected)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("calls", [1, 2, 6])
def test_a_capture_of_another_thread_is_not_broken(mode, calls):
    """f warms, is captured or is replayed meanwhile; none of it waits for the device as that capture forbids."""
    f = settled(calls=calls)
    given = [torch.full((3,), float(i), device="cuda") for i in range(4)]
    begun, proceed, result = threading.Event(), threading.Event(), []

    def capture():
        x = torch.ones(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode=mode):
                y = x * 2
                begun.set()
                proceed.wait(60)
                y = y + 1
            x.fill_(4)
            graph.replay()
            result.append(y.tolist())
        except RuntimeError as error:
            result.append(str(error))

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait(60)
    try:
        found = [f(x) for x in given]
    finally:
        proceed.set()
        thread.join()
    assert result == [[9, 9, 9]]
    for x, y in zip(given, found, strict=True):
        assert torch.equal(y, chain(x))


def test_a_trace_does_not_break_a_capture_of_another_thread():
    """It compares the graph with the body, and waits for that."""
    begun, proceed, result = threading.Event(), threading.Event(), []
    x, z = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")

    def capture():
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                y = x * 2
                begun.set()
                proceed.wait(60)
                y = y + 1
            graph.replay()
            result.append(y.tolist())
        except RuntimeError as error:
            result.append(str(error))

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait(60)
    f = tracehost.function(chain)
    try:
        y = f(z)
    finally:
        proceed.set()
        thread.join()
    assert result == [[3, 3, 3]]
    assert torch.equal(y, chain(z))
    assert f.stats()["validated"] == 1


def test_a_capture_of_the_callers_on_another_stream_of_this_thread():
    f = settled(calls=2)
    x = torch.ones(3, device="cuda")
    given = [torch.full((3,), float(i), device="cuda") for i in range(4)]
    graph, aside = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    found = []
    with torch.cuda.stream(aside):
        chain(x)  # the stream has memory now; none can be allocated in a capture
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = x * 2
        with torch.cuda.stream(aside):
            for z in given:
                found.append(f(z))
        y = y + 1
    x.fill_(4)
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [9, 9, 9]
    for z, w in zip(given, found, strict=True):
        assert torch.equal(w, chain(z))


def test_threads_with_parameters_that_move():
    """Four threads, each on two streams in turn, allocate and free meanwhile; each moves its weight now and then.
    One after the other they settle, so that each has a capture, then all call at once."""
    shared = function(chain)
    wrong, functions = [], []
    turn, all_settled = threading.Lock(), threading.Barrier(4)
    standin = sys.modules.get("standin")
    if standin:
        standin.reset()

    def work(k):
        torch.cuda.set_device(0)
        weight = torch.nn.Parameter(torch.full((4, 4), k / 8, device="cuda"), requires_grad=False)
        mine = function(lambda x: chain(x @ weight))
        functions.append(mine)
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        streams[0].wait_stream(torch.cuda.current_stream())
        seen = []

        def call(i):
            stream = streams[i % 2]
            stream.wait_stream(streams[1 - i % 2])
            with torch.cuda.stream(stream):
                if i % 8 == 7:
                    weight.data = weight.data.clone() + 0.125
                churn = [torch.full((n + 1,), 9.0, device="cuda") for n in range((i + k) % 5)]
                x = torch.full((2, 4), i / 8, device="cuda")
                y = mine(x)
                seen.append((y, shared(y), churn))

        with turn:
            for i in range(7):
                call(i)
        all_settled.wait(60)
        for i in range(7, 48):
            call(i)
        for stream in streams:
            stream.synchronize()
        w = torch.full((4, 4), k / 8)
        for i, (y, z, _) in enumerate(seen):
            w = w + 0.125 if i % 8 == 7 else w
            expected = chain(torch.full((2, 4), i / 8) @ w)
            if not (torch.equal(y.cpu(), expected) and torch.equal(z.cpu(), chain(expected))):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [f.stats()["captured"] > 0 for f in functions] == [True] * 4
    if standin:
        assert standin.count("graph_launch") >= 4 * 20


def test_modes_that_come_and_go():
    f = settled()
    x = torch.ones(3, device="cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            assert torch.equal(f(x), chain(x))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            assert torch.equal(f(x), chain(x))
        with torch.inference_mode():
            assert torch.equal(f(x), chain(x))
        assert torch.equal(f(x), chain(x))
    assert served_by(f) == "a CUDA graph (12 ops)"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one GPU")
def test_another_device_is_the_current_one():
    f = settled()
    with torch.cuda.device(1):
        for _ in range(6):
            x = torch.ones(3, device="cuda:0")
            assert torch.equal(f(x), chain(x))
    for device in ["cuda:1", "cuda:0"] * 6:
        x = torch.ones(3, device=device)
        assert torch.equal(f(x), chain(x))
