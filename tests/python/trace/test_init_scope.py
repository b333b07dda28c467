"""init_scope: a block of the body that runs once, at the trace, and is no part of the graph."""

import contextlib
import threading
import warnings
from types import SimpleNamespace

import pytest
import torch
import tracehost
from core_support import assert_same, counts, place
from tracehost import TensorSpec, init_scope
from tracehost.testing import assert_traces

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.arange(3.0)


def kinds(f, *args):
    nodes = f.get_concrete_function(*args).graph.nodes()
    return [n.kind() for n in nodes if n.kind() != "prim::Constant"]


class Lazy(torch.nn.Module):
    """Makes its weight at the first call."""

    def __init__(self):
        super().__init__()
        self.weight = None
        self.made = []

    def run(self, x):
        if self.weight is None:
            with init_scope():
                self.weight = torch.nn.Parameter(torch.arange(1.0, x.shape[-1] + 1))
        return x * self.weight


# ---- what is made there --------------------------------------------------------------------------


def test_a_parameter_made_lazily_is_made_once():
    model = Lazy()
    f = tracehost.function(model.run)
    first = f(X)
    weight = model.weight
    assert_same(first, X * weight)
    assert counts(f) == (1, 0, 0)  # self.weight is no longer None: that trace has served
    assert_same(f(X), X * weight)
    assert counts(f) == (2, 0, 1)
    with torch.no_grad():
        weight.add_(1)
    assert_same(f(X), X * weight)
    assert model.weight is weight and counts(f) == (2, 1, 1)
    f(X).sum().backward()
    assert_same(weight.grad, X)


def test_a_tensor_of_the_body_where_one_of_the_block_was_in_memory():
    held = SimpleNamespace(y=X, z=X, w=X)

    @tracehost.function
    def f(x):
        with init_scope():
            [torch.ones(3) for _ in range(32)]
        held.y, held.z, held.w = x * 2, x * 3, x * 4
        return x + 1

    with assert_traces(f, 1):
        for k in range(3):
            assert_same(f(X + k), X + k + 1)
            assert_same([held.y, held.z, held.w], [(X + k) * by for by in (2, 3, 4)])


def test_a_parameter_that_is_taken_away_is_made_again():
    model = Lazy()
    f = tracehost.function(model.run)
    f(X), f(X)
    old, model.weight = model.weight, None
    got = f(X)
    assert model.weight is not old and model.weight is not None
    assert_same(got, X * model.weight)
    assert counts(f) == (3, 0, 1)
    assert_same(f(X), X * model.weight)
    assert counts(f) == (3, 1, 1)


def test_gradients_reach_it_at_the_call_that_makes_it():
    model = Lazy()
    tracehost.function(model.run)(X).sum().backward()
    assert_same(model.weight.grad, X)


def test_a_whole_module_made_lazily():
    class Holder:
        layer = None

        @tracehost.function
        def run(self, x):
            if self.layer is None:
                with init_scope():
                    self.layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
            return self.layer(x)

    holder = Holder()
    for _ in range(4):
        got = holder.run(X)
        assert_same(got, holder.layer(X))
    assert counts(holder.run) == (2, 2, 1)
    holder.layer = None
    assert_same(holder.run(X), holder.layer(X))


def test_what_is_stored_nowhere_is_kept_by_the_graph():
    log = []

    @tracehost.function(watch=False)
    def f(x):
        with init_scope():
            log.append(tracehost.inside_function())
            table = torch.arange(3.0) + 1
        return x * table

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        for _ in range(3):
            assert_same(f(X), X * (X + 1))
    assert log == [False] and counts(f) == (1, 2, 1)
    assert kinds(f, X) == ["aten::mul"]


def test_a_tensor_in_a_cache_of_the_users():
    tables = {}

    @tracehost.function
    def f(x, n):
        if n not in tables:
            with init_scope():
                tables[n] = torch.full((3,), float(n))
        return x + tables[n]

    for _ in range(3):
        assert_same(f(X, 2), X + 2)
    assert counts(f) == (2, 1, 1)
    assert_same(f(X, 5), X + 5)
    del tables[2]
    assert_same(f(X, 2), X + 2)
    assert sorted(tables) == [2, 5]


def test_it_may_be_the_result():
    f = tracehost.function(lambda x: made(x))

    def made(x):
        with init_scope():
            weight = torch.nn.Parameter(torch.ones(3))
        return weight, x + 1

    first, _ = f(X)
    again, y = f(X)
    assert again is first and type(first) is torch.nn.Parameter
    assert_same(y, X + 1)
    assert counts(f) == (1, 1, 1)


