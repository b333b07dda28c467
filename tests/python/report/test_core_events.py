"""tracehost.events(): what happened, with the cause and the line of the call."""

import warnings

import pytest
import torch
import tracehost
from core_support import place


def test_each_trace_is_an_event_with_cause_and_line():
    @tracehost.function
    def step(x, n):
        return x * n

    def calls():
        for n in (1, 1, 2):
            step(torch.ones(4), n)  # here

    calls()
    step(torch.ones(5), 2)
    first, second, third = tracehost.events(step)
    assert [e.kind for e in (first, second, third)] == ["trace"] * 3
    code = step.python_function.__code__
    assert first.function == "step"
    assert first.definition == f"test_core_events.py:{code.co_firstlineno}"
    assert (first.call, first.causes) == (place(calls), ())
    assert first.signature == "(x: float32[4], n=1)"
    assert second.causes == ("argument 'n' was 1, is 2",)
    assert third.causes == ("argument 'x', dimension 0, was 4, is 5",)
    assert third.ops > 0 and third.ms > 0 and not third.dynamic and not third.requested


def test_evictions_failures_and_warnings_are_events():
    @tracehost.function(limit=1)
    def step(n):
        if n > 4:
            raise KeyError("five")
        return torch.ones(2) * n

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (0, 0, 1, 2, 3, 4):
            step(n)
    with pytest.raises(KeyError):
        step(5)
    events = tracehost.events(step)
    assert [e.kind for e in events].count("trace") == 5
    evicted = [e for e in events if e.kind == "evict"]
    assert [(e.signature, e.hits) for e in evicted] == [
        ("(n=0)", 1),
        ("(n=1)", 0),
        ("(n=2)", 0),
        ("(n=3)", 0),
    ]
    (warned,) = [
        e for e in events if e.kind == "warn" and e.text.startswith("5 out of the last 6 calls")
    ]
    assert warned.call == events[-1].call.replace(
        events[-1].call.rsplit(":")[-1], warned.call.rsplit(":")[-1]
    )
    assert (events[-1].kind, events[-1].text) == ("fail", "KeyError: 'five'")


def test_a_dynamic_trace_says_so():
    @tracehost.function(reduce_retracing=True)
    def step(x):
        return x * 2

    step(torch.ones(2, 3))
    step(torch.ones(4, 3))
    exact, dynamic = tracehost.events(step)
    assert not exact.dynamic and dynamic.dynamic
    assert dynamic.signature == "(x: float32[None, 3])"
    assert dynamic.causes == ("argument 'x', dimension 0, was 2, is 4",)


def test_events_of_all_functions_come_in_order_and_of_methods_by_method():
    class Model:
        @tracehost.function
        def step(self, x):
            return x * 2

    @tracehost.function
    def other(x):
        return x * 3

    model = Model()
    tracehost.reset()
    model.step(torch.ones(2))
    other(torch.ones(2))
    assert [e.function for e in tracehost.events()] == ["step", "other"]
    assert [e.function for e in tracehost.events(model.step)] == ["step"]
    tracehost.reset()
    assert tracehost.events() == []


def test_what_is_no_function_is_rejected():
    with pytest.raises(
        TypeError, match=r"tracehost\.events\(\) takes a Function, or nothing; got 3"
    ):
        tracehost.events(3)
