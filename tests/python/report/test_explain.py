"""explain, specializations, report: what a Function has, and what a call would do."""

import re

import pytest
import torch
import tracehost
from tracehost import TensorSpec

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d ms", "T ms", text)


def line_of(f) -> str:
    code = f.python_function.__code__
    return f"{code.co_filename.rsplit('/', 1)[1]}:{code.co_firstlineno}"


def test_a_first_call():
    f = tracehost.function(lambda x, n: x * n, name="f")
    found = f.explain(torch.ones(2), 3)
    assert not found.hit and found.specialization is None
    assert found.differences == () and found.cost_ms is None
    assert str(found) == (
        f"f ({line_of(f)}) called with (x: float32[2], n=3)\n"
        "  miss: it would be traced, for the first time"
    )
    assert f.stats()["calls"] == 0


def test_a_hit():
    f = tracehost.function(lambda x, n: x * n, name="f")
    f(torch.ones(2), 3)
    f(torch.ones(2), 3)
    found = f.explain(torch.ones(2), n=3)
    assert found.hit and found.specialization.number == 1 and found.specialization.hits == 1
    assert re.fullmatch(
        rf"f \({re.escape(line_of(f))}\) called with \(x: float32\[2\], n=3\)\n"
        r"  hit: specialization #1 \(x: float32\[2\], n=3\): 1 hit, 1 op, 0 captures, "
        r"traced in \d+\.\d ms at test_explain\.py:\d+, runs by a tape \(1 of 1 ops\)",
        str(found),
    )


def test_a_miss_names_each_difference_from_the_nearest():
    f = tracehost.function(lambda x, n: x * n, name="f")
    f(torch.ones(2, 3), 1)
    f(torch.ones(9), 1)
    with torch.no_grad():
        found = f.explain(torch.ones(2, 4, dtype=torch.float64), 5)
    assert not found.hit and found.specialization.number == 1
    assert [(d.path, d.cause, d.dimension, d.before, d.after) for d in found.differences] == [
        ("x", "dtype", None, "float32", "float64"),
        ("x", "shape", 1, "3", "4"),
        ("n", "value", None, "1", "5"),
        ("grad mode", "context", None, "on", "off"),
    ]
    assert found.cost_ms == pytest.approx(f.stats()["trace_ms"] / 2)
    assert timeless(str(found)) == (
        f"f ({line_of(f)}) called with (x: float64[2, 4], n=5)\n"
        "  miss: it would be traced, about T ms; nearest is #1 (x: float32[2, 3], n=1)\n"
        "  x: float32 -> float64 (dtype)\n"
        "  x.shape[1]: 3 -> 4 (shape)\n"
        "  n: 1 -> 5 (value)\n"
        "  grad mode: on -> off (context)"
    )


def test_guarded_values_and_captures_count():
    class Model:
        def __init__(self):
            self.k, self.w = 2.0, torch.ones(2)

    model = Model()
    f = tracehost.function(lambda x: x * model.k * model.w)
    f(torch.ones(2))
    assert f.explain(torch.ones(2)).hit
    model.k, model.w = 3.0, torch.ones(1)
    causes = {(d.path, d.cause, d.before, d.after) for d in f.explain(torch.ones(2)).differences}
    assert causes == {
        ("model.k", "guard", "2.0", "3.0"),
        ("model.w", "capture", "float32[2]", "float32[1]"),
    }


def test_it_runs_nothing_and_counts_nothing():
    runs = []
    f = tracehost.function(lambda x: (runs.append(1), x)[1] + torch.rand(()), watch=False)
    state = torch.get_rng_state()
    f.explain(torch.ones(2))
    f.explain(TensorSpec([None, 3]))
    assert not runs and torch.equal(state, torch.get_rng_state())
    assert f.tracing_count() == f.stats()["calls"] == 0


def test_specs_may_stand_for_tensors():
    f = tracehost.function(lambda x: x * 2)
    f.get_concrete_function(TensorSpec([None, 3]))
    assert f.explain(TensorSpec([5, 3])).hit
    assert f.explain(TensorSpec([None, 3])).hit
    missed = f.explain(TensorSpec([None, None]))
    assert [(d.cause, d.before, d.after) for d in missed.differences] == [("shape", "3", "None")]


def test_of_methods():
    class Model:
        @tracehost.function
        def call(self, x):
            return x + 1

    m = Model()
    m.call(torch.ones(2))
    assert m.call.explain(torch.ones(2)).hit
    assert not Model().call.explain(torch.ones(2)).hit
    assert len(m.call.specializations()) == 1


def test_arguments_that_do_not_fit_and_bodies_under_way():
    f = tracehost.function(lambda x: x)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f.explain()
    g = tracehost.function(lambda x: (f.explain(x), x)[1])
    with pytest.raises(tracehost.TraceError, match="ask for it outside"):
        g(torch.ones(2))


def test_specializations():
    weight = torch.ones(())
    f = tracehost.function(lambda x: x * 2 + weight, reduce_retracing=True)
    for n in (2, 3, 4):
        f(torch.ones(n))
    one, two = f.specializations()
    assert (one.number, one.signature, one.hits, one.dynamic) == (1, "(x: float32[2])", 0, False)
    assert (two.number, two.signature, two.hits, two.dynamic) == (2, "(x: float32[None])", 1, True)
    assert one.ops == 2 and one.captures == 1 and one.trace_ms > 0 and one.specialized == ()
    assert re.fullmatch(r"test_explain\.py:\d+", one.first_call)


def test_report():
    f = tracehost.function(lambda x: x * 2, name="f")
    f(torch.ones(2))
    f(torch.ones(2))
    (one,) = f.specializations()
    assert timeless(f.report()) == (
        "f: 2 calls, 1 hit, 1 trace in T ms, 1 live, 0 evicted; validation: 1 checked, 0 not checked, 0 wrong\n"
        f"  #1 (x: float32[2]): 1 hit, 1 op, 0 captures, traced in T ms at {one.first_call}, "
        "runs by a tape (1 of 1 ops)\n"
    )


ROWS = iter([1.0, 2.0])


def test_what_may_change_unseen_is_told():
    f = tracehost.function(lambda x: (ROWS, x * 2)[1], name="f")
    f(torch.ones(2))
    specialization = f.explain(torch.ones(2)).specialization
    assert specialization.unguarded == ("ROWS (test_explain.py): list_iterator",)
    told = "not guarded, may change unseen: ROWS (test_explain.py): list_iterator"
    assert told in str(specialization)
