"""inference_mode in a body: results, errors and the thread's modes as in eager."""

import threading

import pytest
import torch
import tracehost
from core_support import check, place
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

W = torch.arange(1.0, 4.0).requires_grad_()


def leaf():
    return torch.arange(1.0, 4.0).requires_grad_()


def region(x):
    with torch.inference_mode():
        y = x * 2
    return y, x * W


def used_outside(x):
    with torch.inference_mode():
        y = x * 2
    return x.detach() + y, torch.zeros(3) + y


def switched_off_inside(x):
    with torch.inference_mode():
        a = x * 2
        with torch.inference_mode(False):
            b = x * W
            c = torch.zeros(3)
        d = x * 3
    return a, b, c, d, x * 4


def grad_inside(x):
    with torch.inference_mode():
        with torch.enable_grad():
            a = x * W
        b = x * 2
    with torch.no_grad():
        with torch.inference_mode():
            c = x * 3
        d = x * 4
        with torch.inference_mode(False):
            e = x * 5
        f = x * 6
    return a, b, c, d, e, f, x * 7


@torch.inference_mode()
def helper(x):
    return x @ x


def decorated(x):
    return helper(x), helper(x).clone(), x @ x


def raises(x):
    try:
        with torch.inference_mode():
            y = x * 2
            raise KeyError
    except KeyError:
        return y, x * 3


def literals(x):
    with torch.inference_mode():
        a = torch.tensor([1.0, 2.0])
        b = torch.zeros(3).add_(1)
        c = a[1:]
    return a, b, c, torch.tensor([1.0, 2.0])


def switched_by_value(x):
    with torch.inference_mode(x.dim() == 1):
        y = x * 2
    return y


def writes(x):
    y = x.detach().clone()
    with torch.inference_mode():
        y.add_(1)
        z = y.view(-1)
    return y, z


def flags(result):
    return [(t.is_inference(), t.requires_grad, t.is_leaf) for t in result]


BODIES = [
    region,
    used_outside,
    switched_off_inside,
    grad_inside,
    decorated,
    raises,
    literals,
    writes,
]


@pytest.mark.parametrize("body", BODIES)
def test_a_region_inside_is_recorded(body):
    f = check(body, leaf(), extra=[W])
    for around in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        x = leaf()
        with around():
            traces = f.tracing_count()
            for _ in range(3):
                expected = body(x)
                got = f(x)
                expected, got = (r if isinstance(r, tuple) else (r,) for r in (expected, got))
                assert flags(got) == flags(expected)
                assert all(torch.equal(a, b) for a, b in zip(got, expected))
            assert f.tracing_count() <= traces + 1
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_a_region_in_a_branch_and_a_loop():
    def body(x, n):
        y = x
        if x.sum() > 3:
            with torch.inference_mode():
                y = x * 2
        else:
            y = x - 1
        total = torch.zeros(3)
        for _ in range(n):
            with torch.inference_mode(False):
                total = total + x
        return y, total

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for i in range(4):
            x, n = torch.full((3,), float(i)), torch.tensor(i)
            for a, b in zip(f(x, n), body(x, n)):
                assert torch.equal(a, b) and a.is_inference() == b.is_inference()


def test_an_error_inside_on_a_hit_leaves_the_modes():
    def body(x, i):
        with torch.inference_mode():
            return x.index_select(0, i)  # here

    f = tracehost.function(body)
    x = leaf()
    with assert_traces(f, 1):
        f(x, torch.tensor([1]))
        for _ in range(2):
            with pytest.raises(IndexError) as error:
                f(x, torch.tensor([9]))
            assert error.value.__notes__[0].endswith(f"the op at {place(body)}")
            assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
            assert (x * 2).requires_grad
            assert f(x, torch.tensor([1])).is_inference()


def test_a_failed_trace_leaves_the_modes():
    def body(x):
        with torch.inference_mode():
            return x.sum().numpy().tolist()

    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(body)(leaf())
    assert not torch.is_inference_mode_enabled() and (leaf() * 2).requires_grad


def test_code_that_the_graph_calls_runs_in_the_region():
    seen = []
    inner = tracehost.function(lambda x: x * 2)

    def called(x):
        seen.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        with torch.inference_mode(False):
            inner(torch.ones(3))
        return inner(x)

    def body(x):
        with torch.inference_mode():
            (y,) = [tracehost.py_function(called, [x], torch.float32, shape=(3,))]
            z = y * 2
        return y, z, x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            y, z, w = f(leaf())
            assert y.is_inference() and z.is_inference() and w.requires_grad
            assert seen.pop() == (True, False)
            assert not torch.is_inference_mode_enabled()


def test_eagers_error_for_inference_tensors_saved_for_backward():
    def body(x):
        with torch.inference_mode():
            y = torch.ones(3)
        return x * y

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        tracehost.function(body)(leaf())


def test_a_region_that_the_body_leaves_open_is_rejected():
    modes = []

    def body(x):
        modes.append(torch.inference_mode())
        modes[0].__enter__()
        return x * 2

    def run():  # the mode stays: in a thread that ends
        with pytest.raises(tracehost.TraceError) as error:
            tracehost.function(body)(leaf())
        errors.append(str(error.value))
        modes[0].__exit__(None, None, None)  # here: its end restores this thread's modes

    errors = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert errors.pop() == (
        "the body ends in a region that it has opened (inference mode is switched for what "
        "comes after). Use a `with` statement, which ends in the body."
    )


def test_requested_graphs_have_the_region():
    def body(x):
        with torch.inference_mode():
            y = x * 2
        return y, (x + 1).requires_grad, torch.ones(2)

    f = tracehost.function(body)
    concrete = f.get_concrete_function(tracehost.TensorSpec([None], torch.float32))
    for n in (3, 1):
        y, _, z = concrete(torch.ones(n))
        assert y.is_inference() and not z.is_inference() and torch.equal(y, torch.full((n,), 2.0))
    assert "tracehost::set_inference_mode" in str(concrete.graph)
