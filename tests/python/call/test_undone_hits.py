"""An op that raises on a hit, for values: the graph undoes what it has changed, and the body runs in its place."""

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
import tracehost
from torch import nn
from tracehost.testing import assert_traces

CASES = {}
W = torch.arange(12.0).reshape(4, 3)
INDEXES = (0, 1, 2, 9, 9, 3, 1)


class Held:
    def __init__(self):
        self.count = 0
        self.tensor = torch.zeros(3)
        self.last = None


def case(make):
    CASES[make.__name__] = make
    return make


@case
def counts():
    held = Held()

    def body(i):
        held.count += 1
        return W[i]

    return body, held


@case
def stores_a_tensor():
    held = Held()

    def body(i):
        held.last = i * 2
        row = W[i]
        held.last = row * 2
        return row

    return body, held


@case
def catches():
    held = Held()

    def body(i):
        try:
            return W[i] * 2
        except IndexError:
            held.count += 1
            return torch.zeros(3)

    return body, held


@case
def catches_behind_a_change():
    held = Held()

    def body(i):
        held.tensor.add_(1)
        try:
            return W[i] * 2
        except IndexError:
            return held.tensor * 1

    return body, held


@case
def raises_another():
    held = Held()

    def body(i):
        try:
            return W[i]
        except IndexError as error:
            raise ValueError("no such row") from error

    return body, held


@case
def cleans_up():
    held = Held()

    def body(i):
        held.tensor.add_(1)
        try:
            return W[i]
        finally:
            held.tensor.mul_(2)
            held.count += 1

    return body, held


@case
def leaves_a_with():
    held = Held()

    @contextlib.contextmanager
    def swapped():
        before = held.tensor.clone()
        held.tensor.fill_(7)
        try:
            yield
        finally:
            held.tensor.copy_(before)

    def body(i):
        with swapped(), torch.no_grad():
            return W[i] + held.tensor

    return body, held


@case
def suppresses():
    held = Held()

    def body(i):
        row = torch.ones(3)
        with contextlib.suppress(IndexError):
            row = W[i]
        return row

    return body, held


@case
def draws():
    held = Held()

    def body(i):
        noise = torch.rand(3)
        held.count += 1
        return W[i] + noise

    return body, held


@case
def steps_an_optimizer():
    held = Held()
    held.last = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([held.last], 0.5)
    rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def body(i):
        optimizer.zero_grad()
        (held.last * 2).sum().backward()
        optimizer.step()
        rate.step()
        held.count = optimizer.param_groups[0]["lr"]
        return W[i]

    return body, held


@case
def trains_a_norm():
    held = Held()
    norm = nn.BatchNorm1d(3)
    held.tensor = norm.running_mean

    def body(i):
        held.count += 1
        return F.cross_entropy(norm(W), torch.stack([i, i, i, i]) - 1)

    return body, held


@case
def loops():
    held = Held()

    def body(i):
        total = torch.zeros(3)
        for k in torch.stack([i, i - i]):
            total = total + W[k]
        held.count += 1
        return total

    return body, held


def look(held):
    return held.count, held.tensor.tolist(), held.last if held.last is None else held.last.tolist()


def run(make, wrap):
    torch.manual_seed(0)
    body, held = make()
    function = wrap(body)
    seen = []
    for i in INDEXES:
        try:
            result = function(torch.tensor(i)).tolist()
        except Exception as error:
            result = type(error), str(error), type(error.__cause__)
        seen.append((i, result, look(held), torch.rand(1).tolist()))
    return seen, function


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    expected, _ = run(CASES[name], lambda body: body)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.TraceWarning)
        seen, function = run(CASES[name], tracehost.function)
    assert seen == expected
    stats = function.stats()
    assert stats["eager"] + stats["failed"] == 2
    assert stats["hits"] >= 1


def test_what_is_counted():
    body, _ = catches()
    f = tracehost.function(body)
    for i in INDEXES:
        f(torch.tensor(i))
    stats = f.stats()
    assert (stats["calls"], stats["hits"], stats["traces"]) == (7, 4, 1)
    assert (stats["eager"], stats["failed"]) == (2, 0)
    body, _ = stores_a_tensor()  # in place of None, and then of a tensor: two traces
    f = tracehost.function(body)
    for i in INDEXES:
        with contextlib.suppress(IndexError):
            f(torch.tensor(i))
    stats = f.stats()
    assert (stats["hits"], stats["eager"], stats["failed"]) == (3, 0, 2)


def test_the_bodys_exception_has_a_note_that_names_the_op():
    body, _ = stores_a_tensor()
    f = tracehost.function(body)
    f(torch.tensor(0)), f(torch.tensor(0))
    with pytest.raises(IndexError) as caught:
        f(torch.tensor(9))
    first = body.__code__.co_firstlineno
    assert caught.value.__notes__ == [
        f"in body (test_undone_hits.py:{first}), the op at test_undone_hits.py:{first + 2}"
    ]


def test_the_body_runs_where_a_miss_is_forbidden():
    """It is no trace."""
    body, held = stores_a_tensor()
    f = tracehost.function(body)
    with assert_traces(f, 2):
        f(torch.tensor(0)), f(torch.tensor(0))
        with tracehost.stance("fail_on_miss"), pytest.raises(IndexError, match="out of bounds"):
            f(torch.tensor(9))
        assert held.last.item() == 18


def test_behind_a_py_function_the_graph_raises_itself():
    log = []

    def seen(x):
        log.append(1)
        return x

    @tracehost.function
    def f(i):
        tracehost.py_function(seen, [i], torch.int64)
        try:
            return W[i]
        except IndexError:
            return torch.zeros(3)

    with pytest.warns(tracehost.TraceWarning, match="in a `try`"):
        f(torch.tensor(0))
    with pytest.raises(IndexError):
        f(torch.tensor(9))
    assert len(log) == 2
