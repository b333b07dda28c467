"""`__tracehost_type__`: a user's class says what its instances are compared by."""

import gc
import weakref

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces
from types_support import traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.ones(2)


class Tagged:
    def __init__(self, tag, payload=None):
        self.tag, self.payload = tag, payload

    def __tracehost_type__(self):
        return self.tag


class Other(Tagged):
    pass


def test_a_tag_is_compared_by_class_and_equality():
    f = tracehost.function(lambda x, s: x * 2)
    tags = [Tagged("a"), Tagged("a"), Tagged("b"), Other("a"), Tagged(1), Tagged(1.0), Tagged(True)]
    assert traces(f, *((X, t) for t in tags)) == "1011111"
    assert traces(f, *((X, t) for t in tags)) == "0000000"


def test_values_in_such_an_object_are_not_guarded():
    f = tracehost.function(lambda x, s: x * s.payload)
    with assert_traces(f, 1):
        assert f(X, Tagged("a", 2.0)).tolist() == [2.0, 2.0]
        assert f(X, Tagged("a", 3.0)).tolist() == [2.0, 2.0]
        same = Tagged("a", 4.0)
        assert f(X, same).tolist() == [2.0, 2.0]
        same.payload = 5.0
        assert f(X, same).tolist() == [2.0, 2.0]


def test_tensors_in_such_an_object_are_read_again_at_every_call():
    class Layer:
        def __init__(self, value):
            self.w = torch.full((2,), value)

    f = tracehost.function(lambda x, s: x * s.payload["layers"][0].w)
    with assert_traces(f, 1):
        for value in (1.0, 2.0, 3.0):
            made = Tagged("a", {"layers": [Layer(value)], "note": value})
            assert f(X, made).tolist() == [value, value]
            made.payload["layers"][0].w.add_(1)
            assert f(X, made).tolist() == [value + 1, value + 1]
            made.payload["layers"][0].w = torch.zeros(2)
            assert f(X, made).tolist() == [0, 0]
    wide = Tagged("a", {"layers": [Layer(1.0)]})
    wide.payload["layers"][0].w = torch.ones(3, 2)
    with assert_traces(f, 1):
        assert f(X, wide).shape == (3, 2)


def test_globals_and_classes_of_such_objects_are_still_guarded():
    class Scaled(Tagged):
        scale = 2.0

    f = tracehost.function(lambda x, s: x * s.scale)
    assert f(X, Scaled("a")).tolist() == [2.0, 2.0]
    Scaled.scale = 3.0
    assert f(X, Scaled("a")).tolist() == [3.0, 3.0]


def test_the_object_itself_is_not_kept():
    f = tracehost.function(lambda x, s: x * s.payload)
    made = Tagged("a", torch.ones(2))
    gone = weakref.ref(made)
    with assert_traces(f, 1):
        f(X, made)
        f(X, made)
        del made
        gc.collect()
        assert gone() is None
        assert f(X, Tagged("a", torch.zeros(2))).tolist() == [0, 0]


def test_in_containers_and_by_name():
    f = tracehost.function(lambda x, tree, *, s: (x * 2, len(tree)))
    a = [Tagged("a"), {"k": Tagged("b")}]
    with assert_traces(f, 1):
        assert f(X, a, s=Tagged("c"))[1] == 2
        f(X, [Tagged("a"), {"k": Tagged("b")}], s=Tagged("c"))
    with assert_traces(f, 1):
        f(X, [Tagged("a"), {"k": Tagged("x")}], s=Tagged("c"))


def test_the_body_sees_the_object():
    seen = []
    f = tracehost.function(lambda x, s: seen.append(s) or x * 2)
    made = Tagged("a")
    with pytest.warns(tracehost.SideEffectWarning):
        f(X, made)
    assert seen == [made]


# ---- objects with the methods of a trace type ------------------------------------------------------


