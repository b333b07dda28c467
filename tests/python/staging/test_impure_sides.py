"""An `if` on a tensor: the side that eager takes alone has effects, at the trace and at each later call."""

import gc
import random
import warnings
import weakref

import impure_sides_effects
import impure_sides_results
import impure_sides_stores
import pytest
import torch
import tracehost

CASES = impure_sides_effects.CASES | impure_sides_results.CASES | impure_sides_stores.CASES
VALUES = (1.0, 3.0, 1.5, 4.0, 1.0, 9.0, 0.5, 3.5, float("nan"), 2.0, 3.0, 1.0, -1.0, 1.25)
# Each call finds another state, or another path.
NO_HITS = {"thread_local", "texts_of_tensors"}


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, repr(value.tolist())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(x) for x in value]
    if isinstance(value, dict):
        return {key: shown(x) for key, x in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, shown(vars(value))
    return repr(value)


def told(error):
    attributes = {k: shown(x) for k, x in vars(error).items() if k != "__notes__"}
    return type(error).__name__, shown(error.args), attributes, type(error.__cause__)


def run(make, wrap):
    torch.manual_seed(0)
    random.seed(0)
    body, look = make()
    function = wrap(body)
    seen = []
    for value in VALUES:
        try:
            result = shown(function(torch.ones(2) * value))
        except BaseException as error:  # KeyboardInterrupt and SystemExit, too
            result = told(error)
        seen.append((value, result, repr(look())))
    torch.set_grad_enabled(True)
    return seen, function


@pytest.mark.parametrize("name", CASES)
def test_each_call_is_as_in_eager(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = run(CASES[name], lambda body: body)
        seen, function = run(CASES[name], tracehost.function)
    assert seen == expected
    assert function.stats()["hits"] > 0 or name in NO_HITS


def test_the_table_is_whole():
    assert len(CASES) >= 80


class Holder:
    pass


def dropped_in_a_side(holder, x):
    if x.sum() > 5:
        del holder.c
    return x * 1


def dropped_in_a_loop(holder, x):
    while x.sum() > 5:
        x = x - 5
        if hasattr(holder, "c"):
            del holder.c
    return x * 1


@pytest.mark.parametrize("body", [dropped_in_a_side, dropped_in_a_loop])
def test_what_the_body_drops_is_freed(body):
    """No exception of an attempt to stage a block holds it in a reference cycle."""
    holder = Holder()
    holder.c = Holder()
    kept = weakref.ref(holder.c)
    f = tracehost.function(lambda x: body(holder, x))
    gc.disable()
    try:
        f(torch.ones(2))
        assert kept() is not None
        f(torch.ones(2) * 9)
        assert kept() is None
    finally:
        gc.enable()
