"""Under reduce_retracing another object of a class serves where all that the body reads of it is the same."""

import functools
import weakref
from types import SimpleNamespace

import pytest
import torch
import tracehost
from core_support import assert_same
from torch import nn
from tracehost.testing import assert_traces

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning"),
]

X = torch.arange(1.0, 4.0)


class Box:
    kind = "box"

    def __init__(self, w=2.0, child=None):
        self.w, self.child, self.rows = w, child, []

    def scaled(self, x):
        return x * self.w

    @property
    def twice(self):
        return self.w * 2


class Bigger(Box):
    def scaled(self, x):
        return x * self.w + 100


class Slotted:
    __slots__ = ("w", "h", "__weakref__")

    def __init__(self, w):
        self.w, self.h = w, torch.full((3,), float(w))


class Equal:
    def __init__(self, w):
        self.w = w

    def __eq__(self, other):
        return isinstance(other, Equal) and self.w == other.w

    def __hash__(self):
        return hash(self.w)


class Layer:
    def __init__(self):
        self.keys, self.ready = None, False

    def update(self, k):
        if not self.ready:
            self.dtype, self.device = k.dtype, k.device
            self.keys = torch.tensor([], dtype=self.dtype, device=self.device).view(0, 3)
            self.ready = True
        self.keys = torch.cat([self.keys, k])
        return self.keys


class Cache:
    def __init__(self, layers=2):
        self.layers = [Layer() for _ in range(layers)]

    def update(self, i, k):
        return self.layers[i].update(k)


def decode(x, cache):
    for i in range(2):
        x = x * 2 + cache.update(i, x).sum()
    return x


def test_each_sequence_has_a_cache_of_its_own():
    f = tracehost.function(decode, reduce_retracing=True)
    with assert_traces(f, 3):
        for _ in range(4):
            mine, eager = Cache(), Cache()
            for n in (4, 1, 1, 1, 1):
                x = torch.arange(3.0 * n).view(n, 3)
                assert_same(f(x, mine), decode(x, eager))
            for a, b in zip(mine.layers, eager.layers, strict=True):
                assert_same(a.keys, b.keys)
                assert (a.ready, a.dtype, a.device) == (b.ready, b.dtype, b.device)


def test_without_reduce_retracing_each_object_is_traced():
    f = tracehost.function(lambda x, box: box.scaled(x), reduce_retracing=False)
    boxes = [Box() for _ in range(3)]
    with assert_traces(f, 3):
        for box in boxes:
            f(X, box)


# ---- programs, each run plainly and traced: what they give must be the same ------------------------
#
# `(program, traces)`: a program gets what wraps its functions.


def equal_values(wrap):
    f = wrap(lambda x, box: box.scaled(x) + box.twice)
    return [f(X, Box(w)) for w in (2.0, 2.0, 3.0, 3.0, 2.0)]


def a_subclass(wrap):
    f = wrap(lambda x, box: box.scaled(x))
    return [f(X, make(2.0)) for make in (Box, Bigger, Box, Bigger)]


def tensors_in_objects(wrap):
    f = wrap(lambda x, box: x * box.w)
    return [f(X, Box(torch.full((3,), float(i)))) for i in range(4)]


def slots(wrap):
    f = wrap(lambda x, s: x * s.w + s.h)
    return [f(X, Slotted(w)) for w in (1, 1, 2, 1)]


def by_their_own_equality(wrap):
    f = wrap(lambda x, e: x * e.w)
    return [f(X, Equal(w)) for w in (1, 1, 2, 1)]


def children(wrap):
    f = wrap(lambda x, box: box.child.child.scaled(x) + box.w)
    return [f(X, Box(1.0, Box(2.0, Box(w)))) for w in (3.0, 3.0, 4.0, 3.0)]


def two_that_become_one(wrap):
    def body(x, a, b):
        a.w = a.w + 1
        return x * b.w

    f, one = wrap(body), Box()
    return [f(X, Box(), Box()), f(X, one, one), f(X, Box(), Box()), f(X, one, one), one.w]


def inner_ones_that_become_one(wrap):
    def body(x, box):
        box.rows[0].w = box.rows[0].w + 1
        return x * box.rows[1].w

    f = wrap(body)

    def pair(same):
        box = Box()
        box.rows = [Box(), Box()]
        if same:
            box.rows[1] = box.rows[0]
        return box

    return [f(X, pair(same)) for same in (False, True, False, True)]


def its_own_child(wrap):
    def body(x, box):
        box.w = 5.0
        return x * box.child.w

    f = wrap(body)
    ring = Box()
    ring.child = ring
    return [f(X, Box(1.0, Box(2.0))), f(X, ring), f(X, Box(1.0, Box(2.0)))]


