"""Attributes that a traced body reads, of objects, classes and modules, are part of the signature."""

import dataclasses
import sys
import types

import pytest
import torch
import tracehost
from environment_support import Config, Model, X, checked, put, row, same, take, take_steps
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


# Steps with a model, whose body reads self.factor, self.config.scale and self.bias, and calls self.act.
OF_SELF = {
    "an attribute": [(put(bias=5.0), 2), (put(bias=1.0), 2), (put(unused=1), 2)],
    "an attribute of a nested object": [
        (lambda model: setattr(model.config, "scale", 7.0), 2),
        (put(config=Config(7.0)), 3),
    ],
    "an attribute of the class, then shadowed": [
        (lambda model: setattr(Model, "factor", 3.0), 2),
        (put(factor=9.0), 3),
        (lambda model: delattr(model, "factor"), 3),
    ],
    "a method replaced on the class": [
        (lambda model: setattr(Model, "act", lambda self, x: x - 1), 2)
    ],
}


@pytest.mark.parametrize("name", OF_SELF)
def test_of_self(name, model, monkeypatch):
    for of_class in "factor", "act":  # restored after the test
        monkeypatch.setattr(Model, of_class, getattr(Model, of_class))
    take_steps(OF_SELF[name], model, checked(model.body, model.run))


class Point:
    __slots__ = ("k", "w", "later", "__weakref__")

    def __init__(self):
        self.k = 2.0
        self.w = torch.ones(4)


@dataclasses.dataclass
class Settings:
    k: float = 2.0
    other: float = 0.0


class Other:
    lr = 9.0


def reads_if_there(cfg):
    def body(x):
        return x * cfg.extra if hasattr(cfg, "extra") else x

    return body


OF_AN_OBJECT = {
    "slots, one of them a tensor": row(
        Point,
        lambda point: lambda x: x * point.k + point.w,
        (put(k=3.0), 2),
        (put(w=torch.full((4,), 5.0)), 2),
    ),
    "a field of a dataclass, not the other": row(
        Settings, lambda s: lambda x: x * s.k, (put(other=3.0), 1), (put(k=3.0), 2)
    ),
    "asdict reads all fields": row(
        Settings,
        lambda s: lambda x: x * sum(dataclasses.asdict(s).values()),
        (put(other=3.0), 2),
    ),
    "getattr with a constant does not watch the rest": row(
        Config,
        lambda cfg: lambda x: x * getattr(cfg, "scale", 1.0),
        (put(anything=1), 1),
        (lambda cfg: delattr(cfg, "scale"), 2),
    ),
    "vars watches everything": row(
        Config, lambda cfg: lambda x: x * sum(vars(cfg).values()), (put(more=1.0), 2)
    ),
    "hasattr": row(
        Config, reads_if_there, (put(extra=3.0), 2), (lambda cfg: delattr(cfg, "extra"), 2)
    ),
    "the class of an instance": row(
        Config, lambda cfg: lambda x: x * cfg.lr, (put(__class__=Other), 2)
    ),
    "the dict of an instance": row(
        Config,
        lambda cfg: lambda x: x * cfg.scale,
        (put(__dict__={"scale": 6.0}), 2),
        (put(__dict__={"scale": 2.0}), 2),
    ),
    "the owner of a bound method": row(
        lambda: types.MethodType(lambda self, x: x * self.bias, Model(2.0)),
        lambda bound: lambda x: bound(x),
        (lambda bound: setattr(bound.__self__, "bias", 3.0), 2),
    ),
}


@pytest.mark.parametrize("name", OF_AN_OBJECT)
def test_of_an_object(name):
    take(OF_AN_OBJECT[name])


def test_attribute_appears_in_a_derived_class():
    class Derived(Model):
        pass

    d = Derived()
    f = tracehost.function(lambda x: x * d.factor)
    with assert_traces(f, 2):
        same(f, lambda x: x * 2.0, X)
        Derived.factor = 4.0
        same(f, lambda x: x * 4.0, X)


READS_OF_A_CLASS = {
    "its attribute": lambda x, c: x * c.factor,
    "by a classmethod": lambda x, c: x * c.of_class(),
    "by a staticmethod": lambda x, c: x * c.of_none(),
}


