"""What the tests of validate= share: wrong graphs, and what is counted and warned of them."""

import os
import warnings

import numpy
import torch
import tracehost

WHAT_TO_DO = (
    "This call has the body's result, and from now on calls with its signature run as plain Python. If "
    "the result of the line depends on more than tensors and arguments, pass that in as a tensor or an "
    "argument: time, random numbers of Python or numpy, state that other code changes. If it does not, "
    "please report it."
)


def checks(f):
    stats = f.stats()
    return stats["validated"], stats["unvalidated"], stats["mismatches"]


def place(f, offset):
    """`test_validate.py:12`: a line of `f`, counted from its def."""
    code = f.python_function.__code__
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno + offset}"


ARRAY = numpy.ones(2, dtype=numpy.float32)
SHARED = torch.from_numpy(ARRAY)  # the same memory


class Writer:
    """Writes to an array at its end: no guard sees what a finalizer does."""

    array = ARRAY

    def __del__(self):
        self.array[1] += 3


def written_by_numpy():
    """A Function whose body has a tensor written behind torch's back: the graph can't know."""
    ARRAY[:] = 1

    @tracehost.function
    def f(x):
        before = SHARED * x
        Writer()
        return {"loss": [before, x]}

    return f


def warned(f, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = f(*args)
    return result, [str(w.message) for w in caught if w.category is tracehost.TraceWarning]