def one_that_is_global(wrap):
    shared = Box(7.0)

    def body(x, box):
        box.w = box.w * 2
        return x * shared.w

    f = wrap(body)
    return [f(X, Box()), f(X, shared), f(X, Box()), shared.w, f(X, shared), shared.w]


def is_the_global_one(wrap):
    default = Box()
    f = wrap(lambda x, box: x * 2 if box is default else x * 3)
    return [f(X, Box()), f(X, default), f(X, Box()), f(X, default)]


def is_not_none(wrap):
    f = wrap(lambda x, box: x if box is None else box.scaled(x))
    return [f(X, Box()), f(X, None), f(X, Box())]


def equals_the_global_one(wrap):
    default = Box()
    f = wrap(lambda x, box: x * 2 if box == default else x * 3)
    return [f(X, Box()), f(X, default), f(X, Box())]


def a_key(wrap):
    known = Box()
    table = {known: 5.0}
    f = wrap(lambda x, box: x * table.get(box, 1.0))
    return [f(X, Box()), f(X, known), f(X, Box()), f(X, known)]


def a_key_by_index(wrap):
    first, second = Box(), Box()
    table = {first: 5.0, second: 6.0}
    f = wrap(lambda x, box: x * table[box])
    return [f(X, first), f(X, second), f(X, first)]


def in_a_list(wrap):
    known = Box()
    boxes = [known]
    f = wrap(lambda x, box: x * 2 if box in boxes else x)
    return [f(X, Box()), f(X, known), f(X, Box())]


def in_a_set(wrap):
    known = Box()
    boxes = {known}
    f = wrap(lambda x, box: x * 2 if box in boxes else x)
    return [f(X, Box()), f(X, known), f(X, Box())]


def its_id(wrap):
    kept = [Box(), Box()]
    numbers = {id(kept[0]): 2.0, id(kept[1]): 3.0}
    f = wrap(lambda x, box: x * numbers[id(box)])
    return [f(X, kept[0]), f(X, kept[1]), f(X, kept[0])]


def its_hash(wrap):
    kept = [Box(), Box()]
    numbers = {hash(kept[0]): 2.0, hash(kept[1]): 3.0}
    f = wrap(lambda x, box: x * numbers[hash(box)])
    return [f(X, kept[0]), f(X, kept[1])]


def its_text(wrap):
    kept = [Box(), Box()]
    f = wrap(lambda x, box: (x, f"{box}", str(box), repr(box), "%s" % box, "{}".format(box)))  # noqa: UP031, UP032
    return [[text == str(box) for text in f(X, box)[1:]] for box in (kept[0], kept[1], kept[0])]


def weak_references(wrap):
    kept = [Box(2.0), Box(3.0)]
    held = weakref.ref(kept[0])
    f = wrap(lambda x, box: x * 2 if weakref.ref(box) is held else x * 3)
    return [f(X, kept[0]), f(X, kept[1]), f(X, kept[0])]


def a_counter(wrap):
    def body(x, box):
        box.w = box.w + 1
        return x * box.w

    f, boxes = wrap(body), [Box(1.0), Box(10.0)]
    return [f(X, boxes[i % 2]) for i in range(6)] + [box.w for box in boxes]


def a_store_of_a_list(wrap):
    def body(x, box):
        box.rows = [x * 2, x + 1]
        return x

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X * i, box) for i, box in enumerate(boxes)] + [box.rows for box in boxes]


def a_store_of_an_object(wrap):
    def body(x, box):
        box.child = Box(9.0)
        return x

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X, box) for box in boxes] + [box.child.w for box in boxes]


def a_store_of_a_function(wrap):
    def body(x, box):
        box.child = torch.relu
        return x

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X, box) for box in boxes] + [box.child is torch.relu for box in boxes]


def a_log(wrap):
    def body(x, box):
        box.rows.append("called")
        return x

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X, box) for box in boxes] + [box.rows for box in boxes]


def a_registry(wrap):
    registry = []

    def body(x, box):
        registry.append(box)
        return x * box.w

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X, box) for box in boxes] + [[b is r for b, r in zip(boxes, registry, strict=True)]]


def kept_in_a_global(wrap):
    last = SimpleNamespace(box=None)

    def body(x, box):
        last.box = box
        return x * box.w

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [(f(X, box), last.box is box) for box in boxes]


def given_back(wrap):
    f, boxes = wrap(lambda x, box: (box, [box], box.w)), [Box() for _ in range(3)]
    return [[part is box for part in (f(X, box)[0], f(X, box)[1][0])] for box in boxes]


def a_method(wrap):
    f, boxes = wrap(lambda x, call: call(x)), [Box(2.0), Box(3.0), Box(2.0)]
    return [f(X, box.scaled) for box in boxes]


def a_partial(wrap):
    f = wrap(lambda x, box: functools.partial(Box.scaled, box)(x))
    return [f(X, Box(w)) for w in (2.0, 3.0, 2.0)]


