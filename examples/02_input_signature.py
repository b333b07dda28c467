"""A declared signature: one trace for vectors of any length, and arguments that are checked.

    scripts/run examples/02_input_signature.py

A step of the Collatz sequence for the numbers 1 to n, for n = 1 ... 50. What it shows, and asserts:
  1. without a signature each length is a trace, 50 in all, and a warning says what to write;
  2. with `TensorSpec([None], int32)` it is one; the results are equal, and those of plain Python;
  3. a matrix, a float and a list of floats are rejected, and the message names the argument; a list of
     ints is converted.
"""

import torch
import tracehost
from retracing.measure import Program, compare


def collatz_step(numbers):
    """n / 2 of an even number, 3 n + 1 of an odd one; int32 [n]."""
    return torch.where(numbers % 2 == 0, numbers // 2, 3 * numbers + 1)


plain = tracehost.function(collatz_step)
declared = tracehost.function(
    collatz_step, input_signature=[tracehost.TensorSpec([None], torch.int32)]
)
vectors = [torch.arange(1, n + 1, dtype=torch.int32) for n in range(1, 51)]

compare(
    "1. and 2. Lengths from 1 to 50",
    before=Program([plain], [lambda x=x: plain(x) for x in vectors]),
    after=Program([declared], [lambda x=x: declared(x) for x in vectors]),
    traces=(50, 1),
)
expected = [n // 2 if n % 2 == 0 else 3 * n + 1 for n in range(1, 51)]
assert declared(vectors[-1]).tolist() == expected

print("3. What is rejected")
for wrong, got in (
    (torch.ones(2, 3, dtype=torch.int32), "int32[2, 3]"),
    (torch.ones(3), "float32[3]"),
    ([1.5, 2.0], "[1.5, 2.0]"),
):
    try:
        declared(wrong)
    except tracehost.SignatureError as error:
        print(" ", error)
        assert "argument 'numbers'" in str(error) and got in str(error)
    else:
        raise AssertionError(f"{wrong} was taken")
assert declared([6, 7]).tolist() == [3, 22]
assert declared.tracing_count() == 1
