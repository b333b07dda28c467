"""Ctrl-C comes at any place of a trace, also in code that tracehost asks, whose other errors it drops."""

import signal

import pytest
import torch
import tracehost
from tracehost.autograph.conversion import compile as conversion


def interrupts(code):
    raise KeyboardInterrupt


def body(x):
    return x * 2


@pytest.fixture
def raised_again():
    """What SIGINT's handler was called with."""
    calls = []

    def handler(number, frame):
        calls.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    yield calls
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_code_that_is_asked_is_raised(monkeypatch, raised_again):
    f = tracehost.function(body)
    f(torch.ones(2))
    with monkeypatch.context() as patched:
        patched.setattr(conversion.is_generated, "__code__", interrupts.__code__)
        with pytest.raises(KeyboardInterrupt):
            tracehost.function(body)(torch.ones(3))
            list(map(abs, range(3)))  # at the latest here
    assert raised_again  # it was dropped, and SIGINT sent in its place
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
