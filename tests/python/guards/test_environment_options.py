"""Options of the decorator that concern what a body reads, and lifetimes."""

import gc
import sys

import pytest
import torch
import tracehost
from environment_support import BATCH, Config, Net, X, checked, same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


NUMBER = 2.0

WEIGHT = torch.ones(4)


def read_number(x):
    return x * NUMBER


def test_watch_off_bakes_values_and_still_follows_captures(change):
    def body(x):
        return x * NUMBER + WEIGHT

    f = tracehost.function(body, watch=False)
    with assert_traces(f, 1):
        same(f, body, X)
        change("NUMBER", 5.0)
        change("WEIGHT", torch.full((4,), 3.0))
        assert torch.equal(f(X), X * 2.0 + 3.0)


def test_names_that_library_code_uses_do_not_run_user_code():
    class Loud:
        def __getattr__(self, name):
            raise AssertionError(f"looked up {name}")

        def __eq__(self, other):
            raise AssertionError("compared")

        __hash__ = None

    loud = Loud()

    def body(x):
        return x if loud is None else x + 1

    f = tracehost.function(body)
    with assert_traces(f, 1):
        f(X)
        f(X)


def test_nested_function_and_its_global(change):
    inner = tracehost.function(read_number)
    f = tracehost.function(lambda x: inner(x) + 1)
    with assert_traces(f, 2):
        same(f, lambda x: read_number(x) + 1, X)
        change("NUMBER", 3.0)
        same(f, lambda x: read_number(x) + 1, X)


def test_nothing_is_kept_after_the_function_is_gone():
    model = Config()
    model.w = torch.ones(4)
    model.list = [1.5, object()]
    watched = (model, model.w, model.list, model.list[0], model.list[1], Config, X)

    def use():
        f = tracehost.function(lambda x: x * model.scale * model.list[0] + model.w)
        f(X)
        f(X)
        model.scale += 1
        f(X)
        f(X)

    use()
    gc.collect()
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(20):
        use()
    gc.collect()
    assert [sys.getrefcount(o) for o in watched] == before


def test_module_to_half_and_back_with_a_loaded_state(net):
    check = checked(net)
    check(1, BATCH)
    net.half()
    net.float()
    net.load_state_dict(Net().state_dict(), assign=True)
    check(1, BATCH)
