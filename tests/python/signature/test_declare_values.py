"""Values that a declared Function makes tensors of, and those that it rejects."""

import enum

import numpy as np
import pytest
import torch
import tracehost
from declare_support import SCALAR, S, declared, rejection, spec
from tracehost import TensorSpec
from tracehost.testing import assert_traces


@pytest.fixture(autouse=True)
def forget():
    """Warnings of a test are of its own calls."""
    tracehost.reset()


class Level(enum.IntEnum):
    LOW = 1


ACCEPTED = [
    (2.5, torch.float32),
    (2, torch.float32),
    (True, torch.float32),
    (True, torch.bool),
    (True, torch.int32),
    (-3, torch.int8),
    (255, torch.uint8),
    (2**63 - 1, torch.int64),
    (2**64 - 1, torch.uint64),
    (Level.LOW, torch.int64),
    (0.1, torch.float64),
    (1.5, torch.bfloat16),
    (1, torch.complex64),
    (1 + 2j, torch.complex128),
    ([1, 2.5], torch.float64),
    ([True, 2], torch.int64),
    ([[1], [2]], torch.float16),
    (((1, 2), [3, 4]), torch.int32),
    ([], torch.float32),
    ([0.1], torch.float64),
    (np.float64(0.1), torch.float32),
    (np.int16(4), torch.int64),
    (np.bool_(True), torch.float32),
    (np.array([1.5, 2.5]), torch.float32),
    (np.array([1, 2]), torch.int8),
    (np.array([1, 2], np.uint64), torch.int32),
    (np.arange(6).reshape(2, 3).T, torch.float32),
    (np.array([1.0, 2.0])[::-1], torch.float64),
    (np.array([1, 2], ">i4"), torch.int32),
    (np.zeros((0, 2)), torch.float32),
    (np.zeros((0, 2), np.int64), torch.int8),
    ([np.float32(1.5), 2], torch.float64),
    ([np.array([1.0, 2.0]), [3.0, 4.0]], torch.float32),
]


@pytest.mark.parametrize("value, dtype", ACCEPTED, ids=lambda v: str(v).replace("\n", ""))
def test_values_that_are_converted(value, dtype):
    f = declared(TensorSpec(None, dtype), func=lambda x: x.clone())
    with assert_traces(f, 1):
        got = f(value)
        expected = torch.tensor(np.array(value).tolist(), dtype=dtype).reshape(np.shape(value))
        assert got.dtype is dtype and got.shape == expected.shape and torch.equal(got, expected)
        again = f(value)
        assert torch.equal(again, expected)


REFUSED = [
    (4.0, torch.int64, "4.0: cannot convert 4.0 to torch.int64"),
    (1, torch.bool, "1: cannot convert 1 to torch.bool"),
    (1j, torch.float32, "1j: cannot convert 1j to torch.float32"),
    ([1, 2.0], torch.int32, "[1, 2.0]: cannot convert 2.0 to torch.int32"),
    (128, torch.int8, "128: 128 is out of the range of torch.int8"),
    (-1, torch.uint8, "-1: -1 is out of the range of torch.uint8"),
    ([1, 300], torch.uint8, "[1, 300]: 300 is out of the range of torch.uint8"),
    (2**63, torch.int64, f"{2**63}: {2**63} is out of the range of torch.int64"),
    (
        np.array([1, 300]),
        torch.int8,
        "array([  1, 300]): 300 is out of the range of torch.int8",
    ),
    (
        np.float32(4),
        torch.int32,
        f"{np.float32(4)!r}: cannot convert float32 to torch.int32",
    ),
    (
        np.array(["a"]),
        torch.float32,
        "array(['a'], dtype='<U1'): an array of <U1 can't be a tensor",
    ),
    ("text", torch.float32, "'text': str can't be a tensor"),
    (None, torch.float32, "None: NoneType can't be a tensor"),
    (["a"], torch.float32, "['a']: str can't be a tensor"),
    ({"k": 1.0}, torch.float32, "{'k': 1.0}: dict can't be a tensor"),
    (
        [[1.0], [1.0, 2.0]],
        torch.float32,
        "[[1.0], [1.0, 2.0]]: expected sequence of length 1 at dim 1 (got 2)",
    ),
    (
        [torch.ones(2)],
        torch.float32,
        "[float32[2]]: a list of tensors is not one tensor; use torch.stack",
    ),
]


@pytest.mark.parametrize("value, dtype, text", REFUSED, ids=lambda v: str(v)[:40])
def test_values_that_are_rejected(value, dtype, text):
    f = declared(TensorSpec(None, dtype))
    name = str(dtype).removeprefix("torch.")
    assert rejection(f, value) == f"argument 'x': expected {spec('None', name)}, got {text}"


def test_what_never_ends_is_rejected():
    endless = [1.0]
    endless.append(endless)
    f = declared(S)
    assert rejection(f, endless).endswith("]: it is nested without end")
    assert rejection(f, [np.longdouble(1)]).endswith("]: longdouble can't be a tensor")


def test_a_converted_value_has_to_fit_the_shape():
    f = declared(TensorSpec([2, None]))
    assert rejection(f, [[1, 2]] * 3) == (
        f"argument 'x': expected {spec('(2, None)')}, got [[1, 2], [1, 2], [1, 2]], "
        "which makes float32[3, 2]"
    )
    assert rejection(f, 1.0) == (
        f"argument 'x': expected {spec('(2, None)')}, got 1.0, which makes float32[]"
    )


def test_a_long_value_is_cut():
    text = rejection(declared(TensorSpec([1])), list(range(100_000)))
    assert text == (
        f"argument 'x': expected {spec('(1,)')}, got [0, 1, 2, 3, 4, 5, ...], "
        "which makes float32[100000]"
    )


def test_defaults_are_converted_at_each_call():
    def count(x=0.0):
        return x.add_(1)

    f = tracehost.function(count, input_signature=[SCALAR])
    with assert_traces(f, 1):
        assert [f().item(), f().item(), f(4.0).item(), f(x=torch.tensor(5.0)).item()] == [
            1,
            1,
            5,
            6,
        ]


def test_a_default_that_does_not_fit_is_rejected_when_it_is_used():
    f = declared(S, S, func=lambda x, mask=None: x * mask)
    assert f([1.0], [2.0]).tolist() == [2.0]
    assert rejection(f, [1.0]) == (
        f"argument 'mask': expected {spec('(None,)')}, got None: NoneType can't be a tensor"
    )


def test_an_array_is_copied():
    f = declared(S, func=lambda x: x.add_(1))
    array = np.zeros(2, np.float32)
    assert f(array).tolist() == [1.0, 1.0] and f(array).tolist() == [1.0, 1.0]
    assert array.tolist() == [0.0, 0.0]
    array.flags.writeable = False
    assert f(array).tolist() == [1.0, 1.0]


def test_converted_values_need_no_gradient_and_follow_the_default_device():
    f = declared(S, func=lambda x: x + 0)
    assert not f([1.0]).requires_grad
    with torch.device("meta"):
        assert f([1.0]).device.type == "meta"
