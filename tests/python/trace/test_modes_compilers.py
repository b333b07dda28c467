"""Decorated methods under torch.compile, torch.export, torch.fx and TorchScript: as methods without the decorator."""

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import types
import warnings

import pytest
import torch
import tracehost
from core_support import assert_same
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)


def classes(decorate):
    """The same classes, with `decorate` on what is a Function in one of them."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.norm = torch.nn.BatchNorm1d(3)

        @decorate
        def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
            return self.norm(self.linear(x).relu()) * n

        @decorate
        def other(self, x, *, k=3):
            return self.linear(x).relu() * k

        @staticmethod
        @decorate
        def static(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
            return x * k

        @classmethod
        @decorate
        def of_class(cls, x, k=2.0):
            return x * k + len(cls.__name__)

    class Decorated(Net):
        @decorate
        def forward(self, x):
            return super().forward(x) + 1

    class Plain(Net):
        def forward(self, x):
            return super().forward(x, n=3) + 1

    class Varied(torch.nn.Module):
        @decorate
        def forward(self, x, *rest, scale=2.0, **options):
            return x * scale

    class Parent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()
            self.rest = torch.nn.Sequential(Net(), torch.nn.Tanh())

        def forward(self, x):
            return self.rest(self.net(x)) + self.net.other(x)

    class Rest(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.forward = decorate(self.compute)

        def compute(self, x):
            return self.linear(x).relu()

    class Holder:
        def __init__(self):
            self.weight = torch.full((3,), 2.0)

        @decorate
        def scale(self, x, shift=torch.ones(3)):
            return x * self.weight + shift

        def both(self, x):
            return self.scale(x) + self.tripled

        @property
        @decorate
        def tripled(self):
            return self.weight * 3

        @decorate
        def __call__(self, x):
            return x * self.weight

    class Slots:
        __slots__ = ("weight",)

        def __init__(self):
            self.weight = torch.full((3,), 2.0)

        @decorate
        def scale(self, x):
            return x * self.weight

    return types.SimpleNamespace(**locals())


CLASSES = {"plain": classes(lambda f: f), "decorated": classes(tracehost.function)}
compiled = functools.partial(torch.compile, backend="eager", fullgraph=True)


def compiled_in_place(net):
    net.compile(backend="eager", fullgraph=True)
    return net


def called(net, x):
    """From a function that is compiled, by each way to name a method."""
    method = net.other
    return compiled(lambda y: method(y) + net.other(y, k=4) + type(net).other(net, y) + net(y))(x)


def replaced(net, x):
    weights = {name: value * 2 for name, value in net.state_dict().items()}
    return compiled(lambda w, y: torch.func.functional_call(net, w, (y,)))(weights, x)


def hooked(net, x):
    net.register_forward_hook(lambda module, arguments, result: result + 1)
    return torch.compile(net, backend="eager")(x)


def exported(net, x, **options):
    return torch.export.export(net, (x,), **options).module()(x)


def exported_with_any_batch(net, x):
    rows = {"x": {0: torch.export.Dim("rows")}}
    return torch.export.export(net, (x,), dynamic_shapes=rows).module()(torch.cat([x, x]))


# A name of a class, and what is done with one of its instances.
COMPILED = {
    "compile": ("Net", lambda net, x: compiled(net)(x, n=3)),
    "compile, graph breaks": ("Net", lambda net, x: torch.compile(net, backend="eager")(x)),
    "compile, aot": ("Net", lambda net, x: torch.compile(net, backend="aot_eager")(x)),
    "compile, a copy": ("Net", lambda net, x: compiled(copy.deepcopy(net))(x)),
    "compile, hooks": ("Net", hooked),
    "compile, decorated instance": ("Rest", lambda net, x: torch.compile(net, backend="eager")(x)),
    "Module.compile": ("Net", lambda net, x: compiled_in_place(net)(x)),
    "compile of forward": ("Net", lambda net, x: compiled(net.forward)(x)),
    "compile of another": ("Net", lambda net, x: compiled(net.other)(x, k=4)),
    "called": ("Net", called),
    "super() in a Function": ("Decorated", lambda net, x: compiled(net)(x)),
    "super() elsewhere": ("Plain", lambda net, x: compiled(net)(x)),
    "submodules": ("Parent", lambda net, x: compiled(net)(x)),
    "varied arguments": ("Varied", lambda net, x: compiled(net)(x, 1, scale=3.0, more=4)),
    "static": ("Net", lambda net, x: compiled(lambda y: net.static(y) + type(net).static(y))(x)),
    "an object": ("Holder", lambda held, x: compiled(held.scale)(x) + compiled(held.both)(x)),
    "slots": ("Slots", lambda held, x: compiled(lambda y: held.scale(y))(x)),
    "functional_call": ("Net", replaced),
    "grad": ("Net", lambda net, x: compiled(torch.func.grad(lambda y: net.other(y).sum()))(x)),
    "checkpoint": (
        "Net",
        lambda net, x: compiled(lambda y: checkpoint(net.other, y, use_reentrant=False))(x),
    ),
    "strict export": ("Net", functools.partial(exported, strict=True)),
    "strict export, submodules": ("Parent", functools.partial(exported, strict=True)),
    "strict export, super()": ("Decorated", functools.partial(exported, strict=True)),
    "script": ("Net", lambda net, x: torch.jit.script(net)(x)),
    "script of a function": ("Net", lambda net, x: torch.jit.script(type(net).static)(x)),
}
OTHERS = {
    "export": ("Net", exported),
    "export, any batch": ("Net", exported_with_any_batch),
    "export, submodules": ("Parent", exported),
    "export, super()": ("Decorated", exported),
    "symbolic_trace": ("Net", lambda net, x: torch.fx.symbolic_trace(net)(x)),
    "symbolic_trace, submodules": ("Parent", lambda net, x: torch.fx.symbolic_trace(net)(x)),
    "symbolic_trace, super()": ("Decorated", lambda net, x: torch.fx.symbolic_trace(net)(x)),
    "symbolic_trace, varied": ("Varied", lambda net, x: torch.fx.symbolic_trace(net)(x)),
    "symbolic_trace of a function": (
        "Net",
        lambda net, x: torch.fx.symbolic_trace(type(net).static)(x, 3.0),
    ),
    "make_fx": ("Net", lambda net, x: make_fx(net)(x)(x)),
    "jit.trace": ("Net", lambda net, x: torch.jit.trace(net, (x,), check_trace=False)(x)),
    "vmap": ("Net", lambda net, x: torch.vmap(net.other)(x)),
}
WAYS = COMPILED | OTHERS


def outcome(kind, name, is_traced):
    """Result, gradients and state: what `name` of WAYS does with an instance of its class."""
    torch.manual_seed(0)
    class_name, way = WAYS[name]
    made = getattr(CLASSES[kind], class_name)()
    is_module = isinstance(made, torch.nn.Module)
    if is_traced:
        (made if is_module else made.scale)(torch.ones(4, 3, requires_grad=True))
    x = torch.randn(4, 3, requires_grad=True)
    torch._dynamo.reset()
    result = way(made, x)
    if result.requires_grad:
        (result * result).sum().backward()
    gradients = [None if p.grad is None else p.grad for p in made.parameters()] if is_module else []
    return result, [x.grad, *gradients], list(made.state_dict().values()) if is_module else []


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "name, is_traced",
    [(name, False) for name in WAYS]
    + [(name, True) for name in ("compile", "compile of forward", "an object", *OTHERS)],
)
def test_a_decorated_method_is_as_the_method(name, is_traced):
    expected = outcome("plain", name, is_traced)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = outcome("decorated", name, is_traced)
    for what, a, b in zip(("result", "gradients", "state"), got, expected):
        assert_same(a, b, what)
    reported = [w for w in caught if issubclass(w.category, tracehost.TraceWarning)]
    assert not reported or name not in COMPILED


def test_a_compiled_module_runs_graphs_elsewhere():
    net = CLASSES["decorated"].Net()
    x = torch.randn(4, 3)
    compiled(lambda y: net.other(y))(x)
    assert net.other.stats()["calls"] == 0
    for _ in range(2):
        net.other(x)
    assert (net.other.tracing_count(), net.other.stats()["hits"]) == (1, 1)


ENTRIES = {
    "a module": lambda net: net,
    "a method": lambda net: net.other,
    "a function": lambda net: type(net).static,
    "a function that calls": lambda net: lambda x: net.other(x),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_torch_gets_the_body_though_a_graph_would_serve(name):
    entry = ENTRIES[name](CLASSES["decorated"].Net())
    x = torch.randn(4, 3)
    entry(x), entry(x)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(entry, backend=backend, fullgraph=True)(x)
    assert len(graphs) == 1


def test_a_call_by_export_is_counted_and_reported_once():
    net = CLASSES["decorated"].Net()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            exported(net, torch.randn(4, 3))
    (message,) = [str(w.message) for w in caught if w.category is tracehost.TraceWarning]
    line = type(net).forward.__code__.co_firstlineno
    assert message.startswith(
        f"forward (test_modes_compilers.py:{line}) runs as plain Python under"
    )
    assert (net.forward.stats()["eager"], net.forward.tracing_count()) == (2, 0)


def test_what_is_compiled_follows_what_changes():
    """Two instances, an attribute, a method that is replaced: torch compiles again, as for plain methods."""
    results = {}
    for kind, made in CLASSES.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        held, other = made.Holder(), made.Holder()
        other.weight = torch.full((3,), 5.0)
        run = compiled(lambda h, y: h.scale(y))
        x = torch.randn(4, 3)
        results[kind] = [run(held, x), run(other, x)]
        held.weight = torch.full((3,), 7.0)
        results[kind] += [run(held, x), run(held, x[:2])]
        held.scale = lambda y: y - 1
        results[kind].append(run(held, x))
    assert_same(results["decorated"], results["plain"])


def test_a_method_that_compiled_code_returns():
    net = CLASSES["decorated"].Net()
    x = torch.randn(4, 3)
    _, method = compiled(lambda y: (y + 1, net.other))(x)
    assert_same(method(x, k=4), CLASSES["plain"].Net.other(net, x, k=4))


class Instead:
    """What the messages of the page advise: a decorated function, called by what torch can't look into."""

    @classmethod
    def of_class(cls, x):
        return known(x, len(cls.__name__))

    def __call__(self, x):
        return known(x)


