"""Programs with loops over a tensor, as users write them: meters, samplers, caches, buffers of numpy, counters.

Each function makes what the body changes, and returns the body and what is looked at after each call.
"""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import io
import itertools

import numpy as np
import torch
from program_table import Programs
from torch import nn

CASES = Programs()
case = CASES.add


@case
def ema_np():
    e = np.zeros(1)

    def body(x, n):
        for i in range(n):
            e[:] = 0.5 * e + 1
            x = x + 1
        return x

    return (body, lambda: e.tolist())


@case
def ring_buffer_np():

    class R:
        def __init__(self):
            self.a = np.zeros(4)
            self.p = 0

        def push(self, v):
            self.a[self.p % 4] = v
            self.p += 1

    r = R()

    def body(x, n):
        for i in range(n):
            r.push(3.0)
            x = x + 1
        return x

    return (body, lambda: (r.a.tolist(), r.p))


@case
def sampler_iter():

    class Sampler:
        def __init__(self):
            self.it = iter(self.gen())

        def gen(self):
            k = 0
            while True:
                k += 1
                yield k

        def next(self):
            return next(self.it)

    s = Sampler()

    def body(x, n):
        for i in range(n):
            x = x + s.next()
        return x

    return (body, lambda: 0)


@case
def redirect():
    buf = io.StringIO()

    def body(x, n):
        with contextlib.redirect_stdout(buf):
            for i in range(n):
                print("a")
                x = x + 1
        return x

    return (body, lambda: buf.getvalue())


@case
def meter_vars():

    class M:
        def __init__(self, **k):
            self.__dict__.update(k)

        def set(self, **k):
            self.__dict__.update(k)

    m = M(a=1)

    def body(x, n):
        for i in range(n):
            m.set(b=2)
            x = x + 1
        return x

    return (body, lambda: dict(vars(m)))


@case
def pop_attr():

    class M:
        pass

    m = M()
    m.cache = 3

    def body(x, n):
        for i in range(n):
            m.__dict__.pop("cache", None)
            x = x + 1
        return x

    return (body, lambda: hasattr(m, "cache"))


@case
def cached_property():
    made = []

    class M:
        @functools.cached_property
        def w(self):
            made.append(1)
            return 4.0

    m = M()

    def body(x, n):
        for i in range(n):
            x = x + m.w
        return x

    return (body, lambda: ("w" in vars(m), list(made)))


@case
def invalidate_cached_property():

    class M:
        @functools.cached_property
        def w(self):
            return 4.0

    m = M()
    m.w

    def body(x, n):
        for i in range(n):
            if "w" in m.__dict__:
                del m.__dict__["w"]
            x = x + m.w
        return x

    return (body, lambda: "w" in vars(m))


@case
def np_hist_loop_branch():
    hist = np.zeros(2, dtype=np.int64)

    def body(x, n):
        for i in range(n):
            if x.sum() > 1:
                hist[1] += 1
            else:
                hist[0] += 1
            x = x + 1
        return x

    return (body, lambda: hist.tolist())


@case
def np_reshape_write():
    a = np.zeros((2, 2))

    def body(x, n):
        for i in range(n):
            a.reshape(-1)[3] = 5
            np.multiply(a, 2, out=a)
            x = x + 1
        return x

    return (body, lambda: a.tolist())


@case
def contextvar_nested():
    v = contextvars.ContextVar("depth", default=0)

    @contextlib.contextmanager
    def deeper():
        t = v.set(v.get() + 1)
        try:
            yield v.get()
        finally:
            v.reset(t)

    def body(x, n):
        for i in range(n):
            with deeper() as d:
                x = x + d
        return x

    return (body, lambda: v.get())


@case
def default_id_factory():
    ids = itertools.count()

    @dataclasses.dataclass
    class Node:
        id: int = dataclasses.field(default_factory=lambda: next(ids))

    def body(x, n):
        for i in range(n):
            x = x + Node().id
        return x

    return (body, lambda: 0)


@case
def yield_from():

    def body(x, n):
        it = iter([1.0, 2.0, 3.0, 4.0])

        def two():
            yield from itertools.islice(it, 2)

        for i in range(n):
            x = x + sum(two())
        return x

    return (body, lambda: 0)


@case
def lru_own():

    class LRU:
        def __init__(self):
            self.d = collections.OrderedDict()

        def get(self, k):
            if k in self.d:
                self.d.move_to_end(k)
                return self.d[k]
            self.d[k] = k * 2.0
            if len(self.d) > 2:
                self.d.popitem(last=False)
            return self.d[k]

    cache = LRU()
    cache.get(1)
    cache.get(2)

    def body(x, n):
        for i in range(n):
            x = x + cache.get(1) + cache.get(3)
        return x

    return (body, lambda: list(cache.d))


@case
def try_except_take():
    it = iter([1.0, 2.0])

    def body(x, n):
        for i in range(n):
            try:
                x = x + next(it)
            except StopIteration:
                x = x + 100
        return x

    return (body, lambda: 0)


@case
def bare_except_side():
    log = []

    def body(x, n):
        for i in range(n):
            try:
                if x.sum() > 1:
                    log.append(1)
                    x = x + 2
                else:
                    x = x + 1
            except BaseException:
                x = x + 100
        return x

    return (body, lambda: len(log))


@case
def bare_except_inner_loop():
    it = itertools.count()

    def body(x, n):
        for i in range(n):
            try:
                for j in range(n):
                    x = x + next(it)
            except BaseException:
                x = x + 100
        return x

    return (body, lambda: str(it))


@case
def finally_take():
    it = itertools.count()

    def body(x, n):
        for i in range(n):
            try:
                x = x + 1
            finally:
                x = x + next(it)
        return x

    return (body, lambda: str(it))


@case
def nested_loops_take():
    it = itertools.count(1)

    def body(x, n):
        for i in range(n):
            for j in range(n):
                x = x + next(it)
        return x

    return (body, lambda: str(it))


@case
def loop_in_side_take():
    it = itertools.count(1)

    def body(x, n):
        if x.sum() < n:
            for j in range(n):
                x = x + next(it)
        else:
            x = x - 1
        return x

    return (body, lambda: str(it))


@case
def loop_in_side_print():
    buf = io.StringIO()

    def body(x, n):
        if x.sum() + 1 < n:
            for j in range(n):
                print("a", file=buf)
                x = x + 1
        return x

    return (body, lambda: buf.getvalue())


@case
def accumulate_grads_loop():
    p = nn.Parameter(torch.ones(1, dtype=torch.float64))
    o = torch.optim.SGD([p], 0.1)
    steps = itertools.count()

    def body(x, n):
        for i in range(n):
            o.zero_grad()
            ((p * 2) ** 2).sum().backward()
            o.step()
            next(steps)
        return p.detach() + x

    return (body, lambda: str(steps))


@case
def memoize_np():
    table = np.full(4, np.nan)

    def f(k):
        if np.isnan(table[k]):
            table[k] = k * 3.0
        return float(table[k])

    def body(x, n):
        for i in range(n):
            x = x + f(2)
        return x

    return (body, lambda: table.tolist())
