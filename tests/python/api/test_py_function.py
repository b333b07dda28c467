"""py_function: Python code that the graph calls at each run."""

import traceback

import numpy
import pytest
import torch
import tracehost
from core_support import assert_same, check, counts, place
from tracehost import py_function
from tracehost.testing import assert_traces

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.arange(3.0)
F32 = torch.float32


# ---- calls ---------------------------------------------------------------------------------------


def test_each_call_calls_it_once():
    seen = []

    def note(t):
        seen.append((t.sum().item(), tracehost.inside_function()))
        return t * 2

    f = tracehost.function(lambda x: py_function(note, [x], F32) + 1)
    for i in range(4):
        assert_same(f(X + i), (X + i) * 2 + 1)
    assert seen == [(3.0, False), (6.0, False), (9.0, False), (12.0, False)]
    assert counts(f) == (1, 3, 1)


def test_without_a_result_it_is_kept_and_in_order():
    log = []

    @tracehost.function
    def f(x):
        assert py_function(lambda t: log.append(("a", t.sum().item())), [x], None) is None
        x.add_(1)
        assert py_function(lambda: log.append("b"), [], []) is None
        py_function(lambda t: log.append(("c", t.sum().item())), [x], None)
        return x * 2

    for start in (0, 3):
        x = X + start
        log.clear()
        assert_same(f(x), (X + start + 1) * 2)
        assert log == [("a", 3.0 + 3 * start), "b", ("c", 6.0 + 3 * start)]
    assert counts(f) == (1, 1, 1)


def test_equal_calls_are_not_merged_and_unused_ones_not_dropped():
    count = [0]

    def step(t):
        count[0] += 1
        return t + count[0]

    @tracehost.function
    def f(x):
        a, b = py_function(step, [x], F32), py_function(step, [x], F32)
        py_function(step, [x], F32)
        return a - b

    for i in range(3):
        assert_same(f(X), torch.full((3,), -1.0))
        assert count == [3 * (i + 1)]


def test_several_results_numbers_and_arrays():
    @tracehost.function
    def f(x, n):
        a, b, c = py_function(
            lambda t, k, on: [t.numpy() * k, 7 if on else 8, numpy.int64(k)],
            (x, n, True),
            [F32, torch.float64, torch.int64],
        )
        return a + 1, b, c

    with assert_traces(f, 2):
        for n in (2, 3):
            for _ in range(2):
                got = f(X, n)
                expected = (X * n + 1, torch.tensor(7.0, dtype=torch.float64), torch.tensor(n))
                assert_same(got, expected)


def test_outside_of_a_trace_it_is_a_call():
    assert_same(py_function(lambda t, n: t * n, [X, 3], F32), X * 3)
    got = py_function(lambda: (1, 2.5), [], [torch.int64, F32])
    assert_same(got, [torch.tensor(1), torch.tensor(2.5)])
    with pytest.raises(tracehost.SignatureError, match="returned a tensor of torch.float32"):
        py_function(lambda t: t, [X], torch.float64)


def test_calls_of_functions_from_it_hit():
    inner = tracehost.function(lambda t: t * 3)
    f = tracehost.function(lambda x: py_function(inner, [x], F32) + 1)
    for _ in range(3):
        assert_same(f(X), X * 3 + 1)
    assert counts(inner) == (1, 2, 1) and inner.stats()["inlined"] == 0


def test_in_a_nested_function():
    count = []
    inner = tracehost.function(lambda t: py_function(lambda u: count.append(1) or u + 1, [t], F32))
    f = tracehost.function(lambda x: inner(x) * 2)
    for _ in range(3):
        assert_same(f(X), (X + 1) * 2)
    assert len(count) == 3


def test_it_draws_from_the_generator_as_eager_does():
    def body(x):
        return torch.rand(3) + py_function(lambda t: t + torch.rand(3), [x], F32) + torch.rand(3)

    check(body, X)


