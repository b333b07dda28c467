"""tracehost.TensorSpec: what it takes, what it reports, tf's relations of specs."""

import copy
import pickle
import weakref

import numpy as np
import pytest
import torch
import tracehost
from tracehost import TensorSpec


def test_properties():
    spec = TensorSpec([2, None], torch.int32, "cuda:1", "tokens")
    assert spec.shape == (2, None) and type(spec.shape) is tuple
    assert spec.dtype is torch.int32
    assert spec.device == torch.device("cuda:1")
    assert spec.name == "tokens"


def test_defaults():
    spec = TensorSpec(())
    assert (spec.shape, spec.dtype, spec.device, spec.name) == ((), torch.float32, None, None)


@pytest.mark.parametrize(
    "shape, expected",
    [
        (None, None),
        ([], ()),
        ((3,), (3,)),
        (torch.Size([2, 3]), (2, 3)),
        ([np.int64(4), None], (4, None)),
        (range(3), (0, 1, 2)),
    ],
)
def test_shapes(shape, expected):
    assert TensorSpec(shape).shape == expected


@pytest.mark.parametrize(
    "text",
    [
        "TensorSpec(shape=(2, None), dtype=torch.float32, name=None)",
        "TensorSpec(shape=(), dtype=torch.bool, name='flag')",
        'TensorSpec(shape=(1,), dtype=torch.bfloat16, name="it\'s")',
        "TensorSpec(shape=None, dtype=torch.complex64, name=None)",
        "TensorSpec(shape=(1,), dtype=torch.float32, device='cuda:0', name=None)",
    ],
)
def test_repr_pastes_back(text):
    spec = eval(text)
    assert repr(spec) == text
    assert eval(repr(spec)) == spec


SHAPE = "TensorSpec: shape is a sequence of sizes (None: dynamic), or None for any rank; got "
SIZES = "TensorSpec: sizes are from 0 to 2**63 - 1, or None for any; got shape "


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((3,), TypeError, SHAPE + "3 (int)"),
        (("23",), TypeError, SHAPE + "'23' (str)"),
        (({2},), TypeError, SHAPE + "{2} (set)"),
        ((torch.tensor([1, 2]),), TypeError, SHAPE + "tensor([1, 2]) (Tensor)"),
        (
            ([2.0],),
            TypeError,
            "TensorSpec: a size is an int, or None for any; shape has 2.0 (float)",
        ),
        (
            ([True],),
            TypeError,
            "TensorSpec: a size is an int, or None for any; shape has True (bool)",
        ),
        (([2, -1],), ValueError, SIZES + "[2, -1] (list)"),
        (([2**63],), ValueError, SIZES + "[9223372036854775808] (list)"),
        (
            ([1], "float3"),
            TypeError,
            "TensorSpec: dtype: torch has no dtype 'float3'; did you mean 'float32'?",
        ),
        (
            ([1], None),
            TypeError,
            "TensorSpec: dtype is a torch.dtype, its name ('float32') or numpy's, got None",
        ),
        (
            ([1], torch.int32, 0),
            TypeError,
            "TensorSpec: device is a torch.device, its name, or None for any; got 0 (int)",
        ),
        (
            ([1], torch.int32, "gpu"),
            ValueError,
            "TensorSpec: 'gpu' (str) is not a device; if it is the name, as in tf's third place, write name='gpu'",
        ),
        (
            ([1], torch.int32, None, 5),
            TypeError,
            "TensorSpec: name is a str or None, got 5 (int)",
        ),
        (
            ([1], torch.int32, None, ""),
            ValueError,
            "TensorSpec: name is empty; leave it out, or give None",
        ),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error) as caught:
        TensorSpec(*arguments)
    assert type(caught.value) is error and str(caught.value) == text


def test_a_long_or_failing_repr_in_a_message():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no")

    with pytest.raises(TypeError, match=r"got a Silent$"):
        TensorSpec(Silent())
    with pytest.raises(TypeError, match=r"got 'é{38}\.\.\. \(str\)$"):
        TensorSpec("é" * 100)


def test_from_tensor_and_from_spec():
    spec = TensorSpec.from_tensor(torch.ones(2, 0, dtype=torch.float64), name="x")
    assert spec == TensorSpec((2, 0), torch.float64, "cpu", "x")
    assert TensorSpec.from_tensor(torch.nn.Parameter(torch.ones(1))).name is None
    assert TensorSpec.from_spec(spec) == spec
    assert TensorSpec.from_spec(spec, "y") == TensorSpec((2, 0), torch.float64, "cpu", "y")
    with pytest.raises(TypeError, match=r"^TensorSpec.from_tensor: takes a torch.Tensor, got 3 "):
        TensorSpec.from_tensor(3)
    with pytest.raises(TypeError, match=r"^TensorSpec.from_spec: takes a TensorSpec, got None$"):
        TensorSpec.from_spec(None)


