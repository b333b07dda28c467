"""Loops whose body does what a loop of the graph can't: Python runs them, and the graph checks what it needs."""

import collections

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0, 3.0])


def rows_of_rows(x, n):
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            row.append(x[i] * x[j])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def tokens(x, n):
    found = []
    for _i in range(n):
        token = x.argmax()
        found.append(token.item())
        if token == 0:
            break
        x = x.roll(1) * 0.9
    return found


def tokens_of_a_while(x, n):
    found = []
    token = x.argmax()
    while token != 0 and len(found) < n:
        found.append(token.item())
        x = x.roll(1) * 0.9
        token = x.argmax()
    return found, x


def by_label(x, n):
    groups = collections.defaultdict(list)
    for value in x[:2]:
        groups[int(value) % 2].append(value * n)
    return dict(groups)


def seen(x, n):
    known = set()
    total = 0
    for i in range(n):
        key = int(x[i]) % 2
        if key not in known:
            known.add(key)
            total += key
    return total, len(known)


def a_text(x, n):
    text = ""
    for _i in range(n):
        text += "a"
    return x * len(text)


def a_tuple(x, n):
    rows = ()
    for i in range(n):
        rows = (*rows, x * i)
    return rows


class Cell:
    def __init__(self):
        self.state = torch.zeros(())
        self.steps = 0

    def step(self, value):
        self.state = self.state * 0.5 + value
        self.steps += 1


def of_an_object(x, n):
    cell = Cell()
    for value in x:
        cell.step(value * n)
    return cell.state, cell.steps


def sizes_of_ops(x, n):
    total = x.sum() * 0
    for size in torch.stack([n, n + 1]):
        total = total + torch.ones(int(size)).sum()
    return total


# how many traces the calls with 2, 3, 2, 3 make
BODIES = {
    rows_of_rows: 2,
    tokens: 2,
    tokens_of_a_while: 1,
    by_label: 1,
    seen: 2,
    a_text: 2,
    a_tuple: 2,
    of_an_object: 1,
    sizes_of_ops: 1,
}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_such_a_loop_is_unrolled(body):
    f = tracehost.function(body)
    with assert_traces(f, BODIES[body]):
        for n in (2, 3, 2, 3):
            torch.testing.assert_close(f(X, torch.tensor(n)), body(X, torch.tensor(n)))
    assert f.stats()["hits"] > 0


def returned(x, n):
    rows = []
    for i in range(n):
        rows.append(x * i)
    return rows


def sliced(x, n):
    rows = [x]
    for i in range(n):
        rows.append(x * i)
    return rows[1:], rows[-1], [row + 1 for row in rows], len(rows)


def changed(x, n):
    rows = []
    for i in range(n):
        rows.append(x * i)
    last = rows.pop()
    rows.reverse()
    return last, sum(rows), tuple(rows), rows + [x]


def asked(x, n):
    rows = []
    for value in x:
        if value > n:
            rows.append(value)
    if not rows:
        return x.sum()
    return torch.stack(rows).sum()


def a_range(x, n):
    return range(n), x


LISTS = {returned: 2, sliced: 2, changed: 2, asked: 1, a_range: 2}


@pytest.mark.parametrize("body", LISTS, ids=lambda body: body.__name__)
def test_a_list_of_the_graph_becomes_one_of_python(body):
    f = tracehost.function(body)
    with assert_traces(f, LISTS[body]):
        for n in (2, 3, 2, 3):
            ours, eagers = f(X, torch.tensor(n)), body(X, torch.tensor(n))
            assert type(ours) is type(eagers)
            if body is a_range:
                assert ours[0] == eagers[0]
            else:
                torch.testing.assert_close(ours, eagers)


def test_a_list_from_outside_is_as_after_one_call():
    log = []

    @tracehost.function
    def f(x, n):
        found = set()
        for _i in range(n):
            log.append("a")
            found.add(1)
        return x

    with pytest.warns(tracehost.SideEffectWarning):
        f(X, torch.tensor(2))
    assert log == ["a", "a"]


def test_a_long_loop_is_rejected():
    @tracehost.function
    def f(x):
        known = set()
        for _row in x:
            known.add(1)
        return x

    with pytest.raises(tracehost.StagingError, match="changes the set 'known' in place"):
        f(torch.ones(1000))


def test_a_trace_from_specs_makes_a_list_of_the_graph():
    @tracehost.function
    def f(x):
        rows = []
        for row in x:
            rows.append(row * 2)
        return torch.stack(rows)

    made = f.get_concrete_function(tracehost.TensorSpec([3]))
    torch.testing.assert_close(made(X), X * 2)


def test_a_step_by_zero_is_the_error_of_range():
    @tracehost.function
    def f(a, b, c):
        total = 0
        for i in range(a, b, c):
            total += i
        return total

    def call(*numbers):
        return f(*map(torch.tensor, numbers))

    assert call(0, 5, 2) == 6
    for _ in range(2):
        with pytest.raises(ValueError, match=r"range\(\) arg 3 must not be zero"):
            call(0, 5, 0)
    assert f.tracing_count() == 1


def test_a_parameter_is_changed_in_place():
    layer = torch.nn.Linear(2, 1)
    layer.weight.grad = torch.ones(1, 2)

    @tracehost.function
    def f(n):
        for _i in range(n):
            with torch.no_grad():
                layer.weight -= 0.5 * layer.weight.grad
        return n

    before = layer.weight.detach().clone()
    with assert_traces(f, 1):
        for n in (2, 3, 0):
            f(torch.tensor(n))
        torch.testing.assert_close(layer.weight.detach(), before - 2.5)


def test_the_body_can_not_catch_what_staging_raises():
    def body(a, b):
        rows = []
        for x in a:
            try:
                for y in b:
                    rows.append(x * y)
            except Exception:
                rows.append(x)
        return torch.stack(rows)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(2):
            torch.testing.assert_close(f(X, X[:2]), body(X, X[:2]))
