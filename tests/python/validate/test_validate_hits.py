"""validate=N: every Nth hit is compared with the body; and threads."""

import threading
import time
import warnings

import numpy
import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost import TensorSpec
from validate_support import WHAT_TO_DO, checks, place, warned, written_by_numpy

pytestmark = pytest.mark.usefixtures("no_warnings")

# ---- every Nth hit ------------------------------------------------------------------------------------


def test_right_functions_stay_graphs():
    runs = []

    @tracehost.function(validate=3)
    def f(x):
        if not isinstance(x, int):
            runs.append(None)
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        for i in range(10):
            assert f(torch.full((2,), float(i))).tolist() == [2.0 * i] * 2
    stats = f.stats()
    assert (stats["hits"], stats["traces"], stats["eager"], stats["live"]) == (9, 1, 0, 1)
    assert checks(f) == (4, 0, 0)
    assert len(runs) == 4  # the trace, and the hits 3, 6 and 9


def test_state_that_python_keeps_is_found():
    @tracehost.function(validate=2, watch=False)
    def f(x):
        return x * [1, 1, 1, 5][len(SEEN)]

    SEEN.clear()
    x = torch.ones(2)
    assert f(x).tolist() == [1.0, 1.0]
    SEEN.extend([0, 0, 0])
    assert f(x).tolist() == [1.0, 1.0]  # stale
    result, texts = warned(f, x)
    assert result.tolist() == [5.0, 5.0]
    assert texts == [
        f"f ({place(f, 0)}): after 2 hits, its graph does not do what the body does: output, element (0,): "
        f"1.0 in the graph, 5.0 in the body (aten::mul at {place(f, 2)}). {WHAT_TO_DO}"
    ]
    assert f.stats()["live"] == 0
    SEEN.pop()
    assert f(x).tolist() == [1.0, 1.0]
    assert f.stats()["eager"] == 1 and checks(f) == (2, 0, 1)
    (event,) = [e for e in tracehost.events(f) if e.kind == "mismatch"]
    assert event.hits == 2


SEEN: list[int] = []


@pytest.mark.parametrize(
    "number",
    [lambda: float(numpy.random.rand()), lambda: time.perf_counter() % 1],
    ids=["numpy", "time"],
)
def test_numbers_from_elsewhere_are_found(number):
    @tracehost.function(validate=1)
    def f(x):
        return x + number()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        warnings.simplefilter("ignore", tracehost.TraceWarning)  # of numpy's draw
        f(torch.zeros(2))
        result, texts = warned(f, torch.zeros(2))
    assert len(texts) == 1 and f"(aten::add at {place(f, 2)})" in texts[0]
    assert checks(f) == (2, 0, 1)


def test_python_results_are_compared():
    @tracehost.function(validate=1, watch=False)
    def f(x):
        return x, {"n": len(SEEN)}

    SEEN.clear()
    x = torch.ones(2)
    f(x), f(x)
    SEEN.append(1)
    result, texts = warned(f, x)
    assert result[0] is x and result[1] == {"n": 1}
    assert f"the body does: output[1]['n']: 0 in the graph, 1 in the body. {WHAT_TO_DO}" in texts[0]


def test_state_moves_once_at_each_call():
    def make():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
        )

    plain, module = make(), make()
    f = tracehost.function(module, validate=2)
    x = torch.rand(5, 3)
    torch.manual_seed(9)
    got = [f(x) for _ in range(6)]
    torch.manual_seed(9)
    for result in got:
        assert_same(result, plain(x))
    for name, expected in plain.state_dict().items():
        assert_same(module.state_dict()[name], expected, name)
    assert checks(f) == (3, 0, 0)


def test_gradients_flow_from_a_checked_hit():
    w = torch.ones(3, requires_grad=True)

    @tracehost.function(validate=1)
    def f(x):
        x.mul_(2)
        return (x * w).sum()

    for i in range(3):
        x = torch.ones(3)
        f(x).backward()
        assert x.tolist() == [2.0] * 3
        assert w.grad.tolist() == [2.0 * (i + 1)] * 3
    assert checks(f) == (3, 0, 0)


def test_functions_that_it_calls_are_part_of_it():
    @tracehost.function(validate="off")
    def inner(x):
        return x * 2

    @tracehost.function(validate=1)
    def outer(x):
        return inner(x) + 1

    for _ in range(3):
        assert outer(torch.ones(2)).tolist() == [3.0, 3.0]
    assert checks(outer) == (3, 0, 0)
    assert inner.stats()["traces"] == 0


def test_what_the_body_raises_at_a_checked_hit_is_raised():
    @tracehost.function(validate=1, watch=False)
    def f(x):
        if SEEN:
            raise LookupError("seen")
        return x * 2

    SEEN.clear()
    f(torch.ones(2))
    SEEN.append(1)
    with pytest.raises(LookupError, match="seen"):
        f(torch.ones(2))
    SEEN.clear()
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]


def test_sizes_in_results_are_compared():
    @tracehost.function(validate=1, input_signature=[TensorSpec([None])])
    def f(x):
        return x * 2, x.shape[0] + 1

    for n in (2, 3, 3, 5):
        result = f(torch.ones(n))
        assert result[1] == n + 1
    assert checks(f) == (4, 0, 0)


# ---- threads --------------------------------------------------------------------------------------------


def in_threads(run, count=4):
    errors = []

    def guarded(i):
        try:
            run(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_that_draw_at_the_same_time_find_nothing():
    @tracehost.function(validate=2)
    def f(x):
        for _ in range(20):
            x = torch.nn.functional.dropout(x, 0.3) + torch.rand_like(x)
        return x

    def run(i):
        for n in range(10):
            f(torch.ones(50 + i + n % 2))

    in_threads(run)
    assert checks(f)[2] == 0


def test_threads_that_meet_a_wrong_graph_all_run_as_plain_python():
    f = written_by_numpy()
    results = []

    def run(_):
        for _ in range(5):
            results.append(f(torch.zeros(2))["loss"][1].tolist())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_threads(run)
    assert results == [[0.0, 0.0]] * 20
    assert len([w for w in caught if w.category is tracehost.TraceWarning]) <= 1
    assert f.stats()["live"] <= 1