@pytest.mark.parametrize("own", [lambda t: t, lambda t: t[:2], lambda t: W])
def test_a_result_that_is_not_new(own):
    turn = [0]

    def either(t):
        turn[0] += 1
        return own(t) if turn[0] == 1 else (own(t) + 1)

    @tracehost.function
    def f(x):
        y = py_function(either, [x], F32)
        return y * 2, x + 1, W - 1

    for i in range(3):
        expected = own(X) + bool(i)
        assert_same(f(X), (expected * 2, X + 1, W - 1))
    assert counts(f) == (1, 2, 1)


W = torch.full((3,), 5.0)


# ---- gradients -----------------------------------------------------------------------------------


def test_gradients_through_its_torch_ops():
    w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    check(lambda x: py_function(lambda t: t * t * w, [x], F32).sin(), X, extra=[w])
    x = X.clone().requires_grad_()
    check(lambda x: py_function(lambda t: t * t * w, [x], F32).sin(), x, extra=[w])


def test_second_gradients():
    f = tracehost.function(lambda x: py_function(lambda t: t**3, [x], F32))
    for _ in range(3):
        x = X.clone().requires_grad_()
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        assert_same(h, 6 * X)


def test_what_has_no_gradient():
    def by_numpy(t):
        return torch.from_numpy(t.detach().numpy() * 2)

    f = tracehost.function(lambda x: py_function(by_numpy, [x], F32) + x)
    for _ in range(2):
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        assert_same(x.grad, torch.ones(3))


def test_grad_mode_is_that_of_the_place():
    seen = []

    @tracehost.function
    def f(x):
        with torch.no_grad():
            a = py_function(lambda t: seen.append(torch.is_grad_enabled()) or t * 2, [x], F32)
        b = py_function(lambda t: seen.append(torch.is_grad_enabled()) or t * 2, [x], F32)
        return a, b

    for _ in range(2):
        a, b = f(X.clone().requires_grad_())
        assert (a.requires_grad, b.requires_grad) == (False, True)
    assert seen == [False, True] * 2


# ---- what does not fit ---------------------------------------------------------------------------


def declared(func, dtype=F32, shape=None):
    @tracehost.function
    def body(x):
        return py_function(func, [x], dtype, shape=shape, name="mine")  # here

    return body


@pytest.mark.parametrize(
    ("bad", "dtype", "shape", "says"),
    [
        (
            lambda t: t.double(),
            F32,
            None,
            "returned a tensor of torch.float64, not the declared torch.float32. Return "
            "result.to(torch.float32), or declare torch.float64.",
        ),
        (
            lambda t: [t, t.int()],
            [F32, F32],
            None,
            "returned a tensor of torch.int32 as result 1, not the declared torch.float32. Return "
            "result.to(torch.float32), or declare torch.int32.",
        ),
        (
            lambda t: [t],
            [F32, F32],
            None,
            "returned 1 results, not the 2 declared. Change one of them.",
        ),
        (
            lambda t: t,
            [F32],
            None,
            "returned a Tensor, not the list of 1 declared. Change one of them.",
        ),
        (
            lambda t: t,
            None,
            None,
            "returned a Tensor, but no result is declared. Change one of them.",
        ),
        (
            lambda t: None,
            F32,
            None,
            "returned None, not a tensor of torch.float32. Change one of them.",
        ),
        (
            lambda t: 2.5,
            torch.int64,
            None,
            "returned 2.5, not a tensor of torch.int64: cannot convert 2.5 to torch.int64. Change "
            "one of them.",
        ),
        (
            lambda t: t.numpy().astype("int32"),
            F32,
            None,
            "returned an array of int32, not the declared torch.float32. Return result.astype('float32'), or "
            "declare torch.int32.",
        ),
        (
            lambda t: t[:2],
            F32,
            [3],
            "returned a tensor of shape [2], not the declared [3]. Change one of them.",
        ),
        (
            lambda t: t,
            F32,
            [None, 3],
            "returned a tensor of shape [3], not the declared [None, 3]. Change one of them.",
        ),
    ],
)
def test_results_are_checked_at_the_trace_and_at_each_run(bad, dtype, shape, says):
    f = declared(bad, dtype, shape)
    text = f"py_function 'mine' at {place(f.python_function)} {says}"
    with pytest.raises(tracehost.SignatureError) as caught:
        f(X)
    assert str(caught.value) == text

    fits = {None: lambda t: None, F32: lambda t: t, torch.int64: lambda t: 1}
    n = len(dtype) if isinstance(dtype, list) else 0
    good = (lambda t: [t] * n) if n else fits[dtype]
    if shape and len(shape) == 2:
        good = lambda t: t[None]  # noqa: E731
    count = [0]

    def turns(t):
        count[0] += 1
        return good(t) if count[0] == 1 else bad(t)

    f = declared(turns, dtype, shape)
    f(X)
    with pytest.raises(tracehost.SignatureError) as caught:
        f(X)
    assert str(caught.value) == text
    assert (counts(f), f.stats()["failed"]) == ((1, 0, 1), 1)  # a call that raises is no hit


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        ((3, [X], F32), TypeError, "py_function takes a callable, got 3"),
        ((len, X, F32), TypeError, "py_function takes a list of inputs, got Tensor"),
        ((len, [X, "a"], F32), TypeError, "input 1 is of type str"),
        (
            (len, [X], float),
            TypeError,
            "is a torch.dtype, its name \\('float32'\\) or numpy's, a list of them or None, got <class",
        ),
        ((len, [X], [F32, 1]), TypeError, "a list of them or None, got 1"),
    ],
)
def test_bad_calls(args, error, says):
    with pytest.raises(error, match=says):
        py_function(*args)


