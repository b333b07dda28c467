"""What a branch changes in code that it calls: objects, containers and iterators of the body's own. The condition is checked then."""

import itertools

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


class Record:
    def __init__(self):
        self.count, self.items, self.table = 0, [], {}


class Slotted:
    __slots__ = ("count", "items", "table")

    def __init__(self):
        self.count, self.items, self.table = 0, [], {}


def counts(record, x):
    record.count = record.count + 1


def appends(record, x):
    record.items.append(x * 2)


def stores_by_key(record, x):
    record.table["x"] = x * 3


def updates(record, x):
    record.table.update(x=x * 3)


def by_setattr(record, x):
    setattr(record, "count", 5)  # noqa: B010


def in_its_dict(record, x):
    vars(record)["count"] = 7


def nothing(record, x):
    return x * 2


CALLEES = [counts, appends, stores_by_key, updates, by_setattr, nothing]


def of_an_object(make, callee, otherwise=nothing):
    def body(x):
        record = make()
        if x.sum() > 0:
            callee(record, x)
        else:
            otherwise(record, x)
        return sum(record.items, x + record.count) + sum(record.table.values())

    return body


def of_a_closure(x):
    rows = [x]

    def add():
        rows.append(x)

    if x.sum() > 0:
        add()
    return sum(rows)


def of_a_nested_list(x):
    table = {"rows": [[x]]}

    def add():
        table["rows"][0].append(x)

    if x.sum() > 0:
        add()
    return sum(table["rows"][0])


def of_a_list(x):
    rows = [x]
    if x.sum() > 0:
        rows.append(x * 2)
        rows[0] = -x
    return sum(rows)


def of_a_set(x):
    seen = {1}
    if x.sum() > 0:
        seen.add(3)
    return x * sum(seen)


def of_two_branches(x):
    rows = [x]
    if x.sum() > 0:
        rows.append(x * 2)
    else:
        rows.insert(0, x * 5)
    return rows[0] * 2 + sum(rows)


def of_a_list_iterator(x):
    left = iter([1, 2, 3])
    if x.sum() > 0:
        next(left)
    return x * next(left)


def of_a_generator(x):
    left = (n * n for n in range(1, 9))
    if x.sum() > 0:
        next(left)
    return x * next(left)


def of_an_enumeration(x):
    left = enumerate([4, 5, 6])
    if x.sum() > 0:
        next(left)
    return x * next(left)[0] + x


BODIES = {
    **{
        f"{c.__name__} {m.__name__}": of_an_object(m, c) for c in CALLEES for m in (Record, Slotted)
    },
    "in_its_dict": of_an_object(Record, in_its_dict),
    "otherwise": of_an_object(Record, nothing, appends),
    "both": of_an_object(Record, counts, appends),
    **{b.__name__: b for b in (of_a_closure, of_a_nested_list, of_a_list, of_a_set)},
    **{b.__name__: b for b in (of_two_branches, of_a_list_iterator, of_a_generator)},
    "of_an_enumeration": of_an_enumeration,
}


@pytest.mark.parametrize("signs", [(1, -1, 1, -1, -1, 1), (-1, 1, -1, 1, 1, -1)])
@pytest.mark.parametrize("name", BODIES)
def test_either_branch_is_as_in_eager(name, signs):
    body = BODIES[name]
    f = tracehost.function(body)
    for sign in signs:
        x = torch.ones(2) * sign
        try:
            got = f(x)
        except tracehost.StagingError as error:
            # What the branch that is not taken has done to an iterator is not taken back.
            assert "the iterator 'left'" in str(error) and signs[0] < 0 and f.tracing_count() == 0
            continue
        assert torch.equal(got, body(x))
    assert f.tracing_count() <= 3


def test_a_counter_of_the_body_is_staged_once():
    f = tracehost.function(of_an_object(Record, nothing))
    with assert_traces(f, 1):
        f(torch.ones(2)), f(-torch.ones(2))


def test_without_a_value_it_is_rejected():
    f = tracehost.function(of_a_list)
    with pytest.raises(
        tracehost.StagingError, match="a branch of the if .* changes the list 'rows' in"
    ):
        f.get_concrete_function(tracehost.TensorSpec([2]))
    g = tracehost.function(of_an_object(Record, counts))
    with pytest.raises(tracehost.StagingError, match=r"changes 'record\.count' in place"):
        g.get_concrete_function(tracehost.TensorSpec([2]))
    h = tracehost.function(of_a_list, value_reads="error")
    with pytest.raises(tracehost.StagingError, match="changes the list 'rows' in place"):
        h(torch.ones(2))


def test_a_loop_that_changes_an_object_is_rejected():
    def body(x, n):
        record = Record()
        for _i in range(n):
            counts(record, x)
        return x + record.count

    with pytest.raises(tracehost.StagingError, match=r"changes 'record\.count' in place"):
        tracehost.function(body, value_reads="error")(torch.ones(2), torch.tensor(3))


def test_what_the_function_was_given_is_not_walked():
    """A large model behind an argument costs nothing."""
    deep = {"rows": [[n] for n in range(20_000)]}

    def body(x, deep):
        y = x * len(deep["rows"])
        if x.sum() > 0:
            y = y + len(deep["rows"][5])
        return y

    f = tracehost.function(body)
    for sign in (1, -1):
        x = torch.ones(2) * sign
        assert torch.equal(f(x, deep), body(x, deep))


def test_pairs_are_compared_by_their_position():
    def body(x):
        pairs = zip(itertools.count(1), [x, x * 2, x * 3])
        if x.sum() > 0:
            next(pairs)
        return next(pairs)[1]

    f = tracehost.function(body)
    for sign in (1, -1, 1):
        x = torch.ones(2) * sign
        assert torch.equal(f(x), body(x))


def adds_to_a_part(x, n):
    record = Record()
    record.part = Record()
    i = 0
    while i < n:
        record.part.count += 2
        i = i + 1
    return x * record.part.count


def adds_at_a_negative_key(x, n):
    table = {-1: 1}
    i = 0
    while i < n:
        table[-1] += 2
        i = i + 1
    return x * table[-1]


def adds_in_a_branch(x, n):
    record = Record()
    record.part = Record()
    for i in tracehost.range(n):
        if i > 1:
            record.part.count += i
    return x * record.part.count


@pytest.mark.parametrize("body", [adds_to_a_part, adds_at_a_negative_key, adds_in_a_branch])
def test_augmented_assignment_to_a_place_is_carried(body):
    """Not only by a name: its owner or key may be an expression of its own."""
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (3, 0, 5):
            assert torch.equal(f(torch.ones(2), torch.tensor(n)), body(torch.ones(2), n))
