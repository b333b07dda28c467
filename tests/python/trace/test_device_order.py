"""What orders work on a CUDA device: streams, events, waits, captures; copies that do not wait; flags of cuDNN."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")


def ones():
    return torch.ones(3, device="cuda")


def side_stream(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return y


def recorded_event(x):
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    return x * 2


def synchronized(x):
    y = x * 2
    torch.cuda.synchronize()
    return y


def accelerator(x):
    y = x * 2
    torch.accelerator.synchronize()
    return y


def in_a_capture(x):
    return x * 2 if not torch.cuda.is_current_stream_capturing() else x


BY_NAME = {
    side_stream: "torch.cuda.current_stream()",
    recorded_event: "torch.cuda.streams.Event.record()",
    synchronized: "torch.cuda.synchronize()",
    accelerator: "torch.accelerator.synchronize()",
    in_a_capture: "torch.cuda.graphs.is_current_stream_capturing()",
}


@pytest.mark.parametrize("body", BY_NAME, ids=lambda body: body.__name__)
def test_a_call_that_orders_work_is_made_by_each_call(body):
    f = tracehost.function(body)
    with assert_traces(f, 3):
        for _ in range(3):
            assert f(ones()).tolist() == [2, 2, 2]
    assert f"the body calls {BY_NAME[body]} at test_device_order.py:" in str(f.explain(ones()))


def test_whether_memory_is_pinned_is_asked_by_each_call():
    @tracehost.function
    def f(x):
        return x * 2 if x.is_pinned() else x + 5

    with assert_traces(f, 4):
        for _ in range(2):
            assert f(torch.ones(3).pin_memory()).tolist() == [2, 2, 2]
            assert f(torch.ones(3)).tolist() == [6, 6, 6]
    assert "calls Tensor.is_pinned() at test_device_order.py:" in str(f.explain(torch.ones(3)))


@pytest.mark.parametrize("asked", ["memory_allocated", "max_memory_reserved", "mem_get_info"])
def test_how_much_memory_is_used_is_what_the_trace_found(asked):
    def body(x):
        return x, getattr(torch.cuda, asked)()

    f = tracehost.function(body)
    with assert_traces(f, 1):
        with pytest.warns(tracehost.TraceWarning, match=r"body .* calls torch\.cuda\.\w+\(\) at "):
            f(ones())
        f(ones())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one GPU")
def test_another_device_for_a_part_of_the_body():
    @tracehost.function
    def f(x):
        with torch.cuda.device(1):
            return x * 2, torch.ones(2, device="cuda")

    for _ in range(3):
        y, there = f(ones())
        assert (y.device.index, there.device.index) == (0, 1)


def test_torch_may_do_so_around_ops_of_its_own():
    from torch.utils.checkpoint import checkpoint

    f = tracehost.function(lambda x: checkpoint(torch.sin, x, use_reentrant=False))
    with assert_traces(f, 2):  # torch imports modules in the first
        for _ in range(4):
            assert torch.equal(f(ones()).cpu(), torch.ones(3).sin())


def test_a_device_without_an_index_in_a_loop_and_a_branch():
    @tracehost.function
    def f(x):
        for _ in tracehost.range(3):
            x = x + torch.zeros(3, device="cuda")
        if x.sum() > 0:
            x = x + torch.ones(3, device="cuda")
        else:
            x = x - torch.ones(3, device="cuda")
        return x

    with assert_traces(f, 1):
        assert f(ones()).tolist() == [2, 2, 2]
        assert f(-ones()).tolist() == [-2, -2, -2]


def test_a_spec_without_an_index():
    model = torch.nn.Linear(4, 2).cuda()
    f = tracehost.function(lambda x: model(x) + torch.zeros(2, device="cuda"))
    concrete = f.get_concrete_function(tracehost.TensorSpec([None, 4], device="cuda"))
    x = torch.ones(3, 4, device="cuda")
    assert torch.equal(concrete(x), model(x))


def test_a_miss_in_a_capture_runs_the_body():
    f = tracehost.function(lambda x: x * 2 + 1)
    x = ones()
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with assert_traces(f, 0):
        with torch.cuda.stream(side), torch.cuda.graph(graph, stream=side):
            y = f(x)
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [11, 11, 11]


def test_a_copy_that_does_not_wait_is_recorded_so():
    pinned = torch.empty(3, pin_memory=True)

    @tracehost.function
    def f(x):
        pinned.copy_(x * 2, non_blocking=True)
        return x + 1

    f(ones())
    torch.cuda.synchronize()
    assert pinned.tolist() == [2, 2, 2]
    graph = f.get_concrete_function(ones()).graph
    node = next(node for node in graph.nodes() if node.kind() == "aten::copy_")
    assert list(node.inputs())[2].toIValue() is True


def test_a_hit_does_not_hold_the_gil_while_it_waits():
    standin = pytest.importorskip("standin", reason="only the stand-in counts waits with the GIL")
    f = tracehost.function(lambda x: x[x > 0].sum() + x.nonzero().sum())
    for _ in range(8):
        f(ones())
    standin.reset()
    f(ones())
    assert standin.count("sync") == 2
    assert standin.count("gil_sync") == 0


@pytest.mark.parametrize(
    "dtype", [torch.complex32, torch.float16, torch.bool, torch.uint8], ids=str
)
def test_validation_compares_any_dtype(dtype):
    f = tracehost.function(lambda x: x.clone())
    x = torch.zeros(3, dtype=dtype, device="cuda")
    f(x)
    f(x)
    assert f.stats()["validated"] == 1


@pytest.mark.parametrize("optimize", ["off", "exact"])
def test_validation_compares_one_element_of_any_stride(optimize):
    """It is contiguous, and its last stride is not 1."""

    def body(x):
        for _ in range(4):
            x = torch.relu(x * 1.01 + 0.1)
        return x.sum().expand(1), x[:1].diagonal(), x[:0]

    f = tracehost.function(body, optimize=optimize)
    for i in range(6):
        x = torch.full((2, 3), float(i), device="cuda")
        for found, expected in zip(f(x), body(x.cpu()), strict=True):
            assert torch.equal(found.cpu(), expected) and found.stride() == expected.stride()
    assert f.stats()["validated"] == 1


def test_flags_of_cudnn_are_read_at_each_run():
    weights = torch.ones(1, 1, 2, 2, device="cuda")
    norm = torch.nn.BatchNorm2d(1).cuda().eval()

    @tracehost.function
    def f(x):
        return norm(F.conv2d(x, weights))

    x = torch.ones(1, 1, 3, 3, device="cuda")
    assert torch.allclose(f(x).cpu(), torch.full((1, 1, 2, 2), 4.0))
    graph = str(f.get_concrete_function(x).graph)
    assert "aten::convolution(" in graph
    assert "_convolution(" not in graph
    assert "tracehost::cudnn_enabled()" in graph
