"""The simulated CUDA runtime itself. Run with `pytest -p standin` (standin.py); the last tests run the others again in
processes with lazy streams and with unreadable device memory."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import standin
import torch
from torch import nn

HERE = Path(__file__).resolve()
MIB = 1 << 20

lazily = pytest.mark.skipif(not standin.lazy, reason="needs STANDIN_LAZY=1")
eagerly = pytest.mark.skipif(standin.lazy, reason="needs eager streams")
first_process = pytest.mark.skipif("STANDIN_INNER" in os.environ, reason="starts processes")


@pytest.fixture(autouse=True)
def generator_outside_of_captures():
    """A capture that fails leaves torch 2.11's generator in it, and no test after it draws."""
    yield
    generator = torch.cuda.default_generators[0]
    generator.graphsafe_set_state(generator.clone_state())


@pytest.fixture(autouse=True)
def clean():
    torch.cuda.set_device(0)
    for device in range(2):
        torch.cuda.synchronize(device)
    torch.manual_seed(0)
    standin.reset()
    yield
    standin.fail_after(-1)
    standin.delay(0)


def cuda(*values):
    return torch.tensor(values, dtype=torch.float32, device="cuda")


def counted(*names):
    return tuple(standin.count(name) for name in names)


# Devices


def test_two_devices():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_name(1) == "Simulated GPU 1"
    assert torch.cuda.get_device_capability(0) == (9, 0)
    assert torch.cuda.get_device_properties(0).total_memory == 4096 * MIB


def test_a_tensor_lies_where_its_device_says():
    x = torch.ones(3, device="cuda:1")
    assert (x + 1).device == torch.device("cuda", 1)
    with torch.cuda.device(1):
        assert torch.zeros(2, device="cuda").device.index == 1
    assert torch.zeros(2, device="cuda").device.index == 0


def test_devices_do_not_mix():
    for other in (torch.ones(3, device="cuda:1"), torch.ones(3)):
        with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and c"):
            torch.ones(3, device="cuda:0") + other


def test_a_number_of_the_host_may_stand_beside_a_device():
    assert (cuda(1, 2) * torch.tensor(3.0)).tolist() == [3, 6]


def test_a_copy_between_devices_needs_no_synchronisation():
    x = cuda(1, 2)
    standin.reset()
    y = x.to("cuda:1")
    assert counted("sync", "memcpy", "wait_event") == (0, 1, 2)
    assert y.tolist() == [1, 2]


# Memory


def test_memory_comes_back():
    before = torch.cuda.memory_allocated()
    x = torch.empty(MIB, device="cuda")
    assert torch.cuda.memory_allocated() == before + 4 * MIB
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert standin.used(0) == torch.cuda.memory_reserved() < 4 * MIB


def test_out_of_memory_leaves_the_device_usable():
    with pytest.raises(torch.cuda.OutOfMemoryError, match="Tried to allocate 5.00 GiB"):
        torch.empty(5 << 30, dtype=torch.uint8, device="cuda")
    assert (cuda(1) + 1).item() == 2


def test_free_and_total_memory():
    free, total = torch.cuda.mem_get_info()
    assert total == 4096 * MIB
    assert free == total - standin.used(0)


# Ops


def test_results_in_place_out_and_views():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x.add_(1) is x
    y = torch.empty(0, device="cuda")
    assert torch.mul(x, 2, out=y) is y
    values, indices = torch.sort(x.t()[1:], dim=0, descending=True)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert y.tolist() == [[2, 4, 6], [8, 10, 12]]
    assert values.tolist() == [[3, 6], [2, 5]]
    assert indices.tolist() == [[1, 1], [0, 0]]
    a, b = torch.ones(2, device="cuda"), torch.ones(3, device="cuda")
    torch._foreach_add_([a, b], 2)
    assert a.tolist() + b.tolist() == [3] * 5
    assert torch.view_as_complex(cuda(1, 2).reshape(1, 2)).conj().imag.item() == -2


def test_an_error_of_an_op_is_an_error_of_the_call():
    with pytest.raises(RuntimeError, match="size of tensor a .3. must match"):
        torch.ones(3, device="cuda") + torch.ones(2, device="cuda")
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(2, 3).add_(1)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].add_(x[:-1])


