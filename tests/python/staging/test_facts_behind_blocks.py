"""What a staged `if` or loop leaves: gradients, strides, attributes and identity follow from the way that a call takes."""

import re
from types import SimpleNamespace

import pytest
import torch
import tracehost
from autograph_support import counting
from tracehost.testing import assert_traces

W = torch.ones(3, requires_grad=True)
HELD = SimpleNamespace()
TRACES = {}
traces = counting(TRACES)


@traces(2)
def requires_grad_of_a_product(x):
    y = x * 1
    if x.sum() > 0:
        y = y * W
    return y.requires_grad, y.is_leaf, y.grad_fn is None


@traces(2)
def requires_grad_behind_an_op(x):
    y = x * 1
    if x.sum() > 0:
        y = y * W
    z = (y + 1).relu()
    return z * 2 if z.requires_grad else z * 3


@traces(1)
def requires_grad_behind_detach(x):
    y = x * 1
    if x.sum() > 0:
        y = y * W
    return y.detach().requires_grad


@traces(1)
def requires_grad_of_both(x):
    y = x * W if x.sum() > 0 else W - x
    return y.requires_grad, y.is_leaf


@traces(2)
def requires_grad_set_in_a_side(x):
    y = x * 1
    if x.sum() > 0:
        y.requires_grad_()
    return y, y.requires_grad


@traces(2)
def retained_in_a_side(x):
    y = x * W
    if x.sum() > 0:
        y.retain_grad()
    return y, y.retains_grad


@traces(2)
def a_leaf_or_a_product(x):
    y = W if x.sum() > 0 else W * 1
    return y.is_leaf


@traces(2)
def requires_grad_of_a_loop(x):
    y = x * 1
    while y.sum() > 4:
        y = y * W / 2
    return y.requires_grad


@traces(2)
def strides_of_a_loop(x):
    y = x.expand(2, 3)
    while y.sum() > 20:
        y = y / 2
    return y.contiguous(), y.is_contiguous()


@traces(2)
def strides_in_a_loop(x):
    y, seen = x.expand(2, 3), []
    for _ in tracehost.range((x.sum() > 0).long() + 1):
        seen.append(y.stride())
        y = y / 2
    return seen


@traces(2)
def requires_grad_in_a_loop(x):
    y, seen = x * 1, []
    for _ in tracehost.range((x.sum() > 0).long() + 1):
        seen.append(y.requires_grad)
        y = y * W
    return seen


@traces(2)
def attribute_in_a_side(x):
    y = x * 1
    if x.sum() > 0:
        y.tag = "positive"
    return getattr(y, "tag", None)


@traces(2)
def attribute_of_a_sides_own(x):
    if x.sum() > 0:
        y = x * 2
        y.tag = "positive"
    else:
        y = x * 3
    return y, getattr(y, "tag", None)


@traces(2)
def attribute_in_a_loop(x):
    y = x * 1
    for i in tracehost.range((x.sum() > 0).long() + 1):
        y = y + 1
        y.tag = i
    return y.tag


@traces(1)
def gradient_of_a_leaf_of_a_loop(x):
    y = x.detach().requires_grad_()
    for i in range(x.abs().max().long() - 7):
        y = (y * W + i).detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad, y.is_leaf, y.grad_fn


@traces(1)
def gradient_set_behind_a_loop(x):
    y = x.detach().clone().requires_grad_()
    for _ in range(x.abs().max().long() - 7):
        y = (y * 2).detach().requires_grad_()
    y.grad = torch.ones(3)
    y.sum().backward()
    return y.grad


@traces(2)
def gradient_of_a_leaf_of_a_side(x):
    y = x.detach().requires_grad_()
    if x.sum() > 0:
        y = (y * 2).detach().requires_grad_()
    y.pow(2).sum().backward()
    return y.grad, y.is_leaf


@traces(1)
def retained_behind_a_side(x):
    y = x * W
    if x.sum() > 0:
        y = y * 2
    y.retain_grad()
    gradient = torch.autograd.grad(y.pow(2).sum(), y)
    return y, y.grad, y.retains_grad, gradient


@traces(1)
def retained_behind_a_loop_of_a_leaf(x):
    y = x.detach().requires_grad_()
    for i in range((x.sum() > 0).long() * 2):
        y = y * W + i
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad


@traces(1)
def a_changed_leaf_of_a_loop(x):
    y = x.detach().clone().requires_grad_()
    for _ in range(x.abs().max().long() - 7):
        y = (y * 2).detach().requires_grad_()
    with torch.no_grad():
        y.add_(1)
    (y * y).sum().backward()
    return y, y.grad


@traces(2)
def checked_behind_requires_grad(x):
    y = x.detach().requires_grad_()
    loss = (y * y).sum()
    return y * {243: 2}.get(int(loss.item() * x[0].sign()), 3)


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", TRACES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("first", [1.0, -1.0])
def test_as_eager(body, first):
    f = tracehost.function(body)
    with assert_traces(f, TRACES[body]):
        for sign in (1, -1, -1, 1, 1, -1):
            x = torch.full((3,), 9.0) * sign * first
            expected, got = body(x), f(x)
            assert repr(got) == repr(expected)


@pytest.mark.parametrize("sizes", [(1, 0, 2, 3), (2, 1, 0, 3), (0, 3, 1, 2)])
def test_contiguous_behind_a_side_for_dynamic_sizes(sizes):
    def body(x, k):
        y = torch.outer(x, x)
        if k > 1:
            y = y.t()
        return y, y.contiguous()

    f = tracehost.function(
        body, input_signature=[tracehost.TensorSpec([None]), tracehost.TensorSpec([], torch.int64)]
    )
    for size in sizes:
        for k in (2, 0):
            given = torch.arange(float(size)), torch.tensor(k)
            (a, b), (c, d) = f(*given), body(*given)
            assert torch.equal(a, c) and torch.equal(b, d)
            assert (a.data_ptr() == b.data_ptr()) == (c.data_ptr() == d.data_ptr())
            assert b.stride() == d.stride()


