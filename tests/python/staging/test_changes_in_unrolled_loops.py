"""Lists, deques and counters from outside that an unrolled loop changes: each hit changes what it finds."""

import collections

import pytest
import torch
import tracehost


class State:
    held = None


BODIES = {}


def case(make):
    def add(body):
        BODIES[body.__name__] = (make, body)
        return body

    return add


@case(list)
def reverse(x, n):
    for _ in range(n):
        State.held.reverse()
        x = x + 1
    return x


@case(list)
def sort(x, n):
    for _ in range(n):
        State.held.sort()
    return x


@case(list)
def reversed_slice(x, n):
    for _ in range(n):
        State.held[:] = State.held[::-1]
    return x


@case(list)
def insert(x, n):
    for _ in range(n):
        State.held.insert(0, 4)
    return x


@case(list)
def pop(x, n):
    for _ in range(n):
        State.held.append(State.held.pop(0))
    return x


@case(list)
def extended_by_itself(x, n):
    for _ in range(n):
        State.held.extend(State.held[:1])
    return x


@case(collections.deque)
def rotate(x, n):
    for _ in range(n):
        State.held.rotate(1)
    return x


@case(collections.deque)
def taken_left(x, n):
    for _ in range(n):
        State.held.append(State.held.popleft())
    return x


@case(lambda values: collections.Counter({"a": values[0]}))
def count(x, n):
    for _ in range(n):
        State.held.update(["a"])
    return x


@case(lambda values: dict(enumerate(values)))
def swapped_entries(x, n):
    for _ in range(n):
        State.held[0], State.held[1] = State.held[1], State.held[0]
    return x


@case(lambda values: collections.OrderedDict(enumerate(values)))
def moved_to_the_end(x, n):
    for _ in range(n):
        State.held.move_to_end(0)
    return x


@pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.SideEffectWarning"
)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("turns", [1, 3])
def test_each_call_changes_what_it_finds(name, turns):
    make, body = BODIES[name]
    f = tracehost.function(body)
    for values in ([5, 6, 1], [7, 8, 3], [9, 7, 8], [5, 6, 1], [1, 2, 3]):
        given = torch.ones(2), torch.tensor(turns)
        State.held = make(values)
        expected = body(*given)
        wanted, State.held = State.held, make(values)
        assert torch.equal(f(*given), expected)
        assert State.held == wanted and list(State.held) == list(wanted)


def test_a_counter_of_a_loops_iterations():
    counter = collections.Counter()

    @tracehost.function
    def f(x):
        i = 0
        while i < 4 and x.sum() < 6:
            x = x + 1
            counter.update(["a"])
            i += 1
        return x

    seen = []
    for values in ((1, 2, 3), (-1, -2, -3), (1, 2, 3), (-4, 1, 1), (1, 2, 3), (-1, -1, -1)):
        f(torch.tensor(values, dtype=torch.float32))
        seen.append(counter["a"])
    assert seen == [0, 4, 4, 7, 7, 10]
