"""What a traced body changes in Python: once, with a warning, or unsupported with the line."""

import sys
import threading
import types
import warnings

import pytest
import torch
import tracehost
from environment_support import Config, X
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


GROWS = []


def side_effects(record):
    return [w for w in record if issubclass(w.category, tracehost.SideEffectWarning)]


def told_once(body, change):
    """Calls the Function of the body twice: the trace reports the change, the hit reports nothing."""
    f = tracehost.function(body)
    with assert_traces(f, 1):
        with pytest.warns(tracehost.SideEffectWarning, match=change):
            f(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            f(X)


def made_once(body):
    """What the body reads and then makes costs one trace more, and no warning: the second call finds it."""
    f = tracehost.function(body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for traces in (1, 2, 2):
            f(X)
            assert f.tracing_count() == traces


def test_a_counter_counts_each_call():
    class Counter:
        def __init__(self):
            self.count = 0

        def body(self, x):
            self.count += 1
            return x + 1

        run = tracehost.function(body)

    c = Counter()
    with assert_traces(c.run, 2):  # the second one has the count as an input
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for n in range(1, 8):
                assert torch.equal(c.run(X), X + 1) and c.count == n


def test_attribute_made_in_the_body():
    cfg = Config()

    def body(x):
        if not hasattr(cfg, "seen"):
            cfg.seen = 1
        return x + 1

    made_once(body)
    assert cfg.seen == 1


def test_global_list_appended():
    def body(x):
        GROWS.append(1)
        return x + 1

    told_once(body, "GROWS")
    assert len(GROWS) == 1
    GROWS.clear()


def test_nonlocal_counter():
    n = 0

    def body(x):
        nonlocal n
        n += 1
        return x + 1

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for calls in range(1, 6):
            assert torch.equal(f(X), X + 1) and n == calls


def test_set_changed_in_the_body():
    seen = set()

    @tracehost.function
    def f(x):
        seen.add("here")
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for traces in (1, 2, 2):  # the first call changes what it has read
            assert torch.equal(f(X), X + 1) and seen == {"here"}
            assert f.tracing_count() == traces
        seen.clear()
        assert torch.equal(f(X), X + 1) and seen == {"here"}


def test_a_tensor_added_to_a_list_is_added_by_each_call():
    kept, lengths = [], []

    def body(x):
        kept.append(x + 1)
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(3):
                assert torch.equal(f(X + i), (X + i) * 2)
                lengths.append(len(kept))
        assert lengths == [1, 2, 3]
    assert all(torch.equal(t, X + i + 1) for i, t in enumerate(kept))


def test_a_list_that_is_emptied_and_filled():
    kept = [0]

    def body(x):
        kept.clear()
        kept.append(x + 1)
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 2):  # the second call finds a tensor in the list
        for i in range(3):
            assert torch.equal(f(X + i), (X + i) * 2)
            assert len(kept) == 1 and torch.equal(kept[0], X + i + 1)


def test_update_in_place_is_repeated():
    cfg = Config()
    cfg.h = torch.zeros(4)

    def body(x):
        cfg.h.add_(x)
        return cfg.h * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for i in range(1, 4):
            assert torch.equal(f(X), X * i * 2)
        assert torch.equal(cfg.h, X * 3)


def test_captured_slot_set_to_none_in_the_body_is_seen_later():
    cfg = Config()
    cfg.h = torch.ones(4)

    def body(x):
        if cfg.h is None:
            return x
        x = x + cfg.h
        cfg.h = None
        return x

    f = tracehost.function(body)
    with assert_traces(f, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(f(X), X + 1)
            assert torch.equal(f(X), X)
            assert torch.equal(f(X), X)


def test_another_thread_changes_a_guarded_slot(change):
    cfg = Config()

    def elsewhere():
        exec("cfg.scale = 99.0", {"cfg": cfg})

    def body(x):
        y = x * cfg.scale
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return y

    f = tracehost.function(body)
    assert torch.equal(f(X), X * 2.0) and cfg.scale == 99.0
    assert torch.equal(f(X), X * 99.0) and f.stats()["hits"] == 0


def test_what_a_stream_keeps_is_not_the_bodys(monkeypatch):
    """As in a notebook, where each cell has another `write`: a print, a warning."""

    def stream(name):
        lines = []

        def write(text):
            lines.append(text)
            return len(text)

        monkeypatch.setattr(sys, name, types.SimpleNamespace(write=write, flush=lambda: None))
        return lines

    @tracehost.function
    def f(x):
        print("tracing", x.shape[0])
        warnings.warn("careful")
        print("to stderr", file=sys.stderr)
        return x + 1

    shown = []
    with assert_traces(f, 2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for size in (2, 2, 3, 2):
                shown.append((stream("stdout"), stream("stderr")))
                assert torch.equal(f(torch.ones(size)), torch.full((size,), 2.0))
    assert ["".join(out) for out, _ in shown] == ["tracing 2\n", "", "tracing 3\n", ""]
    assert ["".join(err) for _, err in shown] == ["to stderr\n", "", "to stderr\n", ""]
    assert [str(w.message) for w in told] == ["careful", "careful"]


def test_a_side_effect_is_told_once_for_each_function():
    seen = []

    @tracehost.function
    def f(x):
        seen.append(1)
        return x * 2

    with assert_traces(f, 2):
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            f(torch.ones(2))
            f(torch.ones(3))
        assert len(seen) == 2
    assert len([w for w in record if w.category is tracehost.SideEffectWarning]) == 1


def test_the_metaclass_that_stores_is_run_by_traces_alone():
    """Its own __setattr__ is part of what was traced: a hit stores what it stored."""
    names = []

    class Meta(type):
        def __setattr__(cls, name, value):
            names.append(name)
            super().__setattr__(name, value)

    class Counted(metaclass=Meta):
        calls = 0
        total = torch.zeros(4)

    @tracehost.function
    def count(x):
        Counted.calls = Counted.calls + 1
        Counted.total = Counted.total + x
        return x * 2

    with assert_traces(count, 2):
        with pytest.warns(tracehost.SideEffectWarning, match="changes names"):
            for call in range(1, 6):
                assert torch.equal(count(X), X * 2)
                assert Counted.calls == call
                assert torch.equal(Counted.total, X * call)
        assert names == ["calls", "total"] * count.tracing_count()