def test_as_many_shapes_as_results():
    with pytest.raises(ValueError, match="py_function has 2 results, and 1 shapes"):
        py_function(len, [X], [F32, F32], shape=[[3]])


class Mine(Exception):
    pass


def raises(t):
    raise Mine("no")


def test_what_it_raises_is_what_is_raised():
    fail = [False]

    def may(t):
        return raises(t) if fail[0] else t * 2

    @tracehost.function
    def f(x):
        return py_function(may, [x], F32) + 1  # here

    with assert_traces(f, 1):
        assert_same(f(X), X * 2 + 1)
        for grad in (True, False):
            fail[0] = True
            with torch.set_grad_enabled(grad):
                f.python_function and None
            with pytest.raises(Mine, match="no") as caught:
                f(X)
            names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert names[-2:] == ["may", "raises"]
            first = f.python_function.__code__.co_firstlineno
            note = f"in f (test_py_function.py:{first}), the op at {place(f.python_function)}"
            assert caught.value.__notes__ == [note]
            fail[0] = False
            assert_same(f(X), X * 2 + 1)


def catches(x):
    try:
        return py_function(raises, [x], F32)  # here
    except Mine:
        return x


def test_a_body_that_catches_it_is_rejected():
    f = tracehost.function(catches)
    with pytest.raises(tracehost.TraceError) as caught:
        f(X)
    assert str(caught.value) == (
        f"py_function 'raises' at {place(catches)} raised, and the body caught that and continued: a "
        "later call would not call it at all. Catch the exception in the function that is called."
    )
    with pytest.raises(Mine):
        tracehost.function(lambda x: py_function(raises, [x], F32))(X)


# ---- what it changes and reads -------------------------------------------------------------------


def test_what_it_stores_is_stored_at_each_call():
    class Meter:
        def __init__(self):
            self.count, self.last, self.log, self.scale = 0, None, [], 2.0

        def note(self, t):
            self.count += 1
            self.last = t
            self.log.append(t.sum().item())
            return t * self.scale

        @tracehost.function
        def run(self, x):
            return py_function(self.note, [x], F32) + 1

    meter = Meter()
    with assert_traces(meter.run, 1):
        for i in range(3):
            assert_same(meter.run(X + i), (X + i) * 2 + 1)
            assert_same(meter.last, X + i)
        assert (meter.count, meter.log) == (3, [3.0, 6.0, 9.0])
        meter.scale = 4.0
        assert_same(meter.run(X), X * 4 + 1)


def test_what_the_body_stores_is_still_seen():
    class Meter:
        last = None

        @tracehost.function
        def run(self, x):
            self.last = x * 2
            return py_function(lambda t: t + 1, [x], F32)

    meter = Meter()
    with assert_traces(meter.run, 2):  # None before, then a tensor
        for i in range(3):
            assert_same(meter.run(X + i), X + i + 1)
            assert_same(meter.last, (X + i) * 2)
