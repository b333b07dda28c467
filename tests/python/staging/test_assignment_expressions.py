"""`:=` in what may not be evaluated: the operands of `and`, `or`, of a chain and of a conditional expression."""

import pytest
import torch
import tracehost

BODIES = {}


def traces(count):
    def add(body):
        BODIES[body] = count
        return body

    return add


@traces(1)
def of_a_variable_from_before(x, a):
    m = a
    if a > 0 and (m := x.max()) > 0:
        x = x / m
    return x, m


@traces(2)
def used_in_the_side_alone(x, a):
    if a > 0 and (m := x.max()) > 0:
        x = x / m
    return x


@traces(1)
def of_or(x, a):
    m = torch.zeros(())
    if a > 0 or (m := x.max()) > 0:
        x = x * 2 + m
    return x, m


@traces(1)
def in_both_sides_of_an_expression(x, a):
    y = (m := x * 2) if a > 0 else (m := x * 3)
    return y + m


@traces(1)
def several_in_one_condition(x, a):
    m = n = k = torch.zeros(())
    if a > 0 and (m := x.max()) > 0 and (n := x.min()) > m - 1 or (k := a + 1) > 3:
        x = x + n
    return x, m, n, k


@traces(1)
def in_a_chain(x, a):
    m = torch.zeros(())
    if 0 < a < (m := x.sum()) < 10:
        x = x - m
    return x, m


@traces(1)
def in_a_value(x, a):
    m = x[0]
    y = a * 2 and (m := x[1])
    return y, m


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_as_eager(body):
    f = tracehost.function(body)
    for _ in range(2):
        for x in (torch.ones(2), -torch.ones(2), torch.tensor([1.0, 20.0])):
            for a in (torch.tensor(1.0), torch.tensor(-1.0), torch.tensor(4.0)):
                torch.testing.assert_close(f(x, a), body(x, a), rtol=0, atol=0)
    assert f.tracing_count() == BODIES[body]


def test_from_specs():
    specs = tracehost.TensorSpec([2]), tracehost.TensorSpec([])
    f = tracehost.function(several_in_one_condition).get_concrete_function(*specs)
    for x in (torch.ones(2), -torch.ones(2)):
        for a in (torch.tensor(1.0), torch.tensor(-1.0), torch.tensor(4.0)):
            torch.testing.assert_close(f(x, a), several_in_one_condition(x, a), rtol=0, atol=0)
