"""Functions that use a construct of Python: names, objects, functions and what calls them."""

import contextlib
import functools

from construct_registry import NUMBERS, case, note


@case(*NUMBERS)
def nonlocal_writes(x):
    total = 0
    calls = []

    def add(n):
        nonlocal total
        if n > 1:
            total += n
        else:
            calls.append(n)
        return total

    for i in range(x):
        add(i)
        if total > 20:
            break
    return total, calls


@case(*NUMBERS)
def free_variable_unassigned(x):
    def inner():
        return y + 1

    if x > 1:
        y = x
    return inner()


TOTAL = 0


@case(*NUMBERS)
def global_writes(x):
    global TOTAL, NEVER
    if x > 0:
        TOTAL = x
    else:
        TOTAL = -x
    while TOTAL > 3:
        TOTAL -= 2
    if x == 12:
        NEVER = 1
        del NEVER
    return TOTAL, NEVER


class Thing:
    count = 0

    def __init__(self, value=0):
        self.value = value
        self.__secret = 3

    def __repr__(self):
        return f"Thing({sorted(vars(self).items())})"

    def step(self, x):
        if x > self.__secret:
            self.value += x
            self.__secret = x
        while self.value > 10:
            self.value -= self.__secret
        return self.value, self.__private(2) if x else None

    def __private(self, __x):
        return __x + self.__secret

    @classmethod
    def make(cls, x):
        if x > 0:
            return cls(x)
        return cls()

    @staticmethod
    def double(x):
        return x * 2 if x > 0 else x


class Other(Thing):
    def step(self, x):
        if x > 1:
            return super().step(x)
        return [super().step(x) if x else 0, super(Thing, self).__repr__()[:3]], __class__.__name__


@case(*NUMBERS)
def methods(x):
    thing, other = Thing(), Other(2)
    return thing.step(x), other.step(x), Thing.make(x), Other.make(x), Thing.double(x), thing, other


@case(*NUMBERS)
def attributes_and_items(x):
    thing, d, items = Thing(), {"k": [1, 2]}, [1, 2, 3]
    if x > 0:
        thing.value = x
        d["n"] = x
        d["k"][0] += x
        items[-1] = items[x % 3]
    for i in range(2):
        d[i] = i
        thing.last = i
        items[i + 1] *= 2
    del d[0]
    return thing, d, items


@case(*NUMBERS)
def augmented_owner_once(x):
    items = [1, 2, 3]

    def get(name):
        note(name)
        return items

    get("owner")[note("key", 1)] += note("value", x)
    get("slice")[0:1] += [x]
    return items


@case((1,), ("a",), ([1],))
def augmented_errors(x):
    y = 1
    y += x
    y <<= 2
    return y


@case(*NUMBERS)
def annotated(x: int) -> "anything":  # noqa: F821
    y: int = 1
    z: float
    if x > 0:
        y: int = x
        z: float = 2.0
        w: int  # noqa: F842
    return y, z


@case(*NUMBERS)
def nested_functions(x, k=2):
    """Docstring."""

    def outer(a, b=x * 2, *, c=k if x else 1):
        "Inner."

        def inner():
            if a > b:
                return a
            return b + c

        return inner()

    return outer(1), outer(x, 3), outer.__doc__, outer.__name__, outer.__qualname__


@case(*NUMBERS)
def lambdas(x):
    f = lambda t, s=2: t * s if t > 0 else s
    g, h = lambda t: t and x, lambda t: t or x
    return f(x), f(x, s=3), g(1), h(0), sorted([3, x, 1], key=lambda v: -v if v > 1 else v)


@case(*NUMBERS)
def comprehensions(x):
    if x > 2:
        k = 10
    else:
        k = 1
    return (
        [i * k if i > 1 else k for i in range(4) if i != x],
        {i: (j and k) for i in range(2) for j in range(i + 1)},
        {i % 2 for i in range(k)},
        sum(k for _ in range(3)),
        [[k for k in range(2)] for x in [k]],
    )


@case(*NUMBERS)
def comprehension_of_unassigned(x):
    if x > 100:
        k = 1
    return list(k for _ in range(2))


@case(*NUMBERS)
def generators(x):
    def count(n):
        for i in range(n):
            if i == 2:
                continue
            got = yield i * scale
            if got:
                return got

    if x > 1:
        scale = 2
    else:
        scale = 3
    return list(count(4)), [v for v in count(x)]


@case(*NUMBERS)
def class_in_a_function(x):
    if x > 0:
        k = 1
    else:
        k = 2

    class Local(Thing):
        attribute = k
        if k > 1:
            more = k
        more = more + 1 if k > 1 else 0

        def get(self, t):
            if t > 1:
                return super().step(t), k
            return self.attribute, __class__.__name__

    return Local().get(x), Local.more, Local.__qualname__, Local.get.__qualname__


@case(*NUMBERS)
def imports(x):
    if x > 0:
        import math as m
        from os import path
    else:
        import os.path as path
    return path.join("a", "b"), m.floor(2.5)


def recursive(n):
    if n <= 1:
        return 1
    return n * recursive(n - 1)


def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


@case((0,), (1,), (5,))
def recursion(n):
    return recursive(n), is_even(n), [is_odd(i) for i in range(n)]


def decorate(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        result = f(*args, **kwargs)
        return (result, "wrapped") if result else result

    return wrapper


@case(*NUMBERS)
@decorate
def decorated(x):
    @decorate
    def inner(t):
        return t if t > 1 else 0

    return inner(x)


@case(*NUMBERS)
def callables(x):
    class Call:
        def __call__(self, t):
            return t if t > 1 else "small"

    part = functools.partial(recursive, x if 0 < x < 20 else 3)
    return (
        Call()(x),
        part(),
        list(map(lambda t: t and 1, [0, x])),
        list(filter(lambda t: t > x, range(4))),
        functools.reduce(lambda a, b: a if a > b else b, [1, x, 3]),
        max([1, x], key=lambda t: -t if t > 1 else t),
        min(x, 3),
        len([x]),
        list(zip([1, 2], [3, 4], strict=True)),
        list(enumerate("ab", start=x)),
        getattr(Thing(), "double")(x),
    )


@case(*NUMBERS)
def many_exits(x):
    if x == 0: return "a"  # fmt: skip  # noqa: E701
    if x == 1:
        return "b"
    with contextlib.nullcontext():
        if x == 2:
            return "c"
        y = 1
    for i in (1, 2, 3):
        if i > 2:
            continue
        y += i
    for i in (1, 2, 3):
        if i == x:
            return "d"
    try:
        if x == 5:
            return "e"
    finally:
        y += 1
    if x is None:
        return "f"
    return y


@case(*NUMBERS)
def side_effects_in_order(x):
    d = {}
    d[note("key", "k")] = note("value", x)
    note("f", lambda *a: a)(note(1), *note(2, [note(3)]), **note(4, {}))
    return note("left", x) + note("right", 1), d


@case((iter(range(10**6)),), (iter([1, 2, 9, 4, 5]),))
def stops_reading_at_break(items):
    for item in items:
        if item > 5:
            break
    return next(items)
