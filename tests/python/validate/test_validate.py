"""validate=: a graph is compared with its body, at the trace and at every Nth hit."""

import gc
import warnings
import weakref

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost import TensorSpec
from validate_support import (
    ARRAY,
    SHARED,
    WHAT_TO_DO,
    Writer,
    checks,
    place,
    warned,
    written_by_numpy,
)

pytestmark = pytest.mark.usefixtures("no_warnings")

# ---- the option ----------------------------------------------------------------------------------


def test_it_is_on_by_default():
    @tracehost.function
    def f(x):
        return x * 2

    f(torch.ones(2))
    f(torch.ones(2))
    assert checks(f) == (1, 0, 0)
    f(torch.ones(3))
    assert checks(f) == (2, 0, 0)


def test_off_checks_nothing():
    @tracehost.function(validate="off")
    def f(x):
        return x * 2

    f(torch.ones(2))
    assert checks(f) == (0, 0, 0)
    assert "validation" not in f.report()


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("always", TypeError, "validate must be 'off', 'first' or an int, got 'always'"),
        (None, TypeError, "validate must be 'off', 'first' or an int, got None"),
        (True, TypeError, "validate must be 'off', 'first' or an int, got True"),
        (1.5, TypeError, "validate must be 'off', 'first' or an int, got 1.5"),
        ([], TypeError, "validate must be 'off', 'first' or an int, got []"),
        (0, ValueError, "validate must be at least 1 (every call), got 0"),
        (-3, ValueError, "validate must be at least 1 (every call), got -3"),
    ],
)
def test_other_values_are_rejected(value, error, text):
    with pytest.raises(error) as raised:
        tracehost.function(validate=value)(lambda x: x)
    assert str(raised.value) == text


def test_reports_tell_how_many_graphs_were_checked():
    tracehost.reset()

    @tracehost.function
    def f(x):
        return x * 2

    f(torch.ones(2))
    assert f.report().split("\n")[0].endswith("; validation: 1 checked, 0 not checked, 0 wrong")
    assert "validation" not in tracehost.report()
    warned(written_by_numpy(), torch.ones(2))
    assert tracehost.report().endswith("validation: 2 checked, 0 not checked, 1 wrong\n")


# ---- right graphs: nothing moves twice, nothing is left behind --------------------------------------


def test_running_statistics_move_once():
    def make():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Conv1d(3, 4, 1), torch.nn.BatchNorm1d(4), torch.nn.InstanceNorm1d(4, track_running_stats=True)
        )  # fmt: skip

    plain, module = make(), make()
    f = tracehost.function(module)
    x = torch.rand(5, 3, 7)
    for _ in range(3):
        assert_same(f(x), plain(x))
    assert checks(f) == (1, 0, 0)
    for (name, got), expected in zip(module.named_buffers(), plain.buffers(), strict=True):
        assert_same(got, expected, name)


