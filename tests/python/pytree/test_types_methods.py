"""`__tracehost_type__`: the methods of a trace type that make and take values."""

import warnings

import pytest
import torch
import tracehost
from core_support import counts
from tracehost import TensorSpec
from types_support import Length, Numbers, SameNumbers, doubled, numbers, padded, traces

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.ones(2)


# ---- cast, to_tensors, from_tensors ----------------------------------------------------------------


def test_a_wider_trace_takes_what_cast_makes():
    f = tracehost.function(doubled)
    assert torch.equal(f(numbers(4), X), padded(4, 4))
    assert torch.equal(f(numbers(3), X), padded(3, 4))
    assert torch.equal(f(numbers(1), X), padded(1, 4))
    assert torch.equal(f(numbers(2, SameNumbers), X), padded(2, 4))
    assert counts(f) == (1, 3, 1)
    assert torch.equal(f(numbers(6), X), padded(6, 6))
    assert counts(f) == (2, 3, 2)


def test_the_most_specific_trace_serves_whatever_was_called_last():
    f = tracehost.function(doubled)
    for n in (3, 6, 2):
        f(numbers(n), X)
    assert f(numbers(2), X).shape == (3,)
    f(numbers(6), X)
    assert f(numbers(2), X).shape == (3,)
    assert f(numbers(5), X).shape == (6,)
    assert counts(f)[0] == 2

    g = tracehost.function(doubled)
    for n in (6, 2):
        assert g(numbers(n), X).shape == (6,)
    assert counts(g) == (1, 1, 1)


def test_the_body_sees_what_from_tensors_makes_of_the_inputs():
    seen = []

    @tracehost.function
    def f(s, x):
        seen.append(type(s))
        return s.t.mul_(x.sum())

    made = numbers(2, SameNumbers)
    with pytest.warns(tracehost.SideEffectWarning):
        result = f(made, X)
    assert seen == [Numbers]
    assert result is made.t or torch.equal(result, made.t)
    assert made.t.tolist() == [2.0, 4.0]
    f(made, X)
    assert made.t.tolist() == [4.0, 8.0]
    assert counts(f) == (1, 1, 1)


def test_tensors_made_anew_are_made_once_a_call():
    made = []

    class Packed(Length):
        cast = None

        def to_tensors(self, value):
            made.append(len(made))
            return [value.t + 1, value.t]

        def from_tensors(self, tensors):
            packed, plain = tensors
            return Numbers(packed * plain)

    class Packs(Numbers):
        kind = Packed

    f = tracehost.function(doubled)
    value = numbers(3, Packs)
    for calls in range(1, 4):
        expected = (value.t + 1) * value.t * 2 + 2
        assert torch.equal(f(value, X), expected)
        assert len(made) == calls
    assert counts(f) == (1, 2, 1)


def test_gradients_flow_through_to_tensors():
    f = tracehost.function(lambda s: (s.t * s.t).sum())
    for n in (3, 2):
        t = torch.arange(1.0, n + 1, requires_grad=True)
        f(Numbers(t)).backward()
        assert torch.equal(t.grad, 2 * t.detach())
    assert counts(f)[0] == 1


def test_one_object_in_two_places_is_one():
    f = tracehost.function(lambda a, b: (a.t + b.t, a is b))
    one, two = numbers(3), numbers(3)
    assert traces(f, (one, one), (two, two), (one, two), (two, one)) == "1010"
    assert f(one, one)[1] is True
    assert f(one, two)[1] is False


def test_in_containers_and_by_name():
    f = tracehost.function(lambda tree, *, s: tree["k"][0].t.sum() + s.t)
    assert f({"k": [numbers(3)]}, s=numbers(2)).tolist() == [7.0, 8.0]
    assert f({"k": [numbers(2)]}, s=numbers(2)).tolist() == [4.0, 5.0]
    assert counts(f) == (1, 1, 1)


def test_the_declared_sizes_of_tensors_are_any():
    class Any(Length):
        cast = None

        def is_subtype_of(self, other):
            return type(other) is Any

        def flatten(self):
            return [TensorSpec([None])]

        def __eq__(self, other):
            return type(other) is Any

        __hash__ = object.__hash__

    class Anys(Numbers):
        kind = Any

    f = tracehost.function(doubled)
    for n in (3, 4, 7):
        assert torch.equal(f(numbers(n, Anys), X), padded(n, n))
    assert counts(f) == (1, 2, 1)


def test_a_type_of_its_own_tensors_is_told_by_their_metadata_too():
    f = tracehost.function(doubled)
    f(numbers(3), X)
    f(Numbers(torch.arange(3)), X)
    assert counts(f)[0] == 2


def test_a_request_and_its_graph_take_them():
    f = tracehost.function(doubled)
    cf = f.get_concrete_function(numbers(4), TensorSpec([2]))
    assert cf is f.get_concrete_function(numbers(3), TensorSpec([2]))
    assert torch.equal(cf(numbers(4), X), padded(4, 4))
    assert torch.equal(cf(numbers(3), X), padded(3, 4))
    assert [spec.name for spec in cf.inputs] == ["s_0", "x"]
    with pytest.raises(tracehost.SignatureError, match="can not cast"):
        cf(numbers(5), X)
    assert f.explain(numbers(3), X).hit


