"""Programs that read names, and what then changes them. Each is run where CPython reports changes of dicts, and, as a
program of its own, where it reports none:

    python changed_names.py     takes all watchers of dicts, then prints what differs from Python
"""

import builtins
import collections
import ctypes
import sys
import types

import torch
import tracehost

X = torch.arange(4.0)
SCALE = 2.0


class Base:
    pass


class Config(Base):
    rate = 0.5

    def __init__(self):
        self.scale = 2.0


class Other(Config):
    rate = 0.25


class Slotted:
    __slots__ = ("scale",)


def with_globals(function):
    """A copy of the function that has globals of its own, and these."""
    names = {"__name__": "of_its_own", "__builtins__": builtins, "SCALE": SCALE}
    return types.FunctionType(function.__code__, names), names


def a_global():
    body, names = with_globals(lambda x: x * SCALE)
    return body, [
        lambda: names.__setitem__("SCALE", 3.0),
        lambda: names.update(SCALE=4.0),
        lambda: names.update(unread=1.0),
        lambda: [names.pop("SCALE"), names.setdefault("SCALE", 5.0)],
        lambda: names.__ior__({"SCALE": 6.0}),
    ]


def a_global_in_a_loop_at_module_level():
    body, names = with_globals(lambda x: x * SCALE)

    def loop():
        for i in range(1500):
            names["i"] = i

    def stores():
        for i in range(3):
            names["i"] = i
            names["SCALE"] = float(f"{i + 3}.5")

    return body, [loop, stores, loop, lambda: names.update(SCALE=7.0), stores]


def an_attribute():
    config = Config()

    def changed_often():
        for i in range(1500):
            config.unread = i

    return lambda x: x * config.scale, [
        lambda: setattr(config, "scale", 3.0),
        changed_often,
        lambda: setattr(config, "scale", 4.0),
        lambda: vars(config).update(scale=5.0),
        lambda: [vars(config).clear(), setattr(config, "scale", 6.0)],
    ]


def an_attribute_that_hides_one_of_the_class():
    config = Config()
    return lambda x: x * config.rate, [
        lambda: setattr(config, "rate", 3.0),
        lambda: setattr(config, "rate", 4.0),
        lambda: delattr(config, "rate"),
    ]


def another_dict_of_an_object():
    config, other = Config(), Config()
    other.scale = 3.0
    return lambda x: x * config.scale, [
        lambda: setattr(config, "__dict__", vars(other)),
        lambda: setattr(other, "scale", 4.0),
        lambda: setattr(config, "__dict__", {"scale": 5.0}),
    ]


def another_class_of_an_object():
    config = Config()
    return lambda x: x * config.rate, [
        lambda: setattr(config, "__class__", Other),
        lambda: setattr(config, "__class__", Config),
    ]


def of_a_class(kind):
    return lambda x: x * kind.rate


def an_attribute_of_a_class():
    class Mine(Config):
        pass

    def changed_often():  # CPython then gives the class no version any more
        for i in range(2500):
            Mine.unread = i
            Mine.unread  # noqa: B018  (a look-up, which asks for a version)

    return of_a_class(Mine), [
        lambda: setattr(Mine, "rate", 2.0),
        lambda: [setattr(Mine, "unread", 1), setattr(Mine, "rate", 3.0)],
        lambda: delattr(Mine, "rate"),
        changed_often,
        lambda: setattr(Mine, "rate", 4.0),
        lambda: [setattr(Mine, "unread", 1), setattr(Mine, "rate", 5.0)],
    ]


def an_attribute_of_a_base():
    class Root:
        rate = 2.0

    class Mine(Root):
        pass

    return of_a_class(Mine), [
        lambda: setattr(Root, "rate", 3.0),
        lambda: setattr(Mine, "rate", 4.0),
        lambda: setattr(Root, "rate", 5.0),
        lambda: delattr(Mine, "rate"),
    ]


def other_bases_of_a_class():
    class First:
        rate = 2.0

    class Second:
        rate = 3.0

    class Mine(First):
        pass

    return of_a_class(Mine), [lambda: setattr(Mine, "__bases__", (Second,))]


def an_attribute_of_a_module():
    module = types.ModuleType("settings")
    module.scale = 2.0
    return lambda x: x * module.scale, [
        lambda: setattr(module, "scale", 3.0),
        lambda: vars(module).update(scale=4.0),
    ]