def test_dropout_draws_once():
    x = torch.ones(100)

    def body(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    f = tracehost.function(body)
    torch.manual_seed(5)
    got = [f(x) for _ in range(3)] + [torch.rand(3)]
    torch.manual_seed(5)
    for result, expected in zip(got, [body(x) for _ in range(3)] + [torch.rand(3)], strict=True):
        assert_same(result, expected)
    assert checks(f) == (1, 0, 0)


def test_writes_through_views_of_one_base_happen_once():
    def body(x, base):
        base[0] += 1
        x.mul_(2)
        base.t()[1].zero_()
        return base + x.sum(), x

    def arguments():
        base = torch.arange(6.0).view(2, 3)
        return base[1], base

    f = tracehost.function(body)
    for _ in range(2):
        got, expected = arguments(), arguments()
        results, right = f(*got), body(*expected)
        for a, b in zip(results + got, right + expected, strict=True):
            assert_same(a, b)
        assert results[1] is got[0]
    assert checks(f) == (1, 0, 0)


def test_gradients_are_left_alone():
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.full((3,), 7.0)
    calls = []
    w.register_hook(lambda grad: calls.append(grad))

    @tracehost.function
    def f(x):
        h = (x + 0) * w
        x.add_(1)
        return (h * x).sum()

    x = torch.ones(3)
    result = f(x)
    assert checks(f) == (1, 0, 0)
    assert w.grad.tolist() == [7.0] * 3 and calls == []
    assert x._version == 1
    result.backward()
    assert w.grad.tolist() == [9.0] * 3 and len(calls) == 1


def test_an_input_with_history_may_be_written():
    w = torch.ones(3, requires_grad=True)

    def body(h):
        h.mul_(3)
        return h[0] + 1

    f = tracehost.function(body)
    for _ in range(2):
        h, twin = w * 2, w * 2
        got, expected = f(h), body(twin)
        assert_same(got, expected)
        assert_same(h, twin)
        (gradient,) = torch.autograd.grad(got, w)
        assert gradient.tolist() == [6.0, 0.0, 0.0]
    assert checks(f) == (1, 0, 0)


def test_loops_and_branches_that_write_are_checked():
    def body(x, n):
        for i in tracehost.range(n) if isinstance(n, torch.Tensor) else range(n):
            if x.sum() > 3:
                x -= 1
            else:
                x.add_(i)
        return x * 2

    f = tracehost.function(body)
    for _ in range(2):
        x, twin = torch.ones(2), torch.ones(2)
        assert_same(f(x, torch.tensor(5)), body(twin, 5))
        assert_same(x, twin)
    assert checks(f) == (1, 0, 0)


def test_a_mode_that_the_body_leaves_set_is_none_of_the_checks():
    @tracehost.function
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    with torch.enable_grad():
        assert f(torch.ones(2, requires_grad=True)).requires_grad
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert checks(f) == (1, 0, 0)


def test_what_init_scope_writes_is_not_the_graphs():
    w = torch.ones(2)

    @tracehost.function
    def f(x):
        y = x * w
        with tracehost.init_scope():
            w.add_(1)
        return y

    assert f(torch.ones(2)).tolist() == [1.0, 1.0]
    assert checks(f) == (1, 0, 0)


def test_the_checks_results_die_with_the_trace():
    @tracehost.function
    def f(x, y):
        x.add_(1)
        return x * y

    x, y = torch.ones(1000), torch.ones(1000)
    result = f(x, y)
    references = [weakref.ref(t) for t in (x, y, result)]
    assert checks(f) == (1, 0, 0)
    del x, y, result
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_memory_as_it_happens_to_be_is_no_mismatch():
    filler = [torch.full((4096,), float(i)) for i in range(50)]

    @tracehost.function
    def f():
        return torch.empty(4096)

    del filler
    f()
    assert checks(f)[2] == 0


# ---- what is not checked ----------------------------------------------------------------------------


def notes(f):
    return [note for event in tracehost.events(f) for note in event.notes]


def test_graphs_that_call_python_are_not_checked():
    @tracehost.function
    def f(x):
        return tracehost.py_function(lambda t: t * 2, [x], torch.float32)

    f(torch.ones(2))
    assert checks(f) == (0, 1, 0)
    assert notes(f) == [
        "not validated: the graph calls what can't be repeated (tracehost::py_function)"
    ]


def test_requested_graphs_are_not_checked():
    @tracehost.function
    def f(x):
        return x * 2

    f.get_concrete_function(TensorSpec([2]))
    assert checks(f) == (0, 0, 0)


def test_what_takes_too_much_memory_is_checked_only_on_demand():
    def body(x):
        return torch.zeros(65 << 20)[:2] + x

    f = tracehost.function(body)
    f(torch.ones(2))
    assert checks(f) == (0, 1, 0)
    assert notes(f) == ["not validated: its tensors take over 256 MiB"]
    g = tracehost.function(body, validate=10)
    g(torch.ones(2))
    assert checks(g) == (1, 0, 0)


# ---- wrong graphs, found at the trace -----------------------------------------------------------------


def test_a_wrong_graph_is_never_used():
    f = written_by_numpy()
    x = torch.ones(2)
    result, texts = warned(f, x)
    assert result["loss"][0].tolist() == [1.0, 1.0]
    line = place(f, 2)
    assert texts == [
        f"f ({place(f, 0)}): its graph would not do what the body did: output['loss'][0], element (1,): "
        f"4.0 in the graph, 1.0 in the body (aten::mul at {line}). {WHAT_TO_DO}"
    ]
    assert ARRAY.tolist() == [1.0, 4.0]
    stats = f.stats()
    assert (stats["traces"], stats["eager"], stats["live"], checks(f)) == (0, 1, 0, (1, 0, 1))
    # From now on as plain Python, without a word.
    assert f(x)["loss"][0].tolist() == [1.0, 4.0]
    assert f(x)["loss"][0].tolist() == [1.0, 7.0]
    assert f.stats()["eager"] == 3


def test_the_event_says_the_same():
    f = written_by_numpy()
    warned(f, torch.ones(2))
    (event,) = tracehost.events(f)
    assert (event.kind, event.hits) == ("mismatch", 0)
    assert event.signature == "(x: float32[2])"
    assert event.text == (
        "output['loss'][0], element (1,): 4.0 in the graph, 1.0 in the body; "
        f"made by aten::mul at {place(f, 2)}"
    )
    assert event.call.startswith("validate_support.py:")
    assert f.report().split("\n")[0].endswith("; validation: 1 checked, 0 not checked, 1 wrong")


def test_other_signatures_are_tried_and_warned_of_once():
    f = written_by_numpy()
    assert len(warned(f, torch.ones(2))[1]) == 1
    result, texts = warned(f, torch.ones(1, 2))
    assert texts == []
    assert result["loss"][0].tolist() == [[1.0, 4.0]]
    assert checks(f) == (2, 0, 2)


def test_a_warning_may_be_an_error():
    f = written_by_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tracehost.TraceWarning, match="its graph would not do"):
            f(torch.ones(2))
    assert f(torch.ones(2))["loss"][0].tolist() == [1.0, 4.0]


def test_without_validation_it_would_be_used():
    ARRAY[:] = 1

    @tracehost.function(validate="off")
    def f(x):
        before = SHARED * x
        Writer()
        return before * SHARED

    f(torch.ones(2))
    assert f(torch.ones(2)).tolist() == [1.0, 16.0]  # plain Python: 28


def test_a_cleared_function_tries_again():
    f = written_by_numpy()
    warned(f, torch.ones(2))
    f.clear()
    warned(f, torch.ones(2))
    assert checks(f) == (2, 0, 2)


def test_no_concrete_function_is_made_of_it():
    f = written_by_numpy()
    warned(f, torch.ones(2))
    with pytest.raises(tracehost.TraceError, match="did not do what the body did"):
        f.get_concrete_function(TensorSpec([2]))


def test_fail_on_miss_still_rejects():
    f = written_by_numpy()
    warned(f, torch.ones(2))
    with tracehost.no_retrace(), pytest.raises(tracehost.TraceError):
        f(torch.ones(2))
