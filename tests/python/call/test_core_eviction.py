"""The limit of live specializations: the least valuable goes, after a trace succeeded."""

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


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_the_newest_stays_and_the_limit_is_kept(limit):
    generator = torch.Generator().manual_seed(3)
    f, seen = make(limit), set()
    for n in torch.randint(0, 12, (200,), generator=generator).tolist():
        play(f, [n])
        assert play(f, [n]) == "h"
        seen.add(n)
        stats = f.stats()
        assert stats["live"] == min(limit, len(seen))
        assert stats["evicted"] == stats["traces"] - stats["live"]


def test_what_took_long_to_trace_outlasts_what_did_not():
    def body(n):
        if n == 0:
            sum(range(3_000_000))  # tens of milliseconds; the others take less than one
        return torch.ones(2) * n

    f = tracehost.function(body, limit=4)
    assert play(f, [0, 1, 2, 3, 4, 5, 6]) == "TTTTTTT"
    assert play(f, [0]) == "h"


def test_what_is_used_between_traces_outlasts_what_comes_once():
    f = make(8)
    play(f, [0, 1])
    for n in range(100, 140):
        assert play(f, [n, 0, 1]) == "Thh"


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
    assert play(f, [999]) == "h"


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
