"""What a traced body reads without being passed it: watched slots, captures, side effects."""

import collections
import dataclasses
import functools
import gc
import sys
import threading
import types
import warnings
import weakref

import pytest
import torch
import tracehost
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(4.0)

NUMBER = 2.0
UNRELATED = 1
SHADOWED_LATER = None
LIST = [1.0, 2.0]
DICT = {"a": 1.0, "b": {"c": [2.0]}}
LONG = [0.0] * 2000
GROWS = []
WEIGHT = torch.ones(4)
QUEUE = collections.deque()


class Config:
    lr = 0.5

    def __init__(self, scale=2.0):
        self.scale = scale


CONFIG = Config()


@pytest.fixture
def change(monkeypatch):
    """change(name, value): sets a global of this module, undone after the test."""

    def set_global(name, value):
        monkeypatch.setitem(globals(), name, value)

    return set_global


def same(f, body, *args):
    """Asserts that the Function gives what its body gives."""
    expected = body(*args)
    torch.testing.assert_close(f(*args), expected, rtol=0, atol=0)


# ---- globals and cells --------------------------------------------------------------------------


def read_number(x):
    return x * NUMBER


def test_global_number_is_one_more_trace_and_back_is_a_hit(change):
    f = tracehost.function(read_number)
    same(f, read_number, X)
    change("NUMBER", 3.0)
    same(f, read_number, X)
    assert f.tracing_count() == 2
    change("NUMBER", 2.0)
    same(f, read_number, X)
    assert f.tracing_count() == 2


def test_equal_value_in_a_new_object_is_a_hit(change):
    f = tracehost.function(read_number)
    f(X)
    change("NUMBER", float("2"))
    same(f, read_number, X)
    assert f.tracing_count() == 1


def test_unrelated_global_is_a_hit(change):
    f = tracehost.function(read_number)
    f(X)
    change("UNRELATED", 2)
    change("A_NEW_GLOBAL", 2)
    f(X)
    assert f.tracing_count() == 1


def test_type_of_a_global_counts(change):
    f = tracehost.function(read_number)
    f(X)
    change("NUMBER", 2)
    f(X)
    change("NUMBER", True)
    f(X)
    assert f.tracing_count() == 3


def test_builtin_shadowed_later(change):
    def body(x):
        return x * abs(-2)

    f = tracehost.function(body)
    same(f, body, X)
    change("abs", lambda v: 7)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_cell_rebound():
    k = 2.0

    def body(x):
        return x * k

    f = tracehost.function(body)
    same(f, body, X)
    k = 3.0
    same(f, body, X)
    k = 2.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_many_floats_in_a_cell_are_never_taken_for_each_other():
    k = 0.5

    def body(x):
        return x * k

    f = tracehost.function(body)
    for i in range(200):
        k = float(i % 5) + 0.25
        same(f, body, X)
    assert f.tracing_count() == 5


def test_two_closures_of_one_helper():
    def make(n):
        def scale(x):
            return x * n

        return scale

    twice, thrice = make(2.0), make(3.0)

    def body(x):
        return twice(x) + thrice(x)

    f = tracehost.function(body)
    same(f, body, X)
    thrice.__closure__[0].cell_contents = 4.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_defaults():
    def helper(x, factor=2.0, *, offset=1.0):
        return x * factor + offset

    def body(x):
        return helper(x)

    f = tracehost.function(body)
    same(f, body, X)
    helper.__defaults__ = (3.0,)
    same(f, body, X)
    helper.__kwdefaults__["offset"] = 5.0
    same(f, body, X)
    assert f.tracing_count() == 3


def helper(x):
    return x * NUMBER


