"""Tapes of graphs whose branches and loops write to tensors from around them, beside eager: values, versions, aliases."""

import pytest
import torch
import tracehost
from tape_facts import facts

PROGRAMS = []


def program(make):
    PROGRAMS.append(make)
    return make


def by_sign(*signs):
    return [torch.full((4, 3), float(sign)) * (i + 1) for i, sign in enumerate(signs)]


@program
def loop_that_adds_to_a_result():
    def body(x):
        total = x.sum(0) * 0
        for row in x:
            total.add_(row)
        return total * 2, total

    return body, [torch.randn(4, 3) for _ in range(6)]


@program
def loop_that_fills_rows():
    def body(x):
        rows = torch.empty(4, 3)
        for i in tracehost.range(4):
            rows[i] = x[i] * 2
        return rows, rows.sum()

    return body, [torch.randn(4, 3) for _ in range(6)]


@program
def loop_that_writes_to_an_argument():
    def body(x):
        for row in x * 1:
            x[0].add_(row)
            x.mul_(0.5)
        return x.sum()

    return body, [torch.randn(4, 3) for _ in range(6)]


@program
def writes_as_often_as_values_say():
    def body(x):
        y = x * 2
        while y.sum() < 100:
            y.mul_(2).add_(1)
            x.add_(1)
        return y

    return body, [torch.full((4, 3), float(v)) for v in (1, 3, 9, 1, 2, 100, 1)]


@program
def branch_that_writes():
    def body(x):
        y = x + 1
        if x.sum() > 0:
            y.mul_(3).add_(1)
            x.neg_()
        else:
            y.sub_(1)
        z = x * 2
        return y, z

    return body, by_sign(1, 1, 1, -1, 1, -1, 1)


@program
def branch_in_a_loop_that_writes():
    def body(x):
        total = x.sum() * 0
        for row in x:
            if row.sum() > 0:
                total.add_(row.sum())
            else:
                x[0].sub_(1)
        return total, x.mean()

    return body, [torch.randn(4, 3) for _ in range(8)]


@program
def view_that_a_loop_writes_to():
    def body(x):
        y = x * 2
        first, turned = y[0], y.t()
        for row in x:
            first.add_(row)
            turned[1].mul_(2)
        return y, first, turned.sum()

    return body, [torch.randn(4, 3) for _ in range(6)]


@program
def branch_that_gives_what_it_wrote():
    def body(x):
        y = x + 1
        if x.sum() > 0:
            z = y.mul_(3)
        else:
            z = x * 2
        y.add_(1)
        return z * 1, y

    return body, by_sign(-1, -1, -1, -1, 1, 1, -1, 1)


@program
def branch_that_writes_or_makes_another():
    def body(x):
        y = x + 1
        if x.sum() > 0:
            y.mul_(3)
        else:
            y = y * 2
        return y * 2, y

    return body, by_sign(1, 1, 1, -1, 1, -1, 1)


@program
def result_that_is_what_a_later_op_writes_to():
    def body(x):
        y = x + 1
        if x.sum() > 0:
            z = y
        else:
            z = x * 2
        y.add_(1)
        return z * 1, y

    return body, by_sign(-1, -1, -1, -1, 1, 1, -1, 1)


@program
def write_behind_which_an_index_fails():
    def body(x):
        y = x.clone()
        for row in x:
            y.add_(row)
            x.mul_(0.5)
        return y[(y > 0).sum() % 4]

    return body, [torch.randn(4, 3) for _ in range(6)]


@pytest.mark.parametrize("make", PROGRAMS)
def test_as_eager(make):
    body, calls = make()
    f = tracehost.function(body, optimize="exact")
    with torch.no_grad():
        for x in calls:
            mine, its = x.clone(), x.clone()
            assert facts([f(mine), mine]) == facts([body(its), its])
    assert f.tracing_count() == 1


@pytest.mark.parametrize("make", PROGRAMS)
def test_values_in_inference_mode(make):
    body, calls = make()
    f = tracehost.function(body, optimize="exact")
    with torch.inference_mode():
        for x in calls:
            mine, its = x.clone(), x.clone()
            results, expected = [f(mine), mine], [body(its), its]
            leaves = torch.utils._pytree.tree_leaves
            assert all(map(torch.equal, leaves(results), leaves(expected)))


@pytest.mark.parametrize(
    "make",
    [
        loop_that_adds_to_a_result,
        loop_that_writes_to_an_argument,
        writes_as_often_as_values_say,
        branch_that_writes,
    ],
)
def test_by_a_tape(make):
    body, calls = make()
    f = tracehost.function(body, optimize="exact")
    with torch.no_grad():
        for x in calls:
            f(x.clone())
    assert f.specializations()[0].runs_by.startswith("a tape")


def test_arguments_that_share_memory():
    def body(x, y):
        for row in y:
            x.add_(row.sum())
        return x * y

    f = tracehost.function(body, optimize="exact")
    with torch.no_grad():
        for call in range(8):
            base = torch.arange(8.0).reshape(4, 2) + call
            twin = base.clone()
            if call < 5:
                mine, its = (base.clone(), base), (twin.clone(), twin)
            else:
                mine, its = (base[:2], base[1:3]), (twin[:2], twin[1:3])
            assert facts([f(*mine), *mine]) == facts([body(*its), *its])