def test_gradients():
    x = cuda(1, 2).requires_grad_()
    (x**3).sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_a_kernel_that_was_not_replaced_fails():
    with pytest.raises(RuntimeError, match="operation not supported"):
        torch.cuda._sleep(1)
    assert counted("real_kernel") == (1,)


# Counts


@pytest.mark.parametrize(
    ("program", "kernels", "syncs"),
    [
        (lambda x: x * 2 + 1, 2, 0),
        (lambda x: x[0], 0, 0),
        (lambda x: x.item(), 0, 1),
        (lambda x: x.nonzero(), 1, 1),
        (lambda x: x[x > 0], 2, 1),
        (lambda x: x.__setitem__(x > 0, 0.0), 2, 0),
        (lambda x: torch.equal(x, x.clone()), 2, 1),
        (lambda x: x.clone(), 1, 0),
        (lambda x: x.cpu(), 0, 1),
        (lambda x: x.to("cpu", non_blocking=True), 0, 0),
        (lambda x: torch.ones(1).cuda(), 0, 1),
        (lambda x: torch.cuda.synchronize(), 0, 1),
    ],
)
def test_counts_of_kernels_and_synchronisations(program, kernels, syncs):
    x = cuda(1)
    standin.reset()
    program(x)
    assert counted("kernel", "sync") == (kernels, syncs)


def test_counts_of_copies():
    x = cuda(1)
    page_locked = torch.empty(1, pin_memory=True)
    standin.reset()
    page_locked.copy_(x, non_blocking=True)
    x.copy_(page_locked, non_blocking=True)
    assert counted("memcpy", "sync", "kernel") == (2, 0, 0)
    x.copy_(page_locked)
    assert counted("memcpy", "sync", "kernel") == (3, 1, 0)


def test_counts_have_names():
    cuda(1) + 1
    assert standin.counts()["kernel"] == 1
    with pytest.raises(KeyError, match="no counter 'kernels'; there are kernel, sync"):
        standin.count("kernels")


def test_kernels_of_a_stream():
    a, b = torch.cuda.Stream(), torch.cuda.Stream(device=1)
    x, y = cuda(1), torch.ones(1, device="cuda:1")
    standin.reset()
    with torch.cuda.stream(a):
        x + 1
    with torch.cuda.stream(b):
        y + 1 + 1
    x + 1
    assert [standin.on_stream(s) for s in (a, b, torch.cuda.default_stream(0))] == [1, 2, 1]


def test_synchronisations_with_the_gil():
    torch.cuda.synchronize()
    assert counted("sync", "gil_sync") == (1, 0)
    # PyDLL keeps the GIL.
    ctypes.PyDLL(str(standin.LIBRARIES / "libstandin_runtime.so")).cudaDeviceSynchronize()
    assert counted("sync", "gil_sync") == (2, 1)


def test_threads_that_keep_the_gil_and_threads_that_drop_tensors():
    keeping = ctypes.PyDLL(str(standin.LIBRARIES / "libstandin_runtime.so"))
    stop = threading.Event()

    def work(stream):
        with torch.cuda.stream(stream):
            x = torch.ones(4000, device="cuda")
            while not stop.is_set():
                x = x * 1.0 + 0.0
                x.sum().item()

    # Two threads share a stream.
    streams = [torch.cuda.default_stream(), torch.cuda.default_stream(), torch.cuda.Stream()]
    threads = [threading.Thread(target=work, args=[s]) for s in streams]
    for thread in threads:
        thread.start()
    for _ in range(300):
        keeping.cudaDeviceSynchronize()
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


# Streams


def product_on(stream, wait):
    """2 * 3, where the 2 is copied on the default stream and used on another one."""
    factor = torch.full((1,), 2.0).pin_memory().to("cuda", non_blocking=True)
    if wait:
        stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = factor * 3
    factor.record_stream(stream)
    stream.synchronize()
    return result.item()


def test_a_wait_orders_streams():
    assert product_on(torch.cuda.Stream(), wait=True) == 6


@lazily
def test_a_missing_wait_gives_a_wrong_value():
    for _ in range(3):  # the memory of the first call contains the right value
        assert product_on(torch.cuda.Stream(), wait=False) != 6