def test_an_optimizer_is_made_and_a_generator_seeded_and_values_read_there():
    class Trainer:
        optimizer = None

        def __init__(self):
            self.weight = torch.nn.Parameter(torch.ones(3))

        @tracehost.function
        def loss(self, x):
            if self.optimizer is None:
                with init_scope():
                    torch.manual_seed(3)
                    self.start = float(self.weight.detach().sum())
                    (self.weight * 2).sum().backward()
                    self.optimizer = torch.optim.SGD([self.weight], lr=0.5)
                    self.optimizer.step()
            return (x * self.weight).sum()

    trainer = Trainer()
    trainer.loss(X)
    assert trainer.start == 3.0
    assert_same(trainer.weight.detach(), torch.zeros(3))
    for _ in range(3):
        assert_same(trainer.loss(X).detach(), torch.tensor(0.0))


# ---- modes ---------------------------------------------------------------------------------------


def test_modes_are_those_of_the_call():
    seen = []

    @tracehost.function(watch=False)
    def f(x):
        with torch.no_grad():
            y = x * 2
            with init_scope():
                seen.append(torch.is_grad_enabled())
                with torch.no_grad():
                    pass
            seen.append(torch.is_grad_enabled())
            z = y + 1
        with torch.inference_mode(), torch.autocast("cpu"), init_scope():
            seen.append((torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")))
            weight = torch.nn.Parameter(torch.ones(3))
        return z + weight

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        got = f(X)
    assert seen == [True, False, (False, False)]
    assert got.requires_grad and f(X).requires_grad
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        f(X)
    assert seen[3:] == [False, False, (False, False)]


# ---- what may be used there ----------------------------------------------------------------------


def uses_an_argument(x):
    with init_scope():
        w = torch.ones(3) * x  # here
    return x + w


def uses_a_result(x):
    y = x + 1
    with init_scope():
        w = y.clone()  # here
    return x + w


def reads_a_list(x):
    with init_scope():
        w = x.numpy().tolist()  # here
    return x + w[0]


def reads_a_number(x):
    with init_scope():
        w = float(x.sum())  # here
    return x + w


def branches(x):
    y = x > 0
    with init_scope():
        w = 1 if y[0] else 2  # here
    return x + w


@pytest.mark.parametrize(
    ("body", "says", "error"),
    [
        (uses_an_argument, "a traced tensor is used in init_scope (aten::mul)", "TraceError"),
        (uses_a_result, "a traced tensor is used in init_scope (aten::clone)", "TraceError"),
        (reads_a_list, "reads the value of 'x' (Tensor.numpy)", "ValueReadError"),
        (reads_a_number, "a traced tensor is used in init_scope (aten::sum)", "TraceError"),
        (branches, "a traced tensor is used in init_scope (aten::select)", "TraceError"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_traced_tensor_is_rejected_with_the_line(body, says, error):
    f = tracehost.function(body)
    with pytest.raises(getattr(tracehost, error)) as caught:
        f(X)
    assert says in str(caught.value) and f" at {place(body)}" in str(caught.value)
    assert counts(f) == (0, 0, 0)
    good = tracehost.function(lambda x: x * 2)
    assert_same(good(X), X * 2)
    with tracehost.stance("eager_on_error"), pytest.warns(tracehost.TraceWarning):
        assert_same(f(X), body(X))


def test_the_sentence():
    with pytest.raises(tracehost.TraceError) as caught:
        tracehost.function(uses_an_argument)(X)
    assert str(caught.value) == (
        f"a traced tensor is used in init_scope (aten::mul) at {place(uses_an_argument)}: the block "
        "runs once, at the trace, and such a tensor has another value at each call. Use there what "
        "does not depend on the arguments' values (shape, dtype and device are fine), or move this "
        "out of the block."
    )


def test_captures_may_be_read_and_written():
    w = torch.ones(3)

    @tracehost.function
    def f(x):
        y = x * w
        with init_scope():
            total = w.sum().item() + len(w.tolist())
            w.add_(1)
        return y + total

    assert_same(f(X), X + 6)
    assert_same(w, torch.full((3,), 2.0))
    assert_same(f(X), X * 2 + 6)
    assert_same(w, torch.full((3,), 2.0))


def test_shape_dtype_and_text_of_a_traced_tensor():
    texts = []

    @tracehost.function(watch=False)
    def f(x):
        y = x * 2
        with init_scope():
            like = torch.zeros(y.shape, dtype=y.dtype, device=y.device)
            texts.append(repr(y))
        return y + like

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)
        assert_same(f(X), X * 2)
    assert texts == [repr(X * 2)]


@pytest.mark.parametrize(
    "size", [lambda x: x.shape[0], lambda x: x.size(0), lambda x: x.numel() // 2]
)
def test_a_size_of_any_becomes_exact(size):
    @tracehost.function(reduce_retracing=True)
    def f(x):
        with init_scope():
            w = torch.arange(float(size(x)))
        return x + w[:, None]

    with assert_traces(f, 4):
        for rows in (2, 4, 6, 8):
            x = torch.ones(rows, 2)
            for _ in range(2):
                assert_same(f(x), x + torch.arange(float(rows))[:, None])


def test_a_size_read_before_the_block():
    @tracehost.function(input_signature=[TensorSpec([None, 2])])
    def f(x):
        n = x.shape[0]
        with init_scope():
            w = torch.zeros(n)  # here
        return x + w[:, None]

    for count, rows in ((1, 3), (2, 5), (2, 3)):
        assert torch.equal(f(torch.ones(rows, 2)), torch.ones(rows, 2))
        assert f.tracing_count() == count
    assert "a size in init_scope" in str(f.specializations()[0])


# ---- blocks --------------------------------------------------------------------------------------


def test_nested_blocks_and_functions():
    inner = tracehost.function(lambda n: torch.arange(float(n)))

    @tracehost.function
    def f(x):
        y = x + 1
        with init_scope():
            with init_scope():
                a = inner(3)
            b = a * 2
        return y * b + x

    for _ in range(2):
        assert_same(f(X), (X + 1) * X * 2 + X)
    assert counts(f) == (1, 1, 1)
    assert kinds(f, X).count("aten::mul") == 1


def test_an_exception_leaves_the_block():
    @tracehost.function
    def f(x, bad):
        y = x + 1
        try:
            with init_scope():
                raise KeyError("k")
        except KeyError:
            y = y * 2
        with contextlib.suppress(RuntimeError), init_scope():
            torch.ones(2) @ torch.ones(3)
        if bad:
            with init_scope():
                raise ValueError("out")
        return y * 3

    assert_same(f(X, False), (X + 1) * 6)
    assert_same(f(X, False), (X + 1) * 6)
    with pytest.raises(ValueError, match="out"):
        f(X, True)
    assert counts(f) == (1, 1, 1)
    assert not tracehost.inside_function() and torch.is_grad_enabled()


def test_a_generator_opens_and_closes_it():
    @contextlib.contextmanager
    def aside():
        with init_scope():
            yield torch.ones(3)

    @tracehost.function
    def f(x):
        with aside() as ones:
            twos = ones * 2
        return x * twos

    for _ in range(2):
        assert_same(f(X), X * 2)
    assert kinds(f, X) == ["aten::mul"]


def leaves_open(x, kept):
    def generator():
        with init_scope():  # here
            yield torch.ones(3)

    running = generator()
    kept(running)
    return next(running) * 2


def test_a_block_left_open_is_rejected():
    kept = []
    f = tracehost.function(leaves_open, watch=False)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            with pytest.raises(tracehost.TraceError) as caught:
                f(X, kept.append)
            assert torch.is_grad_enabled() is grad
        assert str(caught.value) == (
            "the block that the body lifts out of the trace (init_scope) at "
            f"{place(leaves_open)} is still open at the end of the body. Close it before: a "
            "generator that opens it has to run to its end."
        )
    kept.clear()  # closes them, outside of the trace
    good = tracehost.function(lambda x: x * 2)
    assert_same(good(X), X * 2)
    assert kinds(good, X) == ["aten::mul"]


def test_outside_of_a_trace_it_does_nothing():
    scope = init_scope()
    with torch.no_grad(), scope, scope:
        assert not torch.is_grad_enabled()
        assert_same(X * 2, X + X)
    model = Lazy()
    f = tracehost.function(model.run)
    with tracehost.run_functions_eagerly(True):
        f(X)
    weight = model.weight
    assert_same(f(X), X * weight)
    assert model.weight is weight and counts(f)[:2] == (1, 0)


def test_a_request_makes_it_for_real():
    model = Lazy()
    f = tracehost.function(model.run)
    concrete = f.get_concrete_function(TensorSpec([3]))
    assert type(model.weight.data) is torch.Tensor
    assert_same(model.weight.detach(), torch.arange(1.0, 4.0))
    assert_same(concrete(X), X * model.weight)
    assert_same(f(X), X * model.weight)


def test_threads_that_make_it_at_once():
    model = Lazy()
    f = tracehost.function(model.run)
    barrier = threading.Barrier(4)
    results = []

    with assert_traces(f, 2):

        def work():
            barrier.wait()
            results.append(f(X))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for got in results:
            assert_same(got, X * model.weight)
        assert counts(f)[2] == 1