def test_helper_reads_a_global(change):
    def body(x):
        return helper(x) + 1

    f = tracehost.function(body)
    same(f, body, X)
    change("NUMBER", 5.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_helper_redefined(change):
    def body(x):
        return helper(x)

    f = tracehost.function(body)
    same(f, body, X)
    change("helper", lambda x: x - 1)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_lambda_over_a_module():
    net = nn.Linear(4, 2)
    f = tracehost.function(lambda x: net(x))
    same(f, net, X)
    with torch.no_grad():
        net.weight.add_(1)
    same(f, net, X)
    assert f.tracing_count() == 1


def test_partial():
    def scale(x, k, *, b):
        return x * k + b

    p = functools.partial(scale, k=2.0, b=1.0)

    def body(x):
        return p(x)

    f = tracehost.function(body)
    same(f, body, X)
    p = functools.partial(scale, k=3.0, b=1.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_partial_as_the_function():
    table = {"k": 2.0}

    def scale(table, x):
        return x * table["k"]

    f = tracehost.function(functools.partial(scale, table))
    same(f, functools.partial(scale, table), X)
    table["k"] = 3.0
    same(f, functools.partial(scale, table), X)
    assert f.tracing_count() == 2


# ---- attributes ---------------------------------------------------------------------------------


class Model:
    factor = 2.0

    def __init__(self, bias=1.0):
        self.bias = bias
        self.config = Config()
        self.count = 0
        self.h = None
        self.unused = 0
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def act(self, x):
        return x * 2

    def body(self, x):
        return self.act(x) * self.factor * self.config.scale + self.bias

    run = tracehost.function(body)

    def traces(self):
        return type(self).run.tracing_count()


@pytest.fixture
def model():
    Model.run = tracehost.function(Model.body)
    return Model()


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
    cfg.inner = types.SimpleNamespace(table={"k": [1.0, 3.0]})
    same(f, body, X, cfg)
    assert f.tracing_count() == 3


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


# ---- lists, dicts, tuples -----------------------------------------------------------------------


def test_list_elements_in_a_global():
    def body(x):
        return x * LIST[0] + LIST[1]

    f = tracehost.function(body)
    same(f, body, X)
    LIST[1] = 7.0
    same(f, body, X)
    assert f.tracing_count() == 2
    LIST[1] = 2.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_list_replaced_by_an_equal_one_is_a_hit(change):
    def body(x):
        return x * LIST[0]

    f = tracehost.function(body)
    same(f, body, X)
    change("LIST", [1.0, 2.0])
    same(f, body, X)
    assert f.tracing_count() == 1
    change("LIST", (1.0, 2.0))
    same(f, body, X)
    change("LIST", [1.0, 2.0, 3.0])
    same(f, body, X)
    assert f.tracing_count() == 3


def test_dict_elements_in_a_global():
    def body(x):
        return x * DICT["a"] + DICT["b"]["c"][0]

    f = tracehost.function(body)
    same(f, body, X)
    DICT["b"]["c"][0] = 4.0
    same(f, body, X)
    DICT["a"] = 3.0
    same(f, body, X)
    assert f.tracing_count() == 3
    DICT["a"], DICT["b"]["c"][0] = 1.0, 2.0
    same(f, body, X)
    assert f.tracing_count() == 3


def test_order_of_a_dict_counts():
    d = {"a": 1.0, "b": 2.0}

    def body(x):
        for k in d.values():
            x = x * 2 + k
        return x

    f = tracehost.function(body)
    same(f, body, X)
    a = d.pop("a")
    d["a"] = a
    same(f, body, X)
    assert f.tracing_count() == 2


def test_tuple_in_a_cell():
    t = (1.0, [2.0])

    def body(x):
        return x * t[0] + t[1][0]

    f = tracehost.function(body)
    for i in range(50):
        t = (float(i % 3) + 0.5, [2.0])
        same(f, body, X)
    t[1][0] = 3.0
    same(f, body, X)
    assert f.tracing_count() == 4


def test_list_of_modules(model):
    def body(x):
        for layer in model.layers:
            x = layer(x)
        return x

    f = tracehost.function(body)
    same(f, body, X)
    with torch.no_grad():
        model.layers[0].weight.mul_(2)
    same(f, body, X)
    assert f.tracing_count() == 1
    model.layers[1] = nn.Linear(4, 4)
    same(f, body, X)
    assert f.tracing_count() == 2
    model.layers.append(nn.Linear(4, 3))
    same(f, body, X)
    assert f.tracing_count() == 3


def test_cycles():
    a, b = Config(), Config()
    a.next, b.next = b, a
    a.list = [a]
    a.list.append(a.list)

    def body(x):
        return x * a.next.next.scale * len(a.list) + a.next.scale

    f = tracehost.function(body)
    same(f, body, X)
    b.scale = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_list_beyond_the_bound():
    def body(x):
        return x * LONG[0] + len(LONG)

    f = tracehost.function(body)
    same(f, body, X)
    LONG[999] = 1.0
    same(f, body, X)
    assert f.tracing_count() == 2
    LONG.append(0.0)
    same(f, body, X)
    assert f.tracing_count() == 3
    del LONG[2000:]
    LONG[999] = 0.0


def test_keys_that_are_objects():
    key = Config()
    d = {key: 2.0, 3: 1.0, (1, 2): 4.0}

    def body(x):
        return x * d[key] + d[3]

    f = tracehost.function(body)
    same(f, body, X)
    d[key] = 5.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_user_eq_that_raises():
    class Bad:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            raise RuntimeError("no comparison")

        def __hash__(self):
            return 1

    b = Bad(2.0)

    def body(x):
        return x * b.k

    f = tracehost.function(body)
    same(f, body, X)
    same(f, body, X)
    assert f.tracing_count() == 1
    b = Bad(3.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_equal_objects_by_user_eq():
    @dataclasses.dataclass(frozen=True)
    class Key:
        name: str
        extra: object = dataclasses.field(default=None, compare=False)

    def body(x, key):
        return x * len(key.name) + (key.extra or 0)

    f = tracehost.function(body)
    same(f, body, X, Key("a"))
    same(f, body, X, Key("a"))
    assert f.tracing_count() == 1
    same(f, body, X, Key("a", 5))
    assert f.tracing_count() == 2
    same(f, body, X, Key("a"))
    same(f, body, X, Key("a", 5))
    assert f.tracing_count() == 2


# ---- captures -----------------------------------------------------------------------------------


def test_captured_tensor_rebound(change):
    def body(x):
        return x + WEIGHT

    f = tracehost.function(body)
    same(f, body, X)
    change("WEIGHT", torch.full((4,), 7.0))
    same(f, body, X)
    assert f.tracing_count() == 1
    change("WEIGHT", torch.ones(4, dtype=torch.float64))
    same(f, body, X)
    change("WEIGHT", torch.ones(1))
    same(f, body, X)
    assert f.tracing_count() == 3
    change("WEIGHT", 1.0)
    same(f, body, X)
    assert f.tracing_count() == 4


def test_attribute_rebound_many_times():
    m = Config()
    m.w = torch.zeros(4)

    def body(x):
        return x + m.w

    f = tracehost.function(body)
    for i in range(50):
        m.w = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


def test_tensors_in_a_list_rebound():
    ws = [torch.zeros(4), torch.ones(4)]

    def body(x):
        return x + ws[0] * ws[1]

    f = tracehost.function(body)
    for i in range(50):
        ws[i % 2] = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


def test_tensor_in_a_cell_rebound():
    w = torch.zeros(4)

    def body(x):
        return x + w

    f = tracehost.function(body)
    for i in range(50):
        w = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.drop(self.bn(self.fc(x))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


BATCH = torch.arange(12.0).reshape(3, 4)


def test_load_state_dict_and_optimizer_step(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.load_state_dict(Net().state_dict())
    same(f, net, BATCH)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    f(BATCH).sum().backward()
    assert net.fc.weight.grad is not None
    optimizer.step()
    same(f, net, BATCH)
    assert f.tracing_count() == 1


def test_module_to_another_dtype(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.to(torch.float64)
    same(f, net, BATCH.double())
    net.float()
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_requires_grad_of_a_parameter(net):
    f = tracehost.function(net)
    f(BATCH)
    net.fc.weight.requires_grad_(False)
    f(BATCH)
    net.fc.weight.requires_grad_(True)
    f(BATCH)
    assert f.tracing_count() == 2


def test_train_and_eval(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.train()
    before = net.bn.running_mean.clone()
    f(BATCH)
    f(BATCH)
    assert f.tracing_count() == 2
    assert not torch.equal(before, net.bn.running_mean)
    assert net.bn.num_batches_tracked.item() == 2
    net.eval()
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_submodule_replaced(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.fc = nn.Linear(4, 4)
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_parameter_replaced_and_added(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.fc.weight = nn.Parameter(torch.ones(4, 4))
    same(f, net, BATCH)
    assert f.tracing_count() == 1
    net.fc.bias = None
    same(f, net, BATCH)
    assert f.tracing_count() == 2
    net.fc.bias = nn.Parameter(torch.ones(4))
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_forward_hook_added(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    handle = net.fc.register_forward_hook(lambda module, args, out: out * 2)
    same(f, net, BATCH)
    assert f.tracing_count() == 2
    handle.remove()
    same(f, net, BATCH)


def test_sequential_order_counts():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = tracehost.function(lambda x: net(x))
    same(f, net, X)
    net[0], net[1] = net[1], net[0]
    same(f, net, X)
    assert f.tracing_count() == 2


def test_tied_weights_untied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    net = Tied()
    f = tracehost.function(net)
    same(f, net, X)
    net.b.weight = nn.Parameter(torch.ones(4, 4))
    same(f, net, X)
    assert f.tracing_count() == 2


def test_parameter_containers():
    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.list = nn.ParameterList([torch.ones(4), torch.ones(4)])
            self.dict = nn.ParameterDict({"one": torch.ones(4)})
            self.subs = nn.ModuleDict({"fc": nn.Linear(4, 4)})

        def forward(self, x):
            return self.subs["fc"](x * self.list[0] + self.list[1] + self.dict["one"])

    net = Lists()
    f = tracehost.function(net)
    same(f, net, X)
    net.list[1] = nn.Parameter(torch.full((4,), 3.0))
    net.dict["one"] = nn.Parameter(torch.full((4,), 4.0))
    same(f, net, X)
    assert f.tracing_count() == 1


def test_recurrent_module():
    rnn = nn.LSTM(4, 3)
    f = tracehost.function(lambda x: rnn(x)[0])
    x = torch.ones(2, 1, 4)
    same(f, lambda x: rnn(x)[0], x)
    with torch.no_grad():
        rnn.weight_ih_l0.mul_(2)
    same(f, lambda x: rnn(x)[0], x)
    assert f.tracing_count() == 1


def test_two_instances_of_one_class():
    class Two(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.w = nn.Parameter(torch.full((4,), float(k)))

        def body(self, x):
            return self.w * x * self.k

        run = tracehost.function(body)

    a, b = Two(1), Two(2)
    for m in (a, b, a, b):
        same(m.run, m.body, X)
    assert Two.run.tracing_count() == 2


def test_instance_is_freed():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.k = 2.0
            self.act = torch.relu
            self.list = [1.0, Config()]

        def body(self, x):
            return self.act(self.fc(x)) * self.k * self.list[0]

        run = tracehost.function(body)

    owner = Owner()
    same(owner.run, owner.body, X)
    same(owner.run, owner.body, X)
    dead = [weakref.ref(owner), weakref.ref(owner.fc.weight), weakref.ref(owner.list[1])]
    enabled = gc.isenabled()
    gc.disable()
    try:
        del owner
        assert [d() for d in dead] == [None, None, None]
    finally:
        if enabled:
            gc.enable()
    owner = Owner()
    same(Owner.run.__get__(owner), owner.body, X)
    assert Owner.run.tracing_count() == 2


def test_closure_that_refers_to_its_owner_is_freed():
    def body(owner, x):
        return owner.act(x)

    f = tracehost.function(body)
    owner = Config()
    owner.act = (lambda o: lambda x: x * o.scale)(owner)
    same(f, body, owner, X)
    same(f, body, owner, X)
    owner.scale = 3.0
    same(f, body, owner, X)
    assert f.tracing_count() == 2
    dead = weakref.ref(owner)
    del owner
    gc.collect()
    assert dead() is None


def test_capture_without_a_path_is_held_and_seen_in_place():
    QUEUE.append(torch.ones(4))

    def body(x):
        return x + QUEUE[0]

    f = tracehost.function(body)
    same(f, body, X)
    QUEUE[0].mul_(5)
    same(f, body, X)
    assert f.tracing_count() == 1
    QUEUE.clear()


def test_capture_that_is_also_an_argument(net):
    def body(w, x):
        return net.fc(x) + w.sum()

    f = tracehost.function(body)
    same(f, body, net.fc.weight, BATCH)
    same(f, body, net.fc.weight, BATCH)
    assert f.tracing_count() == 1
    same(f, body, torch.ones(4, 4, requires_grad=True), BATCH)
    same(f, body, net.fc.weight, BATCH)
    assert f.tracing_count() == 2


def test_object_argument_with_tensors():
    def body(x, m):
        return m(x)

    f = tracehost.function(body)
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    same(f, body, X, a)
    same(f, body, X, b)
    assert f.tracing_count() == 2
    with torch.no_grad():
        a.weight.add_(1)
    same(f, body, X, a)
    assert f.tracing_count() == 2


# ---- side effects -------------------------------------------------------------------------------


def side_effects(record):
    return [w for w in record if issubclass(w.category, tracehost.SideEffectWarning)]


def test_counter_changes_at_the_trace_only():
    class Counter:
        def __init__(self):
            self.count = 0

        def body(self, x):
            self.count += 1
            return x + 1

        run = tracehost.function(body)

    c = Counter()
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for _ in range(4):
            assert torch.equal(c.run(X), X + 1)
    assert c.count == 1
    assert Counter.run.tracing_count() == 1
    messages = side_effects(record)
    assert len(messages) == 1
    assert "self.count" in str(messages[0].message)
    assert "test_environment.py:" in str(messages[0].message)


def test_attribute_made_in_the_body():
    cfg = Config()

    def body(x):
        if not hasattr(cfg, "seen"):
            cfg.seen = 1
        return x + 1

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning, match=r"cfg\.seen"):
        f(X)
    f(X)
    assert f.tracing_count() == 1


def test_global_list_appended():
    def body(x):
        GROWS.append(1)
        return x + 1

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning, match="GROWS"):
        f(X)
    f(X)
    assert len(GROWS) == 1 and f.tracing_count() == 1
    GROWS.clear()


def test_nonlocal_counter():
    n = 0

    def body(x):
        nonlocal n
        n += 1
        return x + 1

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning, match="nonlocal n"):
        f(X)
    f(X)
    assert n == 1 and f.tracing_count() == 1


def line_of(function, text):
    """The line of `function`'s source that contains `text`."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


class Cell(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.h = start

    def body(self, x):
        self.h = x + 1
        return self.h * 2


@pytest.mark.parametrize("start", [None, torch.zeros(4)], ids=["none", "tensor"])
def test_attribute_rebound_to_a_tensor_is_refused(start):
    cell = Cell(start)
    f = tracehost.function(cell.body)
    line = line_of(Cell.body, "self.h = x + 1")
    with pytest.raises(tracehost.TraceError, match=rf"self\.h.*test_environment\.py:{line}"):
        f(X)
    assert f.tracing_count() == 0
    with pytest.raises(tracehost.TraceError, match=r"self\.h"):
        f(X)


def test_tensor_appended_to_a_list_is_refused():
    kept = []

    def body(x):
        kept.append(x + 1)
        return x

    f = tracehost.function(body)
    with pytest.raises(tracehost.TraceError, match="kept"):
        f(X)
    assert f.tracing_count() == 0


def test_tuple_of_tensors_stored_is_refused():
    cfg = Config()
    cfg.state = None

    def body(x):
        cfg.state = (x + 1, x + 2)
        return x

    with pytest.raises(tracehost.TraceError, match=r"cfg\.state"):
        tracehost.function(body)(X)


def test_update_in_place_is_repeated():
    cfg = Config()
    cfg.h = torch.zeros(4)

    def body(x):
        cfg.h.add_(x)
        return cfg.h * 2

    f = tracehost.function(body)
    for i in range(1, 4):
        assert torch.equal(f(X), X * i * 2)
    assert torch.equal(cfg.h, X * 3)
    assert f.tracing_count() == 1


def test_captured_slot_set_to_none_in_the_body_is_seen_later():
    cfg = Config()
    cfg.h = torch.ones(4)

    def body(x):
        if cfg.h is None:
            return x
        x = x + cfg.h
        cfg.h = None
        return x

    f = tracehost.function(body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(f(X), X + 1)
        assert torch.equal(f(X), X)
        assert torch.equal(f(X), X)
    assert f.tracing_count() == 2


def test_another_thread_changes_a_watched_slot(change):
    cfg = Config()

    def elsewhere():
        exec("cfg.scale = 99.0", {"cfg": cfg})

    def body(x):
        y = x * cfg.scale
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return y

    f = tracehost.function(body)
    with pytest.raises(tracehost.TraceError, match=r"cfg\.scale.*another thread"):
        f(X)
    assert f.tracing_count() == 0


# ---- options ------------------------------------------------------------------------------------


def test_watch_off_bakes_values_and_still_follows_captures(change):
    def body(x):
        return x * NUMBER + WEIGHT

    f = tracehost.function(body, watch=False)
    same(f, body, X)
    change("NUMBER", 5.0)
    change("WEIGHT", torch.full((4,), 3.0))
    assert torch.equal(f(X), X * 2.0 + 3.0)
    assert f.tracing_count() == 1


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
    f(X)
    f(X)
    assert f.tracing_count() == 1


MODES = {"double", 3}


def test_elements_of_a_set():
    def body(x):
        return x * 2 if "double" in MODES else x

    f = tracehost.function(body)
    same(f, body, X)
    MODES.discard("double")
    same(f, body, X)
    MODES.add("other")
    same(f, body, X)
    MODES.discard("other")
    MODES.add("double")
    same(f, body, X)
    assert f.tracing_count() == 3


def test_set_changed_in_the_body():
    seen = set()

    def body(x):
        seen.add("here")
        return x + 1

    f = tracehost.function(body)
    with pytest.warns(tracehost.SideEffectWarning, match="seen"):
        f(X)
    f(X)
    assert f.tracing_count() == 1


def test_nested_function_and_its_global(change):
    inner = tracehost.function(read_number)

    def body(x):
        return inner(x) + 1

    f = tracehost.function(body)
    same(f, lambda x: read_number(x) + 1, X)
    change("NUMBER", 3.0)
    same(f, lambda x: read_number(x) + 1, X)
    assert f.tracing_count() == 2


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
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.half()
    net.float()
    net.load_state_dict(Net().state_dict(), assign=True)
    same(f, net, BATCH)
    assert f.tracing_count() <= 2
