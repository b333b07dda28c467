"""Slots that a body rebinds to tensors: every call stores them, as in eager."""

import collections
import copy
import warnings

import pytest
import torch
import tracehost
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


class Box:
    pass


class Slotted:
    __slots__ = ("h",)


class Shared:
    h = torch.zeros(3)


GLOBAL = torch.zeros(3)


def attribute():
    box = Box()
    box.h = torch.zeros(3)

    def body(x):
        box.h = box.h * 0.5 + x
        return box.h * 2

    return body, lambda: box.h


def member():
    box = Slotted()
    box.h = torch.zeros(3)

    def body(x):
        box.h = box.h * 0.5 + x
        return box.h * 2

    return body, lambda: box.h


def class_attribute():
    class Own(Shared):
        h = torch.zeros(3)

    def body(x):
        Own.h = Own.h * 0.5 + x
        return Own.h * 2

    return body, lambda: Own.h


def global_name():
    globals()["GLOBAL"] = torch.zeros(3)

    def body(x):
        global GLOBAL
        GLOBAL = GLOBAL * 0.5 + x
        return GLOBAL * 2

    return body, lambda: GLOBAL


def cell():
    h = torch.zeros(3)

    def body(x):
        nonlocal h
        h = h * 0.5 + x
        return h * 2

    return body, lambda: h


def entry():
    state = {"h": torch.zeros(3), 7: torch.ones(3)}

    def body(x):
        state["h"], state[7] = state[7] * 0.5, state["h"] + x
        return state["h"] + state[7]

    return body, lambda: state


def ordered_entry():
    state = collections.OrderedDict(a=torch.zeros(3), b=torch.ones(3))

    def body(x):
        state["a"] = state["a"] + x
        return state["a"] * state["b"]

    return body, lambda: dict(state)


def element():
    state = [torch.zeros(3), [torch.ones(3)]]

    def body(x):
        state[0], state[1][0] = state[1][0] + x, state[0] * 2
        return state[0]

    return body, lambda: [state[0], state[1][0]]


def whole_tuple():
    box = Box()
    box.h = (torch.zeros(3), {"c": torch.ones(3)})

    def body(x):
        h, c = box.h
        box.h = (h + x, {"c": c["c"] * 0.5})
        return h + c["c"]

    return body, lambda: [box.h[0], box.h[1]["c"]]


def buffer():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n = self.n + 1
            return x * self.n

    module = Counter()
    return lambda x: module(x), lambda: module.n


def below_a_path():
    outer = Box()
    outer.inner = {"cells": [Box()]}
    outer.inner["cells"][0].h = torch.zeros(3)

    def body(x):
        target = outer.inner["cells"][0]
        target.h = target.h + x
        return target.h * 2

    return body, lambda: outer.inner["cells"][0].h


def the_input_itself():
    box = Box()
    box.h = torch.zeros(3)

    def body(x):
        before, box.h = box.h, x
        return before + x

    return body, lambda: box.h


def another_capture():
    box = Box()
    box.h, box.w = torch.zeros(3), torch.ones(3)

    def body(x):
        box.h = box.w
        box.h.add_(x)
        return box.h * 2

    return body, lambda: [box.h, box.w]


def two_names_of_one():
    box = Box()
    box.a = box.b = torch.zeros(3)

    def body(x):
        box.a = box.b = box.a + x
        return box.a.add_(1)

    return body, lambda: [box.a, box.b]


ALL = [
    attribute,
    member,
    class_attribute,
    global_name,
    cell,
    entry,
    ordered_entry,
    element,
    whole_tuple,
    buffer,
    below_a_path,
    the_input_itself,
    another_capture,
    two_names_of_one,
]


def leaves(value):
    return [t.clone() for t in torch.utils._pytree.tree_leaves(value)]


def run(make, decorate, calls=5):
    body, state = make()
    f = decorate(body)
    seen = []
    for i in range(calls):
        x = X + i
        seen.append([f(x).clone(), x, *leaves(state())])
    return seen, f


