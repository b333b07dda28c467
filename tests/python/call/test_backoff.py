"""A signature whose traces serve no later call is not traced for a while: docs/guides/retrace-warnings.md."""

import random
import warnings

import pytest
import torch
import tracehost
from library_support import installed
from tracehost.testing import assert_traces

X = torch.ones(3)
BEFORE, FIRST, SECOND = 8, 32, 64  # traces before the first pause; calls of the first two

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


@pytest.fixture
def noise():
    """A library's function that draws: a trace with it serves its own call alone."""
    return installed("def noise():\n    return random.random()\n", random=random)["noise"]


def skipping():
    """A Function after its traces and one call without, and the list that its body reads."""
    steps = []
    f = tracehost.function(lambda x: x * len(steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.TraceWarning)
        for count in range(BEFORE + 1):
            f(X)
            steps.append(count)
    return f, steps


def test_a_body_that_draws_runs_as_plain_code(noise):
    f = tracehost.function(lambda x: x * noise())
    with assert_traces(f, BEFORE + 2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for number in range(BEFORE + FIRST + 1 + SECOND + 1):
                random.seed(number)
                expected = X * random.random()
                random.seed(number)
                assert torch.equal(f(X), expected)
    assert f.stats()["calls"] == BEFORE + FIRST + 1 + SECOND + 1
    line = test_a_body_that_draws_runs_as_plain_code.__code__.co_firstlineno + 1
    assert [str(w.message) for w in told if w.category is tracehost.TraceWarning] == [
        f"<lambda> (test_backoff.py:{line}): the last 8 traces for such arguments served no later call, so the next 32 such calls run as "
        f"plain Python. The reason of the last one: the body draws from random.random at test_backoff.py:{line} "
        "(in a_library.py:2), which no graph does: it is traced again. Keep what changes in a tensor, or "
        "decorate the functions that the body calls instead."
    ]
    notes = [note for event in tracehost.events(f) for note in event.notes if "served" in note]
    assert notes == [
        f"the last 8 traces for such arguments served no later call: the next {calls} such calls run as plain Python"
        for calls in (FIRST, SECOND, 2 * SECOND)
    ]


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = []

    @tracehost.function
    def forward(self, x):
        return x * len(self.steps)


def test_the_warning_of_a_module_stands_at_the_users_line():
    net = Counted()
    with pytest.warns(tracehost.TraceWarning, match="served no later call") as told:
        for count in range(BEFORE + 1):
            net(X)
            net.steps.append(count)
    line = test_the_warning_of_a_module_stands_at_the_users_line.__code__.co_firstlineno + 4
    (warning,) = [one for one in told if one.category is tracehost.TraceWarning]
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_a_value_that_changes_before_each_call():
    steps = []

    @tracehost.function
    def scaled(x):
        return x * len(steps)

    with assert_traces(scaled, BEFORE):
        with pytest.warns(tracehost.TraceWarning, match="such calls run as plain Python") as told:
            for count in range(BEFORE + 5):
                assert torch.equal(scaled(X), X * count)
                steps.append(count)
    (said,) = [str(w.message) for w in told if w.category is tracehost.TraceWarning]
    assert (
        "The reason of the last one: 'len(steps)', which the body reads, is 7, not 6. Keep" in said
    )


def test_a_function_that_settles_is_traced_and_hit():
    f, steps = skipping()
    with assert_traces(f, 1):
        for _ in range(FIRST + 5):
            assert torch.equal(f(X), X * len(steps))
    assert f.stats()["hits"] == 5


def test_other_arguments_are_traced():
    f, steps = skipping()
    other = torch.ones(5)
    assert torch.equal(f(other), other * len(steps))
    assert torch.equal(f(other), other * len(steps))
    assert (f.tracing_count(), f.stats()["hits"]) == (BEFORE + 1, 1)


def test_arguments_that_change_are_traced_each_time():
    f = tracehost.function(lambda x, n: x * n)
    with assert_traces(f, BEFORE + 5):
        for n in range(BEFORE + 5):
            f(X, n)


def test_arguments_that_look_the_same_are_traced():
    """As text, long strings and objects of one class are alike."""
    f = tracehost.function(lambda x, mode: x * 2)
    with assert_traces(f, BEFORE + 3):
        for n in range(BEFORE + 3):
            f(X, "m" * 80 + str(n))
    kept = [object() for _ in range(BEFORE + 3)]
    for mode in kept:
        f(X, mode)
    assert f.tracing_count() == 2 * (BEFORE + 3)


def test_outcomes_of_a_read_are_no_reason():
    """A number that the body reads has limits of its own."""

    @tracehost.function
    def picked(x, numbers):
        return [x + i for i in range(int(numbers[0]))], [x - i for i in range(int(numbers[1]))]

    with assert_traces(picked, 12):
        for a in range(3):
            for b in range(4):
                ups, downs = picked(X, torch.tensor([a, b]))
                assert (len(ups), len(downs)) == (a, b)


def test_clear_starts_from_the_beginning():
    f, _ = skipping()
    f.clear()
    with assert_traces(f, 1):
        f(X)


def test_a_call_that_must_not_trace_is_told_so():
    f, steps = skipping()
    with (
        tracehost.stance("fail_on_miss"),
        pytest.raises(tracehost.TraceError, match="no specialization"),
    ):
        f(X)


def test_explain_says_so():
    steps = []
    f = tracehost.function(lambda x: x * len(steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.TraceWarning)
        for count in range(BEFORE):
            assert f.explain(X).plain_calls == 0
            f(X)
            steps.append(count)
    explained = f.explain(X)
    assert (explained.hit, explained.plain_calls) == (False, FIRST)
    assert str(explained).splitlines()[1] == (
        "  miss: it would run as plain Python, as the next 32 such calls will: the last traces served no later call; "
        "nearest is #8 (x: float32[3])"
    )
    f(X)
    assert f.explain(X).plain_calls == FIRST - 1


def test_explain_says_so_where_no_graph_is_kept(noise):
    f = tracehost.function(lambda x: x * noise())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.TraceWarning)
        for _ in range(BEFORE + FIRST - 1):
            f(X)
    assert str(f.explain(X)).splitlines()[1] == (
        "  miss: it would run as plain Python, as the next 1 such call will: the last traces served no later call"
    )
