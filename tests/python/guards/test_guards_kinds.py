"""Guards on what an object is beside its attributes: its class, what the class inherits, names that Python keeps; methods of classes
that appear later; hooks of metaclasses; modules; switches of torch. Each call gives what eager gives, while the change comes between."""

import linecache
import warnings

import pytest
import torch
import tracehost

X = torch.ones(2)
HEADER = "import collections, functools, gc, importlib, logging, pickle, sys, threading, types, weakref\nimport torch\n"

BASES = "class P:\n    k = 2.0\nclass Q:\n    k = 3.0\nclass A(P):\n    pass\nclass B(Q):\n    pass\na, b = A(), B()"

# What is there, what the body computes, and what comes between its calls.
PROGRAMS = {
    # The class of an object.
    "isinstance": (BASES, "2.0 if isinstance(a, A) else 3.0", ["a.__class__ = B", "a.__class__ = A"]),
    "isinstance of a tuple": (BASES, "2.0 if isinstance(a, (int, B)) else 3.0", ["a.__class__ = B", "a.__class__ = A"]),
    "type": (BASES, "{'A': 2.0, 'B': 3.0}[type(a).__name__]", ["a.__class__ = B", "a.__class__ = A"]),
    "type is": (BASES, "2.0 if type(a) is A else 3.0", ["a.__class__ = B", "a.__class__ = A"]),
    "__class__": (BASES, "2.0 if a.__class__ is A else 3.0", ["a.__class__ = B", "a.__class__ = A"]),
    "class in slots": ("class A: __slots__ = ()\nclass B: __slots__ = ()\na = A()", "2.0 if isinstance(a, A) else 3.0", ["a.__class__ = B", "a.__class__ = A"]),
    "class of an element": (BASES + "\nheld = [a]", "sum(2.0 if isinstance(o, A) else 3.0 for o in held)", ["a.__class__ = B", "a.__class__ = A"]),
    "attribute after __class__": (BASES, "a.k", ["a.__class__ = B", "a.__class__ = A"]),
    # What a class inherits.
    "bases": (BASES, "2.0 if Q in A.__mro__ else 3.0", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    "attribute of a base": (BASES, "a.k", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    "attribute of a base's base": (BASES + "\nclass C(A): pass\nc = C()", "c.k", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    "issubclass": (BASES, "2.0 if issubclass(A, P) else 3.0", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    "isinstance of a base": (BASES, "2.0 if isinstance(a, P) else 3.0", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    "isinstance of what the body makes": (BASES, "2.0 if isinstance(A(), P) else 3.0", ["A.__bases__ = (Q,)", "A.__bases__ = (P,)"]),
    # Methods that appear.
    "__call__": ("class A: pass\na = A()", "2.0 if callable(a) else 3.0", ["A.__call__ = lambda s: 1", "del A.__call__"]),
    "__eq__": ("class A: pass\na, b = A(), A()", "2.0 if a == b else 3.0", ["A.__eq__ = lambda s, o: True", "del A.__eq__"]),
    "__ne__": ("class A: pass\na, b = A(), A()", "2.0 if a != b else 3.0", ["A.__ne__ = lambda s, o: False", "del A.__ne__"]),
    "__bool__": ("class A: pass\na = A()", "2.0 if a else 3.0", ["A.__bool__ = lambda s: False", "del A.__bool__"]),
    "__getattr__": ("class A: pass\na = A()", "getattr(a, 'k', 2.0)", ["A.__getattr__ = lambda s, n: 5.0", "del A.__getattr__"]),
    "__getattr__ of hasattr": ("class A: pass\na = A()", "2.0 if hasattr(a, 'k') else 3.0", ["A.__getattr__ = lambda s, n: 5.0", "del A.__getattr__"]),
    "__getattribute__": ("class A: k = 2.0\na = A()", "a.k", ["A.__getattribute__ = lambda s, n: 5.0", "del A.__getattribute__"]),
    "__set__ of a descriptor": (
        "class D:\n    def __get__(self, o, t): return 2.0\nclass A: k = D()\na = A()\na.__dict__['k'] = 5.0",
        "a.k",
        ["D.__set__ = lambda s, o, v: None", "del D.__set__"],
    ),
    "__get__ of a class attribute": ("class D: scale = 2.0\nclass A: k = D()\na = A()", "getattr(a.k, 'scale', 7.0)", ["D.__get__ = lambda s, o, t: 5.0", "del D.__get__"]),
    "a method that covers a base's": (BASES + "\nP.get = lambda s: 2.0", "a.get()", ["A.get = lambda s: 5.0", "del A.get"]),
    "hook of a metaclass": ("class M(type): pass\nclass A(metaclass=M): pass\na = A()", "2.0 if isinstance(1, A) else 3.0", ["M.__instancecheck__ = lambda c, o: True", "del M.__instancecheck__"]),
    "attribute of a metaclass": ("class M(type): pass\nclass A(metaclass=M): pass", "getattr(A, 'k', 2.0)", ["M.k = 5.0", "del M.k", "M.__getattr__ = lambda c, n: 7.0"]),
    # Names.
    "name of a class": ("class A: pass", "2.0 if A.__name__ == 'A' else 3.0", ["A.__name__ = 'B'", "A.__name__ = 'A'"]),
    "qualified name of a class": ("class A: pass", "float(len(A.__qualname__))", ["A.__qualname__ = 'A.B'"]),
    "name of a function": ("def h(): pass", "2.0 if h.__name__ == 'h' else 3.0", ["h.__name__ = 'k'", "h.__name__ = 'h'"]),
    "annotations of a function": ("def h(x: int): pass", "2.0 if h.__annotations__['x'] is int else 3.0", ["h.__annotations__['x'] = float", "h.__annotations__ = {'x': int}"]),
    "attribute of a function": ("def h(): pass\nh.k = 2.0", "h.k", ["h.k = 3.0"]),
    # Modules.
    "sys.modules": ("m = types.ModuleType('held_module')\nm.K = 2.0\nsys.modules['held_module'] = m", "importlib.import_module('held_module').K", ["m.K = 3.0", "n = types.ModuleType('held_module'); n.K = 5.0; sys.modules['held_module'] = n"]),
    # Registrations.
    "singledispatch": (
        "@functools.singledispatch\ndef h(v): return 2.0\nclass A: pass\na = A()",
        "h(a)",
        ["h.register(A, lambda v: 3.0)", "h.register(A, lambda v: 5.0)"],
    ),
    "singledispatch of a base": (BASES + "\n@functools.singledispatch\ndef h(v): return 2.0", "h(a)", ["h.register(P, lambda v: 3.0)"]),
    # Other objects.
    "weak proxy": ("class A: k = 2.0\na = A()\np = weakref.proxy(a)", "p.k", ["a.k = 3.0", "a.k = 5.0"]),
    "subclass of a weak reference": ("class R(weakref.ref): pass\nclass A: k = 2.0\na = A()\nr = R(a)", "r().k", ["a.k = 3.0"]),
    "namespace": ("ns = types.SimpleNamespace(a=1, sub=types.SimpleNamespace(b=2))", "float(len(repr(ns)))", ["ns.sub.b = 2000", "ns.a = 10"]),
    "namespaces are equal": ("a, b = types.SimpleNamespace(k=1), types.SimpleNamespace(k=1)", "2.0 if a == b else 3.0", ["a.k = 2", "b.k = 2"]),
    "pickle": ("class A: pass\nsys.modules['program'] = sys.modules[__name__]\na = types.SimpleNamespace(k=1, rows=[[1], {'b': 2}])", "float(len(pickle.dumps(a)))", ["a.rows[0].append(3)", "a.rows[1]['c'] = 'long'", "a.k = 'text'"]),
    "level of a logger": ("log = logging.getLogger('tests.kinds')", "2.0 if log.isEnabledFor(logging.INFO) else 3.0", ["log.setLevel(logging.INFO)", "log.setLevel(logging.ERROR)"]),
    "level of a logger by its number": ("log = logging.getLogger('tests.kinds')", "2.0 if log.getEffectiveLevel() > 20 else 3.0", ["log.setLevel(logging.INFO)", "log.setLevel(logging.ERROR)"]),
    "lock": ("held = threading.Lock()", "2.0 if held.locked() else 3.0", ["held.acquire()", "held.release()"]),
    "event": ("held = threading.Event()", "2.0 if held.is_set() else 3.0", ["held.set()", "held.clear()"]),
    "cache": ("@functools.lru_cache(None)\ndef h(k): return k", "1.0 + h.cache_info().currsize", ["h(5)", "h.cache_clear()"]),
    "exec with its own globals": ("D = {'k': 2.0}", "eval('k', D)", ["D['k'] = 5.0", "D['k'] = 7.0"]),
    "vars": ("class A: pass\na = A()\na.k = 2.0", "sum(vars(a).values())", ["a.k = 5.0", "a.other = 1.0"]),
    "dir": ("class A: pass\na = A()", "float(len([n for n in dir(a) if n[0] != '_']))", ["a.k = 5.0", "A.other = 1.0"]),
    # Switches.
    "mkldnn": ("", "2.0 if torch.backends.mkldnn.enabled else 3.0", ["torch._C._set_mkldnn_enabled(False)", "torch._C._set_mkldnn_enabled(True)"]),
    "anomaly mode": ("", "2.0 if torch.is_anomaly_enabled() else 3.0", ["torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"]),
    "warn always": ("", "2.0 if torch.is_warn_always_enabled() else 3.0", ["torch.set_warn_always(True)", "torch.set_warn_always(False)"]),
    "dtype of autocast": ("", "2.0 if torch.get_autocast_dtype('cpu') is torch.bfloat16 else 3.0", ["torch.set_autocast_dtype('cpu', torch.float16)", "torch.set_autocast_dtype('cpu', torch.bfloat16)"]),
    "matmul precision": ("", "float(len(torch.get_float32_matmul_precision()))", ["torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('highest')"]),
    "threshold of the collector": ("", "float(gc.get_threshold()[0])", ["gc.set_threshold(500)", "gc.set_threshold(700)"]),
}  # fmt: skip


def made(name, setup, expression):
    text = f"{HEADER}{setup}\ndef body(x):\n    return x * ({expression})\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"__name__": __name__}
    exec(compile(text, file, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def switches_as_before():
    yield
    torch._C._set_mkldnn_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    torch.set_warn_always(False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    setup, expression, changes = PROGRAMS[name]
    names = made(name, setup, expression)
    f = tracehost.function(names["body"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change in ("", "", *changes, ""):
            exec(change, names)
            assert f(X).tolist() == names["body"](X).tolist(), change


# ---- what the body does to a class ---------------------------------------------------------------

STORES = {
    "__class__": (BASES, "a.__class__ = B", "type(a).__name__"),
    "__class__ in turn": (BASES, "a.__class__ = B if a.k == 2.0 else A", "type(a).__name__"),
    "__bases__": (BASES, "A.__bases__ = (Q,)", "A.__bases__[0].__name__"),
    "__dict__": (BASES, "a.__dict__ = {'n': 3.0}", "vars(a)"),
    "__name__": ("def h(): pass", "h.__name__ = 'other'", "h.__name__"),
    "counter of a class": (
        BASES + "\nP.count = 0",
        "type(a).count = type(a).count + 1",
        "(P.count, A.count)",
    ),
    "counter of its own class": ("class A: count = 0\na = A()", "type(a).count += 1", "A.count"),
    "a weak proxy": ("class A: k = 2.0\na = A()\np = weakref.proxy(a)", "p.k = p.k + 1", "a.k"),
    "setattr of a partial": (
        "class A: k = 2.0\na = A()\nput = functools.partial(setattr, a, 'k')",
        "put(x.sum())",
        "float(a.k)",
    ),
    "a kept append of a partial": (
        "rows = []\npush = functools.partial(rows.append)",
        "push(x.sum())",
        "[float(r) for r in rows]",
    ),
}


@pytest.mark.parametrize("name", STORES)
def test_stores_as_eager(name):
    setup, statement, shown = STORES[name]
    outcomes = []
    for traced in (True, False):
        text = f"{HEADER}{setup}\ndef body(x):\n    {statement}\n    return x * 2\n"
        file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names = {"__name__": __name__}
        exec(compile(text, file, "exec"), names)
        f = tracehost.function(names["body"]) if traced else names["body"]
        outcomes.append([(f(X * i).tolist(), repr(eval(shown, names))) for i in range(5)])
    assert outcomes[0] == outcomes[1]
