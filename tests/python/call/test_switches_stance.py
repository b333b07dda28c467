"""What a miss may do: stance("eager_on_miss"), ("eager_on_error"), ("fail_on_miss"), no_retrace()."""

import threading
import warnings

import pytest
import torch
import tracehost
from core_support import assert_same, place
from tracehost.testing import assert_traces

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    tracehost.stance("default")


# ---- fail_on_miss --------------------------------------------------------------------------------


def test_a_miss_fails_and_says_what_differs():
    @tracehost.function
    def step(x, n=2):
        return x * n

    first = step.python_function.__code__.co_firstlineno
    name = f"step (test_switches_stance.py:{first})"
    start = (
        f"no specialization of {name} serves this call, and the stance 'fail_on_miss' (no_retrace)"
    )
    end = (
        "Call the function with such arguments before you set this stance, "
        "or allow tracing with tracehost.stance('default')."
    )
    with tracehost.no_retrace(), pytest.raises(tracehost.TraceError) as error:
        step(X)
    assert (
        str(error.value)
        == f"{start} does not allow tracing. The function has no specialization yet. {end}"
    )
    step(X), step(X, 5)
    with tracehost.no_retrace():
        assert_same(step(X), X * 2)
        assert_same(step(X, 5), X * 5)
        with pytest.raises(tracehost.TraceError) as error:
            step(torch.ones(4), 5)
    assert str(error.value) == (
        f"{start} does not allow tracing. From the nearest specialization it differs so: "
        f"argument 'x', dimension 0, is 4, not 3. {end}"
    )
    stats = step.stats()
    assert (stats["traces"], stats["hits"], stats["live"], stats["eager"]) == (2, 2, 2, 0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ((X.double(), 2), "argument 'x' has dtype float64, not float32"),
        ((X[None], 2), r"argument 'x' has shape \[1, 3\], not \[3\]"),
        ((X.clone().requires_grad_(), 2), "argument 'x' has requires_grad True, not False"),
        ((X, 3), "argument 'n' is 3, not 2"),
        ((X, 2.0), "argument 'n' is of type float, not int"),
        ((X, (2,)), "argument 'n' is of type tuple, not int"),
        (
            (X[None].double(), 3),
            "float64, not float32; argument 'x' has .*; argument 'n' is 3, not 2",
        ),
    ],
)
def test_each_difference_has_its_words(call, says):
    f = tracehost.function(lambda x, n: x * 1)
    f(X, 2)
    with tracehost.no_retrace(), pytest.raises(tracehost.TraceError, match=says):
        f(*call)


def test_what_the_body_reads_and_the_context_are_named():
    scale = 2.0
    w = torch.ones(3)
    f = tracehost.function(lambda x: x * scale + w)
    f(X)
    with tracehost.no_retrace():
        with torch.no_grad(), pytest.raises(tracehost.TraceError, match="grad mode is off, not on"):
            f(X)
        scale = 3.0
        says = r"'nonlocal scale', which the body reads, is 3\.0, not 2\.0"
        with pytest.raises(tracehost.TraceError, match=says):
            f(X)
        scale, w = 2.0, w.double()
        says = r"captured tensor 'nonlocal w' is float64\[3\], not float32\[3\]"
        with pytest.raises(tracehost.TraceError, match=says):
            f(X)


def test_a_miss_that_fails_leaves_no_mark_on_the_detector():
    f = tracehost.function(lambda x, n: x * n)
    f(X, 0)
    with tracehost.no_retrace():
        for n in range(1, 9):
            with pytest.raises(tracehost.TraceError):
                f(X, n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 4):
            f(X, n)


def test_a_call_holds_for_all_threads_and_a_block_for_one():
    f = tracehost.function(lambda x: x * 2)
    outcomes = []

    def work(size):
        try:
            f(torch.ones(size))
            outcomes.append("ran")
        except tracehost.TraceError:
            outcomes.append("failed")

    def in_thread(size):
        thread = threading.Thread(target=work, args=(size,))
        thread.start()
        thread.join()

    with tracehost.no_retrace():
        in_thread(1)
    tracehost.no_retrace()
    in_thread(1), in_thread(2)
    assert outcomes == ["ran", "ran", "failed"]


# ---- eager_on_miss -------------------------------------------------------------------------------


