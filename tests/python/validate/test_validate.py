"""validate=: a graph is compared with its body, at the trace and at every Nth hit."""

import gc
import threading
import time
import warnings
import weakref

import numpy
import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost import TensorSpec

WHAT_TO_DO = (
    "This call has the body's result, and from now on calls with its signature run as plain Python. If "
    "the result of the line depends on more than tensors and arguments, pass that in as a tensor or an "
    "argument: time, random numbers of Python or numpy, state that other code changes. If it does not, "
    "please report it."
)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        yield


def checks(f):
    stats = f.stats()
    return stats["validated"], stats["unvalidated"], stats["mismatches"]


def place(f, offset):
    """`test_validate.py:12`: a line of `f`, counted from its def."""
    code = f.python_function.__code__
    decorators = f.python_function.__code__.co_firstlineno
    return f"test_validate.py:{decorators + offset + (code.co_firstlineno - decorators)}"


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
def test_other_values_are_refused(value, error, text):
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

ARRAY = numpy.ones(2, dtype=numpy.float32)
SHARED = torch.from_numpy(ARRAY)  # the same memory


class Writer:
    """Writes to an array at its end: no guard sees what a finalizer does."""

    array = ARRAY

    def __del__(self):
        self.array[1] += 3


def written_by_numpy():
    """A Function whose body has a tensor written behind torch's back: the graph can't know."""
    ARRAY[:] = 1

    @tracehost.function
    def f(x):
        before = SHARED * x
        Writer()
        return {"loss": [before, x]}

    return f


def warned(f, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = f(*args)
    return result, [str(w.message) for w in caught if w.category is tracehost.TraceWarning]


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
    assert event.call.startswith("test_validate.py:")
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


def test_fail_on_miss_still_refuses():
    f = written_by_numpy()
    warned(f, torch.ones(2))
    with tracehost.no_retrace(), pytest.raises(tracehost.TraceError):
        f(torch.ones(2))


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


# ---- backward passes -----------------------------------------------------------------------------


def leaf(*values):
    return torch.tensor(values or (1.0, 1.0), requires_grad=True)


def with_grad(value):
    w = leaf()
    w.grad = torch.full((2,), float(value))
    return w


def penalty(w):
    def body(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad((w * x * x).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return g

    return body


def retained(w):
    def body(x):
        y = w * x
        y.retain_grad()
        (y * y).sum().backward()
        return y

    return body


def assigned(w):
    def body(x):
        w.grad = x * 2
        with torch.no_grad():
            w.sub_(w.grad)
        w.grad = None
        (w * x).sum().backward()

    return body


def accumulated(w):
    def body(x):
        (w * x).sum().backward()
        return w.grad

    return body


def one_step(optimizer):
    def make(w):
        stepping = optimizer([w])

        def body(x):
            stepping.zero_grad()
            loss = ((w * x).sum() - 3) ** 2
            loss.backward()
            torch.nn.utils.clip_grad_norm_([w], 1.0)
            stepping.step()
            return loss

        return body

    return make


STEPS = {
    "gradient penalty": (leaf, penalty),
    "retain_grad": (leaf, retained),
    "assigned": (lambda: with_grad(1), assigned),
    "accumulated": (lambda: with_grad(5), accumulated),
    "SGD": (leaf, one_step(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))),
    "Adam": (lambda: with_grad(2), one_step(lambda p: torch.optim.Adam(p, 0.1))),
    "fused AdamW": (leaf, one_step(lambda p: torch.optim.AdamW(p, 0.1, fused=True))),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("validate", ["first", 1])
def test_a_backward_pass_is_checked_and_leaves_nothing(name, validate):
    make_leaf, make_body = STEPS[name]
    left = []
    for decorate in (lambda body: body, tracehost.function(validate=validate)):
        w = make_leaf()
        f = decorate(make_body(w))
        results = [f(torch.tensor([1.0, k])) for k in (2.0, 3.0, 4.0, 5.0)]
        left.append((results, w.detach(), w.grad))
    assert_same(*left)
    checked, unchecked, wrong = checks(f)
    assert checked >= (1 if validate == "first" else 3) and (unchecked, wrong) == (0, 0)


def test_a_gradient_that_is_not_the_body_s_is_found():
    array = numpy.ones(2, dtype=numpy.float32)
    shared, w = torch.from_numpy(array), leaf()
    writer = type("Writer", (Writer,), {"array": array})

    @tracehost.function
    def f(x):
        (w * shared).sum().backward()
        writer()

    with pytest.warns(tracehost.TraceWarning) as caught:
        f(torch.ones(2))
    assert str(caught[0].message) == (
        f"f ({place(f, 0)}): its graph would not do what the body did: what is left in 'nonlocal w.grad', "
        f"element (1,): 4.0 in the graph, 1.0 in the body (tracehost::backward at {place(f, 2)}). {WHAT_TO_DO}"
    )
    assert w.grad.tolist() == [1.0, 1.0]
    f(torch.ones(2))
    assert w.grad.tolist() == [2.0, 5.0] and checks(f) == (1, 0, 1)


def hooked():
    w, calls = leaf(), []
    w.register_hook(calls.append)
    return lambda x: (w * x).sum().backward(), torch.ones(2), lambda: len(calls)


def hooked_after():
    w, calls = leaf(), []
    w.register_post_accumulate_grad_hook(calls.append)
    return lambda x: (w * x).sum().backward(), torch.ones(2), lambda: len(calls)


def begun_outside():
    w, calls = leaf(), []
    w.register_hook(calls.append)
    return lambda x: (x * 2).sum().backward(), w * 3, lambda: len(calls)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (hooked, "'nonlocal w' has hooks on its gradient"),
        (hooked_after, "'nonlocal w' has hooks on its gradient"),
        (begun_outside, "a backward pass may continue into what computed 'x' before the call"),
    ],
)
def test_a_backward_pass_that_reaches_further_is_not_checked(make, why):
    body, x, calls = make()
    f = tracehost.function(body)
    f(x)
    assert calls() == 1
    assert f.stats()["unvalidated_because"] == {why: 1}
    assert f"0 checked, 1 not checked ({why}), 0 wrong" in f.report()