def test_equality_includes_the_name_and_hash_does_not():
    a = TensorSpec([2, None])
    assert a == TensorSpec((2, None)) and not a != TensorSpec((2, None))
    for other in (
        TensorSpec([2, None], name="x"),
        TensorSpec([2, 3]),
        TensorSpec(None),
        TensorSpec([2, None], torch.float64),
        TensorSpec([2, None], device="cpu"),
        (2, None),
        None,
    ):
        assert a != other
    assert hash(a) == hash(TensorSpec([2, None], name="x"))
    assert len({a, TensorSpec([2, None]), TensorSpec([2, None], name="x")}) == 2
    assert TensorSpec([1], device="cpu") == TensorSpec([1], device="cpu:0")
    assert hash(TensorSpec([1], device="cpu")) == hash(TensorSpec([1], device="cpu:0"))


def test_copies_and_pickles():
    spec = TensorSpec([2, None], torch.int64, "cuda", "n")
    assert copy.copy(spec) is spec and copy.deepcopy([spec])[0] is spec
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(spec, protocol)) == spec
    assert pickle.loads(pickle.dumps(TensorSpec(None))) == TensorSpec(None)
    assert weakref.ref(spec)() is spec
    assert TensorSpec.__module__ == "tracehost" and tracehost.TensorSpec is TensorSpec


def test_specs_do_not_change():
    spec = TensorSpec([2])
    for name in ("shape", "dtype", "device", "name"):
        with pytest.raises(AttributeError):
            setattr(spec, name, None)


def test_is_compatible_with():
    spec = TensorSpec([2, None])
    assert spec.is_compatible_with(torch.ones(2, 5))
    assert not spec.is_compatible_with(torch.ones(3, 5))
    assert not spec.is_compatible_with(torch.ones(2))
    assert not spec.is_compatible_with(torch.ones(2, 5, dtype=torch.float64))
    assert spec.is_compatible_with(TensorSpec([None, 3], name="other"))
    assert TensorSpec(None).is_compatible_with(torch.ones(()))
    assert not TensorSpec(None, device="cuda").is_compatible_with(torch.ones(()))


def test_is_compatible_with_values():
    assert TensorSpec([]).is_compatible_with(2.0)
    assert not TensorSpec([]).is_compatible_with(2)  # becomes an int64 tensor
    assert TensorSpec([None], torch.int64).is_compatible_with([1, 2])
    assert TensorSpec([2], torch.float64).is_compatible_with(np.ones(2))
    with pytest.raises(TypeError) as caught:
        TensorSpec([]).is_compatible_with("text")
    assert str(caught.value) == (
        "TensorSpec.is_compatible_with: takes a TensorSpec, a tensor, or what torch.as_tensor "
        "takes; got 'text' (str)"
    )


def test_is_subtype_of():
    exact, rows, any_size, any_rank = (TensorSpec(s) for s in ([2, 3], [None, 3], [None] * 2, None))
    order = [exact, rows, any_size, any_rank]
    for i, a in enumerate(order):
        assert [a.is_subtype_of(b) for b in order] == [i <= j for j in range(4)]
    assert not exact.is_subtype_of(TensorSpec([2, 3], torch.float64))
    # tf: an unnamed spec is one of the named ones.
    assert exact.is_subtype_of(TensorSpec([2, 3], name="x"))
    assert not TensorSpec([2, 3], name="x").is_subtype_of(exact)
    with pytest.raises(TypeError, match=r"^TensorSpec.is_subtype_of: takes a TensorSpec, got 3 "):
        exact.is_subtype_of(3)


def test_most_specific_common_supertype():
    a = TensorSpec([2, 3])
    join = a.most_specific_common_supertype
    assert join([]) == a
    assert join([TensorSpec([4, 3]), TensorSpec([4, 3])]) == TensorSpec([None, 3])
    assert join((TensorSpec([2]),)) == TensorSpec(None)
    assert join([TensorSpec([2, 3], torch.int32)]) is None
    for wrong in (a, 3):
        with pytest.raises(TypeError, match="takes a list of TensorSpecs, got"):
            join(wrong)
    with pytest.raises(TypeError, match="takes a TensorSpec, got 3 "):
        join([3])


def test_most_specific_compatible_type():
    a = TensorSpec([2, 3])
    assert a.most_specific_compatible_type(TensorSpec([2, 4])) == TensorSpec([2, None])
    with pytest.raises(ValueError) as caught:
        a.most_specific_compatible_type(TensorSpec([2, 3], torch.int8))
    assert str(caught.value) == (
        "No TensorSpec is compatible with both TensorSpec(shape=(2, 3), dtype=torch.float32, "
        "name=None) and TensorSpec(shape=(2, 3), dtype=torch.int8, name=None)"
    )


def test_a_spec_is_not_subclassed():
    with pytest.raises(TypeError):
        type("Mine", (TensorSpec,), {})