def doubled(x):
    y = x
    for row in x:
        if row > 2:
            y = y * 2
    return y is x


def stored(x):
    class Slots:
        a, b = torch.zeros(1), torch.ones(1)

    if x.sum() > 0:
        Slots.a = Slots.b
    return Slots.a is Slots.b


def added(x):
    y = z = x.clone()
    if x.sum() > 0:
        y = y + 1
    return y is z


@pytest.mark.parametrize("body", [doubled, stored, added], ids=lambda body: body.__name__)
def test_identity_is_an_error(body):
    line = body.__code__.co_firstlineno
    with pytest.raises(tracehost.ValueReadError) as raised:
        tracehost.function(body)(torch.ones(2))
    assert re.fullmatch(
        r"`is` at test_facts_behind_blocks.py:(\d+) asks whether two tensors are one, and the side of an `if` or the "
        r"iterations of a loop that are part of the graph decide that\. Note it in a bool variable where the tensor is "
        r"assigned, and ask that\.",
        str(raised.value),
    )
    assert int(re.search(r":(\d+)", str(raised.value))[1]) > line


@pytest.mark.parametrize("name", ["_is_view()", "_base"])
@pytest.mark.parametrize("side", [lambda y: y[:1], lambda y: y * 2])
def test_being_a_view_is_an_error(name, side):
    def body(x):
        y = x * 1
        if x.sum() > 0:
            y = side(y)
        return y._is_view() if name == "_is_view()" else y._base

    with pytest.raises(tracehost.ValueReadError, match=r"test_facts_behind_blocks\.py:\d+"):
        tracehost.function(body)(torch.ones(3))


def leaf_of_a_side(x, n):
    w = x
    if n > 0:
        w = torch.zeros(3, requires_grad=True)
    return w


def leaf_of_a_loop(x, n):
    w = [x]
    for _ in range(n):
        w[0] = torch.zeros(3, requires_grad=True)
    return w


def stored_leaf_of_a_side(x, n):
    if n > 0:
        HELD.w = torch.zeros(3, requires_grad=True)
    return x


def stored_leaf_of_a_loop(x, n):
    for _ in range(n):
        HELD.w = torch.zeros(3, requires_grad=True)
    return x


@pytest.mark.parametrize("order", [(0, 2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize(
    "body", [leaf_of_a_side, leaf_of_a_loop, stored_leaf_of_a_side, stored_leaf_of_a_loop]
)
def test_a_new_leaf_that_no_op_of_the_block_meets(body, order):
    f = tracehost.function(body)
    for n in order:
        left = []
        for call in (f, body):
            HELD.w = torch.full((3,), 4.0)
            left.append(repr((call(torch.ones(3), torch.tensor(n)), HELD.w)))
        assert left[0] == left[1]


@pytest.mark.parametrize("first", [2, 0])
def test_a_gradient_is_removed_in_a_loop_as_in_eager(first):
    def body(w, n):
        for _ in range(n):
            w.grad = None
        return w * 2

    f = tracehost.function(body)
    with assert_traces(f, 3):
        for n in (first, 0, 1, 2, 0, 1):
            w = torch.ones(3, requires_grad=True)
            w.grad = torch.ones(3)
            f(w, torch.tensor(n))
            assert (w.grad is None) == (n > 0)


def test_a_trace_from_specs_leaves_gradients_alone():
    def in_a_loop(n):
        for _ in range(n):
            W.grad = None

    def at_once(n):
        W.grad = None

    W.grad = given = torch.ones(3)
    try:
        for body in (in_a_loop, at_once):
            with pytest.raises(tracehost.Error, match=r"a \.grad is set in a .*blocks\.py:\d+"):
                tracehost.function(body).get_concrete_function(
                    tracehost.TensorSpec([], torch.int64)
                )
            assert W.grad is given
    finally:
        W.grad = None


def test_identity_by_the_remedy():
    def body(x):
        y, same = x, True
        if x.sum() > 0:
            y, same = y * 2, False
        return y, same

    f = tracehost.function(body)
    for sign in (1.0, -1.0, 1.0):
        got, expected = f(torch.ones(2) * sign), body(torch.ones(2) * sign)
        assert torch.equal(got[0], expected[0]) and got[1] is expected[1]


def test_identity_of_others_is_as_in_eager():
    def body(x):
        y = x * 2 if x.sum() > 0 else x * 3
        z = y
        return y is z, y is x, z is not x

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for sign in (1.0, -1.0):
            assert f(torch.ones(2) * sign) == body(torch.ones(2) * sign)


def test_a_list_from_outside_behind_a_loop_is_that_list():
    rows, entries = [1, 2], {"a": 1}

    @tracehost.function
    def f(x, n):
        row, entry, made = None, entries, None
        for _ in range(n):
            row = rows
            entry = entries
            made = [x, 1]
            x = x + 1
        return row, entry, made

    with assert_traces(f, 1):
        for n in (2, 3, 1):
            row, entry, made = f(torch.ones(1), torch.tensor(n))
            assert row is rows and entry is entries and made[0].item() == n and made[1] == 1


def test_a_list_that_iterations_choose_is_not():
    first, second = [1, 2], [3, 4]

    @tracehost.function
    def f(x):
        row, total = first, 0
        for value in x:
            total = total + row[0]
            row = first if value > 0 else second
        return total

    for values in ([1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0, 2.0]):
        assert f(torch.tensor(values)) == f.python_function(torch.tensor(values))