@pytest.mark.parametrize("make", ALL)
def test_every_call_stores_as_eager(make):
    expected, _ = run(make, lambda body: body)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.SideEffectWarning)
        got, f = run(make, tracehost.function)
    for ours, theirs in zip(got, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a, b)
    assert f.tracing_count() == 1


def test_the_stored_tensor_is_the_returned_one():
    body, state = attribute()
    f = tracehost.function(lambda x: (body(x), state()))
    for _ in range(3):
        _, h = f(X)
        assert h is state()


def test_none_before_is_a_trace_of_its_own():
    box = Box()
    box.h = None

    @tracehost.function
    def f(x):
        box.h = x * 1 if box.h is None else box.h + x
        return box.h * 2

    with assert_traces(f, 2):
        for n in range(1, 4):
            assert torch.equal(f(X), X * n * 2)
    box.h = None
    with assert_traces(f, 0):
        for n in range(1, 4):
            assert torch.equal(f(X), X * n * 2)


@pytest.mark.parametrize("kept", [Box(), {}], ids=["attribute", "key"])
def test_nothing_before_is_a_trace_of_its_own(kept):
    space = kept if isinstance(kept, dict) else vars(kept)

    @tracehost.function
    def f(x):
        if isinstance(kept, dict):
            if "h" not in kept:
                kept["h"] = torch.zeros(3)
            kept["h"] += x
            return kept["h"] * 2
        if not hasattr(kept, "h"):
            kept.h = torch.zeros(3)
        kept.h += x
        return kept.h * 2

    for _ in range(2):
        for n in range(1, 4):
            assert torch.equal(f(X), X * n * 2)
        assert f.tracing_count() == 2
        del space["h"]


def test_a_parameter_is_made_once():
    class Lazy(nn.Module):
        def forward(self, x):
            if not hasattr(self, "w"):
                self.w = nn.Parameter(torch.ones(3))
            return x * self.w

    line = Lazy.forward.__code__.co_firstlineno + 2
    module = Lazy()
    f = tracehost.function(module)
    with assert_traces(f, 2):
        results = [f(X) for _ in range(3)]
        assert all(torch.equal(r, X) and r.requires_grad for r in results)
        assert len(list(module.parameters())) == 1
    with assert_traces(f, 1):  # nothing was kept of the trace that made it
        made = [e for e in tracehost.events(f) if e.kind == "trace"][0]
        assert made.notes == (f"the body creates self.w at test_state_rebound.py:{line}",)
        del module.w
        assert torch.equal(f(X), X)


def test_an_object_that_only_the_body_can_make_is_made_by_every_call():
    box = Box()
    box.pair = None

    @tracehost.function
    def f(x):
        box.pair = (x + 1, Box())
        return x * 2

    made = []
    for i in range(3):
        assert torch.equal(f(X + i), (X + i) * 2)
        assert torch.equal(box.pair[0], X + i + 1)
        made.append(box.pair[1])
    assert len(set(map(id, made))) == 3


def test_state_of_another_size_is_another_trace():
    box = Box()
    box.h = torch.zeros(1)

    @tracehost.function
    def f(x):
        box.h = torch.cat([box.h, x])
        return box.h.sum()

    with assert_traces(f, 3):
        for n in range(1, 4):
            f(X)
            assert box.h.shape == (1 + 3 * n,)


def test_gradients_reach_back_through_the_state():
    def train(decorate):
        box = Box()
        box.h = torch.zeros(3)
        w = torch.full((3,), 2.0, requires_grad=True)

        @decorate
        def f(x):
            box.h = box.h * w + x
            return box.h.sum()

        total = sum(f(X + i) for i in range(4))
        total.backward()
        return w.grad, box.h, f

    grad, h, _ = train(lambda body: body)
    ours, state, f = train(tracehost.function)
    assert torch.equal(ours, grad) and torch.equal(state, h) and state.requires_grad
    assert f.tracing_count() == 2  # the state that needs no gradient yet, and the one that does


