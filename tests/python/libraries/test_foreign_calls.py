"""Code in a body that a graph can't hold the insides of: called again by each run, or unsupported."""

import functools
import warnings

import pytest
import torch
import tracehost
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(1.0, 4.0)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 7 * x  # not the derivative: that it is this one can be seen


class Scaled(Function):
    @staticmethod
    def forward(x, factor, shift=1.0):
        return x * factor, x + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, first, second):
        return first * ctx.factor * 5 + second, None, None


class Tripled(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 30


class Marked(Function):
    @staticmethod
    def forward(ctx, x):
        mask = x > 1
        ctx.mark_non_differentiable(mask)
        return x * 2, mask, "text"

    @staticmethod
    def backward(ctx, grad, *_):
        return grad * 9


class Peak(Function):
    """Reads values: its insides are no graph's."""

    @staticmethod
    def forward(ctx, x):
        ctx.peak = x.max().item()
        return x * ctx.peak

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.peak


taken_from_the_class = Cube.apply


def under_no_grad(x, w):
    with torch.no_grad():
        y = Cube.apply(w * x)
    return y + w


def dirty(x, w):
    y = w * x
    z = Tripled.apply(y)
    return z + 1, y * 2


def reentrant(x, w):
    return checkpoint(lambda t: torch.sin(t * w), x * w, use_reentrant=True)


def not_reentrant(x, w):
    return checkpoint(lambda t: torch.sin(t * w), x, use_reentrant=False)


def with_dropout(x, w):
    return checkpoint(lambda t: torch.dropout(t * w, 0.5, True), x, use_reentrant=False)


BODIES = {
    "plain": lambda x, w: Cube.apply(w * x) * 2,
    "twice": lambda x, w: Cube.apply(Cube.apply(w * x)),
    "setup_context": lambda x, w: Scaled.apply(w * x, 3),
    "default": lambda x, w: Scaled.apply(w * x, 3, 2.0),
    "alias": lambda x, w: taken_from_the_class(w * x),
    "non differentiable": lambda x, w: Marked.apply(w * x)[:2],
    "reads values": lambda x, w: Peak.apply(w * x),
    "no_grad": under_no_grad,
    "mark_dirty": dirty,
    "reentrant checkpoint": reentrant,
    "checkpoint": not_reentrant,
    "checkpoint with dropout": with_dropout,
}


def run(body, decorate, calls=4):
    w = torch.full((3,), 0.5, requires_grad=True)
    f = decorate(lambda x: body(x, w))
    seen = []
    for i in range(calls):
        torch.manual_seed(i)
        x = X + i
        results = [r for r in torch.utils._pytree.tree_leaves(f(x)) if isinstance(r, torch.Tensor)]
        sum(r.sum() for r in results if r.requires_grad).backward()
        seen.append((results, x, w.grad.clone()))
    return seen, f


@pytest.mark.parametrize("name", BODIES)
def test_results_and_gradients_as_eager(name):
    expected, _ = run(BODIES[name], lambda body: body)
    got, f = run(BODIES[name], tracehost.function)
    for ours, theirs in zip(got, expected, strict=True):
        for a, b in zip(ours[0], theirs[0], strict=True):
            assert torch.equal(a, b) and a.dtype is b.dtype
            assert a.requires_grad == b.requires_grad
        assert torch.equal(ours[1], theirs[1])
        assert torch.equal(ours[2], theirs[2])
    assert f.tracing_count() == 1


def test_a_function_that_reaches_a_tensor_by_itself():
    shared = torch.ones(3)

    class Shared(Function):
        @staticmethod
        def forward(ctx, x):
            return x * shared

        @staticmethod
        def backward(ctx, grad):
            return grad * shared

    f = tracehost.function(lambda x: Shared.apply(x) + shared)
    with assert_traces(f, 1):
        for factor in (1.0, 2.0, 3.0):
            shared.fill_(factor)
            assert torch.equal(f(X), X * factor + factor)


def test_other_arguments_are_part_of_the_signature():
    f = tracehost.function(lambda x, n: Scaled.apply(x, n)[0])
    with assert_traces(f, 2):
        for n in (2, 3, 2):
            assert torch.equal(f(X, n), X * n)


def test_other_results_than_at_the_trace_are_an_error_with_the_line():
    class Positive(Function):
        @staticmethod
        def forward(ctx, x):
            return x[x > 0]

        @staticmethod
        def backward(ctx, grad):
            return grad

    f = tracehost.function(lambda x: Positive.apply(x) * 2)
    line = (
        test_other_results_than_at_the_trace_are_an_error_with_the_line.__code__.co_firstlineno + 10
    )
    x = X.clone().requires_grad_()
    assert torch.equal(f(x), x * 2)
    with pytest.raises(tracehost.TraceError) as error:
        f((x - 2).detach().requires_grad_())
    assert str(error.value) == (
        f"Positive.apply at test_foreign_calls.py:{line} returned a tensor float32[1], and a tensor "
        "float32[3] when it was traced: what follows it in the graph is made for that. Move the call "
        "out of the function, or make it return the same for such arguments."
    )


def test_a_request_runs_it_without_data():
    f = tracehost.function(lambda x: Cube.apply(x) + 1)
    with assert_traces(f, 1):
        concrete = f.get_concrete_function(tracehost.TensorSpec([3]))
        assert torch.equal(concrete(X), X**3 + 1)
        assert torch.equal(f(X), X**3 + 1)


def test_in_a_staged_branch():
    @tracehost.function
    def f(x):
        if x.sum() > 0:
            return Cube.apply(x)
        return Tripled.apply(x * 1)

    with assert_traces(f, 1):
        for x in (X, -X, X + 1):
            assert torch.equal(f(x), x**3 if x.sum() > 0 else x * 3)


def test_outside_of_a_trace_apply_is_what_it_was():
    x = X.clone().requires_grad_()
    y = Cube.apply(x)
    assert torch.equal(y, x**3) and type(y.grad_fn).__name__ == "CubeBackward"
    assert Cube.apply.__name__ == "apply" and Cube.apply.__self__ is Cube
    assert Cube.apply == Cube.apply
    with pytest.raises(TypeError):
        Cube.apply(x, x, x)


# ---- without gradients, a forward of ops alone ----------------------------------------------------


class Kept(Function):
    """Its input comes back, changed behind the version counter."""

    @staticmethod
    def forward(ctx, kept, value, index):
        ctx.index = index
        kept.data[index] = value
        return kept

    @staticmethod
    def backward(ctx, grad):
        return grad, grad[ctx.index], None


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(SCALE * x))


