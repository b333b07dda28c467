"""Arguments as Python numbers or as tensors: a value of the graph, or an input of it.

    scripts/run examples/03_python_vs_tensor_args.py

What it shows, and asserts:
  1. a number of steps as an int: each is a trace, with the loop unrolled; as a tensor: one trace, with
     a loop in its graph. The results are equal;
  2. a learning-rate schedule of Python floats is a trace for each step; the warning has the line to
     write, and with it there is one;
  3. what each costs: a tensor that is made for a call costs about as much as the trace of a few ops
     saves. (Measured, not asserted.)
"""

import warnings

import torch
import tracehost
from timing import Row, beside_eager, pay_once

pay_once()
torch.manual_seed(0)
matrix = torch.randn(8, 8)
matrix = matrix @ matrix.T / 8 + torch.eye(8)
target = torch.randn(8)


def solve(x, num_steps):
    """Steps of gradient descent towards `matrix @ x = target`; all float32 [8]."""
    for _ in range(num_steps):
        x = x - 0.1 * (matrix @ x - target)
    return x


def loops(function, *args):
    """How many loops the graph has, and how many operators it has in all."""
    nodes = list(function.get_concrete_function(*args).graph.nodes())
    return sum(n.kind() == "prim::Loop" for n in nodes), len(nodes)


print("1. The number of steps")
start = torch.zeros(8)
counts = (10, 12, 14, 16, 18, 20)
eager = [solve(start, n) for n in counts]

by_int = tracehost.function(solve)
torch.testing.assert_close([by_int(start, n) for n in counts], eager, rtol=0, atol=0)
assert by_int.tracing_count() == len(counts)

by_tensor = tracehost.function(solve)
torch.testing.assert_close([by_tensor(start, torch.tensor(n)) for n in counts], eager)
assert by_tensor.tracing_count() == 1

sizes = [loops(by_int, start, n)[1] for n in (10, 20)]
assert loops(by_int, start, 10)[0] == 0 and sizes[0] < sizes[1]
assert loops(by_tensor, start, torch.tensor(10))[0] == 1
print(f"  as an int: {by_int.tracing_count()} traces, of {sizes[0]} to {sizes[1]} nodes, no loop")
print(f"  as a tensor: {by_tensor.tracing_count()} trace, with a loop")

print("\n2. A learning rate")
rates = [0.1 * 0.9**step for step in range(20)]


def descend(x, lr):
    return x - lr * (matrix @ x - target)


def schedule(function, convert):
    x = start
    for rate in rates:
        x = function(x, convert(rate))
    return x


floats = tracehost.function(descend)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always", tracehost.RetraceWarning)
    from_floats = schedule(floats, float)
assert floats.tracing_count() == len(rates)
text = str(told[0].message)
print("  " + text.replace("\n", "\n  "))
assert "argument 'lr' took 5 values (0.1, 0.09" in text
assert "fix   pass torch.tensor(" in text and "for 'lr'" in text

tensors = tracehost.function(descend)
torch.testing.assert_close(schedule(tensors, torch.tensor), from_floats)
torch.testing.assert_close(from_floats, schedule(descend, float), rtol=0, atol=0)
assert tensors.tracing_count() == 1
print(f"  {floats.tracing_count()} traces; with the line written, {tensors.tracing_count()}")

print("\n3. What a call costs")
rate = rates[-1]
ms = [f.stats()["trace_ms"] for f in (by_int, by_tensor, floats, tensors)]
beside_eager(
    [
        Row("20 steps, an int", solve, by_int, (start, 20), ms[0]),
        Row("20 steps, a tensor", solve, by_tensor, (start, torch.tensor(20)), ms[1]),
        Row("one step, rate as a float", descend, floats, (start, rate), ms[2]),
        Row(
            "the same, made a tensor",
            descend,
            lambda x, r: tensors(x, torch.tensor(r)),
            (start, rate),
            ms[3],
        ),
    ]
)
