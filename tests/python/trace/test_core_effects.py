"""What a body does to tensors repeats on hits; what it does to containers is unsupported."""

import pytest
import torch
import tracehost
from core_support import assert_same, check, place
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(4.0)


def in_order(x, y):
    x.add_(1)
    a = x * 2
    x.mul_(y)
    b = x * 2
    x[1:].zero_()
    return a, b


WRITES = {
    "add_": lambda x: x.add_(1),
    "+=": lambda x: x.__iadd__(1),
    "setitem": lambda x: x.__setitem__(0, 5.0),
    "setitem slice": lambda x: x.__setitem__(slice(1, 3), x[:2].clone()),
    "setitem mask": lambda x: x.__setitem__(x > 1, 0.0),
    "setitem tensor": lambda x: x.__setitem__(torch.tensor([0, 2]), torch.tensor([7.0, 8.0])),
    "setitem ellipsis": lambda x: x.__setitem__(..., x[0] + 1),
    "copy_": lambda x: x.copy_(x.flip(0)),
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "view write": lambda x: x.view(2, 2)[0].add_(5),
    "out=": lambda x: torch.add(x, 1, out=x),
    "index_add_": lambda x: x.index_add_(0, torch.tensor([0, 0]), torch.ones(2)),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([1]), 9.0),
    "resize": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.unsqueeze_(0).t_(),
    "swap": lambda x: x.copy_(torch.stack([x[1], x[0], x[3], x[2]])),
    "twice": lambda x: (x.add_(1), x.mul_(2)),
    "relu_": lambda x: torch.relu_(x.sub_(2)),
    "detached": lambda x: x.detach().add_(1),
    "clamp_": lambda x: x.clamp_(1, 2),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_an_input_repeats(name):
    def body(x):
        before = x + 0
        WRITES[name](x)
        return before, x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for call in range(3):
            ours, theirs = X + call, X + call
            for got, expected in zip(f(ours), body(theirs)):
                assert torch.equal(got, expected), call
            assert ours.shape == theirs.shape and ours.stride() == theirs.stride()
            assert torch.equal(ours, theirs), call


def test_writes_keep_their_order():
    check(in_order, X, torch.full((4,), 3.0), calls=4)


def test_a_write_seen_through_an_alias():
    def body(x, y):
        x.add_(1)
        return y * 2

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for _ in range(2):
            t = X.clone()
            assert torch.equal(f(t, t), (X + 1) * 2)
            t = X.clone()
            assert torch.equal(f(t, X), X * 2)


def test_arguments_that_overlap_in_memory():
    def body(x, y):
        x.add_(1)
        return y * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        f(X.clone(), X.clone())
        base = X.clone()
        assert torch.equal(f(base, base[:]), (X + 1) * 2)


def test_in_place_on_results_with_gradients():
    def body(x, w):
        y = x * w
        y.mul_(3)
        y[0] = 0
        y += w
        return y.sum(), y

    check(body, X.clone().requires_grad_(), torch.randn(4, requires_grad=True))


def test_in_place_on_a_leaf_that_requires_grad_is_eagers_error():
    f = tracehost.function(lambda x: x.add_(1))
    x = torch.ones(2, requires_grad=True)
    with assert_traces(f, 1):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                f(x)
        with torch.no_grad():
            f(x), f(x)
        assert torch.equal(x, torch.full((2,), 3.0))


def test_version_counters_advance_as_in_eager():
    f = tracehost.function(lambda x: x.add_(1).mul_(2).sum())
    for _ in range(2):
        x = torch.ones(2)
        f(x)
        assert x._version == 2


