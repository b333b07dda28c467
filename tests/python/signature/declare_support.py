"""Declared Functions of one parameter, and their errors."""

import pytest
import tracehost
from tracehost import SignatureError, TensorSpec

S = TensorSpec([None])
SCALAR = TensorSpec([])


def declared(*specs, func=lambda x: x * 2):
    return tracehost.function(func, input_signature=specs)


def rejection(f, *args, **kwargs):
    """The message. Nothing was traced or run for it."""
    before = f.stats()
    with pytest.raises(SignatureError) as caught:
        f(*args, **kwargs)
    assert f.stats() == before | {n: before[n] + 1 for n in ("calls", "rejected")}
    return str(caught.value)


def spec(shape, dtype="float32", device=""):
    return f"TensorSpec(shape={shape}, dtype=torch.{dtype}, {device}name=None)"