@lazily
def test_streams_that_do_not_wait_take_turns():
    x = torch.ones(3, device="cuda")
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    shared = torch.zeros(3, device="cuda")
    torch.cuda.synchronize()
    found = []
    for stream in streams:
        with torch.cuda.stream(stream):
            shared.copy_(x * (len(found) + 1))
            found.append(shared + 0)
    torch.cuda.synchronize()
    assert [one.tolist() for one in found] == [[2, 2, 2]] * 2


@lazily
def test_a_chain_of_waits():
    streams = [torch.cuda.Stream() for _ in range(4)]
    x = cuda(0)
    for stream in [*streams, *streams]:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x.add_(1)
        torch.cuda.current_stream().wait_stream(stream)
    assert standin.queued() > 8
    assert x.item() == 8


@lazily
def test_work_waits_for_its_turn():
    x = cuda(1)
    y = x + 1
    assert standin.queued() == 1
    torch.cuda.current_stream().synchronize()
    assert standin.queued() == 0
    y + 1
    torch.cuda.Stream().synchronize()
    assert standin.queued() == 1
    torch.cuda.synchronize()
    assert standin.queued() == 0


@lazily
def test_an_event_is_ready_after_some_queries():
    cuda(1) + 1
    event = torch.cuda.Event()
    event.record()
    cuda(1)  # this waits, for it is no event
    assert event.query()
    x = torch.ones(3, device="cuda")
    event.record()
    x + 1
    answers = [event.query() for _ in range(4)]
    assert answers == [False, False, False, True]
    assert standin.queued() == 1  # what follows the event
    x + 1
    event.record()
    event.synchronize()
    assert standin.queued() == 0


@lazily
def test_a_copy_to_the_host_that_nobody_waits_for():
    x = torch.full((1,), 5.0, device="cuda")
    page_locked = torch.zeros(1).pin_memory()
    page_locked.copy_(x, non_blocking=True)
    assert page_locked.item() == 0
    torch.cuda.current_stream().synchronize()
    assert page_locked.item() == 5


@lazily
def test_the_source_of_a_copy_changes_too_early():
    page_locked = torch.full((1,), 5.0).pin_memory()
    x = page_locked.to("cuda", non_blocking=True)
    page_locked.fill_(7)
    assert x.item() == 7
    pageable = torch.full((1,), 5.0)
    x = pageable.to("cuda", non_blocking=True)
    pageable.fill_(7)
    assert x.item() == 5


def reused_memory(record):
    """Memory is used on another stream, dropped, and used again on the stream that it was made on."""
    stream = torch.cuda.Stream()
    x = torch.full((1000,), 2.0, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x * 3
    if record:
        x.record_stream(stream)
    del x
    z = torch.full((1000,), 5.0, device="cuda")
    torch.cuda.current_stream().synchronize()
    torch.cuda.current_stream().wait_stream(stream)
    assert z[0].item() == 5
    return y[0].item()


def test_memory_is_not_reused_before_its_stream_has_run():
    assert reused_memory(record=True) == 6


@lazily
def test_a_missing_record_stream_gives_a_wrong_value():
    assert reused_memory(record=False) == 15


@lazily
def test_memory_of_queued_work_may_be_freed():
    before = standin.used()
    x = torch.full((8 * MIB,), 2.0, device="cuda")
    y = x.sum()
    del x
    torch.cuda.empty_cache()
    assert standin.used() <= before
    assert y.item() == 16 * MIB


@lazily
def test_indices_that_are_not_known_yet():
    x = torch.arange(100.0, device="cuda")
    indices = x.flip(0).argsort()[:3]
    assert standin.queued() > 0
    assert x[indices].tolist() == [99, 98, 97]
    assert x[x > 97].tolist() == [98, 99]
    x[x > 97] = 0
    assert x.nonzero().numel() == 97
    assert x[x > 96].tolist() == [97]


@lazily
def test_a_long_queue_runs_its_oldest_work():
    x = torch.zeros(1, device="cuda")
    for _ in range(3000):
        x.add_(1)
    assert 0 < standin.queued() <= 1024
    assert x.item() == 3000


@lazily
def test_training_with_lazy_streams():
    def losses(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, 40).reshape(10, 4).to(device)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).cpu()

    torch.testing.assert_close(losses("cuda"), losses("cpu"))


