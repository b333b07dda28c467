"""A hundred random programs, the same at each run; scripts/test --sweep runs thousands of others."""

import pytest
import torch
from sweep.fuzz import fuzz, summary
from sweep.replay import replay


@pytest.mark.filterwarnings("ignore")
def test_random_programs_are_equal_to_eager_or_rejected(tmp_path):
    state = torch.random.get_rng_state()
    try:
        line, good = summary(fuzz(100, None, tmp_path))
    finally:
        torch.random.set_rng_state(state)
    assert good, line


DIFFERENT = """
import torch
W = torch.zeros(2)
P = torch.ones(2, requires_grad=True)
N = torch.arange(2)

def inputs(k):
    return torch.ones(2) * k,

def f(a, k, s):
    return {0}
"""


@pytest.mark.parametrize(
    "result",
    ["a * (2 if torch.is_grad_enabled() else 3), a.data_ptr() and 1", "a.numpy().tolist()"],
)
def test_a_program_that_reads_values_is_rejected(result, tmp_path):
    assert replay(DIFFERENT.format(result), tmp_path / "program.py").state == "rejected"


WRITER = """
import numpy
ARRAY = numpy.ones(2, dtype=numpy.float32)
SHARED = torch.from_numpy(ARRAY)

class Writer:
    array = ARRAY

    def __del__(self):
        self.array[1] += 3

def f"""


def test_a_program_that_is_not_the_same_each_time_is_found(tmp_path):
    # No guard sees what a finalizer writes: the replay must see the write that the second call misses.
    source = DIFFERENT.replace("def f", WRITER)
    found = replay(source.format("a * SHARED, Writer() and 1"), tmp_path / "program.py")
    assert found.state == "different" and "call 2" in found.text
