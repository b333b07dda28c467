"""Each construct, converted, does to Python values what Python does: results, exceptions, order, places."""

import contextlib
import functools
import itertools

import pytest
from autograph_support import CHECKED, checked, same
from tracehost import autograph
from tracehost.autograph.run.calls import convert_callable

LOG = []


def note(name, value=None):
    LOG.append(name)
    return value


NUMBERS = [(n,) for n in (-7, -1, 0, 1, 2, 3, 5, 12, 60)]
CASES = []


def case(*calls):
    def keep(f):
        CASES.append((f, calls))
        return f

    return keep


@case(*NUMBERS)
def if_chain(x):
    if x > 50:
        y = 1
    elif x > 10:
        y = 2
    elif x > 0:
        y = 3
        if x == 2:
            y = 4
    else:
        y = 5
    return y


@case(*NUMBERS)
def assigned_in_one_branch(x):
    if x > 0:
        y = x
    return y


@case(*NUMBERS)
def unassigned_in_a_condition(x):
    if x > 2:
        z = 1
    while z < 3:
        z += 1
    return z


@case(*NUMBERS)
def early_returns(x):
    if x < 0:
        return "negative"
    y = x * 2
    if y > 20:
        if x > 50:
            return "huge"
        y += 1
    elif x == 5:
        return
    if y == 0:
        return 0
    return y


@case(*NUMBERS)
def return_in_loops(x):
    for i in range(5):
        for j in range(5):
            if i * j == x:
                return i, j
            if j > i:
                break
        else:
            if i == x - 7:
                return "else"
    return None


@case(*NUMBERS)
def return_on_one_path(x):
    if x > 0:
        return x


@case(*NUMBERS)
def while_break_continue_else(x):
    n = 0
    seen = []
    while n < 10:
        n += 1
        if n % 2 == x % 2:
            continue
        seen.append(n)
        if n > x:
            break
    else:
        seen.append("else")
    return seen, n


@case(*NUMBERS)
def while_true(x):
    count = 0
    while True:
        count += 1
        if count > x:
            break
        if count == 4:
            return "four"
    return count


@case(*NUMBERS)
def for_else(x):
    for i in range(4):
        if i == x:
            break
    else:
        i = "none"
    return i


@case(*NUMBERS)
def else_with_jumps(x):
    out = []
    for i in range(3):
        for j in range(3):
            if j == x:
                break
        else:
            if i == 1:
                continue
            out.append(i)
        out.append(j)
    return out


@case((0,), (3,))
def empty_loop_leaves_its_variable(n):
    for i in range(n):
        pass
    return i


@case(*NUMBERS)
def code_after_a_jump(x):
    if x > 0:
        return 1
        y = 3
    for i in range(2):
        continue
        i = 5
    return i


@case(([1, [2, 3]],), ([],), ([[1], 2],))
def unpacking_targets(items):
    out = []
    for item in items:
        if isinstance(item, list):
            [first, *rest] = item
            out.append((first, rest))
    for index, (a, b) in enumerate(zip(items, items)):
        out.append((index, a, b))
    return out


@case(*NUMBERS)
def lazy_operators(x):
    a = note("a", x > 0) and note("b", x) and note("c", x > 2)
    b = note("d", x) or note("e", []) or note("f", 0)
    c = not note("g", x)
    return a, b, c


@case(*NUMBERS)
def mixed_plain_operands(x):
    y = None
    return (
        y is None and x > 2,
        x is None or x,
        x in (1, 2) and x > 1 and x,
        y is not None and y > 2,
    )


@case(*NUMBERS)
def chained_comparison(x):
    return note("l", 0) < note("m", x) < note("r", 10) != 3, 0 <= x in (1, 2, 3), 1 < 2 < x


@case(*NUMBERS)
def conditional_expressions(x):
    y = note("a", 1) if note("t", x > 0) else note("b", 2)
    return (y if x > 2 else -y) + (1 if y is None else 2)


@case(*NUMBERS)
def walrus_everywhere(x):
    if (s := x * 2) > 4 and (t := s + 1) > 6:
        s = s + t
    while (s := s - 3) > 0 and (k := s) > 2:
        pass
    found = [last := i for i in range(3)]
    u = (v := 3) if x > 0 else (w := 4)
    return s, last, found, u, (lambda: (q := x) + q)()


