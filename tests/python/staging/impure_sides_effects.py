"""Bodies with an `if` on a tensor, a side of which prints, writes, draws, steps: what only the side taken may do.

Each function makes what the body changes, and returns the body and what is looked at after each call.
"""

import abc
import collections
import contextlib
import functools
import logging
import math
import os
import random
import sys
import tempfile
import types

import numpy as np
import torch
from program_table import Programs
from torch import nn

CASES = Programs()
case = CASES.add


@case
def saves_a_file():
    path = os.path.join(tempfile.mkdtemp(), "best.pt")
    net = nn.Linear(1, 1)
    nn.init.zeros_(net.weight)

    def body(x):
        if x.sum() > 5:
            torch.save(net.state_dict(), path)
        return x * 2

    return body, lambda: os.path.exists(path)


@case
def exits():
    def body(x):
        if not math.isfinite(x.sum().item()):
            sys.exit(1)
        return x * 2

    return body, lambda: 0


@case
def records():
    class M:
        pass

    m = M()
    m.best, m.at = 1e9, -1

    def record(loss, n):
        m.best = loss.item()
        m.at = n

    def body(x):
        if x.sum() < m.best:
            record(x.sum(), 3)
        return x * 2

    return body, lambda: (m.best, m.at)


@case
def zero_grads():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], 0.1)
    p.grad = torch.ones(2)

    def body(x):
        if x.sum() > 5:
            o.zero_grad()
        return x * p

    return body, lambda: None if p.grad is None else p.grad.tolist()


@case
def returns_before_backward():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], 0.1)

    def body(x):
        loss = (p * x).sum()
        if torch.isnan(loss):
            return
        loss.backward()
        o.step()
        o.zero_grad()
        return loss.detach()

    return body, lambda: p.tolist()


@case
def skips_the_step_after_backward():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.Adam([p], 0.1)

    def body(x):
        o.zero_grad()
        loss = (p * x).sum()
        loss.backward()
        norm = p.grad.norm()
        if torch.isfinite(norm):
            o.step()
        return loss.detach()

    return body, lambda: (p.tolist(), None if p.grad is None else p.grad.tolist())


@case
def accumulates_by_a_tensor_counter():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], 0.1, momentum=0.9)
    n = torch.zeros((), dtype=torch.int64)

    def body(x):
        (p * x).sum().backward()
        n.add_(1)
        if n % 3 == 0:
            o.step()
            o.zero_grad()
        return x * 2

    return body, lambda: (p.tolist(), n.item())


@case
def prints():
    lines = []

    class Out:
        def write(self, t):
            lines.append(t)

        def flush(self):
            pass

    out = Out()

    def body(x):
        if x.sum() > 5:
            print("big", file=out)
        return x * 2

    return body, lambda: list(lines)


@case
def logs():
    seen = []

    class H(logging.Handler):
        def emit(self, r):
            seen.append(r.getMessage())

    lg = logging.Logger("a")
    lg.addHandler(H())

    def body(x):
        if x.sum() > 5:
            lg.warning("big")
        else:
            x = x + 1
        return x * 2

    return body, lambda: list(seen)


@case
def ki():
    def body(x):
        if x.sum() > 5:
            raise KeyboardInterrupt
        return x * 2

    return body, lambda: 0


@case
def in_finally():
    log = []

    def body(x):
        try:
            if x.sum() > 5:
                log.append(1)
                x = x * 3
        finally:
            x = x + 1
        return x

    return body, lambda: list(log)


@case
def finally_in_the_side():
    log = []

    def body(x):
        if x.sum() > 5:
            try:
                log.append("a")
                x = x * 3
            finally:
                log.append("b")
        return x

    return body, lambda: list(log)


@case
def except_base_in_the_side():
    log = []

    def body(x):
        if x.sum() > 5:
            try:
                log.append("a")
            except BaseException:
                log.append("b")
            x = x * 3
        return x

    return body, lambda: list(log)


@case
def bare_except_loop():
    log = []

    def body(x):
        if x.sum() > 5:
            n = 0
            while n < 3:
                try:
                    log.append(n)
                    n = n + 1
                except:  # noqa: E722
                    pass
            x = x * 3
        return x

    return body, lambda: list(log)


@case
def suppress_base():
    log = []

    def body(x):
        if x.sum() > 5:
            with contextlib.suppress(BaseException):
                log.append(1)
            x = x * 3
        return x

    return body, lambda: list(log)


@case
def exit_of_with():
    log = []

    class C:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *a):
            log.append("out")
            return True

    def body(x):
        if x.sum() > 5:
            with C():
                x = x * 3
        return x

    return body, lambda: list(log)


@case
def generator_close():
    log = []

    def gen():
        try:
            yield 1
        finally:
            log.append("closed")

    def body(x):
        if x.sum() > 5:
            g = gen()
            next(g)
            g.close()
            x = x * 3
        return x

    return body, lambda: list(log)


@case
def draws():
    random.seed(3)

    def body(x):
        if x.sum() > 5:
            x = x + random.random()
        return x

    return body, lambda: 0


