"""Whether a library learns that it is traced: only of a tensor for which a look would wait for a device."""

import types

import pytest
import torch
import tracehost

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")

SOURCE = """
import torch

def is_jit_tracing():
    return torch.jit.is_tracing()

def is_tracing(tensor=None):
    return is_jit_tracing()

def other(tensor=None):
    return is_jit_tracing()
"""


def library(name):
    module = types.ModuleType(name)
    exec(SOURCE, module.__dict__)  # noqa: S102
    return module


def answers(name, asks, tensor):
    module, told = library(name), []

    @tracehost.function
    def f(x):
        told.append(getattr(module, asks)(tensor))
        return x * 2

    f(torch.ones(1))
    return told


TRANSFORMERS = "transformers.utils.import_utils"
DEVICES = [
    "meta",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_on_a_device_is_not_looked_into(device):
    assert answers(TRANSFORMERS, "is_tracing", torch.ones(1, device=device)) == [True]


def test_on_the_cpu_the_answer_is_as_in_eager():
    assert answers(TRANSFORMERS, "is_tracing", torch.ones(1)) == [False]
    assert answers(TRANSFORMERS, "is_tracing", 3) == [False]


def test_other_questions_are_answered_as_in_eager():
    there = torch.ones(1, device="meta")
    assert answers(TRANSFORMERS, "other", there) == [False]
    assert answers("somewhere.else", "is_tracing", there) == [False]
    assert not library(TRANSFORMERS).is_tracing(there)
