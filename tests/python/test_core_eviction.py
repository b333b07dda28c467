"""The limit of live specializations: the least recently used goes, after a trace succeeded."""

import gc
import weakref

import pytest
import torch
import tracehost

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def make(limit):
    return tracehost.function(lambda n: torch.ones(2) * n, limit=limit)


def play(f, calls):
    """`T` for each call that traced, `h` for a hit."""
    result = ""
    for n in calls:
        before = f.tracing_count()
        assert torch.equal(f(n), torch.ones(2) * n)
        result += "hT"[f.tracing_count() - before]
    return result


@pytest.mark.parametrize(
    "limit, calls, expected",
    [
        (1, "00110", "ThThT"),
        (1, "010101", "TTTTTT"),
        (2, "010101", "TThhhh"),
        (2, "01201", "TTTTT"),  # 0, 1 | 2 evicts 0 | 0 evicts 1 | 1 evicts 2
        (2, "010212", "TThTTh"),  # 2 evicts 1, as 0 was used later | 1 evicts 0
        (2, "0102010", "TThThTh"),
        (3, "012031", "TTThTT"),  # 3 evicts 1 | 1 evicts 2
        (3, "01203012", "TTThThTT"),
        (3, "0123012", "TTTTTTT"),
    ],
)
def test_the_order_of_eviction_is_exact(limit, calls, expected):
    f = make(limit)
    assert play(f, map(int, calls)) == expected
    stats = f.stats()
    assert stats["live"] == min(limit, len(set(calls)))
    assert stats["evicted"] == stats["traces"] - stats["live"]


def test_the_order_is_exact_over_a_random_sequence():
    generator = torch.Generator().manual_seed(3)
    f, live = make(4), []
    for n in torch.randint(0, 7, (300,), generator=generator).tolist():
        assert play(f, [n]) == ("h" if n in live else "T")
        live = (
            [m for m in live if m != n][-3:] + [n]
            if n not in live
            else [m for m in live if m != n] + [n]
        )
    assert f.stats()["live"] == 4


def test_a_failed_trace_evicts_nothing():
    def body(n):
        if n < 0:
            raise ValueError
        return torch.ones(2) * n

    f = tracehost.function(body, limit=2)
    assert play(f, [0, 1]) == "TT"
    for n in (-1, -2, -3):
        with pytest.raises(ValueError):
            f(n)
    assert play(f, [0, 1, 0]) == "hhh"
    assert f.stats()["evicted"] == 0


def test_a_thousand_retraces_keep_to_the_limit():
    f = make(8)
    for n in range(1000):
        f(n)
    stats = f.stats()
    assert (stats["traces"], stats["live"], stats["evicted"]) == (1000, 8, 992)
    assert play(f, [999, 992, 991]) == "hhT"


def test_python_objects_do_not_grow_with_retraces():
    f = make(4)

    def count(start):
        for n in range(start, start + 200):
            f(n)
        gc.collect()
        return len(gc.get_objects())

    count(0)
    first = count(200)
    assert count(400) - first < 20


def test_what_an_evicted_specialization_held_is_freed():
    gc.collect()
    f = tracehost.function(lambda x, key: x * 2, limit=1)

    class Key:
        def __eq__(self, other):
            return self is other

        def __hash__(self):
            return 1

    first = Key()
    ref = weakref.ref(first)
    f(torch.ones(2), first)
    del first
    f(torch.ones(2), 1)
    gc.collect()
    assert ref() is None and f.stats()["live"] == 1


def test_specializations_of_objects_that_are_gone_go_first():
    class Config:
        pass

    f = tracehost.function(lambda x, c: x * 2, limit=2)
    kept = Config()
    f(torch.ones(2), kept)
    gone = Config()
    f(torch.ones(2), gone)
    del gone
    gc.collect()
    f(torch.ones(2), 5)  # takes the place of the one that can't match again
    before = f.tracing_count()
    f(torch.ones(2), kept)
    assert f.tracing_count() == before


def test_the_default_limit_is_sixty_four():
    f = tracehost.function(lambda n: torch.ones(2) * n)
    for n in range(70):
        f(n)
    assert f.stats()["live"] == 64 and f.stats()["evicted"] == 6


def test_limits_of_two_functions_are_their_own():
    f, g = make(1), make(3)
    assert play(g, [0, 1, 2]) == "TTT"
    assert play(f, [0, 1, 2]) == "TTT"
    assert play(g, [0, 1, 2]) == "hhh"
