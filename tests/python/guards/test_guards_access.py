"""Stores and reads by C code and by the object model: kept methods, methodcaller, partial, exec, `__dict__`, dir()."""

import functools
import operator

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning"
)

X = torch.ones(1)


class Box:
    pass


def kept_method(h, box):
    push = h.append
    return lambda x: push(x * 2)


def method_caller(h, box):
    return lambda x: operator.methodcaller("append", x * 2)(h)


def partial_append(h, box):
    push = functools.partial(list.append, h)
    return lambda x: push(x * 2)


@pytest.mark.parametrize("made", [kept_method, method_caller, partial_append])
def test_a_hit_appends_what_c_code_appends(made):
    h = []
    store = made(h, None)

    @tracehost.function
    def f(x):
        store(x)
        return x

    with assert_traces(f, 1):
        for n in range(4):
            f(torch.full((1,), float(n)))
        assert [t.item() for t in h] == [0, 2, 4, 6]


def test_a_hit_sets_what_a_partial_sets():
    box = Box()
    put = functools.partial(setattr, box)

    @tracehost.function
    def f(x):
        put("a", x * 2)
        return x

    with assert_traces(f, 2):  # the first call finds no attribute
        for n in range(4):
            f(torch.full((1,), float(n)))
            assert box.a.item() == n * 2


def test_names_that_exec_reads_and_stores():
    space = {"n": 0}

    @tracehost.function
    def f(x):
        exec("n += 1", space)
        return x * space["n"]

    for n in range(1, 6):
        assert f(X).item() == n and space["n"] == n


def test_attributes_that_are_replaced_at_once():
    box = Box()
    box.a = 1.0

    @tracehost.function
    def f(x):
        box.__dict__ = {"a": box.a, "b": x}
        return x * box.a

    for _ in range(3):
        x = torch.ones(1)
        f(x)
        assert box.b is x
        box.b = None
    made = [e for e in tracehost.events(f) if e.kind == "trace"][0]
    line = f.python_function.__code__.co_firstlineno + 2
    assert made.notes == (
        "the body replaces all attributes of an object from outside at "
        f"test_guards_access.py:{line}: it is traced again",
    )


def test_a_class_that_gets_its_own_access():
    class Own:
        k = 2.0

    own = Own()

    @tracehost.function
    def f(x):
        return x * own.k

    assert f(X).item() == 2
    Own.__getattribute__ = lambda self, name: 9.0
    assert f(X).item() == 9
    del Own.__getattribute__
    assert f(X).item() == 2


def test_names_of_a_class_that_dir_lists():
    class Own:
        pass

    own = Own()
    own.w_1 = 1.0

    @tracehost.function
    def f(x):
        return x * sum(getattr(own, name) for name in dir(own) if name.startswith("w_"))

    with assert_traces(f, 3):
        assert f(X).item() == 1
        own.w_2 = 3.0
        assert f(X).item() == 4
        Own.w_3 = 5.0
        assert f(X).item() == 9
        assert f(X).item() == 9


def test_a_class_that_shadows_what_its_base_has():
    class Base:
        seen = False
        count = 0

    class Sub(Base):
        pass

    @tracehost.function
    def f(x):
        y = x * (2 if Sub.seen else 3) + Sub.count
        Sub.seen = True
        Sub.count += 1
        return y

    for n in range(6):
        assert f(X).item() == (2 + n if n else 3)
        assert Sub.count == n + 1 and not Base.seen and Base.count == 0