@case
def takes_from_an_iterator():
    it = iter(range(100))

    def body(x):
        if x.sum() > 5:
            x = x * next(it)
        return x

    return body, lambda: it.__reduce__()[2] if len(it.__reduce__()) > 2 else None


@case
def takes_by_for():
    it = iter(range(100))

    def body(x):
        if x.sum() > 5:
            for v in it:
                x = x + v
                if v > 3:
                    break
        return x

    return body, lambda: 0


@case
def array_store():
    a = np.zeros(3)

    def body(x):
        if x.sum() > 5:
            a[0] = a[0] + 1
        return x * 2

    return body, lambda: a.tolist()


@case
def bytearray_append():
    a = bytearray()

    def body(x):
        if x.sum() > 5:
            a.append(1)
        return x * 2

    return body, lambda: bytes(a)


@case
def map_of_append():
    log = []

    def body(x):
        if x.sum() > 5:
            list(map(log.append, [1, 2]))
        return x * 2

    return body, lambda: list(log)


@case
def kept_method():
    log = []
    push = log.append

    def body(x):
        if x.sum() > 5:
            push(1)
        return x * 2

    return body, lambda: list(log)


@case
def partial_of_setattr():
    class M:
        n = 0

    m = M()
    p = functools.partial(setattr, m, "n")

    def body(x):
        if x.sum() > 5:
            p(7)
        return x * 2

    return body, lambda: m.n


@case
def train_mode():
    net = nn.Dropout(0.0)

    def body(x):
        if x.sum() > 5:
            net.eval()
        return net(x) * 2

    return body, lambda: net.training


@case
def optimizer_step_on_one_side():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], 0.1, momentum=0.9)

    def body(x):
        o.zero_grad()
        loss = (p * x).sum()
        loss.backward()
        if torch.isfinite(loss):
            o.step()
        return loss.detach()

    return body, lambda: p.tolist()


@case
def requires_grad():
    w = torch.ones(2)

    def body(x):
        if x.sum() > 5:
            w.requires_grad_()
        return x * 1

    return body, lambda: w.requires_grad


@case
def pops_an_attribute():
    held = types.SimpleNamespace(count=1)

    def body(x):
        if x.sum() > 5:
            vars(held).pop("count", None)
        return x * 2

    return body, lambda: dict(vars(held))


@case
def asks_an_iterator():
    numbers = iter(range(100))

    def body(x):
        if x.sum() > 5:
            return x * (3 in numbers)
        return x * 2

    return body, lambda: numbers.__length_hint__()


@case
def takes_an_iterator_apart():
    numbers = iter([1, 2, 3, 4])

    def body(x):
        if x.sum() > 5:
            first, *_ = numbers or (7,)
            return x * first
        return x * 2

    return body, lambda: numbers.__length_hint__()


@case
def adds_from_an_iterator():
    numbers = iter([1, 2, 3, 4])

    def body(x):
        if x.sum() > 5:
            return x * len([*numbers])
        return x * 2

    return body, lambda: numbers.__length_hint__()


@case
def registers_an_implementation():
    @functools.singledispatch
    def named(value):
        return 2

    def body(x):
        if x.sum() > 5:
            named.register(int, lambda value: 3)
        return x * named(4)

    return body, lambda: named(4)


@case
def registers_a_subclass():
    class Base(abc.ABC):
        pass

    class Other:
        pass

    def body(x):
        if x.sum() > 5:
            Base.register(Other)
        return x * (3 if issubclass(Other, Base) else 2)

    return body, lambda: issubclass(Other, Base)


@case
def writes_by_a_ufunc():
    rows = np.zeros(2)

    def body(x):
        if x.sum() > 5:
            np.add(rows, 1, out=rows)
        return x * 2

    return body, lambda: rows.tolist()


@case
def writes_by_a_ufunc_by_position():
    rows = np.zeros(2)

    def body(x):
        if x.sum() > 5:
            np.add(rows, 1, rows)
        return x * 2

    return body, lambda: rows.tolist()


@case
def copies_into_an_array():
    rows = np.zeros(2)

    def body(x):
        if x.sum() > 5:
            np.copyto(rows, rows + 1)
        return x * 2

    return body, lambda: rows.tolist()


@case
def adds_at_places_of_an_array():
    rows = np.zeros(2)

    def body(x):
        if x.sum() > 5:
            np.add.at(rows, [0], 1)
        return x * 2

    return body, lambda: rows.tolist()


@case
def adds_a_key_that_is_missing():
    totals = collections.defaultdict(int)

    def body(x):
        if x.sum() > 5:
            totals["large"] += 1
        return x * 2

    return body, lambda: dict(totals)


@case
def reads_a_key_that_is_missing():
    totals = collections.defaultdict(int)

    def body(x):
        if x.sum() > 5:
            return x * totals["large"]
        return x * 2

    return body, lambda: dict(totals)


@case
def adds_a_tensor_for_a_key_that_is_missing():
    totals = collections.defaultdict(lambda: torch.zeros(2))

    def body(x):
        if x.sum() > 5:
            totals["large"] = totals["large"] + x
        return x * 2

    return body, lambda: {key: value.tolist() for key, value in totals.items()}