def test_each_instance_has_its_own():
    class Cell:
        def __init__(self, h):
            self.h = h

        @tracehost.function
        def step(self, x):
            self.h = self.h + x
            return self.h

    a, b = Cell(torch.zeros(3)), Cell(torch.ones(3))
    for n in range(1, 4):
        a.step(X)
        b.step(X)
        assert torch.equal(a.h, X * n) and torch.equal(b.h, X * n + 1)
    assert (a.step.tracing_count(), b.step.tracing_count()) == (1, 1)


def test_an_object_argument_is_stored_to():
    @tracehost.function
    def step(cell, x):
        cell.h = cell.h + x

    a, b = Box(), Box()
    a.h, b.h = torch.zeros(3), torch.ones(3)
    with assert_traces(step, 2):
        for n in range(1, 4):
            step(a, X)
            step(b, X)
            assert torch.equal(a.h, X * n) and torch.equal(b.h, X * n + 1)


def test_a_hit_that_fails_stores_what_the_body_does():
    box = Box()
    box.h = torch.eye(2)

    @tracehost.function
    def f(x):
        box.h = box.h + x
        return torch.linalg.inv(x)

    f(torch.eye(2))
    before = box.h
    with pytest.raises(torch.linalg.LinAlgError):
        f(torch.zeros(2, 2))
    assert box.h is not before and torch.equal(box.h, before)  # plus zeros


def test_without_watching_a_tensor_is_still_stored():
    box = Box()
    box.h = torch.zeros(3)

    @tracehost.function(watch=False)
    def f(x):
        box.h = box.h + x
        return box.h * 2

    with assert_traces(f, 1):
        for n in range(1, 4):
            assert torch.equal(f(X), X * n * 2)


def test_in_a_staged_branch():
    box = Box()
    box.h = torch.zeros(3)

    @tracehost.function
    def f(x):
        if x.sum() > 3:
            box.h = box.h + x
        else:
            box.h = box.h - x
        return box.h * 2

    expected = torch.zeros(3)
    with assert_traces(f, 1):
        for i in [0, 2, 0, 3]:
            x = X + i
            expected = expected + x if x.sum() > 3 else expected - x
            assert torch.equal(f(x), expected * 2)
            assert torch.equal(box.h, expected)


def test_a_concrete_function_stores_too():
    body, state = attribute()
    f = tracehost.function(body)
    with assert_traces(f, 1):
        concrete = f.get_concrete_function(tracehost.TensorSpec([3]))
        assert type(state()) is torch.Tensor and torch.equal(state(), torch.zeros(3))
        concrete(X)
        concrete(X)
        assert torch.equal(state(), X * 1.5)
        f(X)
        assert torch.equal(state(), X * 1.75)


def test_a_request_that_fails_leaves_no_fake_tensor():
    box = Box()
    box.h = torch.zeros(3)

    @tracehost.function
    def f(x):
        box.h = box.h + x
        raise ValueError("no")

    with pytest.raises(ValueError):
        f.get_concrete_function(tracehost.TensorSpec([3]))
    assert type(box.h) is torch.Tensor and torch.equal(box.h, torch.zeros(3))


def test_an_inlined_function_stores():
    body, state = attribute()
    inner = tracehost.function(body)
    outer = tracehost.function(lambda x: inner(x) + inner(x))
    body2, state2 = attribute()
    with assert_traces(outer, 1):
        for i in range(4):
            assert torch.equal(outer(X + i), body2(X + i) + body2(X + i))
            assert torch.equal(state(), state2())


def test_state_of_a_recurrent_network():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4)
            self.state = None

        def forward(self, x):
            y, self.state = self.lstm(x, self.state)
            self.state = tuple(s.detach() for s in self.state)
            return y

    net = Net()
    twin = copy.deepcopy(net)
    f = tracehost.function(net)
    with assert_traces(f, 2):
        for i in range(5):
            x = torch.full((2, 1, 3), float(i))
            assert torch.equal(f(x), twin(x))
            for ours, theirs in zip(net.state, twin.state, strict=True):
                assert torch.equal(ours, theirs)
