"""`__tracehost_type__`: methods of a trace type that fail, and what they must give."""

import pytest
import torch
import tracehost
from core_support import counts
from tracehost import TensorSpec
from tracehost.testing import assert_traces
from types_support import Length, Numbers, doubled, numbers, padded

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.ones(2)


# ---- what can go wrong -----------------------------------------------------------------------------


def made_by(name, method):
    """An object whose type has `method` in the place of Length's."""
    kind = type("Kind", (Length,), {name: method, "__hash__": Length.__hash__})
    return lambda n: numbers(n, type("Thing", (Numbers,), {"kind": kind}))


def raises(*_):
    raise ValueError("not so")


def gives(value):
    return lambda *_: value


@pytest.mark.parametrize(
    ("name", "method", "text"),
    [
        ("to_tensors", raises, "Kind.to_tensors() raised ValueError: not so"),
        ("to_tensors", gives(3), "Kind.to_tensors() returned int 3. Return a list of tensors."),
        ("to_tensors", gives(X), "Kind.to_tensors() returned a tensor. Return a list of tensors."),
        (
            "to_tensors",
            gives([X, "a"]),
            "Kind.to_tensors() returned a list whose item 1 is str 'a'. Return a list of tensors.",
        ),
        ("to_tensors", None, "Kind has from_tensors(), but no to_tensors(). Write both."),
        ("cast", raises, "Kind.cast() raised ValueError: not so"),
        ("from_tensors", raises, "Kind.from_tensors() raised ValueError: not so"),
        (
            "from_tensors",
            gives(None),
            "Kind.from_tensors() took 0 of the 1 tensors that to_tensors() gave.",
        ),
        ("flatten", raises, "Kind.flatten() raised ValueError: not so"),
        ("flatten", gives(None), "Kind.flatten() returned None. Return a list of TensorSpecs."),
        (
            "flatten",
            gives([1]),
            "Kind.flatten() returned a list whose item 0 is int 1. Return a list of TensorSpecs.",
        ),
        (
            "flatten",
            gives([]),
            "Kind.flatten() returned 0 TensorSpecs, and to_tensors() 1 tensors.",
        ),
        (
            "flatten",
            gives([TensorSpec([4])]),
            "Kind.flatten() says TensorSpec(shape=(4,), dtype=torch.float32, name=None) of item 0, and "
            "to_tensors() gave TensorSpec(shape=(3,), dtype=torch.float32, device='cpu', name=None).",
        ),
    ],
)
def test_a_method_is_named_with_what_it_did(name, method, text):
    f = tracehost.function(doubled)
    with pytest.raises(tracehost.SignatureError) as caught:
        f(made_by(name, method)(3), X)
    assert str(caught.value) == f"argument 's': {text}"
    assert isinstance(caught.value.__cause__, ValueError) == (method is raises)
    assert counts(f) == (0, 0, 0)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (raises, "Kind.is_subtype_of() raised ValueError: not so"),
        (gives(None), "Kind.is_subtype_of() returned None. Return True or False."),
        (
            gives(NotImplemented),
            "Kind.is_subtype_of() returned NotImplementedType NotImplemented. Return True or False.",
        ),
    ],
)
def test_a_relation_that_fails_is_named(method, text):
    f = tracehost.function(doubled)
    thing = made_by("is_subtype_of", method)
    f(thing(3), X)
    f(thing(3), X)  # equal: it is not asked
    with pytest.raises(tracehost.SignatureError) as caught:
        f(thing(2), X)
    assert str(caught.value) == text
    assert counts(f) == (1, 1, 1)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (raises, "Kind.most_specific_common_supertype() raised ValueError: not so"),
        (
            gives(3),
            "Kind.most_specific_common_supertype() returned int 3. Return a trace type, or None where there "
            "is none above both.",
        ),
        (
            gives(Length(9)),
            "Kind.most_specific_common_supertype() returned Length Length(9), of which Kind Length(5) is no "
            "subtype by its is_subtype_of.",
        ),
    ],
)
def test_a_join_that_fails_is_named(method, text):
    f = tracehost.function(doubled, reduce_retracing=True)
    thing = made_by("most_specific_common_supertype", method)
    f(thing(3), X)
    with pytest.raises(tracehost.SignatureError) as caught:
        f(thing(5), X)
    assert str(caught.value) == text


def test_a_cast_to_a_wider_type_that_fails_is_named():
    def cast(self, value, context):
        if len(value.t) != self.bound:
            raise ValueError("too short")
        return value

    f = tracehost.function(doubled)
    thing = made_by("cast", cast)
    f(thing(3), X)
    with pytest.raises(
        tracehost.SignatureError, match=r"Kind.cast\(\) raised ValueError: too short"
    ):
        f(thing(2), X)
    assert counts(f)[0] == 1


def test_an_object_is_made_one_of_its_own_type():
    class Bucket(Length):
        """4, 8, 12 ..."""

    class Bucketed(Numbers):
        def __tracehost_type__(self):
            return Bucket(-4 * (-len(self.t) // 4))

    f = tracehost.function(doubled)
    for n in (3, 4, 1, 2):
        assert torch.equal(f(numbers(n, Bucketed), X), padded(n, 4))
    assert counts(f) == (1, 3, 1)
    assert torch.equal(f(numbers(5, Bucketed), X), padded(5, 8))
    assert counts(f) == (2, 3, 2)


class WithoutMethods(Length):
    to_tensors = from_tensors = None


class Thing(Numbers):
    kind = WithoutMethods


def test_a_cast_to_another_object_needs_its_tensors():
    f = tracehost.function(doubled)
    f(numbers(3, Thing), X)
    with pytest.raises(tracehost.SignatureError) as caught:
        f(numbers(2, Thing), X)
    assert "cast()" in str(caught.value)


def test_a_joined_type_without_methods_has_tensors_of_any_size():
    f = tracehost.function(doubled, reduce_retracing=True)
    with assert_traces(f, 2):
        for n in (3, 5, 2, 4):
            assert torch.equal(f(numbers(n, Thing), X), padded(n, n))


def test_interrupts_pass_through():
    def stop(*_):
        raise KeyboardInterrupt

    f = tracehost.function(doubled)
    with pytest.raises(KeyboardInterrupt):
        f(made_by("to_tensors", stop)(3), X)
