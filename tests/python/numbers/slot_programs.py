"""Small programs whose numbers in slots are inputs of the graph: each gives a body, and what the slot holds."""

import collections

import torch

COUNT = 0


class Thing:
    kind = 0

    def __init__(self, **values):
        vars(self).update(values)


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


def attribute():
    thing = Thing(n=0)

    def body(x):
        thing.n += 1
        return x * thing.n

    return body, lambda: thing.n


def a_float():
    thing = Thing(rate=1.0)

    def body(x):
        thing.rate *= 0.9
        return x * thing.rate

    return body, lambda: thing.rate


def member():
    thing = Slotted()

    def body(x):
        thing.n += 2
        return x * thing.n

    return body, lambda: thing.n


def class_attribute():
    class Own:
        n = 0

    def body(x):
        Own.n += 1
        return x * Own.n

    return body, lambda: Own.n


def nonlocal_variable():
    n = 0

    def body(x):
        nonlocal n
        n += 1
        return x * n

    return body, lambda: n


def global_variable():
    global COUNT
    COUNT = 0

    def body(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    return body, lambda: COUNT


def entry():
    table = {"n": 0, "other": "text"}

    def body(x):
        table["n"] += 1
        return x * table["n"]

    return body, lambda: table


def counter():
    counts = collections.Counter(a=1)

    def body(x):
        counts["a"] += 1
        return x * counts["a"]

    return body, lambda: counts


def element():
    counts = [0, 5]

    def body(x):
        counts[0] += 1
        return x * counts[0] + counts[1]

    return body, lambda: counts


def pair():
    thing = Thing(betas=(0.9, 0.99))

    def body(x):
        a, b = thing.betas
        thing.betas = (a * 0.5, b)
        return x * a + b

    return body, lambda: thing.betas


def in_a_list():
    thing = Thing(n=0, last=[0])

    def body(x):
        thing.n += 1
        thing.last = [thing.n, thing.n * 0.5]
        return x * thing.n

    return body, lambda: (thing.n, thing.last)


def two_that_change_places():
    thing = Thing(a=1, b=2)

    def body(x):
        thing.a, thing.b = thing.b, thing.a + thing.b
        return x * thing.a

    return body, lambda: (thing.a, thing.b)


def best_so_far():
    thing = Thing(best=float("inf"), bad=0)

    def body(x):
        loss = (x.sum() * (thing.bad + 1)).item()
        if loss < thing.best:
            thing.best = loss
            thing.bad = 0
        else:
            thing.bad += 1
        return x * thing.best

    return body, lambda: (thing.best, thing.bad)


def none_at_first():
    thing = Thing(best=None)

    def body(x):
        thing.best = 1 if thing.best is None else thing.best * 2
        return x * thing.best

    return body, lambda: thing.best


def ring():
    thing = Thing(at=0, buffer=torch.zeros(3, 2))

    def body(x):
        thing.buffer[thing.at] = x
        thing.at = (thing.at + 1) % 3
        return thing.buffer.sum()

    return body, lambda: (thing.at, thing.buffer.tolist())


def logged():
    thing = Thing(n=0, log=[])

    def body(x):
        thing.n += 1
        if thing.n % 3 == 0:
            thing.log.append(thing.n)
        return x + thing.n

    return body, lambda: (thing.n, thing.log)


def through_a_method():
    class Meter:
        def __init__(self):
            self.sum, self.count = 0.0, 0

        def update(self, value, n):
            self.sum += value * n
            self.count += n

        @property
        def mean(self):
            return self.sum / self.count

    meter = Meter()

    def body(x):
        meter.update(x.sum().item(), x.shape[0])
        return x * meter.mean

    return body, lambda: (meter.sum, meter.count)


def flag():
    thing = Thing(ready=False, calls=0)

    def body(x):
        thing.calls += 1
        if not thing.ready:
            thing.ready = True
            return x * 100
        return x * thing.calls

    return body, lambda: (thing.ready, thing.calls)


def phase():
    thing = Thing(phase=0)

    def body(x):
        thing.phase = 1 - thing.phase
        return x + 1 if thing.phase == 0 else x * 3

    return body, lambda: thing.phase


def in_a_helper():
    thing = Thing(best=0.0, at={"n": 0})

    def keep(value):
        thing.best = value
        thing.at["n"] = thing.at["n"] + 1

    def body(x):
        total = x.sum().item()
        if total > thing.best:
            keep(total)
        return x * thing.best + thing.at["n"]

    return body, lambda: (thing.best, thing.at)


def counts_by_place():
    thing = Thing(counts=[0] * 4, at=0)

    def body(x):
        thing.counts[thing.at % 4] += 1
        thing.at += 1
        return x * thing.counts[0] + thing.counts[1]

    return body, lambda: (thing.counts, thing.at)


def bound_of_a_loop():
    thing = Thing(n=0)

    def body(x):
        thing.n += 1
        i = 0
        while i < thing.n:
            x = x + i
            i += 1
        return x

    return body, lambda: thing.n


def any_number_is_true():
    thing = Thing(n=0, on=True)

    def body(x):
        thing.n += 1
        if thing.on and thing.n % 2 == 0 or thing.n == 5:
            x = x * 3
        return x + (thing.n or 7)

    return body, lambda: thing.n


def start_of_a_part():
    thing = Thing(at=0, rows=torch.zeros(20, 2))

    def body(x):
        thing.rows.narrow(0, thing.at, 1).copy_(x[None])
        thing.at += 1
        return thing.rows.sum(0)

    return body, lambda: thing.at


# With the most traces that 12 calls may cost.
PROGRAMS = {
    attribute: 2, a_float: 2, member: 2, class_attribute: 2, nonlocal_variable: 2, global_variable: 2, entry: 2,
    counter: 2, element: 2, pair: 2, in_a_list: 2, two_that_change_places: 3, best_so_far: 4, none_at_first: 3, ring: 2,
    logged: 3, through_a_method: 3, flag: 3, phase: 4, in_a_helper: 4,
    counts_by_place: 10, bound_of_a_loop: 2, any_number_is_true: 4, start_of_a_part: 2,
}  # fmt: skip