def test_a_stale_saved_tensor_is_eagers_error_after_a_hit():
    f = tracehost.function(lambda y: y.detach().add_(1))
    with assert_traces(f, 1):
        f(torch.ones(2, requires_grad=True))
        y = torch.ones(2, requires_grad=True) * 2
        z = y * y
        f(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def appended(items, x):
    items.append(x)
    return x * 2


def popped(items, x):
    return items.pop() * 2


def replaced(items, x):
    items[0] = x + 1
    return x * 2


def number(items, x):
    items[1] = 5
    return x * 2


def reordered(items, x):
    items.reverse()
    return x * 2


@pytest.mark.parametrize("body", [appended, popped, replaced, number, reordered])
def test_a_changed_list_argument_is_changed_by_hits(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for k in range(3):
            given, expected = [X + k, 1, X + 1], [X + k, 1, X + 1]
            assert_same(f(given, X + 2), body(expected, X + 2))
            assert_same(given, expected)


def test_a_change_that_no_later_call_can_make_is_rejected_by_name():
    def body(items, x):
        items.append(object())
        return x * 2

    f = tracehost.function(body)
    line = body.__code__.co_firstlineno
    with assert_traces(f, 0):
        with pytest.raises(tracehost.TraceError) as error:
            f([X, 1, X + 1], X + 2)
        assert str(error.value) == (
            f"{body.__name__} (test_core_effects.py:{line}) changes its argument 'items' in a way that "
            "later calls can't repeat. Change a copy, and return it."
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(new=1),
        lambda d: d.pop("a"),
        lambda d: d.update(a=7),
        lambda d: d["inner"].append(1),
        lambda d: d.update(x=d["x"] * 2),
        lambda d: d.setdefault("b", 2),
        lambda d: d.update(a=True),
        lambda d: d.update(s="other"),
    ],
)
def test_a_changed_dict_argument_is_changed_by_hits(change):
    def body(x, *, batch):
        change(batch)
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for k in range(3):
            given, expected = ({"a": 1, "inner": [], "x": X + k, "s": "text"} for _ in range(2))
            assert_same(f(X, batch=given), body(X, batch=expected))
            assert_same(given, expected)
            assert list(given) == list(expected) and type(
                given["a"] if "a" in given else 1
            ) is type(expected["a"] if "a" in expected else 1)


def test_a_change_that_is_undone_is_none():
    def body(items):
        items.append(1)
        items.pop()
        return items[0] * 2

    check(body, [X])


def test_a_changed_copy_is_fine():
    def body(batch):
        batch = dict(batch)
        x = batch.pop("x")
        batch["y"] = x * 2
        return batch

    check(body, {"x": X, "n": 1})


def test_what_was_done_to_tensors_before_a_rejection_stays():
    def body(x):
        x.add_(1)
        return x * x.sum().item()  # here

    f = tracehost.function(body, value_reads="error")
    x = torch.zeros(2)
    with pytest.raises(tracehost.ValueReadError, match=place(body)):
        f(x)
    assert torch.equal(x, torch.ones(2))


def test_a_hook_registered_in_a_body_is_rejected_with_the_line():
    def body(x):
        x.register_hook(print)

    f = tracehost.function(body)
    with assert_traces(f, 0):
        with pytest.raises(tracehost.TraceError) as error:
            f(X.clone().requires_grad_())
        assert f" at test_core_effects.py:{body.__code__.co_firstlineno + 1}" in str(error.value)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_step_that_reads_its_count_is_a_read_with_the_line(kind):
    w = torch.ones(2, requires_grad=True)
    optimizer = kind([w], lr=0.1)
    (w * 2).sum().backward()

    def body(x):
        optimizer.step()  # here
        return x * 2

    with pytest.raises(tracehost.ValueReadError, match=place(body)):
        tracehost.function(body, value_reads="error")(X)


class TestOpsThatReturnNothing:
    """libtorch's tracer makes no node of them."""

    def test_fused_ones(self):
        def body(w, grad):
            torch._fused_sgd_(
                [w],
                [grad],
                [],
                weight_decay=0.0,
                momentum=0.0,
                lr=0.5,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=True,
            )
            return w * 2

        f = tracehost.function(body)
        with assert_traces(f, 1):
            for i in range(3):
                ours, theirs = X + i, X + i
                assert torch.equal(f(ours, X), body(theirs, X)) and torch.equal(ours, theirs)

    def test_foreach_ones(self):
        def body(a, b):
            torch._foreach_mul_([a, b], 2.0)
            torch._foreach_add_([a], [b], alpha=3)
            return a + b

        f = tracehost.function(body)
        with assert_traces(f, 1):
            for i in range(3):
                ours, theirs = (X + i, X - i), (X + i, X - i)
                assert torch.equal(f(*ours), body(*theirs))
                assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
        assert "_foreach_add_" in f.get_concrete_function(X, X).code


def test_a_convolution_without_data():
    layer = torch.nn.Conv1d(3, 2, 3)
    f = tracehost.function(lambda x: layer(x).sum(2))
    with assert_traces(f, 1):
        concrete = f.get_concrete_function(tracehost.TensorSpec([1, 3, 5]))
        x = torch.randn(1, 3, 5)
        assert torch.equal(concrete(x), layer(x).sum(2))
        assert torch.equal(f(x), layer(x).sum(2))
