"""A range(), enumerate() or zip() of traced values that is no loop's: kept, compared, indexed. It is Python's own."""

import dataclasses

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


@dataclasses.dataclass
class Wrapped:
    value: object


class Kept:
    value = None


kept = Kept()


def store(x, n):
    kept.value = range(n)
    return x


def store_in_dict(x, n):
    kept.value = {"range": range(n)}
    return x


def store_in_object(x, n):
    kept.value = Wrapped(range(n))
    return x


def store_with_another(x, n):
    kept.value = (range(n), 1)
    return x


def store_slice(x, n):
    kept.value = range(n + 3)[1:]
    return x


def store_text(x, n):
    kept.value = f"{range(n)}"
    return x


def store_type(x, n):
    kept.value = type(range(n)).__name__
    return x


def class_of(x, n):
    return x + int(isinstance(range(n), range))


def item(x, n):
    numbers = range(1, n + 5)
    return x + numbers[0]


def end(x, n):
    numbers = range(n)
    return x + numbers.stop


def equal(x, n):
    return x + (1 if range(n) == range(3) else 0)


def has(x, n):
    numbers = range(n)
    return x + (1 if 2 in numbers else 0)


def has_items(x, n):
    return x + (1 if range(n - 1) else 0)


def places(x, n):
    numbers = range(n)
    return x + numbers.index(0) + numbers.count(1)


def matched(x, n):
    match range(n):
        case [first, *rest]:
            return x + first + len(rest)
    return x


def of_tensor(x, n):
    return x[torch.tensor(range(n))]


def counted_twice(x, n):
    pairs = enumerate(range(n))
    next(pairs)
    return x + sum(i * j for i, j in pairs)


def zipped(x, n):
    pairs = zip(range(n), range(1, 9))
    next(pairs)
    return x + sum(i * j for i, j in pairs)


BODIES = (
    store, store_in_dict, store_in_object, store_with_another, store_slice, store_text, store_type, class_of,
    item, end, equal, has, has_items, places, matched, of_tensor, counted_twice, zipped,
)  # fmt: skip


def shown(value):
    return value.tolist() if isinstance(value, torch.Tensor) else repr(value)


def results(call, numbers):
    kept.value = None
    return [(shown(call(torch.ones(6), n)), shown(kept.value)) for n in numbers]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_of_a_number_from_a_tensor(body):
    numbers = [k % 4 + 1 for k in range(9)]

    def read(x, t):
        return body(x, t.item())

    f = tracehost.function(read)
    got = results(lambda x, n: f(x, torch.tensor(n)), numbers)
    assert got == results(body, numbers)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_of_a_counter(body):
    class Counter:
        n = 0

    def counting(counter):
        def call(x):
            counter.n = counter.n % 4 + 1
            return body(x, counter.n)

        return call

    eager, f = counting(Counter()), tracehost.function(counting(Counter()))
    assert results(lambda x, _: f(x), range(9)) == results(lambda x, _: eager(x), range(9))


def loop_back(x, n):
    for i in reversed(range(n)):
        x = x * 2 + i
    return x


def loop_back_by_two(x, n):
    for i in reversed(range(1, n, 2)):
        x = x * 2 + i
    return x


def loop_of_pairs(x, n):
    for i, (j, k) in enumerate(zip(range(n), reversed(range(n)))):
        x = x * 2 + i + j * k
    return x


def count(x, n):
    return x * len(range(1, n))


@pytest.mark.parametrize("body", [loop_back, loop_back_by_two, loop_of_pairs, count])
def test_one_that_a_loop_iterates_is_one_graph_for_all_ends(body):
    def read(x, t):
        return body(x, t.item())

    f = tracehost.function(read)
    numbers = [0, 3, 1, 2, 7, 4]
    with assert_traces(f, 1):
        got = results(lambda x, n: f(x, torch.tensor(n)), numbers)
        assert got == results(body, numbers)
