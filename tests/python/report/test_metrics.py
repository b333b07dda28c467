"""`tracehost.metrics_text()`, and the events of calls in `torch.profiler`."""

import re

import pytest
import torch
import tracehost

SAMPLE = re.compile(r"([a-z_]+)(?:\{([^{}]*)\})? (\S+)")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')


@pytest.fixture(autouse=True)
def counts_of_this_test():
    """The text names the Functions with the most calls: those of other tests must not come first."""
    tracehost.reset()


def parsed(text: str) -> dict[tuple, float]:
    """Samples by name and labels, of a text that keeps the rules of the format, version 0.0.4."""
    assert text.endswith("\n")
    samples: dict[tuple, float] = {}
    families: dict[str, str] = {}
    helped = current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert current == helped and current not in families and kind in ("counter", "gauge")
            assert current.endswith("_total") == (kind == "counter")
            families[current] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            assert name == current
            pairs = LABEL.findall(labels or "")
            assert "".join(f'{key}="{label}",' for key, label in pairs) == f"{labels},"
            key = (name, *sorted(pairs))
            assert key not in samples and len(dict(pairs)) == len(pairs)
            samples[key] = float(value)
            assert samples[key] >= 0
    return samples


def of(samples, name, function, **labels):
    """The value of the one sample with these labels."""
    found = [
        value
        for (known, *pairs), value in samples.items()
        if known == name
        and dict(pairs)["function"].startswith(f"{function} (")
        and labels.items() <= dict(pairs).items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_calls_retraces_and_evictions():
    @tracehost.function(limit=2)
    def counted(x, n=1):
        return x * n

    for size in (1, 1, 2, 3):
        counted(torch.ones(size))
    counted(torch.ones(3), 2)
    counted(torch.ones(3).double(), 2)
    samples = parsed(tracehost.metrics_text())
    assert of(samples, "tracehost_calls_total", "counted", result="hit") == 1
    assert of(samples, "tracehost_calls_total", "counted", result="trace") == 5
    assert of(samples, "tracehost_retraces_total", "counted", cause="shape") == 2
    assert of(samples, "tracehost_retraces_total", "counted", cause="value") == 1
    assert of(samples, "tracehost_retraces_total", "counted", cause="dtype") == 1
    assert of(samples, "tracehost_retraces_total", "counted", cause="object") is None
    assert of(samples, "tracehost_evictions_total", "counted") == 3
    assert of(samples, "tracehost_specializations", "counted") == 2
    assert of(samples, "tracehost_trace_seconds_total", "counted") > 0


def test_a_signature_that_was_evicted():
    @tracehost.function(limit=1)
    def narrow(x):
        return x * 2

    for size in (1, 2, 1):
        narrow(torch.ones(size))
    samples = parsed(tracehost.metrics_text())
    assert of(samples, "tracehost_retraces_total", "narrow", cause="evicted") == 1
    assert of(samples, "tracehost_retraces_total", "narrow", cause="shape") == 1
    assert of(samples, "tracehost_evictions_total", "narrow") == 2


def test_functions_that_are_decorated_again():
    def made():
        @tracehost.function
        def again(x):
            return x + 1

        return again

    for _ in range(3):
        made()(torch.ones(1))
    samples = parsed(tracehost.metrics_text())
    assert of(samples, "tracehost_retraces_total", "again", cause="decorated_again") == 2


def test_reset_restarts_the_counts():
    @tracehost.function
    def restarted(x):
        return x + 1

    for size in (1, 2):
        restarted(torch.ones(size))
    assert of(parsed(tracehost.metrics_text()), "tracehost_retraces_total", "restarted") == 1
    tracehost.reset()
    restarted(torch.ones(3))
    assert of(parsed(tracehost.metrics_text()), "tracehost_retraces_total", "restarted") == 1


class Net(torch.nn.Module):
    @tracehost.function
    def run(self, x):
        return inner(x) * 2


@tracehost.function
def inner(x):
    return x + 1


def events_of(call) -> dict[str, int]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        call()
    return {event.key: event.count for event in prof.key_averages()}


def test_calls_are_events_of_the_profiler():
    net, x = Net(), torch.ones(3)

    def calls():
        for _ in range(3):
            net.run(x)
        inner(x)

    name = f"{__name__}.Net.run"
    counts = events_of(calls)  # a trace, in which the inner one is called, then hits
    assert (counts[name], counts[f"{__name__}.inner"]) == (3, 2)
    counts = events_of(calls)
    assert (counts[name], counts[f"{__name__}.inner"]) == (3, 1)
    assert counts["aten::mul"] == 3
    with tracehost.run_functions_eagerly(True):
        assert events_of(lambda: net.run(x))[name] == 1


def test_an_event_spans_the_ops_of_its_call_and_ends_by_an_exception():
    @tracehost.function
    def raises(x):
        raise KeyError("its own")

    def calls():
        try:
            raises(torch.ones(1))
        except KeyError:
            pass
        inner(torch.ones(7))

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        calls()
    (event,) = [e for e in prof.events() if e.name == f"{__name__}.inner"]
    assert event.cpu_parent is None
    assert "aten::add" in {e.name for e in prof.events() if _is_below(e, event)}


def _is_below(event, above):
    while event is not None and event is not above:
        event = event.cpu_parent
    return event is above


def test_a_trace_under_the_profiler_has_the_same_graph():
    plain = tracehost.function(lambda x: inner(x) * 3)
    observed = tracehost.function(lambda x: inner(x) * 3)
    plain(torch.ones(2))
    events_of(lambda: observed(torch.ones(2)))
    assert [s.ops for s in plain.specializations()] == [s.ops for s in observed.specializations()]
    assert torch.equal(plain(torch.ones(2)), observed(torch.ones(2)))