SCALE = 0.8


class Gelu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return gelu(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Positives(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x[x > 0], "text"


WITHOUT_GRADIENTS = {
    "power": lambda x: Cube.apply(x),
    "another function": lambda x: Gelu.apply(x),
    "given and kept": lambda x: Kept.apply(torch.zeros(4), x[0], (..., 1)),
    "the argument itself": lambda x: (Kept.apply(x, x[1] * 2, 0), x),
    "changed": lambda x: (Tripled.apply(x), x),
    "sizes that depend on values": lambda x: Positives.apply(x)[0] * 2,
}


def calls_python(f):
    return "tracehost::py_function" in str(f.get_concrete_function(X).graph)


@pytest.mark.parametrize("name", WITHOUT_GRADIENTS)
def test_without_gradients_a_forward_of_ops_is_recorded(name):
    body = WITHOUT_GRADIENTS[name]
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for shift in (0, -2, 3):
            theirs, ours = X + shift, X + shift
            expected, got = map(torch.utils._pytree.tree_leaves, (body(theirs), f(ours)))
            assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
            assert [a is theirs for a in expected] == [a is ours for a in got]
            assert [a._is_view() for a in expected] == [a._is_view() for a in got]
            assert torch.equal(theirs, ours)
    assert not calls_python(f)


def test_under_no_grad_needs_input_grad_is_as_in_eager():
    class Asks(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2 if ctx.needs_input_grad == (True, False) else x * 3

    @torch.no_grad()
    def body(x):
        return Asks.apply(x, X)

    x = X.clone().requires_grad_()
    got = tracehost.function(body)(x)
    assert torch.equal(got, body(x)) and not got.requires_grad


def test_what_it_reads_is_guarded():
    global SCALE
    f = tracehost.function(lambda x: Gelu.apply(x))
    with assert_traces(f, 2):
        try:
            for SCALE in (0.8, 0.5, 0.8):
                assert torch.equal(f(X), gelu(X))
        finally:
            SCALE = 0.8


def test_sizes_behind_it_are_open():
    f = tracehost.function(lambda x: Gelu.apply(x).sum(0), reduce_retracing=True)
    with assert_traces(f, 2):
        for n in range(2, 9):
            assert torch.equal(f(torch.ones(n, 3)), gelu(torch.ones(n, 3)).sum(0))


def test_code_that_is_more_than_ops_is_called_by_each_run():
    calls = []

    class Counted(Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(1)
            return x * x.max().item()

    f = tracehost.function(lambda x: Counted.apply(x))
    with assert_traces(f, 1):
        for i in range(3):
            assert torch.equal(f(X + i), (X + i) * (X + i).max())
        assert len(calls) == 3
    assert calls_python(f)


# ---- numbers of the call --------------------------------------------------------------------------


class Times(Function):
    """`x` times a number of Python, of its own type."""

    @staticmethod
    def forward(ctx, x, factor, kind):
        ctx.factor = factor[0] if isinstance(factor, tuple) else factor
        assert type(ctx.factor) is kind
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * 3, None, None


class Counter:
    def __init__(self):
        self.count = 0


def of_a_counter(x, w, counter):
    counter.count += 1
    return Times.apply(w * x, counter.count * 2.0, float)


def of_an_if(x, w, _):
    factor = 2.0 if x.sum() > 0 else 5.0
    return Times.apply(w * x, factor, float)


def of_a_loop(x, w, _):
    for v in x:
        if v > 1:
            w = Times.apply(w * 1, float(v), float)
    return w + x


NUMBERS = {
    "float": lambda x, w, _: Times.apply(w * x, float(x[0]), float),
    "int": lambda x, w, _: Times.apply(w * x, int(x[0]), int),
    "bool": lambda x, w, _: Times.apply(w * x, bool(x[0] > 0), bool),
    "in a tuple": lambda x, w, _: Times.apply(w * x, (x.max().item() / 7,), float),
    "size": lambda x, w, _: Times.apply(w * x, x.shape[0], int),
    "counter": of_a_counter,
    "chosen by an if": of_an_if,
    "in a loop": of_a_loop,
}


def gradients(body, f, sizes):
    w = torch.full((1,), 0.5, requires_grad=True)
    counter = Counter()
    f = f(lambda x: body(x, w, counter))
    seen = []
    for i, size in enumerate(sizes):
        w.grad = None
        y = f(torch.arange(1.0, size + 1) * (2 - i))
        y.sum().backward()
        seen.append((y, w.grad, counter.count))
    return seen, f


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_the_one_of_each_call(name):
    body, sizes = NUMBERS[name], [3] * 6
    decorate = tracehost.function
    if name == "size":
        sizes = [2, 3, 4, 5, 6]
        decorate = tracehost.function(reduce_retracing=True)
    expected, _ = gradients(body, lambda f: f, sizes)
    got, f = gradients(body, decorate, sizes)
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
        assert ours[2] == theirs[2]
    assert f.tracing_count() == TRACES.get(name, 1)


TRACES = {"size": 2, "counter": 2}


def test_a_scripted_module_gets_the_number_of_each_call():
    class Scaled(nn.Module):
        def forward(self, x, factor: float):
            return x * factor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.script(Scaled())
    f = tracehost.function(lambda x, k: module(x, float(k)))
    with assert_traces(f, 1):
        for k in (1.0, 2.5, -3.0):
            assert torch.equal(f(X, torch.tensor(k)), X * k)


class Held:
    def __init__(self, value):
        self.value = value

    def times(self, x):
        return x * self.value


class TimesHeld(Function):
    @staticmethod
    def forward(ctx, x, held):
        ctx.held = held
        return x * held.value

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.held.value * 3, None


class Applied(Function):
    @staticmethod
    def forward(ctx, x, function):
        ctx.function = function
        return function(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.function(grad) * 3, None


def by_py_function(function):
    return tracehost.py_function(function, [X], torch.float32)


def with_a_mask(x, w, _):
    mask = (x > 2).float()
    return checkpoint(lambda h: h * mask, x * w, use_reentrant=True)


def by_a_function_of_a_function(x, w, _):
    double, n = x * 2, x.max().item()

    def inner(a, b=double, *, c=n):
        return a * b + c

    return by_py_function(lambda a: inner(a) * double)


CLOSED_OVER = {
    "checkpoint": with_a_mask,
    "checkpoint, an argument": lambda x, w, _: checkpoint(
        lambda h: h * x, w * 1, use_reentrant=True
    ),
    "function": lambda x, w, _: Applied.apply(w * 1, lambda h: h * (x.sum() * 2)),
    "partial": lambda x, w, _: Applied.apply(w * 1, functools.partial(torch.mul, x.sum() * 2)),
    "method": lambda x, w, _: Applied.apply(w * 1, Held(x.sum() * 2).times),
    "object with a tensor": lambda x, w, _: TimesHeld.apply(w * x, Held(x * 2)),
    "object with a number": lambda x, w, _: TimesHeld.apply(w * x, Held(x.sum().item())),
    "object with objects": lambda x, w, _: Applied.apply(
        w * x, Held(Held(x.sum() * 2).value).times
    ),
    "py_function": by_a_function_of_a_function,
    "numpy_function": lambda x, w, _: tracehost.numpy_function(
        lambda a: a + (x * 2).numpy(), [x], torch.float32
    ),
}


@pytest.mark.parametrize("name", CLOSED_OVER)
def test_what_it_reaches_by_itself_is_that_of_each_call(name):
    def body(x, w, counter):
        return CLOSED_OVER[name](x, w, counter) + w * 0

    expected, _ = gradients(body, lambda f: f, [3] * 4)
    got, f = gradients(body, tracehost.function, [3] * 4)
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
    assert f.tracing_count() == 1


def test_a_variable_from_outside_is_read_by_each_run():
    shared, factor = torch.ones(3), 1

    @tracehost.function
    def f(x):
        y = x + 1
        return tracehost.py_function(lambda a: a * shared * factor + y, [x], torch.float32)

    with assert_traces(f, 1):
        for factor in (1, 2, 3):
            shared = torch.full((3,), float(factor))
            assert torch.equal(f(X), X * factor**2 + X + 1)


def test_a_class_of_the_body_that_reaches_a_tensor_is_an_error():
    @tracehost.function
    def f(x):
        y = x * 2

        class Local(Function):
            @staticmethod
            def forward(ctx, v):
                return v * y

            @staticmethod
            def backward(ctx, grad):
                return grad * y

        return Local.apply(x + 1)

    with pytest.raises(tracehost.TraceError, match="that its class reaches by itself"):
        f(X.clone().requires_grad_())


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda y: [y], lambda held: held.append(X)),
        (lambda y: [y], list.clear),
        (lambda y: {"y": y}, lambda held: held.update(y=X)),
    ],
)
def test_a_container_of_the_call_that_is_changed_is_an_error(make, change):
    @tracehost.function
    def f(x):
        held = make(x * 2)
        return tracehost.py_function(lambda a: (change(held), a)[1], [x], torch.float32)

    with pytest.raises(tracehost.SignatureError, match="changed a (list|dict) that holds a tensor"):
        f(X)


# ---- TorchScript --------------------------------------------------------------------------------


def test_a_scripted_module():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.script(nn.Linear(3, 3))
    f = tracehost.function(lambda x: module(x) * 2)
    with assert_traces(f, 1):
        for i in range(3):
            module.zero_grad()
            expected = module(X + i) * 2
            got = f(X + i)
            assert torch.equal(got, expected)
            got.sum().backward()
            assert torch.equal(module.weight.grad[0], (X + i) * 2)
            with torch.no_grad():
                module.weight.mul_(2)


# ---- hooks of all modules -------------------------------------------------------------------------


def test_hooks_of_all_modules_are_seen():
    module = nn.Linear(3, 3)
    f = tracehost.function(lambda x: module(x))
    with assert_traces(f, 2):
        plain = f(X)
        handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 2)
        try:
            assert torch.equal(f(X), plain * 2)
        finally:
            handle.remove()
        assert torch.equal(f(X), plain)


# ---- what is unsupported --------------------------------------------------------------------------


def with_backward_hook(x):
    module = nn.Linear(3, 3)
    module.register_full_backward_hook(lambda m, given, made: None)
    return module


HOOKED = nn.Linear(3, 3)
HOOKED.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
PRE_HOOKED = nn.Linear(3, 3)
PRE_HOOKED.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))