# Random numbers


def test_a_seed_repeats_and_each_call_differs():
    def numbers():
        x = torch.rand(3, device="cuda")
        return [*x.tolist(), *torch.randn(2, device="cuda").tolist(), *torch.randperm(5, device="cuda").tolist()]  # fmt: skip

    torch.cuda.manual_seed(1)
    first, second = numbers(), numbers()
    torch.cuda.manual_seed(1)
    assert numbers() == first != second
    state = torch.cuda.get_rng_state()
    third = numbers()
    torch.cuda.set_rng_state(state)
    assert numbers() == third


def test_a_generator_that_is_given():
    generator = torch.Generator("cuda").manual_seed(3)
    first = torch.rand(3, device="cuda", generator=generator).tolist()
    assert torch.rand(3, device="cuda", generator=generator.manual_seed(3)).tolist() == first
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(3, device="cuda", generator=torch.Generator())


def test_the_numbers_of_the_host_are_its_own():
    torch.manual_seed(0)
    expected = torch.rand(2).tolist()
    torch.manual_seed(0)
    x = torch.ones(100, device="cuda")
    nn.functional.dropout(x, 0.5)
    torch.native_dropout(x, 0.5, True)
    torch.rand(3, device="cuda")
    assert torch.rand(2).tolist() == expected


# Captures


def test_a_replay_reads_what_its_inputs_contain():
    x, y = cuda(1), cuda(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = x * 2
        y += 1
    assert y.item() == 0  # a capture runs nothing
    for value in (3, 4):
        x.fill_(value)
        graph.replay()
        assert z.item() == 2 * value
    assert y.item() == 2
    assert counted("capture", "instantiate", "graph_launch") == (1, 1, 2)


def test_copies_to_and_from_the_host_in_a_capture():
    source, target = torch.ones(3).pin_memory(), torch.zeros(3).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source.to("cuda", non_blocking=True) + 1, non_blocking=True)
    assert target.tolist() == [0, 0, 0]
    for value in (3, 4):
        source.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert target.tolist() == [value + 1] * 3


def test_work_around_a_replay():
    x = cuda(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        x.fill_(4)
        graph.replay()
        z = y + 1
    torch.cuda.current_stream().wait_stream(stream)
    assert z.item() == 9


def test_random_numbers_of_a_replay():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(1)
    graph.replay()
    first = x.tolist()
    graph.replay()
    assert x.tolist() != first
    torch.cuda.manual_seed(1)
    graph.replay()
    assert x.tolist() == first
    torch.cuda.manual_seed(1)
    assert torch.rand(3, device="cuda").tolist() == first


@pytest.mark.parametrize(
    "unsafe",
    [
        lambda x: x.item(),
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: torch.ones(3).cuda(),
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.current_stream().query(),
    ],
)
def test_an_unsafe_call_invalidates(unsafe):
    x = cuda(1)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="previous error during capture"):
        with torch.cuda.graph(graph):
            y = x + 1
            with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
                unsafe(x)
    assert (x + 1).item() == 2


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_synchronisation_of_another_thread(mode):
    x = cuda(1)
    failures = []

    def synchronise():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            failures.append(str(error))

    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode=mode):
            x + 1
            thread = threading.Thread(target=synchronise)
            thread.start()
            thread.join()

    if mode == "global":
        with pytest.raises(RuntimeError, match="previous error during capture"):
            capture()
        assert "not permitted when stream is capturing" in failures[0]
    else:
        capture()
        assert not failures


def forked(join):
    x = cuda(1)
    other, third = torch.cuda.Stream(), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        origin = torch.cuda.current_stream()
        other.wait_stream(origin)
        with torch.cuda.stream(other):
            y = x + 1
        third.wait_stream(other)
        with torch.cuda.stream(third):
            z = y + 1
        other.wait_stream(third)  # the origin joins both by joining this one
        if join:
            origin.wait_stream(other)
    graph.replay()
    return z.item()


def test_streams_join_a_capture():
    assert forked(join=True) == 3


