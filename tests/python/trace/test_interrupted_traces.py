"""Ctrl-C comes at any place of a trace, also in code that tracehost asks, whose other errors it drops."""

import signal

import pytest
import torch
import tracehost
from tracehost.autograph.conversion import compile as conversion
from tracehost.autograph.staging import branches, carried
from tracehost.testing import assert_traces


def interrupts(code):
    raise KeyboardInterrupt("here")


def rings(code):
    import signal

    signal.raise_signal(signal.SIGUSR1)


def body(x):
    return x * 2


class Limit:
    def handler(self, number, frame):
        raise TimeoutError("late")


def handler(number, frame):
    raise TimeoutError("late")


def handler_of_any(*args):
    Limit().handler(*args)


def handler_of_more(limit, *, why="late"):
    def handler(*_):
        raise TimeoutError(why)

    return handler


@pytest.fixture(
    params=[handler, handler_of_any, Limit().handler, handler_of_more(1)],
    ids=["function", "any", "method", "closure"],
)
def alarm(request):
    """Sends a signal whose handler raises TimeoutError, as a limit of time does."""
    before = signal.signal(signal.SIGUSR1, request.param)
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "raises, error", [(interrupts, KeyboardInterrupt("here")), (rings, TimeoutError("late"))]
)
def test_what_a_signal_raises_in_code_that_is_asked_is_raised(monkeypatch, alarm, raises, error):
    f = tracehost.function(body)
    f(torch.ones(2))
    with monkeypatch.context() as patched:
        patched.setattr(conversion.is_generated, "__code__", raises.__code__)
        with pytest.raises(type(error), match=str(error)):
            tracehost.function(body)(torch.ones(3))
            list(map(abs, range(3)))  # at the latest here
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def tensors_of(x, c):
    if x.sum() > c:
        y = torch.relu(x)
    else:
        y = x * 2
    return y


def loop_of(x, c):
    while x.sum() < c:
        x = torch.relu(x) + 1
    return x


@pytest.mark.parametrize("program, where", [(tensors_of, branches), (loop_of, carried)])
@pytest.mark.parametrize("stance", ["default", "eager_on_error"])
def test_a_handlers_exception_in_a_side_that_does_not_run_is_no_part_of_it(
    monkeypatch, alarm, program, where, stance
):
    f = tracehost.function(program)
    with monkeypatch.context() as patched, tracehost.stance(stance):
        patched.setattr(where, "take_apart", lambda value: alarm())  # in the side, behind its ops
        with pytest.raises(TimeoutError, match="late"):
            f(torch.ones(2), torch.tensor(1.0))
    for c in (9.0, 1.0):
        assert torch.equal(
            f(torch.ones(2), torch.tensor(c)), program(torch.ones(2), torch.tensor(c))
        )


def test_a_handlers_exception_while_the_graph_is_compared_is_no_mistake_of_the_graph(
    alarm, recwarn
):
    runs = []

    @torch.library.custom_op("tracehost_test::late", mutates_args=())
    def late(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        if len(runs) == 2:
            alarm()
        return x * 2

    @late.register_fake
    def _(x):
        return torch.empty_like(x)

    late(torch.ones(2))  # torch's own first use takes long, and long bodies are not compared
    runs.clear()
    f = tracehost.function(lambda x: late(x) + 1)
    with assert_traces(f, 1):
        with pytest.raises(TimeoutError, match="late"):
            f(torch.ones(2))
        assert len(runs) == 2
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert [str(w.message) for w in recwarn if issubclass(w.category, tracehost.TraceWarning)] == []


# Python code that runs while the profile function is set: an audit hook, which stays for good.
AUDITED = """
import sys
import torch
import tracehost
from tracehost.autograph.conversion import compile as conversion


def interrupts(code):
    raise KeyboardInterrupt("here")


def body(x):
    return x * 2


seen = []
sys.addaudithook(lambda event, args: seen.append(event) or [None for _ in range(3)] and None)
f = tracehost.function(body)
f(torch.ones(2))
before = conversion.is_generated.__code__
conversion.is_generated.__code__ = interrupts.__code__
try:
    tracehost.function(body)(torch.ones(3))
    list(map(abs, range(3)))
except KeyboardInterrupt as error:
    print("raised", error)
conversion.is_generated.__code__ = before
print(sys.getprofile(), sys.gettrace(), f(torch.ones(2)).tolist(), "sys.setprofile" in seen)
"""


def test_an_interrupt_in_an_audit_hook_leaves_no_profile_function(run_host, tmp_path):
    (tmp_path / "audited.py").write_text(AUDITED)
    done = run_host("audited.py")
    assert done.returncode == 0, done.stderr  # where Python drops one of the interrupts, it says so
    assert done.stdout == "raised here\nNone None [2.0, 2.0] True\n"
