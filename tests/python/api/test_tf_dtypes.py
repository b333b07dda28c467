"""dtypes by name and as numpy's, wherever a dtype is taken."""

import numpy as np
import pytest
import torch
import tracehost
from tracehost import TensorArray, TensorSpec, py_function
from tracehost.testing import assert_traces

GIVEN = [
    (torch.float32, torch.float32),
    ("float32", torch.float32),
    ("torch.int64", torch.int64),
    ("bool", torch.bool),
    ("bfloat16", torch.bfloat16),
    ("half", torch.float16),
    ("double", torch.float64),
    ("complex64", torch.complex64),
    (np.float32, torch.float32),
    (np.bool_, torch.bool),
    (np.longlong, torch.int64),
    (np.dtype("int64"), torch.int64),
    (np.dtype("uint16"), torch.uint16),
    (np.dtype(">f4"), torch.float32),
]
KINDS = "is a torch.dtype, its name ('float32') or numpy's"
WRONG = [
    ("float3", ": torch has no dtype 'float3'; did you mean 'float32'?"),
    ("string", ": torch has no dtype 'string'"),
    ("int", " 'int' may be int32 or int64: write 'int32' or 'int64'"),
    ("float", " 'float' may be float32 or float64: write 'float32' or 'float64'"),
    (np.floating, ": torch has no dtype numpy's floating; did you mean 'float64'?"),
    (np.str_, ": torch has no dtype numpy's str"),
    (np.dtype([("a", "i4")]), ": torch has no dtype numpy's void32"),
    (float, f" {KINDS}, got <class 'float'> (type): write 'float32' or 'float64'"),
    (int, f" {KINDS}, got <class 'int'> (type): write 'int32' or 'int64'"),
    (bool, f" {KINDS}, got <class 'bool'> (type): write 'bool'"),
    (3, f" {KINDS}, got 3 (int)"),
]


@pytest.mark.parametrize(("given", "dtype"), GIVEN, ids=str)
def test_taken_everywhere(given, dtype):
    spec = TensorSpec([None], given)
    assert spec == TensorSpec([None], dtype) and spec.dtype is dtype
    assert TensorSpec([None], dtype=given) == spec
    assert TensorArray(given).dtype is dtype
    made = torch.ones(2, dtype=torch.uint8).to(dtype)
    (result,) = (py_function(lambda: made, [], given),)
    assert result.dtype is dtype
    assert [t.dtype for t in py_function(lambda: [made, made], [], [given, dtype])] == [dtype] * 2


@pytest.mark.parametrize(("given", "text"), WRONG, ids=str)
@pytest.mark.parametrize(
    ("what", "make", "others"),
    [
        ("TensorSpec: dtype", lambda given: TensorSpec([], given), ""),
        ("TensorArray's dtype", lambda given: TensorArray(given), ""),
        (
            "py_function's dtype",
            lambda given: py_function(abs, [], [given]),
            ", a list of them or None",
        ),
    ],
    ids=["TensorSpec", "TensorArray", "py_function"],
)
def test_rejected_everywhere(given, text, what, make, others):
    with pytest.raises(TypeError) as caught:
        make(given)
    assert str(caught.value) == what + text.replace(KINDS, KINDS + others)


def test_in_an_input_signature_and_a_body():
    @tracehost.function(input_signature=[TensorSpec([None], "float32")])
    def f(x):
        kept = TensorArray("float32").unstack(x)
        return kept.stack() + py_function(lambda t: t * 2, [x], "float32", shape=[None])

    with assert_traces(f, 1):
        for n in (2, 3):
            assert f(torch.ones(n)).tolist() == [3.0] * n
    with pytest.raises(tracehost.SignatureError, match="argument 'x': expected TensorSpec"):
        f(torch.ones(2, dtype=torch.float64))