@pytest.mark.parametrize("how", READS_OF_A_CLASS)
def test_attribute_of_a_class_that_is_an_argument(how):
    class Base:
        factor = 2.0

        @classmethod
        def of_class(cls):
            return cls.factor

        @staticmethod
        def of_none():
            return Derived.factor

    class Derived(Base):
        pass

    check = checked(READS_OF_A_CLASS[how])
    for factor, traces in ((2.0, 1), (3.0, 2), (2.0, 2)):
        Base.factor = factor
        check(traces, X, Derived)
    Derived.factor = 5.0
    check(3, X, Derived)


def test_dunder_method_replaced():
    class Scale:
        def __call__(self, x):
            return x * 2

    s = Scale()
    f = tracehost.function(lambda x: s(x))
    with assert_traces(f, 2):
        same(f, lambda x: x * 2, X)
        Scale.__call__ = lambda self, x: x * 5
        same(f, lambda x: x * 5, X)


def test_attribute_of_an_argument():
    check = checked(lambda x, cfg: x * cfg.scale + cfg.lr)
    cfg = Config()
    check(1, X, cfg)
    cfg.scale = 3.0
    check(2, X, cfg)
    cfg.scale = 2.0
    check(2, X, cfg)
    cfg.lr = 4.0
    check(3, X, cfg)


def test_nested_objects_of_an_argument():
    check = checked(lambda x, cfg: x * cfg.inner.table["k"][1])
    cfg = types.SimpleNamespace(inner=types.SimpleNamespace(table={"k": [1.0, 2.0]}))
    check(1, X, cfg)
    cfg.inner.table["k"][1] = 3.0
    check(2, X, cfg)
    cfg.inner = types.SimpleNamespace(table={"k": [1.0, 3.0]})  # a container: equal parts
    check(2, X, cfg)


def test_module_attribute(change):
    config = types.ModuleType("a_users_config")
    config.lr = 0.5
    change("config", config)
    check = checked(lambda x: x * config_of().lr)
    check(1)
    config.lr = 0.25
    check(2)
    config.lr = 0.5
    check(2)


def config_of():
    return config  # noqa: F821  set by the test


def test_import_in_the_body(monkeypatch):
    module = types.ModuleType("a_users_settings")
    module.lr = 0.5
    monkeypatch.setitem(sys.modules, "a_users_settings", module)

    def body(x):
        import a_users_settings

        return x * a_users_settings.lr

    check = checked(body)
    check(1)
    module.lr = 2.0
    check(2)


def test_property():
    class Half:
        def __init__(self):
            self._k = 2.0

        @property
        def k(self):
            return self._k / 2

    h = Half()
    check = checked(lambda x: x * h.k)
    check(1)
    h._k = 6.0
    check(2)
    Half.k = property(lambda self: 9.0)
    check(3)


def test_getattr_with_a_variable():
    cfg = Config()
    cfg.some_name = 2.0
    name = "some_name"
    check = checked(lambda x: x * getattr(cfg, name))
    check(1)
    cfg.some_name = 3.0
    check(2)
    name = "scale"
    check(3)


def test_an_attribute_that_no_tensor_argument_has():
    """transformers asks hasattr(input_ids, "jax"): one trace, until a tensor comes that has it."""

    def body(x, y):
        return x * 3 if hasattr(x, "of_another_library") or hasattr(y, "units") else x * 2

    f = tracehost.function(body)
    plain, marked, other, last = (torch.ones(2) for _ in range(4))
    other.something = 1
    with assert_traces(f, 4):
        for x in (plain, other, plain, other):
            assert torch.equal(f(x, last), body(x, last)) and f.tracing_count() == 1
        marked.of_another_library = True
        for count, (x, y) in enumerate([(marked, plain), (marked, plain)], start=2):
            assert torch.equal(f(x, y), body(x, y)) and f.tracing_count() == count
        del marked.of_another_library
        marked.units = "m"
        assert torch.equal(f(plain, marked), body(plain, marked))
    del marked.units
    with assert_traces(f, 0):
        assert torch.equal(f(marked, plain), body(marked, plain))
