"""autocast regions in a body, and around a call."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import tracehost
from core_support import assert_same, check, gradients
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

torch.manual_seed(3)
W = torch.randn(4, 4, requires_grad=True)
V = torch.randn(4, 4, requires_grad=True)
LSTM = nn.LSTM(4, 4)
LINEAR = nn.Linear(4, 4)


def region(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ W
        z = y.softmax(-1)
    return y, z, x @ V


def weight_twice(x):
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ W) @ W


def weight_twice_without_cache(x):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return (x @ W) @ W


def two_regions(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ W
    with torch.autocast("cpu", torch.float16):
        z = x @ W
    return y, z, x @ W


def nested(x):
    with torch.autocast("cpu", torch.bfloat16):
        a = x @ W
        with torch.autocast("cpu", enabled=False):
            b = a.float() @ W
            c = torch.einsum("ij,jk->ik", x, W)
        d = b @ W
        with torch.autocast("cpu", torch.float16):
            e = b @ b
        f = torch.einsum("ij,jk->ik", b, V)
    return a, b, c, d, e, f, x @ W


def composites(x):
    with torch.autocast("cpu", torch.bfloat16):
        a = torch.einsum("ij,jk->ik", x, W)
        b = torch.tensordot(x, W, 1)
        c = F.scaled_dot_product_attention(x[None], W[None], V[None])
        d = torch.einsum("ij,jk->ik", a, W)
    return a, b, c, d, torch.einsum("ij,jk->ik", x, W)


def recurrent(x):
    with torch.autocast("cpu", torch.bfloat16):
        return LSTM(x[None])[0], torch.einsum("ij,jk->ik", x, W)


def promoted(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = LINEAR(x)
        return (
            torch.cat([y, x]),
            torch.addcmul(x, y.float(), x),
            y.sum(),
            y.exp(),
            F.cross_entropy(y, torch.tensor([0, 1, 2, 3])),
            F.layer_norm(y, (4,)),
            torch.cdist(y, y),
            y + x,
            torch.norm(y),
            y.cumsum(0),
        )


def raises(x):
    try:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ W
            raise KeyError
    except KeyError:
        return y, x @ W


def without_grad_inside(x):
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            y = x @ W
        z = x @ W
        with torch.inference_mode():
            v = x @ V
    return y, z, v.clone()


def doubles_and_ints(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x.double() @ W.double(), x.long() @ W.long(), torch.ones(4, 4) @ torch.ones(4, 4)


def other_device(x):
    with torch.autocast("cuda", torch.float16, enabled=True):
        y = x @ W
        with torch.autocast("cpu", torch.bfloat16):
            z = x @ W
    return y, z


@torch.autocast("cpu", dtype=torch.bfloat16)
def helper(x):
    return x @ W


def decorated(x):
    return helper(x), x @ V, helper(x)


class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            h = F.gelu(self.first(x))
            return self.second(h), self.second(F.dropout(h, 0.5)).float()


def why_no_lstm():
    try:
        recurrent(torch.randn(4, 4))
    except RuntimeError as error:
        return f"eager has no LSTM in bfloat16 on this CPU: {str(error).partition('.')[0]}"
    return ""


NO_LSTM = why_no_lstm()

BODIES = [
    region,
    weight_twice,
    weight_twice_without_cache,
    two_regions,
    nested,
    composites,
    pytest.param(recurrent, marks=pytest.mark.skipif(bool(NO_LSTM), reason=NO_LSTM)),
    promoted,
    raises,
    without_grad_inside,
    doubles_and_ints,
    decorated,
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_regions_inside_are_recorded(body, requires_grad):
    x = torch.randn(4, 4, requires_grad=requires_grad)
    check(body, x, extra=[W, V, *LSTM.parameters(), *LINEAR.parameters()])
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_region_of_another_device():
    check(other_device, torch.randn(4, 4), extra=[W])


def test_a_module_that_casts_itself():
    net = Cast()
    check(net, torch.randn(4, 4), extra=net.parameters(), calls=4)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_regions_inside_of_a_region_around_the_call(body, dtype):
    f = tracehost.function(body)
    extra = [W, V, *LSTM.parameters(), *LINEAR.parameters()]
    with assert_traces(f, 1):
        for _ in range(3):
            x = torch.randn(4, 4)
            with torch.autocast("cpu", dtype, cache_enabled=False):
                expected, got = body(x), f(x)
                assert torch.is_autocast_enabled("cpu")
                assert torch.get_autocast_dtype("cpu") == dtype
            assert_same(got, expected)
            if body in (weight_twice, two_regions, nested, composites, recurrent):
                continue  # eager shares the cast weights of their regions, a graph casts again
            assert_same(gradients(got, extra), gradients(expected, extra))


def test_no_cast_of_a_weight_outlives_a_call():
    w = torch.randn(4, 4, requires_grad=True)

    def body(x):
        with torch.autocast("cpu", torch.bfloat16):
            a = torch.einsum("ij,jk->ik", x, w), x @ w
        with torch.no_grad():
            w.mul_(2)
        with torch.autocast("cpu", torch.bfloat16):
            return *a, torch.einsum("ij,jk->ik", x, w), x @ w

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            x = torch.randn(4, 4)
            before = w.detach().clone()
            got = f(x)
            with torch.no_grad():
                w.copy_(before)
            assert_same(got, body(x))
            with torch.autocast("cpu", torch.bfloat16):
                assert torch.equal(x @ w, x.bfloat16() @ w.bfloat16())


def test_regions_in_branches_and_loops():
    def body(x, n):
        if x.sum() > 0:
            with torch.autocast("cpu", torch.bfloat16):
                y = (x @ W).float()
        else:
            y = x @ W
        for _ in range(n):
            with torch.autocast("cpu", torch.bfloat16):
                y = (y @ W).float()
        with torch.autocast("cpu", torch.bfloat16):
            return y, y @ W

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for i in range(4):
            x, n = torch.full((4, 4), float(i % 2)), torch.tensor(i)
            expected, got = body(x, n), f(x, n)
            assert_same(got, expected)
            assert_same(gradients(got, [W]), gradients(expected, [W]))


def test_an_error_inside_on_a_hit_leaves_autocast():
    def body(x, i):
        with torch.autocast("cpu", torch.bfloat16):
            return (x @ W).index_select(0, i)

    f = tracehost.function(body)
    x = torch.randn(4, 4)
    with assert_traces(f, 1):
        f(x, torch.tensor([1]))
        for _ in range(2):
            with pytest.raises(IndexError):
                f(x, torch.tensor([9]))
            assert not torch.is_autocast_enabled("cpu") and (x @ W).dtype == torch.float32
            assert f(x, torch.tensor([1])).dtype == torch.bfloat16


def test_custom_forward_of_autocast():
    def body(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = casts(x)
            return y, y @ W

    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def casts(*args):
        return args[-1] @ W.detach()

    class Context:
        pass

    def casts_once(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = casts(Context(), x)
            return y, y @ W

    check(casts_once, torch.randn(4, 4), extra=[W])


def test_reads_of_the_mode():
    def body(x):
        with torch.autocast("cpu", torch.bfloat16):
            inner = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return x, inner, torch.is_autocast_enabled("cpu")

    check(body, torch.ones(2))


def test_a_region_that_the_body_leaves_open_is_rejected():
    mode = torch.autocast("cpu", torch.bfloat16)

    def body(x):
        mode.__enter__()
        return x * 2

    with pytest.raises(tracehost.TraceError) as error:
        tracehost.function(body)(torch.ones(2))
    mode.__exit__(None, None, None)
    assert str(error.value) == (
        "the body ends in a region that it has opened (autocast is switched for what comes "
        "after). Use a `with` statement, which ends in the body."
    )


def test_requested_graphs_have_the_region():
    f = tracehost.function(region)
    concrete = f.get_concrete_function(tracehost.TensorSpec([None, 4], torch.float32))
    for n in (2, 5):
        x = torch.randn(n, 4)
        assert_same(concrete(x), region(x))


@pytest.mark.parametrize("backward_inside", [False, True])
def test_a_region_around_the_call_casts_a_weight_once(backward_inside):
    """The gradients of its uses are summed in the lower precision then."""

    def body(x):
        loss = (((x @ W).tanh() @ W).tanh() @ W).float().sum()
        return torch.autograd.grad(loss, W)[0] if backward_inside else loss

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for i in range(3):
            x = torch.randn(4, 4, generator=torch.Generator().manual_seed(i))
            results = []
            for call in (body, f):
                with torch.autocast("cpu", torch.bfloat16):
                    result = call(x)
                results.append(result if backward_inside else torch.autograd.grad(result, W)[0])
            assert torch.equal(*results)


class Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x @ W) * x.max().item()

    @staticmethod
    def backward(ctx, grad):
        return grad.float() @ W.t()


@pytest.mark.parametrize(
    "called", [lambda x: tracehost.py_function(lambda t: t @ W, [x], torch.bfloat16), Read.apply]
)
@pytest.mark.parametrize("around", [True, False])
def test_casts_of_a_call_of_python_stay_there(called, around):
    def body(x):
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=not around or torch.is_autocast_enabled("cpu")
        ):
            return x @ W, called(x), x @ W

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for i in range(3):
            x = torch.randn(4, 4, generator=torch.Generator().manual_seed(i)).requires_grad_()
            results = []
            for call in (body, f):
                with torch.autocast("cpu", torch.bfloat16, enabled=around):
                    results.append(call(x))
            assert_same(*results)


CASTS_IN_THREADS = """
import threading

import torch
import tracehost


def work(kind):
    net = torch.nn.Linear(2, 2)

    def inside(x):
        with torch.autocast("cpu", torch.bfloat16):
            return net(x)

    for _ in range(40):
        if kind == "plain":
            tracehost.function(lambda x: x + 1)(torch.ones(1, 2))
        elif kind == "inside":
            f = tracehost.function(inside)
            [f(torch.ones(1, 2)) for _ in range(6)]
        else:
            f = tracehost.function(lambda x: net(x))
            with torch.autocast("cpu", torch.bfloat16):
                [f(torch.ones(1, 2)) for _ in range(6)]


threads = [threading.Thread(target=work, args=(kind,)) for kind in ("plain", "inside", "around") * 2]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("ended")
"""


def test_threads_that_cast_weights_end(tmp_path):
    """autocast holds its lock of casts while a cast is recorded, and the tracer asks for the line with the GIL."""
    script = tmp_path / "casts.py"
    script.write_text(CASTS_IN_THREADS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "ended\n", done.stderr
