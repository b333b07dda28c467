"""trace_monitor and testing.assert_traces: traces counted, named by line and cause, and limited."""

import inspect
import threading
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def new_detector():
    tracehost.reset()


def here(ahead=0):
    return f"test_monitor.py:{inspect.currentframe().f_back.f_lineno + ahead}"


def make(**options):
    @tracehost.trace_monitor(**options)
    @tracehost.function
    def step(x, n=2):
        """Doc."""
        return x * n

    return step, f"step (test_monitor.py:{step.python_function.__code__.co_firstlineno})"


def test_it_counts_and_says_why():
    step, name = make()
    assert step.count == 0 and step.traces == [] and step.report() == f"{name} was traced 0 times."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(step(X), X * 2)
        first, second, third = here(-1), here(1), here(2)
        assert torch.equal(step(X, n=3), X * 3) and torch.equal(step(X), X * 2)
        step(torch.ones(4), 3)
    assert step.count == 3 and [t.call for t in step.traces] == [first, second, third]
    assert step.report() == (
        f"{name} was traced 3 times:\n"
        f"  1. {first}: first trace, (x: float32[3], n=2)\n"
        f"  2. {second}: argument 'n' was 2, is 3\n"
        f"  3. {third}: argument 'x', dimension 0, was 3, is 4"
    )