@case(*NUMBERS)
def walrus_left_unassigned(x):
    if x > 0 and (t := x) > 2:
        pass
    return t


@case(*NUMBERS)
def walrus_in_a_comprehension(x):
    return [y for i in range(x) if (y := i * 2) > 2 and (z := y) < 9]


@case(*NUMBERS)
def f_strings(x):
    if x > 1:
        width = 6
    else:
        width = 3
    return f"{x:>{width}} {x if x > 0 else 'no'!r} {x=} {'a' and 'b'}"


@case(([1, 2], {"k": 3}), ([], {}), ([1], {"a": 1}))
def star_arguments(args, kwargs):
    def inner(*a, k=0, **rest):
        return a, k, sorted(rest)

    return inner(0, *args, *args, **kwargs, z=1), [*args, *args], {**kwargs, "k": 1}


@case((3,), (None,))
def errors_of_calls(x):
    def inner(a, b=1):
        return a

    if x is None:
        return inner(*x)
    return inner(x, x, x)


@case((3,))
def keyword_twice(x):
    return dict(a=1, **{"a": x})


@case(*NUMBERS)
def match_statement(x):
    match (x, [x, 2, 3]):
        case (0, _):
            return "zero"
        case (n, [_, *rest]) if n > 10:
            if n > 50:
                y = rest
            else:
                y = n
        case (5 | 3 as k, _):
            y = k
        case _:
            y = -1
    return y


@case(*NUMBERS)
def match_in_a_loop(x):
    out = []
    for item in [x, "s", {"a": x, "b": 1}, (1, x)]:
        match item:
            case {"a": value, **others}:
                out.append((value, others))
                if value > 3:
                    break
            case str():
                continue
            case (1, y):
                out.append(y)
            case int(v):
                if v == 1:
                    return "one"
    return out


@case(*NUMBERS)
def try_paths(x):
    out = []
    try:
        if x > 10:
            raise ValueError(f"big {x}")
        if x == 3:
            return "three"
        y = 10 // x
    except ZeroDivisionError as e:
        out.append(str(e))
        y = 0
    except (ValueError, TypeError) as e:
        if x > 50:
            raise RuntimeError("huge") from e
        y = str(e)
    else:
        out.append("else")
        if x == 5:
            return out
    finally:
        out.append("finally")
        note("finally")
    return out, y


@case(*NUMBERS)
def handler_name_is_unbound(x):
    e = 5
    for i in range(2):
        try:
            if x > i:
                raise KeyError(x)
        except KeyError as e:
            if x > 3:
                continue
            found = [e.args[0] for _ in range(2)]
    return e


@case(*NUMBERS)
def try_in_a_loop(x):
    for i in range(4):
        try:
            if i == x:
                break
            if i == x - 1:
                continue
            note(i)
        finally:
            note("f")
        note("after")
    else:
        return "else"
    return i


@case(*NUMBERS)
def return_in_finally(x):
    try:
        if x > 0:
            return 1 / (x - 1)
    finally:
        if x > 2:
            return "overridden"


@case(*NUMBERS)
def suppressed(x):
    with contextlib.suppress(ZeroDivisionError), contextlib.nullcontext(4) as four:
        if x > 2:
            return 1 / (x - 3)
        y = four / x
    return "after"


@case(*NUMBERS)
def raises_in_a_branch(x):
    if x > 0:
        if x > 2:
            raise ValueError("too big")
        y = [][x]
    return x


@case(*NUMBERS)
def deletions(x):
    a, b = 1, 2
    if x > 0:
        del a
    if x > 2:
        del b, a
    return (a if x < 2 else 0), b


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


@case((itertools.count(),), (iter([1, 2, 9, 4, 5]),))
def stops_reading_at_break(items):
    for item in items:
        if item > 5:
            break
    return next(items)


@pytest.mark.parametrize(("f", "calls"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_same_as_python(f, calls):
    if f.__name__ == "return_in_finally":
        assert convert_callable(f) is f
        return
    LOG.clear()
    same(f, *calls, log=LOG)


def test_asserts():
    """Where pytest has not rewritten them."""
    same(checked, *NUMBERS, log=CHECKED)


def test_source_can_be_shown():
    for f, _ in CASES:
        if f.__name__ != "return_in_finally":
            compile(autograph.to_code(f), "shown", "exec")
