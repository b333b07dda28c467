"""Python's own use of numbers that are read."""

import bisect
import collections
import contextlib
import heapq
import itertools
import math

import torch
from value_programs import program


@program
def dict_of_counters():
    counts = collections.defaultdict(int)

    def body(x):
        key = "pos" if x.sum() > 0 else "neg"
        counts[key] += 1
        return x * counts[key]

    return body, dict(state=lambda: dict(counts))


@program
def generator_body():
    def gen(x, n):
        for i in range(n):
            yield x * i

    def body(x):
        n = int(x.abs().sum()) % 4
        return sum(gen(x, n), torch.zeros(4)), n

    return body


@program
def fstring_result():
    def body(x):
        return f"loss={x.sum().item():.3f}", x

    return body


@program
def fstring_int_result():
    def body(x):
        return f"n={(x > 0).sum().item()}", x

    return body


@program
def fstring_key():
    seen = {}

    def body(x):
        k = f"bucket{int((x > 0).sum())}"
        seen[k] = seen.get(k, 0) + 1
        return x * seen[k]

    return body, dict(state=lambda: seen)


@program
def int_index_list():
    table = [1.0, 2.0, 4.0, 8.0]
    names = ["a", "b", "c", "d"]

    def body(x):
        i = int(x.argmax())
        return x * table[i], names[i]

    return body


@program
def leaves_int64():
    def body(x):
        n = int(x.sum() * 1e6) + 7
        return n**5 % 1000, x

    return body


@program
def div_zero2():
    def body(x):
        n = int((x > 0).sum())
        try:
            return 10 / (n - 1)
        except ZeroDivisionError:
            return -1.0

    return body, dict(
        args=lambda i: (
            torch.tensor([1.0, 1.0, -1.0]) if i % 2 == 0 else torch.tensor([1.0, -1.0, -1.0]),
        )
    )


@program
def div_zero3():
    def body(x):
        n = int((x > 0).sum())
        try:
            return 10 / (n - 1)
        except ZeroDivisionError:
            return -1.0

    return body, dict(
        args=lambda i: (
            torch.tensor([1.0, 1.0, -1.0]) if i % 2 == 1 else torch.tensor([1.0, -1.0, -1.0]),
        )
    )


@program
def suppress_log():
    def body(x):
        v = 0.0
        with contextlib.suppress(ValueError):
            v = math.log(x.sum().item())
        return v

    return body


@program
def nan_compare():
    def body(x):
        v = x[0].item()
        return (v == v, v != v, v < 1, v > 1, not (v < 1), max(v, 0.5), min(0.5, v), math.isnan(v))

    return body, dict(args=lambda i: (torch.tensor([float("nan") if i % 2 else 0.3 * i, 1.0]),))


@program
def nan_best():
    class B:
        best = float("-inf")

    b = B()

    def body(x):
        v = x[0].item()
        if v > b.best:
            b.best = v
        return b.best

    return body, dict(
        args=lambda i: (torch.tensor([float("nan") if i % 3 == 2 else 0.3 * i]),),
        state=lambda: b.best,
    )


@program
def try_around_read():
    def body(x):
        try:
            v = math.log(x.sum().item())
        except ValueError:
            v = 0.0
        return x * v

    return body


@program
def try_index_list():
    def body(x):
        n = int(x.sum())
        try:
            return [1, 2, 3][n]
        except IndexError:
            return -1

    return body, dict(args=lambda i: (torch.tensor([float(i)]),))


@program
def try_dict():
    d = {0: "a", 1: "b"}

    def body(x):
        try:
            return d[int(x)]
        except KeyError:
            return "none"

    return body, dict(args=lambda i: (torch.tensor(i % 4),))


@program
def set_add():
    seen = set()

    def body(x):
        seen.add(int(x.argmax()))
        return x * len(seen)

    return body, dict(state=lambda: sorted(seen))


@program
def dict_setdefault():
    d = {}

    def body(x):
        d.setdefault("first", x.sum().item())
        return x * d["first"]

    return body, dict(state=lambda: d)