def test_a_miss_runs_the_python_function():
    f = tracehost.function(lambda x, n: x * n)
    with assert_traces(f, 2):
        f(X, 2)
        with tracehost.stance("eager_on_miss"):
            assert_same(f(X, 2), X * 2)
            assert_same(f(X, 3), X * 3)
            assert_same(f(X, 3), X * 3)
            assert_same(f(X, n=torch.tensor(4.0)), X * 4)
        stats = f.stats()
        assert (stats["traces"], stats["hits"], stats["eager"], stats["live"]) == (1, 1, 3, 1)
        f(X, 3)


def test_a_miss_may_be_what_no_graph_can_do():
    f = tracehost.function(lambda x, names: x.sum().item() + len(names))
    with tracehost.stance("eager_on_miss"):
        assert f(X, {"a", "b"}) == 5.0
        with pytest.raises(TypeError, match="missing a required argument: 'names'"):
            f(X)


# ---- eager_on_error ------------------------------------------------------------------------------


def went_on():
    return pytest.warns(tracehost.TraceWarning, match="has no graph for this signature")


def test_a_rejected_body_goes_on_and_runs_once():
    log = []

    @tracehost.function(watch=False)
    def f(x, w):
        log.append("in")
        w.add_(1)
        total = x.sum().numpy().tolist()  # here
        w.mul_(total)
        log.append("out")
        return {"total": total, "y": x * total + w}

    w = torch.ones(3)
    line = place(f.python_function)
    with tracehost.stance("eager_on_error"):
        with went_on() as seen:
            got = f(X, w)
        assert_same(w, torch.full((3,), 6.0))
        assert_same(got, {"total": 3.0, "y": X * 3 + 6})
        assert log == ["in", "out"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = f(X, w)
        assert_same(w, torch.full((3,), 21.0))
        assert_same(got, {"total": 3.0, "y": X * 3 + 21})
    assert len(seen) == 1
    text = str(seen[0].message)
    first = f.python_function.__code__.co_firstlineno
    assert text == (
        f"f (test_switches_stance.py:{first}) has no graph for this signature, and runs as plain "
        f"Python: the body reads the value of a traced tensor (Tensor.numpy) at {line}, "
        "which a graph can't repeat. Keep the computation in tensors (torch.where, masks; under "
        "autograph, if, while and range() take tensors), move the read out of the function, or let the graph "
        "call this code by tracehost.py_function."
    )
    stats = f.stats()
    assert (stats["traces"], stats["live"], stats["eager"], stats["calls"]) == (0, 0, 2, 2)


def test_what_can_be_traced_is_traced():
    f = tracehost.function(lambda x: x * 2)
    with tracehost.stance("eager_on_error"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert_same(f(X), X * 2)
    stats = f.stats()
    assert (stats["traces"], stats["hits"], stats["eager"]) == (1, 2, 0)


def read(x):
    return x * x.sum().numpy().tolist()


def read_in_a_method(x):
    return x * x.numpy().tolist()[1]


def made_by_numpy(x):
    return x + torch.from_numpy(x.numpy() * 2)


def seeds(x):
    torch.manual_seed(3)
    return x + torch.rand(3)


def other_class(x):
    return x.as_subclass(Tagged)


def read_in_a_branch(x):
    if x.sum() > 0:
        x = x * x.sum().numpy().tolist()
    else:
        x = x - 1
    return x + 1


def read_in_a_loop(x):
    n = 0
    while x.sum() < 100:
        x = x * (1 + x.max().numpy().tolist())
        n += 1
    return x, n


def read_in_a_loop_over_rows(x):
    total = 0.0
    for i, value in enumerate(x):
        if value > 0:
            total = total + value.numpy().tolist() * i
    return total


def data(x):
    return x.data * 2


def counts_down(x, n=3):
    return calls_itself(x * 2) if x.max() < 10 else x


def backward(x):
    w = torch.ones(3, requires_grad=True)
    (x * w).sum().backward()
    return w.grad


def optimizer(x):
    w = torch.nn.Parameter(torch.ones(3))
    step = torch.optim.SGD([w], lr=0.5)
    (grad,) = torch.autograd.grad((x * w).sum(), w)
    w.grad = grad
    step.step()
    return w.detach()


def inference(x):
    with torch.inference_mode():
        y = x * 2
    return y.clone()


class Tagged(torch.Tensor):
    pass


class Box:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return torch.equal(self.value, other.value)


calls_itself = tracehost.function(counts_down)


@pytest.mark.parametrize(
    "body",
    [
        read,
        read_in_a_method,
        made_by_numpy,
        seeds,
        other_class,
        read_in_a_branch,
        read_in_a_loop,
        read_in_a_loop_over_rows,
    ],
    ids=lambda body: body.__name__,
)
def test_whatever_is_rejected_ends_as_eager_does(body):
    torch.manual_seed(7)
    expected = body(X.clone())
    state = torch.get_rng_state()
    f = tracehost.function(body)
    torch.manual_seed(7)
    with tracehost.stance("eager_on_error"), went_on():
        assert_same(f(X.clone()), expected)
    assert torch.equal(torch.get_rng_state(), state)
    with tracehost.stance("eager_on_error"), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(7)
        assert_same(f(X.clone()), expected)
    assert f.stats()["eager"] == 2 and f.stats()["live"] == 0
    good = tracehost.function(lambda x: x * 2 + 1)  # this thread traces as before
    for _ in range(2):
        assert_same(good(X), X * 2 + 1)
    assert good.stats()["hits"] == 1
    torch.manual_seed(7)
    with pytest.raises((tracehost.Error, TypeError)):
        f(X.clone())


def test_gradients_of_a_body_that_went_on():
    f = tracehost.function(lambda x: x * x * x.detach().sum().numpy().tolist())
    x = X.clone().requires_grad_()
    with tracehost.stance("eager_on_error"), went_on():
        f(x).sum().backward()
    assert_same(x.grad, 2 * X * 3)


def test_nested_functions_after_the_rejection_are_plain_python():
    inner = tracehost.function(lambda x: x * 2)

    @tracehost.function
    def outer(x):
        a = inner(x)
        n = x.sum().numpy().tolist()
        return inner(a) * n

    with tracehost.stance("eager_on_error"), went_on():
        assert_same(outer(X), X * 12)
    assert (inner.stats()["inlined"], inner.stats()["eager"]) == (1, 1)


def test_recursion_goes_on_as_plain_python():
    with tracehost.stance("eager_on_error"), went_on():
        assert_same(calls_itself(X), X * 8)


def test_what_the_body_raises_is_raised_once():
    log = []

    @tracehost.function(watch=False)
    def f(x, when):
        log.append(when)
        if when == "before":
            raise KeyError("mine")
        x.sum().numpy().tolist()
        if when == "after":
            raise KeyError("mine")
        return torch.ones(2) @ x

    with tracehost.stance("eager_on_error"):
        for when in ("before", "after", "after"):
            with pytest.raises(KeyError, match="mine"):
                f(X, when)
        with pytest.raises(RuntimeError, match="size"):
            f(X, "mismatch")
    assert log == ["before", "after", "after", "mismatch"]


def test_a_body_may_not_notice():
    def body(x):
        try:
            return x.sum().numpy().tolist()
        except tracehost.Error:
            return "caught"

    f = tracehost.function(body)
    with tracehost.stance("eager_on_error"), went_on():
        assert f(X) == 3.0


def test_arguments_that_cannot_be_compared():
    f = tracehost.function(lambda x, names: x * len(names))
    with tracehost.stance("eager_on_error"):
        assert_same(f(X, {"a", "b"}), X * 2)
    assert f.stats()["eager"] == 1
    with pytest.raises(tracehost.SignatureError):
        f(X, {"a", "b"})


def test_a_rejection_is_remembered_until_the_function_is_cleared():
    runs = []

    @tracehost.function(watch=False)
    def f(x):
        runs.append(1)
        return x.sum().numpy().tolist() if len(runs) < 3 else x.sum()

    with tracehost.stance("eager_on_error"):
        with went_on():
            f(X)
        f(X), f(X)
        assert f.tracing_count() == 0 and len(runs) == 3
        f.clear()
        f(X), f(X)
    assert len(runs) == 4 and (f.stats()["traces"], f.stats()["hits"]) == (1, 1)


def test_a_warning_that_is_an_error_comes_after_the_body():
    log = []

    @tracehost.function(watch=False)
    def f(x):
        n = x.sum().numpy().tolist()
        log.append(n)
        return n

    with tracehost.stance("eager_on_error"), warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.TraceWarning)
        with pytest.raises(tracehost.TraceWarning):
            f(X)
        assert f(X) == 3.0
    assert log == [3.0, 3.0]
