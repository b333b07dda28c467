"""Counters and other state that a body keeps."""

import collections
import contextlib
import dataclasses
import enum
import functools
from typing import NamedTuple

import torch
import tracehost
from torch import nn
from value_programs import program


@program
def closure_counter():
    n = 0

    def body(x):
        nonlocal n
        n += 1
        if n % 3 == 0:
            return x * n
        return x + n

    return body, dict(state=lambda: n)


class St(NamedTuple):
    step: int
    loss: float


@program
def namedtuple_state():
    class H:
        s = St(0, 0.0)

    h = H()

    def body(x):
        h.s = h.s._replace(step=h.s.step + 1, loss=0.9 * h.s.loss + 0.1 * x.sum().item())
        return x * h.s.step, h.s.loss

    return body, dict(state=lambda: h.s)


@dataclasses.dataclass
class DState:
    step: int = 0
    best: float = -1e9
    hist: list = dataclasses.field(default_factory=list)


@program
def dataclass_state():
    s = DState()

    def body(x):
        v = x.max().item()
        s.step += 1
        if v > s.best:
            s.best = v
            s.hist.append(v)
        return x + s.best

    return body, dict(state=lambda: s)


@program
def deque_window():
    hist = collections.deque(maxlen=3)

    def body(x):
        hist.append(x.sum().item())
        return x - sum(hist) / len(hist)

    return body, dict(state=lambda: list(hist))


@program
def deque_append():
    hist = collections.deque(maxlen=3)

    def body(x):
        hist.append(x.sum().item())
        return x * 2

    return body, dict(state=lambda: list(hist))


@program
def class_counter():
    class Net(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.seen = 0

        def forward(self, x):
            type(self).calls += 1
            self.seen += x.shape[0]
            return self.l(x) * self.seen

    net = Net()

    def body(x):
        return net(x).detach()

    return body, dict(args=lambda i: (torch.randn(2, 4),), state=lambda: (net.seen, Net.calls))


@program
def default_arg_counter():
    def body(x, state={"n": 0}):
        state["n"] += 1
        return x * state["n"]

    return body


@program
def partial_state():
    st = collections.OrderedDict(n=0, total=0.0)

    def step(s, x):
        s["n"] += 1
        s["total"] += x.sum().item()
        return s["total"] / s["n"]

    f = functools.partial(step, st)

    def body(x):
        return f(x)

    return body, dict(state=lambda: dict(st))


@program
def nested_tuple_state():
    class S:
        s = (0, (1.0, [2]))

    h = S()

    def body(x):
        n, (v, last) = h.s
        h.s = (n + 1, (v * 0.5 + x.sum().item(), [last[0] + 1]))
        return v

    return body, dict(state=lambda: h.s)


@program
def int_float_flip():
    class S:
        v = 1

    s = S()

    def body(x):
        s.v = s.v * 1.5 if s.v > 2 else s.v + 1
        return x * s.v

    return body, dict(state=lambda: s.v)


@program
def none_to_number():
    class S:
        v = None

    s = S()

    def body(x):
        c = x.sum().item()
        s.v = c if s.v is None else 0.9 * s.v + 0.1 * c
        return x * s.v

    return body, dict(state=lambda: s.v)


@program
def tuple_swap():
    class S:
        a, b = 0, 1

    s = S()

    def body(x):
        s.a, s.b = s.b, s.a + s.b
        return x * s.a

    return body, dict(state=lambda: (s.a, s.b))


@program
def big_counter2():
    class S:
        n = 2**60

    s = S()

    def body(x):
        s.n *= 2
        return x, s.n > 2**64

    return body, dict(state=lambda: s.n)


@program
def raise_message_from_state():
    class C:
        n = 0

    c = C()

    def body(x):
        c.n += 1
        if x.sum() > 1:
            raise RuntimeError(f"step {c.n}: {x.sum().item()}")
        return x

    return body, dict(state=lambda: c.n)


@program
def nested_functions_counter():
    class C:
        n = 0

    c = C()

    @tracehost.function
    def inner(x):
        c.n += 1
        return x * c.n

    def body(x):
        y = inner(x)
        if c.n % 2:
            y = inner(y)
        return y, c.n

    return body, dict(state=lambda: c.n)


@program
def try_finally_counter():
    class S:
        n = 0

    s = S()

    def body(x):
        try:
            s.n += 1
            if x.sum() > 1:
                raise KeyError("big")
            return x
        except KeyError:
            s.n += 10
            return -x
        finally:
            s.n += 100

    return body, dict(state=lambda: s.n)


@program
def context_manager_counter():
    class S:
        depth = 0
        most = 0

    s = S()

    @contextlib.contextmanager
    def deeper():
        s.depth += 1
        s.most = max(s.most, s.depth + int(s.most))
        try:
            yield s.depth
        finally:
            s.depth -= 1

    def body(x):
        with deeper() as d, deeper() as e:
            return x * d * e

    return body, dict(state=lambda: (s.depth, s.most))


@program
def enum_state():
    class Mode(enum.Enum):
        WARM = 0
        MAIN = 1
        DONE = 2

    class S:
        mode = Mode.WARM
        n = 0

    s = S()

    def body(x):
        s.n += 1
        if s.mode is Mode.WARM and s.n >= 2:
            s.mode = Mode.MAIN
        elif s.mode is Mode.MAIN and x.sum().item() > 0:
            s.mode = Mode.DONE
        return x * {Mode.WARM: 1, Mode.MAIN: 2, Mode.DONE: 3}[s.mode]

    return body, dict(state=lambda: (s.mode.name, s.n))