class UpTo:
    """A type of lengths up to a bound."""

    def __init__(self, bound):
        self.bound = bound

    def is_subtype_of(self, other):
        return type(other) is UpTo and self.bound <= other.bound

    def most_specific_common_supertype(self, others):
        return UpTo(max(self.bound, *(o.bound for o in others)))

    def __eq__(self, other):
        return type(other) is UpTo and self.bound == other.bound

    def __hash__(self):
        return self.bound

    def __repr__(self):
        return f"UpTo({self.bound})"


class Bounded:
    def __init__(self, bound):
        self.bound = bound

    def __tracehost_type__(self):
        return UpTo(self.bound)


class AlsoBounded(Bounded):
    pass


def test_a_trace_of_a_supertype_serves():
    f = tracehost.function(lambda x, s: x * s.bound)
    calls = [(X, Bounded(b)) for b in (4, 4, 3, 5, 4, 1)] + [(X, AlsoBounded(2))]
    assert traces(f, *calls) == "1001000"


class Placed(UpTo):
    def placeholder_value(self, context):
        return Bounded(100)


class Replaced(Bounded):
    def __tracehost_type__(self):
        return Placed(self.bound)


def test_a_placeholder_is_what_the_body_sees():
    seen = []
    f = tracehost.function(lambda x, s: seen.append(s["k"][0]) or x * s["k"][0].bound)
    made = Replaced(3)
    with pytest.warns(tracehost.SideEffectWarning):
        assert f(X, {"k": [made]}).tolist() == [100.0, 100.0]
    assert type(seen[0]) is Bounded
    assert made.bound == 3


# ---- what can go wrong -----------------------------------------------------------------------------


def rejected(f, value, text):
    with pytest.raises(tracehost.SignatureError) as caught:
        f(X, value)
    assert str(caught.value) == f"argument 's': {type(value).__name__}.__tracehost_type__() {text}"
    return caught.value


class Odd:
    gives = None

    def __tracehost_type__(self):
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def test_a_method_that_raises_is_named_with_its_reason():
    f = tracehost.function(lambda x, s: x)
    made = Odd()
    f(X, made)
    made.gives = ValueError("no such kind")
    error = rejected(f, made, "raised ValueError: no such kind")
    assert error.__cause__ is made.gives
    made.gives = None
    assert traces(f, (X, made)) == "0"


def test_what_cannot_be_compared_is_rejected():
    f = tracehost.function(lambda x, s: x)
    made = Odd()
    made.gives = [1]
    rejected(
        f,
        made,
        "returned a list, which is not hashable (TypeError: unhashable type: 'list'). Return a hashable "
        "value, or an object with is_subtype_of, __eq__ and __hash__.",
    )
    made.gives = X
    rejected(f, made, "returned a tensor, which has no equality. Return a hashable value.")


def test_interrupts_pass_through():
    class Stop:
        armed = False

        def __tracehost_type__(self):
            if self.armed:
                raise KeyboardInterrupt
            return 1

    f = tracehost.function(lambda x, s: x)
    made = Stop()
    f(X, made)
    made.armed = True
    with pytest.raises(KeyboardInterrupt):
        f(X, made)


def test_an_equality_that_raises_is_a_new_type():
    class Touchy:
        def __eq__(self, other):
            raise ValueError

        def __hash__(self):
            return 1

    f = tracehost.function(lambda x, s: x)
    assert traces(f, (X, Tagged(Touchy())), (X, Tagged(Touchy()))) == "11"


def test_such_an_object_is_returned_as_the_call_s_own():
    f = tracehost.function(lambda x, s: (s, x))
    with assert_traces(f, 1):
        for tag in (Tagged("a"), Tagged("a")):
            assert f(X, tag)[0] is tag


def test_the_cause_of_a_retrace_names_the_types():
    f = tracehost.function(lambda x, s: x)
    with pytest.warns(tracehost.RetraceWarning, match=r"argument 's' took 5 values"):
        for n in range(6):
            f(X, Tagged(n))
