"""Lists and dicts behind a staged block: those that are one object in eager are one object in each call."""

import types

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

TRACES = {}
KEPT = [torch.ones(2)]


def traces(count):
    def add(body):
        TRACES[body] = count
        return body

    return add


@traces(1)
def one_list_twice_in_a_variable(x, n):
    a = [x]
    r = [a, a]
    for i in range(n):
        a = [x * i]
        r = [a, a]
    r[0].append(x)
    return r


@traces(1)
def one_list_in_two_variables(x, n):
    a = [x]
    b = a
    for i in range(n):
        a = [x * i]
        b = a
    a.append(x)
    return a, b


@traces(2)
def one_dict_in_two_places_from_the_first_iteration_on(x, n):
    a = {"k": x}
    b = {"k": x}
    for i in range(n):
        a = {"k": x * i}
        b = a
    a["k"] = x * 9
    return a, b


@traces(1)
def a_list_inside_a_tuple_that_changes(x, n):
    a = [x]
    r = (a, x)
    for i in range(n):
        r = (a, x * i)
    r[0].append(x)
    return a, r


@traces(1)
def two_lists_that_change_places(x, n):
    a, b = [x], [x * 2]
    for _ in range(n):
        a = [b[0]]
        b = [a[0] + 1]
    a.append(x)
    return a, b


@traces(1)
def both_sides_leave_one_list_twice(x, n):
    a = [x]
    r = (a, a)
    if n > 1:
        a = [x * 2]
        r = (a, a)
    r[0].append(x)
    return r


@traces(2)
def one_side_leaves_one_list_twice(x, n):
    a = [x]
    r = (a, a) if n > 1 else (a, [x * 2])
    r[0].append(x)
    return r


@traces(2)
def a_side_takes_a_list_from_before(x, n):
    before = [x]
    a = before if n > 1 else [x * 2]
    a.append(x)
    return before, a


@traces(2)
def a_list_that_another_variable_holds(x, n):
    a = [x]
    b = a
    if n > 1:
        a = [x * 2]
    a.append(x)
    return a, b


@traces(2)
def a_list_that_a_dict_holds(x, n):
    table = {"h": [x]}
    h = table["h"]
    if n > 1:
        h = [x * 2]
    h[0] = h[0] + 1
    return table, h


@traces(2)
def a_list_that_an_object_holds(x, n):
    class Holder:
        pass

    holder = Holder()
    holder.items = [x]
    items = holder.items
    if n > 1:
        items = [x * 2]
    items.append(x)
    return holder.items, items


@traces(2)
def a_list_from_outside(x, n):
    a = KEPT
    if n > 1:
        a = [x]
    return a is KEPT, a


@traces(2)
def a_list_that_a_loop_may_not_replace(x, n):
    a = [x]
    b = a
    while n > 0:
        a = [a[0] + 1]
        n = n - 1
    a.append(x)
    return a, b


@traces(4)
def a_list_that_a_dict_holds_in_a_loop(x, n):
    total = x
    for i in range(n):
        h = [x + i]
        table = {"h": h}
        if n > 1:
            h = [x * 2]
        h[0] = h[0] + 1
        total = total + table["h"][0] + h[0]
    return total


@traces(4)
def a_list_that_a_loop_in_a_loop_may_leave(x, n):
    total = x
    for i in range(n):
        h = [x + i]
        table = {"h": h}
        for _ in range(n - 1):
            h = [x * 2]
        h[0] = h[0] + 1
        total = total + table["h"][0]
    return total


@traces(1)
def a_list_of_a_loop_in_a_loop_that_nothing_else_holds(x, n):
    total = x
    for i in range(n):
        h = [x + i]
        for _ in range(n - 1):
            h = [h[0] * 2]
        h[0] = h[0] + 1
        total = total + h[0]
    return total


@traces(1)
def a_list_that_nothing_else_holds(x, n):
    best = [x, x * 2]
    if n > 1:
        best = [x * 3, x]
    best.append(x)
    return best


def shape(value, known):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if not isinstance(value, (list, dict, tuple)):
        return value
    number = None if isinstance(value, tuple) else known.setdefault(id(value), len(known))
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return type(value), number, [(k, shape(v, known)) for k, v in parts]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", TRACES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("counts", [(2, 0, 3, 0, 1), (0, 2, 1, 3, 0)])
def test_as_eager(body, counts):
    f = tracehost.function(body)
    with assert_traces(f, TRACES[body]):
        for count in counts:
            x, n = torch.ones(2), torch.tensor(count)
            expected = body(x, n)
            assert shape(f(x, n), {}) == shape(expected, {})


def a_list_that_a_dict_holds_in_a_side(x, n):
    if n > 0:
        h = [x]
        table = {"h": h}
        if n > 1:
            h = [x * 2]
        h[0] = h[0] + 1
        x = x + table["h"][0]
    return x


@pytest.mark.parametrize("counts, traces", [((2, 0, 3, 0, 1), 2), ((0, 2, 1, 3, 0), 3)])
def test_a_list_that_a_dict_holds_in_a_side(counts, traces):
    f = tracehost.function(a_list_that_a_dict_holds_in_a_side)
    for count in counts:
        x, n = torch.ones(2), torch.tensor(count)
        assert torch.equal(f(x, n), a_list_that_a_dict_holds_in_a_side(x, n))
    assert f.tracing_count() == traces


def test_an_argument_that_a_side_replaces():
    def body(x, items):
        a = items
        if x.sum() > 0:
            a = [x]
        a.append(x)
        return a

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for sign in (1, -1, 1, -1):
            x = torch.ones(2) * sign
            given, expected = [torch.ones(1)], [torch.ones(1)]
            assert shape([f(x, given), given], {}) == shape([body(x, expected), expected], {})


def test_no_graph_of_specs_for_one_list_in_other_places():
    def body(x, n):
        a = [x]
        r = (a, a)
        if n > 1:
            r = (a, [x])
        return r

    with pytest.raises(
        tracehost.StagingError, match="one list or dict is in several places in one and not"
    ):
        tracehost.function(body).get_concrete_function(
            torch.ones(2), tracehost.TensorSpec([], torch.int64)
        )


def held_by_a_dict(x, n):
    h = [x]
    table = {"h": h}
    if n > 1:
        h = [x * 2]
    h.append(x)
    return table, h


def held_by_an_object(x, n):
    h = [x]
    holder = types.SimpleNamespace(h=h)
    if n > 1:
        h = [x * 2]
    holder.h.append(x)
    return h


def held_by_a_dict_before_a_loop(x, n):
    h = [x]
    table = {"h": h}
    for i in range(n):
        h = [x * i]
    h.append(x)
    return table, h


@pytest.mark.parametrize("body", [held_by_a_dict, held_by_an_object, held_by_a_dict_before_a_loop])
def test_no_graph_of_specs_joins_a_list_that_something_else_holds(body):
    with pytest.raises(tracehost.StagingError, match="'h' .*list or dict"):
        tracehost.function(body).get_concrete_function(
            torch.ones(2), tracehost.TensorSpec([], torch.int64)
        )


def test_a_graph_of_specs_joins_a_list_that_nothing_else_holds():
    def body(x, n):
        h = [x]
        if n > 1:
            h = [x * 2]
        for i in range(n):
            h = [h[0] + i]
        h.append(x)
        return h

    f = tracehost.function(body).get_concrete_function(
        torch.ones(2), tracehost.TensorSpec([], torch.int64)
    )
    for count in (0, 1, 2, 3):
        x, n = torch.ones(2), torch.tensor(count)
        assert shape(f(x, n), {}) == shape(body(x, n), {})
