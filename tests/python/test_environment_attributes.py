"""Attributes that a traced body reads, of objects, classes and modules, are part of the signature."""

import dataclasses
import sys
import types

import pytest
import torch
import tracehost
from environment_support import Config, Model, X, same

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def test_attribute_of_self(model):
    same(model.run, model.body, X)
    model.bias = 5.0
    same(model.run, model.body, X)
    model.bias = 1.0
    same(model.run, model.body, X)
    model.unused += 1
    same(model.run, model.body, X)
    assert model.traces() == 2


def test_attribute_of_a_nested_object(model):
    same(model.run, model.body, X)
    model.config.scale = 7.0
    same(model.run, model.body, X)
    model.config = Config(7.0)
    same(model.run, model.body, X)
    assert model.traces() == 3


def test_class_attribute_then_shadowed(model, monkeypatch):
    same(model.run, model.body, X)
    monkeypatch.setattr(Model, "factor", 3.0)
    same(model.run, model.body, X)
    assert model.traces() == 2
    model.factor = 9.0
    same(model.run, model.body, X)
    assert model.traces() == 3
    del model.factor
    same(model.run, model.body, X)
    assert model.traces() == 3


def test_attribute_appears_in_a_derived_class(monkeypatch):
    class Derived(Model):
        pass

    d = Derived()
    f = tracehost.function(lambda x: x * d.factor)
    same(f, lambda x: x * 2.0, X)
    Derived.factor = 4.0
    same(f, lambda x: x * 4.0, X)
    assert f.tracing_count() == 2


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

    body = READS_OF_A_CLASS[how]
    f = tracehost.function(body)
    for factor, traces in ((2.0, 1), (3.0, 2), (2.0, 2)):
        Base.factor = factor
        same(f, body, X, Derived)
        assert f.tracing_count() == traces
    Derived.factor = 5.0
    same(f, body, X, Derived)
    assert f.tracing_count() == 3


def test_method_replaced_on_the_class(model, monkeypatch):
    same(model.run, model.body, X)
    monkeypatch.setattr(Model, "act", lambda self, x: x - 1)
    same(model.run, model.body, X)
    assert model.traces() == 2


def test_dunder_method_replaced(monkeypatch):
    class Scale:
        def __call__(self, x):
            return x * 2

    s = Scale()
    f = tracehost.function(lambda x: s(x))
    same(f, lambda x: x * 2, X)
    Scale.__call__ = lambda self, x: x * 5
    same(f, lambda x: x * 5, X)
    assert f.tracing_count() == 2


def test_attribute_of_an_argument():
    def body(x, cfg):
        return x * cfg.scale + cfg.lr

    f = tracehost.function(body)
    cfg = Config()
    same(f, body, X, cfg)
    cfg.scale = 3.0
    same(f, body, X, cfg)
    cfg.scale = 2.0
    same(f, body, X, cfg)
    assert f.tracing_count() == 2
    cfg.lr = 4.0
    same(f, body, X, cfg)
    assert f.tracing_count() == 3


def test_nested_objects_of_an_argument():
    def body(x, cfg):
        return x * cfg.inner.table["k"][1]

    f = tracehost.function(body)
    cfg = types.SimpleNamespace(inner=types.SimpleNamespace(table={"k": [1.0, 2.0]}))
    same(f, body, X, cfg)
    cfg.inner.table["k"][1] = 3.0
    same(f, body, X, cfg)
    cfg.inner = types.SimpleNamespace(table={"k": [1.0, 3.0]})  # a container: equal parts
    same(f, body, X, cfg)
    assert f.tracing_count() == 2


def test_module_attribute(change):
    config = types.ModuleType("a_users_config")
    config.lr = 0.5
    change("config", config)

    def body(x):
        return x * config_of().lr

    f = tracehost.function(body)
    same(f, body, X)
    config.lr = 0.25
    same(f, body, X)
    config.lr = 0.5
    same(f, body, X)
    assert f.tracing_count() == 2


def config_of():
    return config  # noqa: F821  set by the test


