"""Results of a loop that is the last of its block, behind what its body uses. Names that a loop's `else` binds."""

import pytest
import torch
import tracehost


def beside_its_first_value(x, n):
    last = x
    for i in range(n):
        last = x * i
    return x, last


def in_a_list(x, n):
    last = x
    for i in range(n):
        last = x * i
    return [x], last


def in_a_dict(x, n):
    y = x + 1
    last = y
    for i in range(n):
        last = y * i
    return {"y": y, "last": last}


def in_a_side(x, n):
    y, last = x, x
    if n > 1:
        y = x + 1
        last = y
        for i in range(n):
            last = y * i
    return y, last


def in_a_loop(x, n):
    y, last = x, x
    for _ in range(n):
        y = x + 1
        last = y
        for i in range(n):
            last = y * i
    return y, last


def assigned_before_break_or_in_else(x, n):
    for _ in range(n):
        if x[0] > 3:
            why = x
            break
        x = x + 1
    else:
        why = x * 10
    return why


def assigned_before_break_of_a_while(x, n):
    while n > 0:
        n = n - 1
        if x.sum() > 8:
            found = n * 2
            break
        x = x + 1
    else:
        found = n - 1
    return found, x


TRACES = {
    beside_its_first_value: 1,
    in_a_list: 1,
    in_a_dict: 1,
    in_a_side: 1,
    in_a_loop: 1,
    assigned_before_break_or_in_else: None,
    assigned_before_break_of_a_while: None,
}


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", TRACES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("counts", [(2, 0, 3, 9, 1), (1, 0, 9, 2, 9), (9, 1, 0, 3)])
def test_as_eager(body, counts):
    f = tracehost.function(body)
    for n in counts:
        x, count = torch.full((2,), 2.0), torch.tensor(n)
        assert repr(f(x, count)) == repr(body(x, count))
    assert f.stats()["mismatches"] == 0
    if TRACES[body]:
        assert f.tracing_count() == TRACES[body]


def test_concrete():
    specs = tracehost.TensorSpec([2]), tracehost.TensorSpec([], torch.int64)
    concrete = tracehost.function(in_a_list).get_concrete_function(*specs)
    for n in (2, 0, 3):
        x, count = torch.ones(2), torch.tensor(n)
        assert repr(concrete(x, count)) == repr(in_a_list(x, count))