def forward_mode(x):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        return torch.autograd.forward_ad.unpack_dual(dual * dual).tangent


def saved_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return x * x


class Doubling(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return op(*args, **(kwargs or {})) * 2


def dispatch_mode(x):
    with Doubling():
        return x + 1


COMPILED = torch.compile(lambda t: t * 2, backend="eager")

TRANSFORM = (
    "the body uses a torch.func transform (vmap, grad, jvp ...) at {}, which is not recorded in a "
    "graph. Call it outside of the function."
)
HOOK = (
    "a hook of the backward pass is registered at {} (register_full_backward_hook of a module?), which "
    "is not recorded in a graph. Remove it, or call what has it outside of the function."
)
REFUSED = {
    "vmap": (lambda x: torch.vmap(lambda t: t * 2)(x), TRANSFORM),
    "grad": (lambda x: torch.func.grad(lambda t: (t**2).sum())(x), TRANSFORM),
    "jvp": (lambda x: torch.func.jvp(torch.sin, (x,), (x,)), TRANSFORM),
    "forward mode": (
        forward_mode,
        "the body uses forward-mode AD (dual_level) at {}, which is not recorded in a graph. Put "
        "dual_level around the call.",
    ),
    "dispatch mode": (
        dispatch_mode,
        "the body enters a TorchDispatchMode at {}, which a graph does not honour. Do it outside of the "
        "function.",
    ),
    "saved tensors": (
        saved_hooks,
        "the body packs tensors that are saved for backward (saved_tensors_hooks) at {}, which is not "
        "recorded in a graph. Put the hooks around the call.",
    ),
    "module hook": (lambda x: HOOKED(x), HOOK),
    "module pre-hook": (lambda x: PRE_HOOKED(x), HOOK),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged).sum(),
        "the body makes a nested tensor with layout=torch.jagged at {}, which is not recorded in a "
        "graph. Pad its rows (torch.nn.utils.rnn.pad_sequence), or make it outside of the function.",
    ),
    "masked": (
        lambda x: torch.masked.masked_tensor(x, x > 0).get_data(),
        "the body makes a MaskedTensor at {}, which is not recorded in a graph. Keep values and mask "
        "apart (torch.where), or make it outside of the function.",
    ),
    "torch.compile": (
        lambda x: COMPILED(x),
        "the body calls a function that torch.compile has made, at {}; one graph can't hold the other. "
        "Call what it was made from, or call it outside of the function.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rejected_with_the_line(name):
    body, text = REFUSED[name]
    f = tracehost.function(body)
    first = body.__code__.co_firstlineno
    line = first + (1 if body in (forward_mode, saved_hooks, dispatch_mode) else 0)
    with assert_traces(f, 0):
        with pytest.raises(tracehost.TraceError) as error:
            f(X.clone().requires_grad_())
        assert str(error.value) == text.format(f"test_foreign_calls.py:{line}")


@pytest.mark.parametrize("name", [n for n in REFUSED if n != "torch.compile"])
def test_rejected_ones_run_eagerly_under_the_stance(name):
    body, _ = REFUSED[name]
    x = X.clone().requires_grad_()
    expected = body(x)
    with tracehost.stance("eager_on_error"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = tracehost.function(body)(x)
    for a, b in zip(
        torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert torch.equal(a, b)


def test_forward_mode_around_a_function():
    from torch.autograd import forward_ad

    f = tracehost.function(lambda x: x**3)
    for i in range(3):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(X + i, X)
            got = forward_ad.unpack_dual(f(dual))
            assert torch.equal(got.tangent, 3 * (X + i) ** 2 * X)
