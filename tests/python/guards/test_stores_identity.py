"""What a hit makes has the identity that the body gave it: in results, stores and arguments."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


class Box:
    last = other = None


class Made:
    def __init__(self, value):
        self.value = value
        self.tag = "t"


def returned_and_stored(box, x):
    box.last = {"y": x * 2, "inner": [x]}
    return box.last


def inner_of_the_result(box, x):
    box.last = [x * 2]
    return {"o": box.last, "k": 1}


def inner_of_the_store(box, x):
    inner = [x * 2]
    box.last = {"o": inner}
    return inner


def stored_twice(box, x):
    box.last = box.other = [x * 2]
    return x + 1


def object_of_a_class(box, x):
    box.last = box.other = Made(x * 2)
    return box.last


def tensor(box, x):
    box.last = x * 2
    return box.last


def in_a_list(box, x):
    made = Made(x)
    box.rows.append(made)
    box.rows.pop(0)
    return made


PAIRS = {
    returned_and_stored: lambda box, r: (r, box.last),
    inner_of_the_result: lambda box, r: (r["o"], box.last),
    inner_of_the_store: lambda box, r: (r, box.last["o"]),
    stored_twice: lambda box, r: (box.last, box.other),
    object_of_a_class: lambda box, r: (box.last, r),
    tensor: lambda box, r: (box.last, r),
    in_a_list: lambda box, r: (box.rows[-1], r),
}


@pytest.mark.parametrize("body", PAIRS, ids=lambda body: body.__name__)
def test_one_object_is_one(body):
    box = Box()
    box.rows = [None, None]
    f = tracehost.function(lambda x: body(box, x))
    seen = []
    for n in range(6):
        one, same = PAIRS[body](box, f(torch.tensor(float(n))))
        assert one is same and all(one is not before for before in seen)
        seen.append(one)
    assert f.tracing_count() <= 3
    if isinstance(seen[-1], Made):
        assert seen[-1].tag == "t"


def test_one_object_in_a_result_twice():
    @tracehost.function
    def f(x):
        row = [x * 2]
        return row, {"row": row}, (row,)

    with assert_traces(f, 1):
        for n in range(3):
            a, b, c = f(torch.tensor(float(n)))
            assert a is b["row"] is c[0] and a[0].item() == n * 2


def test_an_argument_that_is_stored_is_that_of_the_call():
    box = Box()

    @tracehost.function
    def f(batch):
        box.last, box.other = batch, batch["inner"]
        return batch["inner"]

    for n in range(6):
        batch = {"x": torch.tensor(float(n)), "inner": [torch.ones(1)]}
        assert f(batch) is batch["inner"]
        assert box.last is batch and box.other is batch["inner"]
    assert f.tracing_count() <= 2


def test_an_argument_gets_what_is_returned():
    @tracehost.function
    def f(batch):
        made = {"z": batch["x"] * 2}
        batch["made"] = made
        return made

    with assert_traces(f, 1):
        for n in range(4):
            batch = {"x": torch.tensor(float(n))}
            assert f(batch) is batch["made"] and batch["made"]["z"].item() == n * 2


def test_containers_of_an_argument_change_places():
    @tracehost.function
    def f(batch):
        batch["a"], batch["b"] = batch["b"], batch["a"]
        return batch["a"][0] * 2

    with assert_traces(f, 1):
        for n in range(4):
            a, b = [torch.tensor(1.0)], [torch.tensor(float(n))]
            batch = {"a": a, "b": b}
            assert f(batch).item() == n * 2
            assert batch["a"] is b and batch["b"] is a


def test_the_trace_itself_stores_what_eager_stores():
    box = Box()
    box.last = torch.zeros(2)

    @tracehost.function
    def f(x):
        y = x * 2
        if x.sum() > 0:
            box.last = y
        return y

    with assert_traces(f, 1):
        assert f(torch.ones(2)) is box.last
        assert f(torch.ones(2)) is box.last
        assert f(-torch.ones(2)) is not box.last


def test_existing_objects_are_stored_as_they_are():
    layers = torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(2)])
    rows = [[torch.ones(1)], [torch.zeros(1)]]
    box = Box()

    def double(x):
        return x * 2

    def half(x):
        return x / 2

    choices = [double, half]

    @tracehost.function
    def f(x, k):
        box.layer, box.row, box.call = layers[k], rows[k], choices[k]
        return box.call(box.layer(x) + box.row[0])

    for n in range(12):
        k = n % 2
        x = torch.full((1,), float(n))
        assert torch.equal(f(x, k), choices[k](layers[k](x) + rows[k][0]))
        assert box.layer is layers[k] and box.row is rows[k] and box.call is choices[k]
    assert f.tracing_count() <= 4


def test_objects_change_places():
    class One:
        def __init__(self, k):
            self.k = k

    box = Box()
    a, b = box.last, box.other = One(1.0), One(2.0)

    @tracehost.function
    def f(x):
        box.last, box.other = box.other, box.last
        return x * box.last.k

    with assert_traces(f, 2):
        for n in range(8):
            assert f(torch.ones(1)).item() == (2.0 if n % 2 == 0 else 1.0)
            assert box.last is (b if n % 2 == 0 else a)


def test_a_state_that_is_replaced_in_each_call():
    class State:
        def __init__(self, h, n):
            self.h, self.n = h, n

    box, eager = Box(), Box()

    def body(box, x):
        box.last = State(box.last.h * 0.5 + x, box.last.n + 1)
        return box.last.h * box.last.n

    f = tracehost.function(lambda x: body(box, x))
    box.last, eager.last = State(torch.zeros(2), 0), State(torch.zeros(2), 0)
    for n in range(12):
        x = torch.full((2,), float(n))
        assert torch.equal(f(x), body(eager, x))
        assert box.last.n == eager.last.n and type(box.last.n) is int
        assert torch.equal(box.last.h, eager.last.h)
    assert f.tracing_count() <= 3


def test_what_something_unseen_holds_is_made_by_the_body_alone():
    box = Box()

    @tracehost.function
    def f(x):
        made = Made(x * 2)
        box.last = made
        box.get = lambda: made
        return x + 1

    with assert_traces(f, 4):
        with pytest.warns(tracehost.SideEffectWarning):
            f(torch.ones(1))
        for _ in range(3):
            f(torch.ones(1))
            assert box.get() is box.last


def test_attributes_of_a_new_tensor_are_set_again():
    box = Box()

    @tracehost.function
    def f(x):
        y = x * 2
        y.tag, y.row, y.total, y.number = "t", [x], x.sum(), x.sum().item()
        box.last = y
        box.other = y.row
        return y

    for n in range(6):
        x = torch.full((2,), float(n))
        y = f(x)
        assert y is box.last and y.tag == "t" and y.row[0] is x and y.row is box.other
        assert y.total.item() == y.number == 2 * n and type(y.number) is float
    assert f.tracing_count() <= 2


def test_an_attribute_that_no_call_makes_again():
    @tracehost.function
    def f(x):
        y = x * 2
        y.call = lambda: 3
        return y

    with assert_traces(f, 3):
        for _ in range(3):
            assert f(torch.ones(1)).call() == 3
    made = [e for e in tracehost.events(f) if e.kind == "trace"][0]
    assert made.notes == (
        "the body makes a tensor with an attribute that a later call could not make again: it is traced again",
    )


@pytest.mark.parametrize("value", [True, "tensor"])
def test_an_attribute_of_a_tensor_that_has_none_yet(value):
    class Cache:
        def __init__(self):
            self.k = torch.zeros(2)

    @tracehost.function(reduce_retracing=True)
    def f(x, cache):
        cache.k.tag = x * 2 if value == "tensor" else value
        return x + cache.k

    for n in range(6):
        cache, x = Cache(), torch.full((2,), float(n))
        assert torch.equal(f(x, cache), x)
        assert torch.equal(cache.k.tag, x * 2) if value == "tensor" else cache.k.tag is True
    assert f.tracing_count() <= 2


def test_a_bound_method_that_was_kept():
    rows = []
    push = rows.append

    @tracehost.function
    def f(x):
        push(x * 2)
        return x

    with assert_traces(f, 1):
        for n in range(4):
            f(torch.tensor(float(n)))
        assert [t.item() for t in rows] == [0, 2, 4, 6]
