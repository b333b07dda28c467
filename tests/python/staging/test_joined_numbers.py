"""An if joins a number of the graph with a tensor. Of two types of numbers each call has the one that eager has."""

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

VECTORS = [[1.0, -1.0, 2.0], [-1.0, 1.0, -1.0], [1.0, 1.0, 1.0], [-3.0, -1.0, -1.0]]


def total_of_some(v):
    total = 0.0
    for row in v:
        if row > 0:
            total = total + row
    return total


def total_from_an_int(v):
    total = 0
    for row in v:
        total = total + row if row > 0 else total
    return total


def last_of_some(v):
    last = 0
    for row in v:
        if row > 0:
            last = row
    return last


def total_in_a_while(v):
    total, i = 0, 0
    while i < v.abs().max():
        if v[i % 3] > 0:
            total = total + v[i % 3]
        i = i + 1
    return total


def of_a_read_number(v):
    n = v[0].item()
    if v.sum() > 0:
        n = n + v.sum()
    return n


def of_a_number_and_a_tensor(v):
    m = v[0].item()
    if v.sum() > 0:
        n = m * 2
    else:
        n = v.sum()
    return n


def of_an_int_and_a_float(v):
    n = v[0].int().item()
    if v.sum() > 0:
        n = n * 0.5
    return n


def of_a_float_and_an_int(v):
    if v.sum() > 0:
        n = v[0].item()
    else:
        n = v[1].int().item()
    return n


def of_a_tuple(v):
    n = (v[0].int().item(), v[1].item())
    if v.sum() > 0:
        n = (n[0] / 2, v[2])
    return n


def of_nested_ifs(v):
    n = v[0].item()
    if v[0] > 0:
        if v[1] > 0:
            n = v.sum()
    else:
        n = v[2]
    return n


BODIES = [
    total_of_some,
    total_from_an_int,
    last_of_some,
    total_in_a_while,
    of_a_read_number,
    of_a_number_and_a_tensor,
    of_nested_ifs,
]


def numbers(value):
    return [float(x) for x in value] if isinstance(value, tuple) else float(value)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("first", range(len(VECTORS)))
def test_one_graph_serves_both_sides(body, first):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for values in VECTORS[first:] + VECTORS:
            v = torch.tensor(values)
            assert numbers(f(v)) == numbers(body(v))


# ---- a bool, an int and a float: the graph checks the condition ---------------------------------


def with_a_branch(v):
    scale = 1
    if v.sum() > 0:
        scale = 1.0
    return scale, torch.ones(2, dtype=torch.int32) * scale


def of_a_bool_and_an_int(v):
    found = 1
    if v.sum() > 0:
        found = True
    return found


def chosen(v):
    return 5 if v.sum() > 0 else False


def anded(v):
    return (v > 1).any().item() and 5


def ored(v):
    return (v > 1).sum().item() or 2.5


def negated(v):
    return not (v > 1).any().item() and 1.5


def returned_early(v):
    if v.sum() > 0:
        return 1
    return 1.5


def of_two_variables(v):
    a, b = (1, 2.0) if v.sum() > 0 else (1.0, 2)
    return a, b


def of_an_attribute(v):
    class Found:
        count = 1

    made = Found()
    made.count = 2
    if v.sum() > 0:
        made.count = 2.0
    return made.count


def of_a_dict(v):
    made = {"a": 1, "b": [2, 3]}
    if v.sum() > 0:
        made["a"] = 2.0
    return made


def of_a_case(v):
    match (v > 0).sum().item():
        case 1:
            return 1
        case 2:
            return 2.0
        case _:
            return False


def of_mixed_powers(v):
    n = v[0].int().item()
    return n**-1 if n > 0 else 0


TYPED = {
    of_an_int_and_a_float: 2,
    of_a_float_and_an_int: 2,
    of_a_tuple: 2,
    with_a_branch: 2,
    of_a_bool_and_an_int: 2,
    chosen: 2,
    anded: 2,
    ored: 2,
    negated: 2,
    returned_early: 2,
    of_two_variables: 2,
    of_an_attribute: 2,
    of_a_dict: 2,
    of_a_case: 3,
    of_mixed_powers: 2,
}


def test_a_variable_that_nothing_reads_is_no_check():
    def body(v):
        scale = 0
        if v.sum() > 0:
            scale = 1.5
        return v * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for values in VECTORS:
            assert torch.equal(f(torch.tensor(values)), body(torch.tensor(values)))


def halved(v):
    scale = 1
    while v.sum() > 1:
        v, scale = v * 0.5, scale / 2
    return scale, torch.ones(1, dtype=torch.int32) * scale


def summed(v):
    total = 0
    for row in v:
        total = total + row.item()
    return total


def summed_up_to(v):
    total = 0
    for i in range((v > 0).sum().item()):
        total = total + v[i].item()
    return total


def largest(v):
    best = 0
    for row in v:
        if row > best:
            best = row.item()
    return best


TYPED |= {halved: 2, summed: 1, summed_up_to: 2, largest: 3}


@pytest.mark.parametrize("body", TYPED, ids=lambda body: body.__name__)
def test_each_call_has_eagers_type(body):
    f = tracehost.function(body)
    with assert_traces(f, TYPED[body]):
        for values in VECTORS + VECTORS:
            v = torch.tensor(values)
            assert repr(f(v)) == repr(body(v))


def test_zeros_of_two_signs_are_two_numbers():
    def body(x):
        y = 0.0
        if x.sum() > 0:
            y = -0.0
        return torch.signbit(x.abs() * y)

    f = tracehost.function(body)
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2)):
        assert_same(f(x), body(x))


def test_gradients_pass_by_the_joined_tensor():
    f = tracehost.function(total_of_some)
    for values in VECTORS[:3]:
        v, w = (torch.tensor(values, requires_grad=True) for _ in range(2))
        f(v).backward()
        total_of_some(w).backward()
        assert_same(v.grad, w.grad)


TOTALS = {"total": 0}


def test_a_number_in_a_dict_becomes_a_tensor():
    @tracehost.function
    def f(v):
        for row in v:
            if row > 0:
                TOTALS["total"] = TOTALS["total"] + row
        return v * 2

    expected = 0.0
    for values in VECTORS:
        f(torch.tensor(values))
        expected += sum(x for x in values if x > 0)
        assert float(TOTALS["total"]) == expected


# ---- counters of an object that a variable of the enclosing function holds -----------------------


class Counts:
    def __init__(self):
        self.rows, self.positive, self.rate = 0, 0, 1.0


def test_counters_of_an_enclosed_object_in_loops():
    counts, expected = Counts(), Counts()

    def count(v, of):
        for row in v:
            of.rows += 1
            if row > 0:
                of.positive += 1
        i = 0
        while i < v.abs().sum():
            of.rate = of.rate * 0.5 + 1
            i = i + 1

    @tracehost.function
    def f(v):
        for row in v:
            counts.rows += 1
            if row > 0:
                counts.positive += 1
        i = 0
        while i < v.abs().sum():
            counts.rate = counts.rate * 0.5 + 1
            i = i + 1
        return v * 2

    with assert_traces(f, 2):
        for values in VECTORS:
            f(torch.tensor(values))
            count(torch.tensor(values), expected)
            assert vars(counts) == vars(expected)