def test_beyond_the_budget_each_trace_warns():
    step, name = make(budget=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(X), step(X), step(X, 3)
    with pytest.warns(tracehost.RetraceWarning) as seen:
        step(X, 4)
    line = here(-1)
    assert len(seen) == 1 and (seen[0].filename, seen[0].lineno) == (__file__, int(line[16:]))
    text = str(seen[0].message)
    assert text.startswith(f"{name} was traced 3 times, over its budget of 2:\n  1. ")
    assert text.endswith(f"\n  3. {line}: argument 'n' was 3, is 4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(X), step(X, 4)
    with pytest.warns(tracehost.RetraceWarning, match="4 times, over its budget of 2"):
        step(X, 5)
    assert "budget 2" in repr(step) and f"{name} was traced 4 times, budget 2:" in step.report()


def test_an_error_instead():
    step, name = make(budget=0, on_exceed="error")
    with pytest.raises(tracehost.TraceError, match="was traced once, over its budget of 0"):
        step(X)
    assert torch.equal(step(X), X * 2)


def test_it_is_otherwise_the_function():
    step, _ = make()
    step(X), step(X)
    assert step.stats()["hits"] == 1 and step.tracing_count() == 1 and step.name == "step"
    assert (step.__name__, step.__doc__) == ("step", "Doc.")
    assert list(inspect.signature(step).parameters) == ["x", "n"]
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        step()
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = step.nothing_like_it


def test_what_was_traced_before_does_not_count():
    f = tracehost.function(lambda x: x * 2)
    f(X)
    step = tracehost.trace_monitor(f, budget=0)
    step(X)
    assert step.count == 0 and step.traces == []
    with pytest.warns(
        tracehost.RetraceWarning, match=r"was traced once, over .*:\n  1\. .*dimension"
    ):
        step(torch.ones(2))


def test_methods_have_the_budget_for_each_instance():
    class Model:
        k = 2.0

        @tracehost.trace_monitor(budget=1)
        @tracehost.function
        def call(self, x):
            return x * self.k

    a, b = Model(), Model()
    a.k = 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(a.call(X), X * 2) and torch.equal(b.call(X), X * 2)
        assert torch.equal(a.call(X), X * 2)
    with pytest.warns(tracehost.RetraceWarning, match="was traced 2 times, over its budget of 1"):
        a.call(torch.ones(2))
    assert (a.call.count, b.call.count) == (2, 1) and a.call.stats()["live"] == 2
    a.k = 3.0
    with pytest.warns(
        tracehost.RetraceWarning, match="'self.k', which the body reads, was 2.0, is 3"
    ):
        a.call(X)


def test_below_another_function():
    inner, _ = make(budget=5)
    outer = tracehost.function(lambda x: inner(x) + 1)
    for n in range(3):
        assert torch.equal(outer(X), X * 2 + 1)
        inner(X, n)  # what the monitor remembers is nothing that outer depends on
    assert outer.tracing_count() == 1 and inner.stats()["inlined"] == 1


def test_events_that_are_forgotten():
    step, name = make()
    step(X), step(X, 3)
    tracehost.reset()
    step(X, 4)
    assert step.report().startswith(
        f"{name} was traced 3 times:\n  2 earlier, not remembered\n  3. "
    )


def test_threads_tell_of_a_trace_once():
    step, _ = make(budget=0)
    start = threading.Barrier(8)

    def work():
        start.wait()
        step(X)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 1


def test_wrong_uses():
    with pytest.raises(TypeError, match="takes a Function, got .*Put it above @tracehost.function"):
        tracehost.trace_monitor(lambda x: x)
    with pytest.raises(TypeError, match="budget must be an int or None, got '3'"):
        make(budget="3")
    with pytest.raises(ValueError, match="budget must not be negative, got -1"):
        make(budget=-1)
    with pytest.raises(ValueError, match="on_exceed must be 'warn' or 'error', got 'stop'"):
        make(on_exceed="stop")


# ---- assert_traces -------------------------------------------------------------------------------


def test_a_block_with_as_many_traces_passes():
    f = tracehost.function(lambda x: x * 2)
    with assert_traces(f, 1):
        f(X), f(X)
    with assert_traces(f, 0):
        f(X)
    with assert_traces(f, 2), assert_traces(tracehost.trace_monitor(f), 2):
        f(torch.ones(1)), f(torch.ones(2))


def test_a_block_with_more_fails_and_lists_them():
    f = tracehost.function(lambda x: x * 2, name="f")
    f(X)
    place = f"f (test_monitor.py:{f.python_function.__code__.co_firstlineno})"
    with pytest.raises(AssertionError) as error, assert_traces(f, 1):
        f(X), f(torch.ones(1))
        f(torch.ones(2))
    line = here(-1)
    one = f"test_monitor.py:{int(line[16:]) - 1}"
    assert str(error.value) == (
        f"{place} was traced 2 times in this block, expected 1:\n"
        f"  1. {one}: argument 'x', dimension 0, was 3, is 1\n"
        f"  2. {line}: argument 'x', dimension 0, was 1, is 2"
    )


def test_a_block_with_fewer_fails():
    f = tracehost.function(lambda x: x * 2)
    with pytest.raises(AssertionError, match="was traced 0 times in this block, expected 1$"):
        with assert_traces(f, 1):
            pass


def test_a_failing_test_shows_the_causes(run_host, tmp_path):
    (tmp_path / "test_step.py").write_text(
        "import torch, tracehost\n"
        "from tracehost.testing import assert_traces\n"
        "def test_step():\n"
        "    step = tracehost.function(lambda x, n: x * n, name='step')\n"
        "    with assert_traces(step, 1):\n"
        "        step(torch.ones(3), 1)\n"
        "        step(torch.ones(4), 1)\n"
        "        step(torch.ones(4), 2)\n"
    )
    done = run_host("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_step.py")
    shown = [line[2:].strip() for line in done.stdout.splitlines() if line.startswith("E ")]
    assert (done.returncode, shown) == (
        1,
        [
            "AssertionError: step (test_step.py:4) was traced 3 times in this block, expected 1:",
            "1. test_step.py:6: first trace, (x: float32[3], n=1)",
            "2. test_step.py:7: argument 'x', dimension 0, was 3, is 4",
            "3. test_step.py:8: argument 'n' was 1, is 2",
        ],
    )


def test_an_exception_in_the_block_wins():
    f = tracehost.function(lambda x: x * 2)
    with pytest.raises(KeyError), assert_traces(f, 1):
        raise KeyError


def test_methods():
    class Model:
        @tracehost.function
        def call(self, x):
            return x * 2

    m = Model()
    with assert_traces(m.call, 1), assert_traces(Model.call, 0):
        m.call(X), Model().call(X)


def test_wrong_uses_of_assert_traces():
    f = tracehost.function(lambda x: x)
    with pytest.raises(TypeError, match="assert_traces takes a Function"):
        assert_traces(print, 1)
    with pytest.raises(TypeError, match="takes a number of traces, got None"):
        assert_traces(f, None)
    with pytest.warns(RuntimeWarning, match="checked nothing: write `with assert_traces"):
        assert_traces(f, 0)