def test_import_in_the_body(monkeypatch):
    module = types.ModuleType("a_users_settings")
    module.lr = 0.5
    monkeypatch.setitem(sys.modules, "a_users_settings", module)

    def body(x):
        import a_users_settings

        return x * a_users_settings.lr

    f = tracehost.function(body)
    same(f, body, X)
    module.lr = 2.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_slots():
    class Point:
        __slots__ = ("k", "w", "later", "__weakref__")

        def __init__(self):
            self.k = 2.0
            self.w = torch.ones(4)

    p = Point()

    def body(x):
        return x * p.k + p.w

    f = tracehost.function(body)
    same(f, body, X)
    p.k = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2
    p.w = torch.full((4,), 5.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_dataclass_config():
    @dataclasses.dataclass
    class Settings:
        k: float = 2.0
        other: int = 0

    s = Settings()

    def body(x):
        return x * s.k

    f = tracehost.function(body)
    same(f, body, X)
    s.other = 3
    same(f, body, X)
    assert f.tracing_count() == 1
    s.k = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_asdict_reads_all_fields():
    @dataclasses.dataclass
    class Settings:
        hidden_field: float = 2.0

    s = Settings()

    def body(x):
        return x * sum(dataclasses.asdict(s).values())

    f = tracehost.function(body)
    same(f, body, X)
    s.hidden_field = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_property():
    class Half:
        def __init__(self):
            self._k = 2.0

        @property
        def k(self):
            return self._k / 2

    h = Half()

    def body(x):
        return x * h.k

    f = tracehost.function(body)
    same(f, body, X)
    h._k = 6.0
    same(f, body, X)
    Half.k = property(lambda self: 9.0)
    same(f, body, X)
    assert f.tracing_count() == 3


def test_getattr_with_a_variable():
    cfg = Config()
    cfg.some_name = 2.0
    name = "some_name"

    def body(x):
        return x * getattr(cfg, name)

    f = tracehost.function(body)
    same(f, body, X)
    cfg.some_name = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2
    name = "scale"
    same(f, body, X)
    assert f.tracing_count() == 3


def test_getattr_with_a_constant_does_not_watch_the_rest():
    cfg = Config()

    def body(x):
        return x * getattr(cfg, "scale", 1.0)

    f = tracehost.function(body)
    same(f, body, X)
    cfg.anything = 1
    same(f, body, X)
    assert f.tracing_count() == 1
    del cfg.scale
    same(f, body, X)
    assert f.tracing_count() == 2


def test_vars_watches_everything():
    cfg = Config()

    def body(x):
        return x * sum(vars(cfg).values())

    f = tracehost.function(body)
    same(f, body, X)
    cfg.more = 1.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_hasattr():
    cfg = Config()

    def body(x):
        return x * cfg.extra if hasattr(cfg, "extra") else x

    f = tracehost.function(body)
    same(f, body, X)
    cfg.extra = 3.0
    same(f, body, X)
    del cfg.extra
    same(f, body, X)
    assert f.tracing_count() == 2


def test_class_of_an_instance_changed():
    class Other:
        lr = 9.0

    cfg = Config()

    def body(x):
        return x * cfg.lr

    f = tracehost.function(body)
    same(f, body, X)
    cfg.__class__ = Other
    same(f, body, X)
    assert f.tracing_count() == 2


def test_instance_dict_replaced():
    cfg = Config()

    def body(x):
        return x * cfg.scale

    f = tracehost.function(body)
    same(f, body, X)
    cfg.__dict__ = {"scale": 6.0}
    same(f, body, X)
    cfg.__dict__ = {"scale": 2.0}
    same(f, body, X)
    assert f.tracing_count() == 2


def test_bound_method_in_a_cell():
    cfg = Config()
    cfg_method = Model().act
    owner = cfg_method.__self__
    owner.gain = 2.0
    bound = types.MethodType(lambda self, x: x * self.gain, owner)

    def body(x):
        return bound(x)

    f = tracehost.function(body)
    same(f, body, X)
    owner.gain = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2
    del cfg