BREAKS = {
    "a classmethod": (
        lambda held, x: held[0].of_class(x) + type(held[0]).of_class(x),
        "classmethod",
    ),
    "__call__": (lambda held, x: held[1](x), "__call__"),
}


@pytest.mark.filterwarnings("ignore::tracehost.TraceWarning")
@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_a_graph_of_torch_compile(name):
    """torch takes nothing but its own view of these: outside of fullgraph=True the call runs by itself."""
    way, word = BREAKS[name]
    x = torch.randn(4, 3)
    results = {}
    for kind, made in CLASSES.items():
        torch._dynamo.reset()
        held = made.Net(), made.Holder()
        results[kind] = torch.compile(lambda y, held=held: way(held, y) + 1, backend="eager")(x)
    assert_same(results["decorated"], results["plain"])
    held = CLASSES["decorated"].Net(), CLASSES["decorated"].Holder()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=word):
        compiled(lambda y: way(held, y))(x)
    run = compiled(lambda y: way((Instead(), Instead()), y))
    assert_same(run(x), way((Instead(), Instead()), x))


@tracehost.function
def known(x, n=2):
    """Doc."""
    return x * n


class Known(torch.nn.Module):
    @tracehost.function
    def forward(self, x):
        return x + 1


def test_elsewhere_a_function_is_no_python_function():
    assert known.__class__ is tracehost.Function and not inspect.isfunction(known)
    assert not isinstance(known, types.FunctionType)
    assert compiled(lambda x: x + isinstance(known, tracehost.Function))(torch.zeros(1)) == 1
    assert str(inspect.signature(known)) == "(x, n=2)"
    assert inspect.getsource(known).startswith("@tracehost.function\ndef known")
    assert inspect.getsource(Known.forward) == inspect.getsource(Known().forward)
    assert pickle.loads(pickle.dumps(known)) is known
    again = pickle.loads(pickle.dumps(Known()))
    assert again.forward.__func__ is not Known().forward.__func__


