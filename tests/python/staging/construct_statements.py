"""Functions that use a construct of Python: statements and expressions."""

import contextlib

from construct_registry import NUMBERS, case, note


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
