"""Random numbers of numpy and Python that a library draws in a body: no graph has them, so no graph is kept."""

import random
import warnings

import numpy
import pytest
import torch
import tracehost
from library_support import installed
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

SOURCE = """
import random
import numpy

generator = numpy.random.default_rng(0)

def mixed(x):
    return x * float(numpy.random.beta(2.0, 2.0))

def scaled(x):
    return x * random.uniform(1.0, 2.0)

def shifted(x):
    return x + float(generator.random())

def flipped(x):
    return -x if numpy.random.rand() < 0.5 else x
"""


@pytest.fixture
def library():
    return installed(SOURCE)


def seed(library, number):
    random.seed(number)
    numpy.random.seed(number)
    library["generator"].bit_generator.state = numpy.random.default_rng(number).bit_generator.state


@pytest.mark.parametrize(
    "name, what",
    [
        ("mixed", "numpy.random.beta at a_library.py:8"),
        ("scaled", "random.random at a_library.py:11"),
        ("shifted", "numpy.random.random at a_library.py:14"),
        ("flipped", "numpy.random.rand at a_library.py:17"),
    ],
)
def test_each_call_draws_as_eager(library, name, what):
    f = tracehost.function(lambda x: library[name](x))
    with assert_traces(f, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("error", tracehost.TraceWarning)
            for number in range(4):
                x = torch.randn(3)
                seed(library, number)
                expected = library[name](x)
                seed(library, number)
                assert torch.equal(f(x), expected)
                assert len(f.specializations()) == 0
    line = test_each_call_draws_as_eager.__code__.co_firstlineno + 10
    generator, _, place = what.partition(" at ")
    assert tracehost.events()[-1].notes == (
        f"the body draws from {generator} at test_library_draws.py:{line} (in {place}), which no graph does: "
        "it is traced again",
    )


def test_a_draw_of_the_users_own_code_is_told():
    f = tracehost.function(lambda x: x * random.random())
    with assert_traces(f, 1):
        with pytest.warns(tracehost.TraceWarning, match="uses random.random at test_library_draws"):
            first = f(torch.ones(1))
        assert torch.equal(f(torch.ones(1)), first)


def test_without_guards_a_librarys_draw_is_told(library):
    f = tracehost.function(lambda x: library["scaled"](x), watch=False)
    with pytest.warns(tracehost.TraceWarning, match=r"random.random at .* \(in a_library.py:11\)"):
        f(torch.ones(1))
