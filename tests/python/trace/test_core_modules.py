"""Methods, modules and other callables as Functions."""

import copy
import functools

import pytest
import torch
import tracehost
from core_support import check
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


class Scale:
    def __init__(self, factor):
        self.factor = torch.tensor(factor)

    @tracehost.function
    def __call__(self, x):
        return x * self.factor

    @tracehost.function
    def plus(self, x, *, y=1):
        return x * self.factor + y

    @tracehost.function
    @staticmethod
    def inner_static(x):
        return x * 2

    @staticmethod
    @tracehost.function
    def outer_static(x):
        return x * 3

    @classmethod
    @tracehost.function
    def outer_class(cls, x):
        return x * len(cls.__name__)

    @tracehost.function
    @classmethod
    def inner_class(cls, x):
        return x + len(cls.__name__)


class Bigger(Scale):
    @tracehost.function
    def plus(self, x, *, y=1):
        return super().plus(x, y=y) * 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)

    @tracehost.function
    def forward(self, x):
        return self.drop(self.fc(x)).relu()


def test_methods_keep_their_instances_apart():
    a, b = Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert torch.equal(a.plus(X), X * 2 + 1) and torch.equal(b.plus(X, y=5), X * 3 + 5)
        assert torch.equal(Scale.plus(a, X), X * 2 + 1)
    assert a.plus.tracing_count() == b.plus.tracing_count() == 1


def test_a_bound_method_outlives_the_loop():
    method = Scale(4.0).plus
    for _ in range(2):
        assert torch.equal(method(X), X * 4 + 1)
    assert method.__self__.factor == 4 and isinstance(method.__func__, tracehost.Function)


def test_a_decorated_bound_method():
    a = Scale(2.0)
    f = tracehost.function(a.plus)
    with assert_traces(f, 1):
        for factor in (2.0, 5.0):
            a.factor.fill_(factor)
            assert torch.equal(f(X), X * factor + 1)


def test_static_and_class_methods_in_both_orders():
    a = Scale(2.0)
    for _ in range(2):
        for owner in (a, Scale):
            assert torch.equal(owner.inner_static(X), X * 2)
            assert torch.equal(owner.outer_static(X), X * 3)
            assert torch.equal(owner.outer_class(X), X * 5)
            assert torch.equal(owner.inner_class(X), X + 5)
        assert torch.equal(Bigger.outer_class(X), X * 6)
        assert torch.equal(Bigger.inner_class(X), X + 6)


def test_inheritance_and_super():
    big = Bigger(2.0)
    with assert_traces(big.plus, 1):
        for _ in range(3):
            assert torch.equal(big.plus(X), (X * 2 + 1) * 10)
    assert torch.equal(Scale.plus(big, X), X * 2 + 1)


def test_a_callable_object():
    a = Scale(2.0)
    for _ in range(2):
        assert torch.equal(a(X), X * 2)

    class Plain:
        w = torch.ones(3)

        def __call__(self, x):
            return x * self.w

    f = tracehost.function(Plain())
    with assert_traces(f, 1):
        for _ in range(2):
            assert torch.equal(f(X), X)
        assert f.name == "Plain"


def test_partials():
    def body(x, y, *, scale):
        return x * y * scale

    w = torch.full((3,), 2.0)
    f = tracehost.function(functools.partial(body, y=w, scale=3.0))
    g = functools.partial(tracehost.function(body), X, scale=2.0)
    for _ in range(2):
        assert torch.equal(f(X), X * w * 3) and torch.equal(g(w), X * w * 2)
    assert f.tracing_count() == g.func.tracing_count() == 1
    assert torch.equal(f(X, scale=1.0), X * w)


def test_a_wrapped_function():
    def twice(inner):
        @functools.wraps(inner)
        def outer(*args):
            return inner(*args) * 2

        return outer

    @tracehost.function
    @twice
    def body(x, y):
        return x + y

    with assert_traces(body, 1):
        for _ in range(2):
            assert torch.equal(body(X, X), X * 4)
        assert body.name == "body"


def test_a_module_as_a_function():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    f = tracehost.function(net)
    assert f.python_function is net
    check(net, torch.randn(5, 3, requires_grad=True), function=f, extra=net.parameters())
    with torch.no_grad():
        net[0].weight.mul_(2)
    check(net, torch.randn(5, 3, requires_grad=True), function=f, extra=net.parameters())


def test_a_decorated_forward():
    torch.manual_seed(0)
    net = Net().eval()
    with assert_traces(net.forward, 1):
        for _ in range(3):
            assert torch.equal(net(X), net.fc(X).relu())
    with assert_traces(net.forward, 1):
        net.train()
        for _ in range(2):
            torch.manual_seed(7)
            got = net(X)
            torch.manual_seed(7)
            assert torch.equal(got, Net.forward.python_function(net, X))


def test_two_modules_share_no_specialization():
    a, b = Net().eval(), Net().eval()
    for _ in range(2):
        assert torch.equal(a(X), a.fc(X).relu()) and torch.equal(b(X), b.fc(X).relu())


def test_hooks_run_at_the_trace_and_are_recorded():
    net = nn.Linear(3, 2)
    handle = net.register_forward_hook(lambda m, args, out: out * 2)
    f = tracehost.function(lambda x: net(x))
    with assert_traces(f, 2):
        for _ in range(2):
            assert torch.equal(f(X), nn.functional.linear(X, net.weight, net.bias) * 2)
        handle.remove()
        assert torch.equal(f(X), nn.functional.linear(X, net.weight, net.bias))


def test_a_deep_copied_module_has_its_own_parameters():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
            self.step = tracehost.function(self.body)

        def body(self, x):
            return x * self.w

    owner = Owner()
    assert torch.equal(owner.step(X), X)
    other = copy.deepcopy(owner)
    with torch.no_grad():
        other.w.fill_(5)
    assert torch.equal(other.step(X), X * 5) and torch.equal(owner.step(X), X)


def test_parametrized_and_weight_normed_modules():
    torch.manual_seed(0)
    net = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    check(net, torch.randn(4, 3, requires_grad=True), extra=net.parameters())


def test_shared_parameters_get_one_gradient():
    a = nn.Linear(3, 3)
    b = nn.Linear(3, 3)
    b.weight = a.weight
    check(lambda x: b(a(x)), torch.randn(2, 3), extra=[a.weight, a.bias, b.bias])


def test_a_module_list_and_a_parameter_dict():
    layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
    scales = nn.ParameterDict({"a": torch.ones(3), "b": torch.full((3,), 2.0)})

    def body(x):
        for layer in layers:
            x = layer(x).tanh()
        return x * scales["a"] + scales["b"]

    check(body, torch.randn(2, 3), extra=[*layers.parameters(), *scales.parameters()])
