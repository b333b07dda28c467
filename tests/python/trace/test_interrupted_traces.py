"""Ctrl-C comes at any place of a trace, and is raised: tracehost drops no interrupt on the way."""

import signal
import sys

import pytest
import torch
import tracehost

INTERRUPTS = 60
MOST_TRACES = 100  # after an interrupt: it is lost

NET = torch.nn.Sequential(
    torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)
)


def body(x, n):
    y = x
    for _ in range(6):
        y = torch.cat([NET[0](y), y], 1)[:, :8] * n
        if y.sum() > 0:
            y = torch.relu(y)
        else:
            y = y - 1
    return NET(y), {"a": y, "b": [y + i for i in range(3)]}


def traces_until_interrupted(seen):
    """How many traces ended meanwhile; MOST_TRACES: the interrupt was lost."""
    x = torch.rand(3, 8)
    for n in range(MOST_TRACES):
        if seen:
            return n
        try:
            tracehost.function(body)(x, n)
        except KeyboardInterrupt:
            return n
    return MOST_TRACES


@pytest.fixture
def alarm():
    """SIGALRM does what SIGINT does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_of_a_trace_is_raised(alarm, monkeypatch):
    # Python itself prints what a callback of a weak reference raises: such an interrupt was seen.
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    tracehost.function(body)(torch.rand(3, 8), 0)  # what is loaded at the first trace is there
    lost = 0
    for i in range(INTERRUPTS):
        seen.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0007 * i)
            lost += traces_until_interrupted(seen) == MOST_TRACES
        except KeyboardInterrupt:  # between two traces
            pass
    assert lost == 0