def test_an_unjoined_stream():
    with pytest.raises(RuntimeError, match="unjoined work"):
        forked(join=False)


def test_a_capture_does_not_wait_for_an_event_from_outside():
    event = torch.cuda.Event()
    event.record(torch.cuda.Stream())
    with pytest.raises(RuntimeError, match="previous error during capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            with pytest.raises(RuntimeError, match="dependency created on uncaptured work"):
                torch.cuda.current_stream().wait_event(event)


def test_the_default_stream_is_not_captured():
    default = torch.cuda.default_stream()  # torch 2.11 leaves the stream of a capture that failed
    with torch.cuda.stream(default), pytest.raises(RuntimeError, match="on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.Adam(parameters, lr=0.1, capturable=True),
        lambda parameters: torch.optim.Adam(parameters, lr=0.1, capturable=True, fused=True),
    ],
    ids=["sgd", "adam", "fused adam"],
)
def test_training_in_a_capture_equals_eager(optimizer_of):
    def training():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1)).cuda()
        optimizer = optimizer_of(model.parameters())
        x = torch.linspace(-1, 1, 40, device="cuda").reshape(10, 4)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.manual_seed(7)
        return step

    step = training()
    eager = [step().item() for _ in range(4)]
    step = training()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    torch.cuda.manual_seed(7)
    replayed = []
    for _ in range(4):
        graph.replay()
        replayed.append(loss.item())
    assert replayed == eager


# Faults


def test_a_fault_stays():
    x = cuda(1)
    standin.fail_after(1)
    x + 1
    x + 1  # its own launch succeeds
    for _ in range(2):
        with pytest.raises(RuntimeError, match="illegal memory access"):
            torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        x + 1
    standin.fail_after(-1)
    assert (x + 1).item() == 2


@lazily
def test_work_that_fails_in_its_turn(capfd):
    x = cuda(1, 2)
    page_locked = torch.zeros(1, dtype=torch.int64).pin_memory()
    index = page_locked.to("cuda", non_blocking=True)
    x[index]
    page_locked.fill_(9)  # before the copy has run
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        torch.cuda.synchronize()
    assert "out of bounds" in capfd.readouterr().err


def test_a_synchronisation_may_take_longer():
    standin.delay(50_000)
    began = time.perf_counter()
    torch.cuda.synchronize()
    assert time.perf_counter() - began >= 0.05


# Other processes


def run(*arguments, **environment):
    return subprocess.run(
        [Path(sys.prefix) / "bin" / "tracehost", *arguments],
        env={**os.environ, "STANDIN_INNER": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


@first_process
@pytest.mark.parametrize("protect", ["0", "1"])
def test_the_host_cannot_read_protected_memory(protect, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, standin, torch\n"
        "x = torch.ones(1, device='cuda')\n"
        "print((x + 1).item(), flush=True)\n"
        "print(ctypes.c_float.from_address(x.data_ptr()).value)\n"
    )
    ran = run(program, STANDIN_PROTECT=protect)
    assert ran.stdout.startswith("2.0\n")
    assert ran.stdout == ("2.0\n" if protect == "1" else "2.0\n1.0\n")
    assert (ran.returncode != 0) == (protect == "1"), ran.stderr


@first_process
def test_use_of_the_cpu_initialises_no_device(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import standin, torch\n"
        "torch.ones(3).sum().item(); torch.cuda.is_available(); torch.cuda.device_count()\n"
        "print(standin.initialised(), torch.cuda.is_initialized())\n"
        "torch.ones(3, device='cuda:1')\n"
        "print(standin.initialised(), standin.initialised(0), standin.initialised(1))\n"
    )
    ran = run(program, STANDIN_DEVICES="3")
    assert ran.stdout.splitlines() == ["False False", "True False True"], ran.stderr


@first_process
@pytest.mark.parametrize(
    "environment",
    [
        {"STANDIN_LAZY": "1"},
        {"STANDIN_PROTECT": "1"},
        {"STANDIN_LAZY": "1", "STANDIN_PROTECT": "1"},
    ],
    ids=" ".join,
)
def test_all_of_these(environment):
    ran = run("-m", "pytest", "-p", "standin", "-q", HERE, **environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " failed" not in ran.stdout
