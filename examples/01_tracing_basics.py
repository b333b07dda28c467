"""What a trace is: the body runs once for each kind of call, and later calls run its graph.

    scripts/run examples/01_tracing_basics.py

What it shows, and asserts:
  1. calls are compared by a tensor's kind (dtype, shape), not by its value; a `print` in the body
     prints while the body is traced, and not again;
  2. of a Python number the value counts; `explain` says so without running anything;
  3. a global that the body reads is guarded: another value is another trace, never a stale result;
  4. an `append` in the body happens while it is traced only, with a warning; a tensor that is updated
     in place is part of the graph;
  5. what a trace costs and saves: it pays for many small ops that are called often, not for few ops on
     large tensors, nor for a function that is called once. (Measured, not asserted.)
"""

import contextlib
import io
import warnings

import torch
import tracehost
from timing import Row, beside_eager

print("1. Three kinds of calls are three traces, the fourth call is a hit")


def twice(x):
    print("  tracing with", x)
    return x + x


double = tracehost.function(twice)
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    results = [
        double(x) for x in (torch.tensor(3), torch.tensor(1.5), torch.ones(4), torch.tensor(5))
    ]
print(printed.getvalue(), end="")
assert printed.getvalue().count("tracing") == 3
assert double.tracing_count() == 3 and double.stats()["hits"] == 1
torch.testing.assert_close(
    results, [torch.tensor(6), torch.tensor(3.0), torch.full((4,), 2.0), torch.tensor(10)]
)
print(double.pretty_printed_concrete_signatures())

print("\n2. Of a Python number the value counts")
assert [double(2), double(2), double(3)] == [4, 4, 6]
assert double.tracing_count() == 5
would_hit, would_miss = double.explain(3), double.explain(torch.ones(5))
print(would_hit, would_miss, sep="\n")
assert "hit" in str(would_hit)
assert "x.shape[0]: 4 -> 5 (shape)" in str(would_miss)
assert double.tracing_count() == 5  # it was asked, not called

print("\n3. A global is guarded")
factor = 2.0


@tracehost.function
def scaled(x):
    return x * factor


x = torch.arange(3.0)
assert torch.equal(scaled(x), x * 2) and torch.equal(scaled(x), x * 2)
factor = 5.0
assert torch.equal(scaled(x), x * 5)
assert scaled.tracing_count() == 2
print("  traced again:", *tracehost.events(scaled)[-1].causes)

print("\n4. An append does not repeat; a tensor updated in place does")
calls: list[int] = []
count = torch.tensor(0)


@tracehost.function
def counted(x):
    calls.append(1)
    count.add_(1)
    return x + count


with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    results = [counted(x) for _ in range(3)]
assert len(calls) == 1 and count == 3
torch.testing.assert_close(results, [x + 1, x + 2, x + 3])
assert [w.category for w in told] == [tracehost.SideEffectWarning]
print(" ", told[0].message)

print("\n5. What it costs, and where it does not pay")


def one_op(x):
    return torch.tanh(x)


def many_ops(x):
    for _ in range(10):
        x = torch.tanh(x) * 0.9
    return x


rows = []
for name, f, x in (
    ("one op, 4 numbers", one_op, torch.linspace(-1, 1, 4)),
    ("20 ops, 4 numbers", many_ops, torch.linspace(-1, 1, 4)),
    ("one op, 100,000 numbers", one_op, torch.linspace(-1, 1, 100_000)),
):
    traced = tracehost.function(f)
    assert torch.equal(traced(x), f(x))
    rows.append(Row(name, f, traced, (x,), traced.stats()["trace_ms"]))
beside_eager(rows)
print(
    "  A function that is called once is slower traced: beside the body, its graph is made and checked."
)
