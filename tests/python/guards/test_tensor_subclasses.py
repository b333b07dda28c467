"""Attributes of the user's own tensor classes: the classes along the MRO, and what a tensor's own attribute hides."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

ONES = torch.ones(2)


@pytest.fixture(params=["parameter", "tensor"])
def made(request):
    """A new class with a base of its own, and a tensor of it."""
    if request.param == "parameter":

        class Base(torch.nn.Parameter):
            tag = 3.0

    else:

        class Base(torch.Tensor):
            tag = 3.0

    class Scaled(Base):
        def scaled(self, x):
            return x * self.tag

        @classmethod
        def of_class(cls):
            return cls.tag

        @property
        def twice(self):
            return self.tag * 2

    tensor = Scaled(ONES) if request.param == "parameter" else ONES.clone().as_subclass(Scaled)
    return Base, Scaled, tensor


BODIES = {
    "attribute": lambda w, x: x * w.tag,
    "getattr": lambda w, x: x * getattr(w, "tag", 1.0),
    "method": lambda w, x: w.scaled(x),
    "class method": lambda w, x: x * w.of_class(),
    "property": lambda w, x: x + w.twice,
    "class": lambda w, x: x * type(w).tag,
}


def changes(base, kind, w):
    yield
    base.tag = 5.0
    yield
    kind.tag = 6.0
    yield
    w.tag = 7.0
    yield
    w.tag = 8.0
    yield
    del w.tag
    yield
    del kind.tag
    yield
    kind.scaled = lambda self, x: x - 1
    yield
    w.scaled = lambda x: x + 1
    yield


@pytest.mark.parametrize("given", ["global", "attribute", "argument"])
@pytest.mark.parametrize("name", BODIES)
def test_each_call_reads_what_is_there(made, name, given):
    base, kind, w = made
    body, holder = BODIES[name], torch.nn.Module()
    holder.w = w
    if given == "global":
        f = tracehost.function(lambda x: body(w, x) + 0)
        args = (ONES,)
    elif given == "attribute":
        f = tracehost.function(lambda x: body(holder.w, x) + 0)
        args = (ONES,)
    else:
        f = tracehost.function(lambda w, x: body(w, x) + 0)
        args = (w, ONES)
    for _ in changes(base, kind, w):
        expected = body(w, ONES) + 0
        for _ in range(2):
            assert torch.equal(f(*args), expected)


def test_a_hit_of_the_same_class_is_no_trace(made):
    _, kind, w = made
    f = tracehost.function(lambda x: x * w.tag + w.scaled(x))
    with assert_traces(f, 1):
        for _ in range(5):
            f(ONES)
        kind.other = 1  # which the body does not read
        f(ONES)


def test_another_parameter_of_the_class():
    class Tagged(torch.nn.Parameter):
        tag = 3.0

    net = torch.nn.Module()
    net.w = Tagged(ONES)
    f = tracehost.function(lambda x: x * net.w.tag + net.w)
    assert torch.equal(f(ONES), ONES * 4)
    net.w = Tagged(torch.zeros(2))
    assert torch.equal(f(ONES), ONES * 3)
    net.w.tag = 9.0
    assert torch.equal(f(ONES), ONES * 9)


def test_a_counter_in_an_attribute_that_hides_the_class():
    class Counted(torch.nn.Parameter):
        steps = 0

    ours, eagers = Counted(ONES), Counted(ONES)

    def body(w, x):
        w.steps = w.steps + 1
        return x * w.steps

    f = tracehost.function(lambda x: body(ours, x))
    for _ in range(4):
        assert torch.equal(f(ONES), body(eagers, ONES))
        assert ours.steps == eagers.steps