def an_entry():
    table = {"a": 2.0, 3: 3.0, "unread": 0}
    return lambda x: x * table["a"] + table[3], [
        lambda: table.update(a=3.0),
        lambda: table.update(unread=1),
        lambda: table.__setitem__(3, 4.0),
        lambda: [table.clear(), table.update({"a": 5.0, 3: 6.0})],
    ]


def a_key_that_is_not_there():
    table = {"a": 2.0}
    return lambda x: x * (3.0 if "b" in table else 1.0), [
        lambda: table.update(b=1),
        lambda: table.pop("b"),
        lambda: table.setdefault("b", 2),
    ]


def all_entries():
    table = {"a": 2.0, "b": 3.0}

    def body(x):
        for name, value in table.items():
            x = x * value + len(name)
        return x

    return body, [
        lambda: table.update(b=4.0),
        lambda: table.update(long=5.0),
        lambda: table.pop("a"),
        lambda: [table.pop("b"), table.update(b=6.0)],
    ]


def the_order_of_a_dict():
    table = collections.OrderedDict(a=2.0, b=3.0, c=4.0)

    def body(x):
        for value in table.values():
            x = (x + 1) * value
        return x

    return body, [
        lambda: table.move_to_end("a"),
        lambda: table.move_to_end("b"),
        lambda: table.update(b=5.0),
    ]


def all_attributes():
    config = Config()

    def body(x):
        for name, value in vars(config).items():
            x = x * value + len(name)
        return x

    return body, [
        lambda: setattr(config, "scale", 3.0),
        lambda: setattr(config, "more", 4.0),
        lambda: delattr(config, "scale"),
    ]


def a_cell():
    scale = 2.0

    def store(value):
        nonlocal scale
        scale = value

    return lambda x: x * scale, [lambda: store(3.0), lambda: store(4.0)]


def a_slot():
    slotted = Slotted()
    slotted.scale = 2.0
    return lambda x: x * slotted.scale, [
        lambda: setattr(slotted, "scale", 3.0),
        lambda: setattr(slotted, "scale", 4.0),
    ]


def an_element():
    scales = [2.0, 3.0]
    return lambda x: x * scales[0], [
        lambda: scales.__setitem__(0, 3.0),
        lambda: scales.insert(0, 4.0),
    ]


def a_set():
    names = {"a"}
    return lambda x: x * (2.0 if "a" in names else 3.0), [
        lambda: names.clear(),
        lambda: names.add("a"),
    ]


def what_a_function_has():
    def scale(x, by=2.0, *, more=1.0):
        return x * by + more

    def another(x, by, *, more):
        return x * by - more

    return lambda x: scale(x), [
        lambda: setattr(scale, "__defaults__", (3.0,)),
        lambda: setattr(scale, "__kwdefaults__", {"more": 2.0}),
        lambda: scale.__kwdefaults__.update(more=3.0),
        lambda: setattr(scale, "__code__", another.__code__),
    ]


PROGRAMS = {
    make.__name__: make
    for make in (
        a_global,
        a_global_in_a_loop_at_module_level,
        an_attribute,
        an_attribute_that_hides_one_of_the_class,
        another_dict_of_an_object,
        another_class_of_an_object,
        an_attribute_of_a_class,
        an_attribute_of_a_base,
        other_bases_of_a_class,
        an_attribute_of_a_module,
        an_entry,
        a_key_that_is_not_there,
        all_entries,
        the_order_of_a_dict,
        all_attributes,
        a_cell,
        a_slot,
        an_element,
        a_set,
        what_a_function_has,
    )
}


def differences(make):
    """Runs the program with a Function beside its body; the steps after which the two differ."""
    body, changes = make()
    f = tracehost.function(body)
    found = []
    for step, change in enumerate([lambda: None, *changes]):
        change()
        for _ in range(3):  # the third call is a hit by all means
            if not torch.equal(f(X), body(X)):
                found.append(step)
    return found


def take_all_watchers():
    """Adds watchers of dicts until CPython has none left; how many these were."""
    kind = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )
    callback = kind(lambda *event: 0)
    taken = []
    try:
        while True:
            taken.append(ctypes.pythonapi.PyDict_AddWatcher(callback))
    except RuntimeError:  # no more dict watcher IDs available
        return len(taken), callback


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", tracehost.RetraceWarning)
    count, kept = take_all_watchers()
    print(
        count > 0, {name: found for name, make in PROGRAMS.items() if (found := differences(make))}
    )
    sys.exit()
