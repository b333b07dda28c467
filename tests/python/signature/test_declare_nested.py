"""Declared Functions that are called while another Function is traced: enforced, then inlined."""

import pytest
import torch
import tracehost
from tracehost import SignatureError, TensorSpec
from tracehost.testing import assert_traces

S = TensorSpec([None])


@tracehost.function(input_signature=[S, TensorSpec([], torch.float64)])
def inner(x, scale=2.0):
    assert isinstance(x, torch.Tensor) and scale.dtype is torch.float64
    return x * scale


def test_values_are_converted_and_the_call_is_inlined():
    inner.clear()
    before = inner.stats()

    @tracehost.function
    def outer(x):
        return inner(x) + inner(x, scale=3) + inner([1.0])

    with assert_traces(outer, 1):
        for _ in range(2):
            assert outer(torch.ones(2)).tolist() == [7.0, 7.0]
    after = inner.stats()
    assert after["inlined"] - before["inlined"] == 3 and after["traces"] == before["traces"]


@pytest.mark.parametrize(
    "value, text",
    [
        (
            torch.ones(1, 1),
            "argument 'x': expected TensorSpec(shape=(None,), dtype=torch.float32, name=None), "
            "got float32[1, 1]",
        ),
        (
            torch.ones(1).double(),
            "argument 'x': expected TensorSpec(shape=(None,), dtype=torch.float32, name=None), "
            "got float64[1]",
        ),
    ],
)
def test_what_does_not_fit_is_rejected(value, text):
    outer = tracehost.function(lambda x: inner(x))
    with assert_traces(outer, 0):
        with pytest.raises(SignatureError) as caught:
            outer(value)
        assert str(caught.value) == text


def test_exact_sizes_are_checked_in_a_trace():
    exact = tracehost.function(lambda x: x + 1, input_signature=[TensorSpec([2])])
    outer = tracehost.function(lambda x: exact(x) * 2)
    with assert_traces(outer, 1):
        assert outer(torch.ones(2)).tolist() == [4.0, 4.0]
        with pytest.raises(SignatureError, match=r"got float32\[3\]$"):
            outer(torch.ones(3))


def test_arity_and_defaults_in_a_trace():
    outer = tracehost.function(lambda x: inner(x, 2.0, 3.0))
    with pytest.raises(TypeError, match=r"^inner\(\) too many positional arguments$"):
        outer(torch.ones(2))


def test_a_declared_method_in_a_trace():
    class Model:
        k = 3.0

        @tracehost.function(input_signature=[S])
        def call(self, x):
            return x * self.k

        @tracehost.function
        def twice(self, x):
            return self.call(x) + Model.call(self, [1.0, 1.0])

    model = Model()
    assert model.twice(torch.ones(2)).tolist() == [6.0, 6.0]
    assert model.twice(torch.ones(2)).tolist() == [6.0, 6.0]
    assert model.twice.tracing_count() == 1 and Model.call.tracing_count() == 0


def test_a_declared_function_calls_itself_with_the_same_signature():
    @tracehost.function(input_signature=[S])
    def forever(x):
        return forever(x + 1)

    with pytest.raises(tracehost.TraceError, match="calls itself with the signature"):
        forever(torch.ones(2))
    with pytest.raises(tracehost.TraceError, match="calls itself with the signature"):
        forever([1.0])