def test_a_function_has_what_its_python_function_has():
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__"):
        assert getattr(known, name) is getattr(known.python_function, name)
    assert not hasattr(tracehost.function(torch.nn.Linear(1, 1)), "__code__")


def test_a_body_that_asks_for_the_class_of_a_function():
    @tracehost.function
    def f(x):
        is_module = isinstance(known, torch.nn.Module) or known.__class__ is torch.nn.Module
        return x if is_module else known(x) + known.__code__.co_argcount

    for _ in range(3):
        assert_same(f(torch.ones(2)), torch.full((2,), 4.0))
    assert (f.tracing_count(), f.stats()["hits"]) == (1, 2)


def test_access_by_the_attribute_is_access():
    net, known_net = CLASSES["decorated"].Net(), Known()
    assert Known.forward.__get__(known_net, Known) == known_net.forward
    assert Known.forward.__get__(None, Known) is Known.forward
    assert net.other.__func__ is not type(net).other


def test_the_package_leaves_dynamo_alone():
    program = "import sys, tracehost; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_compiled_training_step_takes_the_engine_for_torch_s_own():
    """torch.compile leaves backward() alone, without a word about the frame that tracehost puts before the engine."""
    linear = torch.nn.Linear(3, 3)

    @torch.compile(backend="eager")
    def step(x):
        loss = linear(x).sum()
        loss.backward()
        return loss

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            step(torch.ones(2, 3))
    assert [str(warning.message) for warning in caught] == []