def test_a_graph_with_them_is_part_of_another():
    f = tracehost.function(doubled)
    cf = f.get_concrete_function(numbers(4), TensorSpec([2]))
    outer = tracehost.function(lambda s, x: cf(s, x) + 1)
    assert torch.equal(outer(numbers(4), X), padded(4, 4) + 1)


def test_a_signature_shows_type_and_tensors():
    f = tracehost.function(doubled)
    f(numbers(3), X)
    assert f.specializations()[0].signature == "(s=Numbers[Length(3)](float32[3]), x: float32[2])"
    (difference,) = f.explain(numbers(5), X).differences[:1]
    assert "Numbers[Length(5)]" in str(difference)


# ---- reduce_retracing ------------------------------------------------------------------------------


def test_types_that_differ_are_joined():
    f = tracehost.function(doubled, reduce_retracing=True)
    assert f(numbers(3), X).shape == (3,)
    assert f(numbers(5), X).shape == (5,)
    assert torch.equal(f(numbers(4), X), padded(4, 5))
    assert torch.equal(f(numbers(3), X), padded(3, 3))
    assert counts(f)[0] == 2


class Even:
    """Of numbers, with "any number" above all."""

    def __init__(self, n):
        self.n = n

    def is_subtype_of(self, other):
        return type(other) is type(self) and other.n in (None, self.n)

    def most_specific_common_supertype(self, others):
        if any(type(o) is not Even for o in others):
            return None
        return self if all(o.n == self.n for o in others) else Even(None)

    def placeholder_value(self, context):
        return context.value if self.n is not None else Counted(torch.zeros(()), None)

    def __eq__(self, other):
        return type(other) is type(self) and self.n == other.n

    def __hash__(self):
        return hash(self.n)

    def __repr__(self):
        return f"Even({self.n})"


class Counted:
    def __init__(self, t, n):
        self.t, self.n = t, n

    def __tracehost_type__(self):
        return Even(self.n)


def test_a_joined_type_makes_the_placeholder():
    seen = []

    @tracehost.function(reduce_retracing=True)
    def f(x, s):
        seen.append(s.n)
        return x + 1

    with pytest.warns(tracehost.SideEffectWarning):
        for n in (1, 2, 3, 4, 1):
            f(X, Counted(None, n))
    assert seen == [1, None]


def test_types_and_sizes_are_joined_together_or_not_at_all():
    f = tracehost.function(lambda x, s: x + 1, reduce_retracing=True)
    calls = [(torch.ones(n), Counted(None, n)) for n in (2, 3, 4)]
    assert traces(f, *calls) == "110"
    other = [(torch.ones(2, dtype=torch.int64), Counted(None, 9))]
    assert traces(f, *other) == "1"  # another dtype: joined with none
    assert "Even(9)" in f.specializations()[-1].signature


def test_types_without_a_common_one_stay_apart():
    class Alone(Even):
        def most_specific_common_supertype(self, others):
            return None

        def __eq__(self, other):
            return type(other) is Alone and self.n == other.n

        __hash__ = Even.__hash__

        def is_subtype_of(self, other):
            return self == other

    class Lonely(Counted):
        def __tracehost_type__(self):
            return Alone(self.n)

    f = tracehost.function(lambda x, s: x + 1, reduce_retracing=True)
    assert traces(f, *((X, Lonely(None, n)) for n in (1, 2, 3, 1))) == "1110"


# ---- placeholder_value -----------------------------------------------------------------------------


def test_a_placeholder_is_made_of_the_context():
    found = []

    class Kind(Even):
        def placeholder_value(self, context):
            value, tensors = context.value, context.tensors
            found.append((context.argument, type(value), len(tensors), tensors[0] is value.t))
            return Counted(context.tensors[0] * 10, self.n)

        def to_tensors(self, value):
            return [value.t]

    class Placed(Counted):
        def __tracehost_type__(self):
            return Kind(self.n)

    f = tracehost.function(lambda x, s: x * s.t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.SideEffectWarning)  # of `found`
        for value in (1.0, 2.0):
            made = Placed(torch.tensor(value), 1)
            assert f(X, made).tolist() == [10 * value, 10 * value]
    assert counts(f) == (1, 1, 1)
    assert found == [("s", Placed, 1, True)]


# ---- as the default of a declared function ---------------------------------------------------------


def test_a_default_takes_what_its_type_takes():
    @tracehost.function(input_signature=[TensorSpec([None])])
    def f(x, s=numbers(4)):  # noqa: B008
        return x.sum() + s.t

    assert torch.equal(f(X), torch.arange(3.0, 7))
    assert torch.equal(f(X, numbers(4)), torch.arange(3.0, 7))
    assert torch.equal(f(X, numbers(3)), torch.tensor([3.0, 4, 5, 2]))
    assert counts(f) == (1, 2, 1)
    with pytest.raises(tracehost.SignatureError, match="argument 's': expected"):
        f(X, numbers(5))


# ---- containers that make their items --------------------------------------------------------------


def test_a_mapping_that_makes_its_tensors_is_named():
    from types_support import OwnMapping

    class Lazy(OwnMapping):
        def __getitem__(self, key):
            return self.items_[key] + 1

    f = tracehost.function(lambda x, s: x * s["a"])
    with pytest.raises(tracehost.SignatureError) as caught:
        f(X, Lazy({"a": X}))
    assert str(caught.value) == (
        "s['a'] is another tensor each time it is read, so that later calls could not find what the body "
        "used. Pass a dict, list or tuple of such tensors."
    )
