"""Bodies with an `if` on a tensor, a side of which stores to what was there before the call.

Each function makes what the body changes, and returns the body and what is looked at after each call.
"""

import contextvars
import functools
import os
import queue
import threading
import warnings

import torch
from program_table import Programs

CASES = Programs()
case = CASES.add


@case
def a_flag():
    class M:
        flag = False

    m = M()

    def body(x):
        if x.sum() > 5:
            m.flag = True
        return x * 2 if m.flag else x

    return body, lambda: m.flag


@case
def a_number():
    class M:
        n = 1

    m = M()

    def body(x):
        if x.sum() > 5:
            m.n = 5
        return x * m.n

    return body, lambda: m.n


@case
def a_counter():
    class M:
        n = 0

    m = M()

    def body(x):
        m.n += 1
        if x.sum() > 5:
            m.n = 0
        return x * m.n

    return body, lambda: m.n


@case
def a_text():
    class M:
        s = ""

    m = M()

    def body(x):
        if x.sum() > 5:
            m.s = m.s + "a"
        return x * 2

    return body, lambda: m.s


@case
def a_global():
    def body(x):
        global SEEN
        if x.sum() > 5:
            SEEN = SEEN + 1
        return x * 2

    globals()["SEEN"] = 0
    return body, lambda: SEEN


@case
def a_cell():
    n = 0

    def body(x):
        nonlocal n
        if x.sum() > 5:
            n = 7
        return x * 2

    return body, lambda: n


@case
def in_a_helper_in_a_nested_if():
    log = []

    def helper(x):
        if x[0] > 4:
            log.append(float(x[0]))
        return x * 2

    def body(x):
        if x.sum() > 2:
            x = helper(x)
        else:
            x = x - 1
        return x

    return body, lambda: list(log)


@case
def by_elif():
    log = []

    def body(x):
        if x.sum() > 5:
            log.append("big")
        elif x.sum() > 2:
            log.append("mid")
        else:
            x = x * 2
        return x

    return body, lambda: list(log)


@case
def ternary():
    log = []

    def note(x):
        log.append(1)
        return x * 2

    def body(x):
        return note(x) if x.sum() > 5 else x

    return body, lambda: list(log)


@case
def by_and():
    log = []

    def note():
        log.append(1)
        return True

    def body(x):
        if x.sum() > 5 and note():
            x = x * 2
        return x

    return body, lambda: list(log)


@case
def by_match():
    log = []

    def body(x, *a):
        match x[0].int():
            case 1:
                log.append(1)
            case 4:
                log.append(4)
            case _:
                x = x * 2
        return x

    return body, lambda: list(log)


@case
def early_return_then_store():
    class M:
        n = 0

    m = M()

    def body(x):
        if x.sum() > 5:
            return x
        m.n = 3
        return x * 2

    return body, lambda: m.n


@case
def in_a_for_over_a_tensor():
    log = []

    def body(x):
        s = x.sum() * 0
        for v in x:
            if v > 2:
                log.append(1)
            s = s + v
        return s

    return body, lambda: list(log)


@case
def in_a_while():
    log = []

    def body(x):
        n = 0
        while n < 4 and x.sum() < 9:
            x = x * 2
            if x.sum() > 5:
                log.append(n)
            n += 1
        return x, n

    return body, lambda: list(log)


@case
def in_a_python_loop():
    log = []

    def body(x):
        for i in range(3):
            if x.sum() > 5:
                log.append(i)
            x = x * 1.5
        return x

    return body, lambda: list(log)


@case
def context_variable():
    v = contextvars.ContextVar("v", default=0)

    def body(x):
        if x.sum() > 5:
            v.set(3)
        return x * 2

    return body, lambda: v.get()


@case
def thread_local():
    v = threading.local()
    v.n = 0

    def body(x):
        if x.sum() > 5:
            v.n = v.n + 1
        return x * 2

    return body, lambda: v.n


@case
def queue_put():
    q = queue.Queue()

    def body(x):
        if x.sum() > 5:
            q.put(1)
        return x * 2

    return body, lambda: q.qsize()


@case
def simple_queue():
    q = queue.SimpleQueue()

    def body(x):
        if x.sum() > 5:
            q.put(1)
        return x * 2

    return body, lambda: q.qsize()


@case
def environment():
    def body(x):
        if x.sum() > 5:
            os.environ["TRACEHOST_SIDE"] = str(len(x))
        return x * 2

    os.environ.pop("TRACEHOST_SIDE", None)
    return body, lambda: os.environ.get("TRACEHOST_SIDE")


@case
def warns():
    def body(x):
        if x.sum() > 5:
            warnings.warn("big", stacklevel=1)
        return x * 2

    return body, lambda: 0


@case
def grad_mode_left():
    def body(x):
        if x.sum() > 5:
            torch.set_grad_enabled(False)
        return x * 2

    return body, lambda: torch.is_grad_enabled()


@case
def lru():
    @functools.lru_cache
    def g(n):
        return n * 2

    def body(x):
        if x.sum() > 5:
            x = x * g(3)
        return x

    return body, lambda: g.cache_info().currsize


@case
def deletes():
    class M:
        pass

    m = M()
    m.c = 1

    def body(x):
        if x.sum() > 5 and hasattr(m, "c"):
            del m.c
        return x * 1

    return body, lambda: hasattr(m, "c")


@case
def tensors_in_slots():
    class M:
        pass

    m = M()
    m.best = torch.zeros(2)
    m.last = torch.zeros(2)

    def body(x):
        if x.sum() > m.best.sum():
            m.best = x
        m.last = x * 2
        return x * 1

    return body, lambda: (m.best.tolist(), m.last.tolist())


@case
def none_then_tensor_in_a_slot():
    class M:
        best = None

    m = M()

    def body(x):
        if m.best is None or x.sum() > m.best.sum():
            m.best = x * 1
        return x * 2

    return body, lambda: None if m.best is None else m.best.tolist()


@case
def nested_three():
    log = []

    def body(x):
        if x.sum() > 0:
            if x.sum() > 2:
                if x.sum() > 5:
                    log.append(3)
                else:
                    x = x + 1
            else:
                log.append(2)
        return x * 2

    return body, lambda: list(log)


@case
def exec_in_side():
    log = []

    def body(x):
        if x.sum() > 5:
            exec("log.append(1)", {"log": log})
        return x * 2

    return body, lambda: list(log)


@case
def random_op_in_both():
    torch.manual_seed(0)

    def body(x):
        if x.sum() > 5:
            y = x + torch.rand(2)
        else:
            y = x - torch.rand(2)
        return y

    return body, lambda: 0


@case
def inplace_then_impure():
    buf = torch.zeros(2)
    log = []

    def body(x):
        buf.add_(1)
        if x.sum() > 5:
            buf.mul_(2)
            log.append(1)
        return x + buf

    return body, lambda: (buf.tolist(), list(log))


@case
def impure_late_in_the_side():
    buf = torch.zeros(2)
    log = []

    def body(x):
        y = x * 2
        if y.sum() > 10:
            y = y + 1
            z = y * y
            buf.add_(z)
            log.append(1)
            w = z + y
        else:
            w = y
        return w * 2

    return body, lambda: (buf.tolist(), list(log))


@case
def print_behind_an_early_return():
    def body(x):
        if x.sum() > 5:
            return x
        print("hello", file=open(os.devnull, "w"))
        return x * 2

    return body, lambda: 0