@program
def list_extend():
    items = []

    def body(x):
        items.extend(x.tolist())
        return x

    return body, dict(state=lambda: items)


@program
def list_insert():
    items = []

    def body(x):
        items.insert(0, x.sum().item())
        return x

    return body, dict(state=lambda: items)


@program
def setattr_name():
    class S:
        pass

    s = S()
    s.x = 0.0

    def body(x):
        setattr(s, "x", getattr(s, "x") + x.sum().item())
        return x * s.x

    return body, dict(state=lambda: s.x)


@program
def slots_obj():
    class S:
        __slots__ = ("n", "v")

    s = S()
    s.n = 0
    s.v = 0.0

    def body(x):
        s.n += 1
        s.v = 0.5 * s.v + x.sum().item()
        return x * s.n, s.v

    return body, dict(state=lambda: (s.n, s.v))


@program
def str_format_methods():
    def body(x):
        n = int((x > 0).sum())
        return f"{n} of {x.numel()}", "%d" % n, str(n), repr(n), "n" * n

    return body


@program
def hex_etc():
    def body(x):
        n = int((x > 0).sum())
        return hex(n), bin(n), chr(65 + n), divmod(n, 2), n.bit_length(), pow(n, 2, 5)

    return body


@program
def float_methods():
    def body(x):
        v = x.sum().item()
        return v.is_integer(), round(v, 2), int(v), -v, abs(v), v // 1, v % 1, divmod(v, 0.5)

    return body


@program
def isinstance_switch():
    def fmt(v):
        if isinstance(v, bool):
            return 1
        if isinstance(v, int):
            return 2
        if isinstance(v, float):
            return 3
        if isinstance(v, torch.Tensor):
            return 4
        return 5

    def body(x):
        return fmt(x.sum().item()), fmt(int(x[0])), fmt(bool(x[0] > 0)), fmt(x)

    return body


@program
def match_class():
    def body(x):
        v = x.sum().item()
        match v:
            case torch.Tensor():
                return 1
            case int():
                return 2
            case float():
                return 3

    return body


@program
def match_value():
    def body(x):
        match int((x > 0).sum()):
            case 0:
                return x
            case 1 | 2:
                return x * 2
            case n if n > 3:
                return x * n
            case _:
                return -x

    return body


@program
def comprehension_filter():
    def body(x):
        return [i for i, v in enumerate(x.tolist()) if v > 0]

    return body


@program
def minmax_key():
    def body(x):
        items = x.tolist()
        return max(range(4), key=items.__getitem__), min(items, key=abs)

    return body


@program
def pow_int_neg():
    def body(x):
        n = int((x > 0).sum()) - 2
        return 2**n, (-2) ** n, 0.5**n

    return body


@program
def int_overflow_float():
    def body(x):
        v = x.sum().item() * 1e300
        try:
            return int(v * 1e10)
        except OverflowError:
            return -1

    return body


@program
def bit_ops():
    def body(x):
        n = int((x > 0).sum())
        return n << 3, n & 1, n | 8, n ^ 3, ~n, n >> 1

    return body


@program
def shift_big():
    def body(x):
        n = int((x > 0).sum())
        return (1 << (n * 20)) % 1000003

    return body


@program
def bool_arith():
    def body(x):
        a, b = bool(x[0] > 0), bool(x[1] > 0)
        return a + b, a and b, a or b, not a, a ^ b, a is True, [10, 20][a]

    return body


@program
def bisect_bucket():
    edges = [-1.0, 0.0, 1.0]

    def body(x):
        return bisect.bisect(edges, x.mean().item())

    return body


@program
def heap_topk():
    h = []

    def body(x):
        heapq.heappush(h, x.sum().item())
        if len(h) > 3:
            heapq.heappop(h)
        return h[0]

    return body, dict(state=lambda: sorted(h))


@program
def itertools_accumulate():
    def body(x):
        return list(itertools.accumulate(x.tolist()))

    return body


@program
def string_building():
    def body(x):
        toks = []
        for v in x.argsort().tolist():
            toks.append("abcd"[v])
        return "".join(toks)

    return body
