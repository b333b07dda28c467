"""Grad mode, inference mode, autocast, defaults: around a call, and in a body."""

import contextlib
import copy
import re
import warnings

import pytest
import torch
import tracehost
from core_support import assert_same, check
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def leaf():
    return torch.arange(1.0, 4.0).requires_grad_()


def no_grad_inside(x):
    y = x * 2
    with torch.no_grad():
        z = y * 3
        w = x.exp()
    return y + z, z, w, (y * w).sum()


def enable_grad_inside(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = x * 4
    return a, b, c, x * 5


def set_grad_enabled_inside(x, on):
    with torch.set_grad_enabled(on):
        a = x * 2
    torch.set_grad_enabled(not on)
    b = x * 3
    torch.set_grad_enabled(True)
    return a, b, a + b + x


@torch.no_grad()
def helper(x):
    return x * 2


def decorated_inside(x):
    return helper(x) + x, helper(x)


def raises_inside(x):
    try:
        with torch.no_grad():
            a = x * 2
            raise KeyError
    except KeyError:
        return a, x * 3


@pytest.mark.parametrize("around", [contextlib.nullcontext, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize(
    "body", [no_grad_inside, enable_grad_inside, decorated_inside, raises_inside]
)
def test_grad_mode_inside_is_recorded(body, around):
    with around():
        check(body, leaf())


def test_set_grad_enabled_inside_is_recorded():
    f = tracehost.function(set_grad_enabled_inside)
    check(set_grad_enabled_inside, leaf(), True, function=f)
    check(set_grad_enabled_inside, leaf(), False, function=f, traces=2)


def test_a_mode_that_the_body_leaves_set_is_left_set_by_hits():
    def body(x, on):
        y = x * 2
        torch.set_grad_enabled(on)
        return y

    f = tracehost.function(body)
    with assert_traces(f, 4):
        for on in (False, True):
            for start in (True, False, True, False):
                with torch.set_grad_enabled(start):
                    assert f(leaf(), on).requires_grad is start
                    assert torch.is_grad_enabled() is on
        assert torch.is_grad_enabled()


def test_is_grad_enabled_reads_the_mode():
    def body(x):
        with torch.no_grad():
            inner = torch.is_grad_enabled()
        return (x * 2 if torch.is_grad_enabled() else x * 3), inner

    f = check(body, leaf())
    with torch.no_grad():
        check(body, leaf(), function=f, traces=2)


def test_a_flip_of_grad_mode_traces_once_each():
    f = tracehost.function(lambda x: x * 2)
    x = leaf()
    with assert_traces(f, 3):
        for _ in range(3):
            assert f(x).requires_grad
            with torch.no_grad():
                assert not f(x).requires_grad
            with torch.inference_mode():
                assert f(x).is_inference()


def test_inference_tensors_outside_of_inference_mode():
    f = tracehost.function(lambda x: x + 1)
    with assert_traces(f, 3):
        with torch.inference_mode():
            inside = f(torch.ones(2))
        x = torch.ones(2)
        for t in (inside, x, inside, x):
            assert torch.equal(f(t), t + 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_a_call(dtype):
    w = torch.randn(4, 4, requires_grad=True)

    def body(x):
        y = x @ w
        return y, y.softmax(-1), (y * 2).sum(), y.exp(), torch.nn.functional.linear(y, y)

    f = check(body, torch.randn(4, 4, requires_grad=True), extra=[w])
    with torch.autocast("cpu", dtype=dtype):
        check(body, torch.randn(4, 4, requires_grad=True), extra=[w], function=f, traces=2)
        assert f(torch.randn(4, 4))[0].dtype == dtype
    check(body, torch.randn(4, 4, requires_grad=True), extra=[w], function=f, traces=3)


def test_a_weight_used_twice_under_autocast():
    # The cast of a weight is not shared between its uses, as in eager without the cache.
    w = torch.randn(4, 4, requires_grad=True)
    f = tracehost.function(lambda x: (x @ w) @ w)
    with assert_traces(f, 1):
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                check(f.python_function, torch.randn(4, 4), extra=[w], function=f, calls=1)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                x = torch.randn(4, 4)
                assert torch.equal(f(x), f.python_function(x))


def test_autocast_sees_weights_that_change():
    w = torch.randn(4, 4)
    f = tracehost.function(lambda x: x @ w)
    x = torch.randn(4, 4)
    with assert_traces(f, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(3):
                assert torch.equal(f(x), (x.bfloat16() @ w.bfloat16()))
                w.add_(1)


def test_the_default_dtype_is_keyed():
    def body(x):
        return torch.zeros(2) + x, torch.tensor(1.5)

    f = check(body, torch.ones(2))
    torch.set_default_dtype(torch.float64)
    try:
        check(body, torch.ones(2), function=f, traces=2)
    finally:
        torch.set_default_dtype(torch.float32)
    check(body, torch.ones(2), function=f, traces=2)


def test_the_default_device_is_keyed():
    f = tracehost.function(lambda: torch.zeros(2))
    with assert_traces(f, 2):
        assert f().device.type == "cpu"
        for _ in range(2):
            with torch.device("meta"):
                assert f().device.type == "meta"
            assert f().device.type == "cpu"
        torch.set_default_device("meta")
        try:
            assert f().device.type == "meta"
        finally:
            torch.set_default_device(None)
        assert f().device.type == "cpu"


def test_deterministic_algorithms_are_keyed():
    f = tracehost.function(lambda x: x * 2)
    f(torch.ones(2))
    torch.use_deterministic_algorithms(True)
    try:
        f(torch.ones(2)), f(torch.ones(2))
        assert f.tracing_count() == 2
    finally:
        torch.use_deterministic_algorithms(False)


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def told(f, around):
    place = f"test_core_modes.py:{f.python_function.__code__.co_firstlineno}"
    return f"{f.name} ({place}) runs as plain Python under {around}, which needs the ops themselves. Calls outside of that run graphs."


@pytest.mark.parametrize(
    "mode, words",
    [
        (Functions, "the TorchFunction mode Functions"),
        (Dispatches, "a TorchDispatch mode (make_fx, torch.export, fake tensors ...)"),
    ],
)
def test_under_other_modes_the_body_runs_which_is_told_once(mode, words):
    f = tracehost.function(lambda x: x * 2)
    x = torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with mode():
                assert torch.equal(f(x), x * 2)
            assert torch.equal(f(x), x * 2)
    assert [str(w.message) for w in caught] == [told(f, words)]
    assert (f.tracing_count(), f.stats()["eager"], f.stats()["hits"]) == (1, 2, 1)


TRANSFORMS = {
    "vmap": lambda f: torch.vmap(f)(torch.arange(6.0).view(3, 2)),
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(torch.ones(2)),
    "jvp": lambda f: torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),)),
    "vjp": lambda f: torch.func.vjp(f, torch.ones(2))[1](torch.ones(2)),
    "jacrev": lambda f: torch.func.jacrev(f)(torch.ones(2)),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(torch.ones(2)),
    "functionalize": lambda f: torch.func.functionalize(f)(torch.ones(2)),
    "make_fx": lambda f: make_fx(f)(torch.ones(2))(torch.full((2,), 3.0)),
    "symbolic make_fx": lambda f: make_fx(f, tracing_mode="symbolic")(torch.ones(2))(torch.ones(2)),
    "symbolic_trace": lambda f: torch.fx.symbolic_trace(Calling(f))(torch.full((2,), 3.0)),
    "export": lambda f: torch.export.export(Calling(f), (torch.ones(2),)).module()(
        torch.full((2,), 3.0)
    ),
    "fake tensors": lambda f: fake_shape(f),
    "compile": lambda f: torch.compile(lambda x: f(x) + 1, backend="eager")(torch.full((2,), 3.0)),
    "compile, one graph": lambda f: torch.compile(
        lambda x: f(x) + 1, backend="eager", fullgraph=True
    )(torch.full((2,), 3.0)),
    "strict export": lambda f: torch.export.export(
        Calling(f), (torch.ones(2),), strict=True
    ).module()(torch.full((2,), 3.0)),
    "jit.trace": lambda f: torch.jit.trace(f, torch.ones(2))(torch.full((2,), 3.0)),
    "functional_call": lambda f: torch.func.functional_call(
        Calling(f), {}, (torch.full((2,), 3.0),)
    ),
    "vectorized jacobian": lambda f: torch.autograd.functional.jacobian(
        f, torch.ones(2), vectorize=True
    ),
    "gradcheck": lambda f: torch.autograd.gradcheck(f, (torch.ones(2).double().requires_grad_(),)),
    "gradgradcheck": lambda f: torch.autograd.gradgradcheck(
        f, (torch.ones(2).double().requires_grad_(),)
    ),
    "deepcopy": lambda f: copy.deepcopy(f)(torch.full((2,), 3.0)),
    "profiler": lambda f: profiled(f),
}


class Calling(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def fake_shape(f):
    with FakeTensorMode():
        return tuple(f(torch.ones(2)).shape)


def profiled(f):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return f(torch.full((2,), 3.0))


@pytest.mark.filterwarnings(
    "ignore::tracehost.TraceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("traced", [False, True])
def test_a_function_is_transparent_to_what_works_on_ops(name, traced):
    def body(x):
        return torch.tanh(x) * 2 + x

    f = tracehost.function(body)
    if traced:
        f(torch.ones(2))
    assert_same(TRANSFORMS[name](f), TRANSFORMS[name](body))
    x = torch.full((2,), 0.5)
    assert_same(f(x), body(x))


def test_a_call_by_the_attribute_is_a_call():
    f = tracehost.function(lambda x, n=1: x * n)
    f(torch.ones(2), n=3)
    assert_same(f.__call__(torch.ones(2), n=3), torch.full((2,), 3.0))
    assert (f.stats()["hits"], f.tracing_count()) == (1, 1)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_function_in_a_checkpoint(use_reentrant):
    """The first call, too: it is traced without data, and its graph runs forward and again backward."""

    def body(x):
        return torch.tanh(x * 2).exp() * x

    f = tracehost.function(body)
    for k in range(3):
        grads = []
        for each in (f, body):
            x = torch.arange(3.0 + k).requires_grad_()
            checkpoint(each, x, use_reentrant=use_reentrant).sum().backward()
            grads.append(x.grad)
        assert_same(*grads)
    assert f.stats()["eager"] == 0


def test_what_needs_data_runs_as_plain_python_in_a_checkpoint():
    f = tracehost.function(lambda x: x.exp() * [1.0, 2.0][int(x.sum() > 0)], autograph=False)
    x = torch.ones(3, requires_grad=True)
    with pytest.warns(tracehost.TraceWarning) as caught:
        checkpoint(f, x, use_reentrant=False).sum().backward()
    assert [str(w.message) for w in caught] == [told(f, "torch.utils.checkpoint")]
    assert torch.equal(x.grad, 2 * x.detach().exp())
    assert (f.tracing_count(), f.stats()["eager"]) == (0, 2)


def test_a_fake_tensor_outside_of_its_mode_runs_the_body():
    """Its ops enter the mode by themselves; a graph would have no data to compute with."""

    @tracehost.function
    def f(pair, scale=2.0):
        return pair["x"] * scale

    with FakeTensorMode():
        fake = torch.ones(3)
    around = re.escape("under FakeTensorMode (a fake tensor is passed), which needs the ops")
    with assert_traces(f, 0):
        with pytest.warns(tracehost.TraceWarning, match=around):
            result = f({"x": fake})
        assert type(result) is type(fake) and result.shape == (3,)
        f({"x": fake})
        assert f.stats()["eager"] == 2
    with assert_traces(f, 1):
        assert torch.equal(f({"x": torch.ones(3)}), torch.full((3,), 2.0))
    f({"x": fake})
    assert f.stats()["eager"] == 3
    with pytest.raises(tracehost.TraceError):
        f.get_concrete_function({"x": fake})
