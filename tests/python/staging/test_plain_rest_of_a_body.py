"""A body that runs on without a graph, or plainly as its traces do not pay: converted code is plain Python there."""

import pytest
import torch
import tracehost

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning"
)


def rows_beside_a_range(x):
    total = 0
    for a, b, i in zip(x, x.flip(0), range(2)):  # noqa: B905
        total = total + a * b * i
    return total


def membership(k):
    return 2 in range(k), k in range(3), int(k) in {1, 2}, k in [0, 3]


def test_zip_of_rows_and_python_values_with_other_sizes():
    f = tracehost.function(rows_beside_a_range, reduce_retracing=True)
    for size in (3, 0, 2, 3, 0, 1):
        x = torch.ones(size)
        assert f(x) == rows_beside_a_range(x)


def test_membership_where_traces_do_not_pay():
    f = tracehost.function(membership)
    for k in (2, 0, 3, 1, 4, 2, 1, 2, 7, -1, 5, 6, 8, 9, 3, 2):
        assert f(torch.tensor(k)) == membership(torch.tensor(k))
