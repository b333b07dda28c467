"""Slots that hold numbers which the body reads and stores (counters, rates): inputs of the graph from the second trace on."""

import threading
import warnings

import pytest
import torch
import tracehost
from slot_programs import PROGRAMS, Thing, global_variable

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
X = torch.ones(2)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program):
    (eager, expected), (body, got) = program(), program()
    if program is global_variable:  # there is one only
        told = [(eager(X * i).tolist(), expected()) for i in range(12)]
        body, got = program()
    else:
        told = [(eager(X * i).tolist(), repr(expected())) for i in range(12)]
    f = tracehost.function(body)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.SideEffectWarning)
        for i, (result, state) in enumerate(told):
            assert f(X * i).tolist() == result
            assert (got() if program is global_variable else repr(got())) == state
    assert f.tracing_count() <= PROGRAMS[program], f.report()


def test_what_is_stored_is_a_number_of_python():
    thing = Thing(n=0, values=[])

    @tracehost.function
    def f(x):
        thing.n += 1
        thing.pair = (thing.n, [thing.n * 0.5])
        return x * 2

    for _ in range(4):
        f(X)
        assert type(thing.n) is int and type(thing.pair[0]) is int
        assert type(thing.pair[1][0]) is float


def test_a_body_that_raises_leaves_numbers_of_python():
    thing = Thing(n=0, m=7)

    @tracehost.function
    def f(x, fails):
        thing.n += 1
        thing.copy = thing.m
        if fails:
            raise KeyError("no")
        return x * thing.n

    f(X, False)
    for n in (2, 3):
        with pytest.raises(KeyError):
            f(X, True)
        assert (thing.n, thing.copy) == (n, 7) and type(thing.n) is int
    assert torch.equal(f(X, False), X * 4)


def test_a_value_of_another_type_or_size_is_another_trace():
    thing = Thing(n=0)

    @tracehost.function
    def f(x):
        thing.n += 1
        return x * 2

    for value, after in (
        (0, 1),
        (5, 6),
        (2.5, 3.5),
        (True, 2),
        (2**80, 2**80 + 1),
        (7, 8),
        (0.25, 1.25),
    ):
        thing.n = value
        f(X)
        assert thing.n == after and type(thing.n) is type(after)


def test_a_call_that_raises_stores_what_eager_stores():
    thing = Thing(n=4)

    @tracehost.function
    def f(x):
        thing.n -= 1
        return x * (6 // thing.n)

    for n in (3, 2, 1, 0, -1, -2):
        if n == 0:
            with pytest.raises(ZeroDivisionError):
                f(X)
        else:
            assert torch.equal(f(X), X * (6 // n))
        assert thing.n == n


def test_a_number_that_leaves_int64_is_traced_with_its_value():
    thing = Thing(n=1)

    @tracehost.function
    def f(x):
        thing.n *= 2**40
        return x * 2

    f(X)
    thing.n = 3
    for power in (40, 80, 120):
        f(X)
        assert thing.n == 3 * 2**power
    thing.n = 5
    f(X)
    assert thing.n == 5 * 2**40


def test_a_number_that_leaves_int64_behind_an_effect_is_an_error():
    thing, total = Thing(n=1), torch.zeros(2)

    @tracehost.function
    def f(x):
        total.add_(1)
        thing.n *= 2**40
        return x * 2

    f(X)
    thing.n = 3
    f(X)
    with pytest.raises(RuntimeError, match="an int past 64 bits"):
        f(X)
    assert thing.n == 3 * 2**40


def test_a_check_comes_before_the_effects():
    def make():
        thing, w = Thing(n=0), torch.zeros(2, requires_grad=True)

        def step(x):
            (w * x).sum().backward()
            with torch.no_grad():
                w.sub_(w.grad)
            noise = torch.rand(2)
            thing.n += 1
            if thing.n % 4 == 0:
                w.grad = None
            return w.detach() + noise

        return step, thing, w

    (eager, thing, w), (body, other, v) = make(), make()
    f = tracehost.function(body)
    for seed in range(12):
        torch.manual_seed(seed)
        expected = eager(X)
        torch.manual_seed(seed)
        assert torch.equal(f(X), expected) and torch.equal(w, v) and thing.n == other.n
        assert (w.grad is None) == (v.grad is None)
    assert f.tracing_count() <= 4


def test_two_instances_share_graphs():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        @tracehost.function
        def forward(self, x):
            self.calls += 1
            return x * self.calls

    a, b = Net(), Net()
    for n in range(1, 5):
        assert torch.equal(a(X), X * n) and torch.equal(b(X * 2), X * 2 * n)
        assert a.calls == b.calls == n


def test_code_that_the_graph_calls_sees_each_store():
    thing = Thing(n=0)

    def look(x):
        thing.seen = thing.n
        return x * thing.n

    @tracehost.function
    def f(x):
        thing.n += 1
        return tracehost.py_function(look, [x], torch.float32)

    for n in range(1, 5):
        assert torch.equal(f(X), X * n) and thing.seen == n


def test_several_threads():
    """Each call adds one, but for those that run at once, as in eager code; no number of the graph is ever seen."""
    thing, kinds = Thing(n=0), set()

    @tracehost.function
    def f(x):
        thing.n += 1
        return x * 2

    f(X)
    f(X)

    def work():
        for _ in range(50):
            f(X)
            kinds.add(type(thing.n))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert kinds == {int} and 2 < thing.n <= 202


def test_a_concrete_function_is_of_one_value():
    thing = Thing(n=3)

    @tracehost.function
    def f(x):
        thing.n += 1
        return x * thing.n

    concrete = f.get_concrete_function(tracehost.TensorSpec([2], torch.float32))
    assert torch.equal(concrete(X), X * 4)
    assert type(thing.n) is int