def in_python_of_the_graph(wrap):
    def body(x, box):
        return tracehost.py_function(lambda t: t * box.w, [x], torch.float32)

    f, boxes = wrap(body), [Box(2.0), Box(2.0)]
    got = [f(X, boxes[0]), f(X, boxes[1])]
    boxes[1].w = 5.0
    return [*got, f(X, boxes[1]), f(X, boxes[0])]


def attributes_that_come_and_go(wrap):
    f = wrap(lambda x, box: x * getattr(box, "extra", 1.0) + len(vars(box)))
    more = Box()
    more.extra = 3.0
    return [f(X, Box()), f(X, more), f(X, Box())]


def a_hook_of_getattr(wrap):
    class Open:
        def __init__(self, n):
            self.n = n

        def __getattr__(self, name):
            return float(len(name) + self.n)

    f = wrap(lambda x, o: x * o.abc)
    return [f(X, Open(n)) for n in (1, 1, 2)]


def in_containers(wrap):
    f = wrap(lambda x, boxes: x * sum(b.w for b in boxes["a"]))
    return [f(X, {"a": [Box(w), Box()]}) for w in (1.0, 1.0, 2.0)]


def default_arguments(wrap):
    default = Box(4.0)

    def body(x, box=default):
        return x * box.w

    f = wrap(body)
    return [f(X), f(X, Box(4.0)), f(X, Box(5.0)), f(X)]


def a_module_is_compared_by_identity(wrap):
    torch.manual_seed(0)
    layers = [nn.Linear(3, 3) for _ in range(3)]
    f = wrap(lambda x, layer: layer(x))
    return [f(X, layer).tolist() for layer in layers]


def removed_attributes(wrap):
    def body(x, box):
        del box.child
        return x

    f, boxes = wrap(body), [Box() for _ in range(3)]
    return [f(X, box) for box in boxes] + [hasattr(box, "child") for box in boxes]


def numbers_read_from_tensors(wrap):
    f = wrap(lambda x, box: x * 2 if float(box.w.sum()) > 0 else x)
    return [f(X, Box(torch.ones(2) * s)) for s in (1.0, -1.0, 2.0)]


def a_pair_that_swaps(wrap):
    a, b = Box(1.0), Box(2.0)

    def body(x, first, second):
        first.w, second.w = second.w, first.w
        return x * first.w

    f = wrap(body)
    return [f(X, a, b), f(X, b, a), f(X, a, b), a.w, b.w]


PROGRAMS = [
    (equal_values, 2),
    (a_subclass, 2),
    (tensors_in_objects, 1),
    (slots, 2),
    (by_their_own_equality, 2),
    (children, 2),
    (two_that_become_one, None),
    (inner_ones_that_become_one, None),
    (its_own_child, None),
    (one_that_is_global, None),
    (is_the_global_one, None),
    (is_not_none, 2),
    (equals_the_global_one, None),
    (a_key, None),
    (a_key_by_index, None),
    (in_a_list, None),
    (in_a_set, None),
    (its_id, None),
    (its_hash, None),
    (its_text, None),
    (weak_references, None),
    (a_counter, None),
    (a_store_of_a_list, 1),
    (a_store_of_an_object, None),
    (a_store_of_a_function, None),
    (a_log, None),
    (a_registry, None),
    (kept_in_a_global, None),
    (given_back, 1),
    (a_method, None),
    (a_partial, None),
    (in_python_of_the_graph, None),
    (attributes_that_come_and_go, 2),
    (a_hook_of_getattr, 2),
    (in_containers, 2),
    (default_arguments, None),
    (a_module_is_compared_by_identity, 3),
    (removed_attributes, 1),
    (numbers_read_from_tensors, None),
    (a_pair_that_swaps, None),
]


@pytest.mark.filterwarnings("ignore::tracehost.TraceWarning")
@pytest.mark.parametrize(("program", "traces"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_programs(program, traces):
    made = []

    def wrap(body):
        made.append(tracehost.function(body, reduce_retracing=True))
        return made[-1]

    assert_same(program(wrap), program(lambda body: body))
    if traces is not None:
        assert made[0].tracing_count() == traces


def test_a_concrete_function_keeps_to_its_object():
    f = tracehost.function(lambda x, box: x * box.w, reduce_retracing=True)
    box = Box(2.0)
    concrete = f.get_concrete_function(X, box)
    assert_same(concrete(X, box), X * 2)
    with pytest.raises((TypeError, tracehost.SignatureError), match="argument 'box'"):
        concrete(X, Box(3.0))


def test_the_text_of_a_cause():
    f = tracehost.function(lambda x, box: x * box.w, reduce_retracing=True)
    f(X, Box(2.0))
    f(X, Box(3.0))
    causes = [event.causes for event in tracehost.events() if event.kind == "trace"][-1]
    assert causes == ("'box.w', which the body reads, was 2.0, is 3.0",)
