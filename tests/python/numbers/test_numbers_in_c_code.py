"""Code of Python's library that takes no number but Python's own gets it, and the graph checks it."""

import datetime
import decimal
import fractions
import json
import math
import statistics
import struct

import numpy
import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.ones(2)


def of_json(x, n):
    return json.dumps({"n": n, "rows": [n, (2, n)]}), x


def of_json_keys(x, n):
    return json.dumps({n: "a"}), x


def of_an_encoder(x, n):
    return json.JSONEncoder(sort_keys=True).encode([n]), x


def of_timedelta(x, n):
    return x * datetime.timedelta(seconds=n).total_seconds()


def of_timedelta_times(x, n):
    return x * (datetime.timedelta(seconds=1) * n + n * datetime.timedelta(1)).total_seconds()


def of_dates(x, n):
    day = datetime.date(2020, 1, 1).replace(day=n)
    return x * day.toordinal(), datetime.datetime.fromtimestamp(n, datetime.UTC).second


def of_decimal(x, n):
    return x * float(decimal.Decimal(n) / 2 + decimal.Decimal("0.5") * n)


def of_fraction(x, n):
    return x * float(fractions.Fraction(n, 3) + n)


def of_statistics(x, n):
    return x * statistics.mean([n, 1]), statistics.median([n, 2, 3])


def of_struct(x, n):
    return struct.pack("<hh", n, 1), x


def of_percent(x, n):
    return "%d of %s, %05.2f" % (n, n, n), "%(n)d" % {"n": n}, x


def of_bytes(x, n):
    return bytes(n), bytearray([n, 1]), n.to_bytes(2, "big"), "ab" * n, chr(60 + n), hex(n)


def of_methods(x, n):
    return x * int.bit_length(n), int.__add__(n, 2)


def of_numpy(x, n):
    made = (
        numpy.sqrt(n),
        numpy.maximum(n, 2),
        numpy.ones(2) * n,
        n + numpy.int64(3),
        numpy.clip(n, 0, 4),
    )
    return numpy.arange(n).sum(), numpy.zeros(n).shape[0], numpy.int64(n), made, x


PROGRAMS = [
    *(of_json, of_json_keys, of_an_encoder, of_timedelta, of_timedelta_times, of_dates, of_decimal, of_fraction),
    *(of_statistics, of_struct, of_percent, of_bytes, of_methods, of_numpy),
]  # fmt: skip


@pytest.mark.parametrize("body", PROGRAMS, ids=lambda body: body.__name__)
def test_a_number_that_was_read(body):
    f = tracehost.function(lambda x, t: body(x, t.item()))
    with assert_traces(f, 2):
        for n in (3, 5, 3, 5):
            ours, eagers = f(X, torch.tensor(n)), body(X, n)
            assert repr(ours) == repr(eagers)
    assert f.stats()["hits"] == 2


@pytest.mark.parametrize("body", PROGRAMS, ids=lambda body: body.__name__)
def test_a_counter(body):
    class Counter:
        def __init__(self):
            self.n = 2

        @tracehost.function
        def step(self, x):
            self.n += 1
            return body(x, self.n)

    counter = Counter()
    for n in (3, 4, 5):
        assert repr(counter.step(X)) == repr(body(X, n))


def test_attributes_beside_the_counter_are_guarded():
    class State:
        def __init__(self):
            self.n, self.name = 0, "a"

    state = State()

    @tracehost.function
    def f(x):
        state.n += 1
        return json.dumps(state.__dict__), x

    for _ in range(3):
        f(X)
    state.n, state.name = 0, "b"
    assert f(X)[0] == '{"n": 1, "name": "b"}'


KEYS = {
    "a key": lambda x, n: {n: x},
    "nested": lambda x, n: [{"a": {n: x, "b": n}}],
    "in a tuple": lambda x, n: {(n, "a"): x, (1, n): 2},
    "two that may be one": lambda x, n: {n: x, 4: x * 2},
}


@pytest.mark.parametrize("body", KEYS.values(), ids=KEYS)
def test_a_number_is_a_key_of_the_result(body):
    class Counter:
        n = 2

    counter = Counter()

    @tracehost.function
    def f(x):
        counter.n += 1
        return body(x, counter.n)

    g = tracehost.function(lambda x, t: body(x, t.item()))
    for n in (3, 4, 5):
        assert repr(f(X)) == repr(body(X, n))
        for _ in range(2):
            assert repr(g(X, torch.tensor(n))) == repr(body(X, n))
    assert g.stats()["hits"] == 3


FLOATS = {
    "json": lambda x: json.dumps({"loss": x}),
    "timedelta": lambda x: datetime.timedelta(seconds=x),
    "decimal": lambda x: decimal.Decimal(x),
    "struct": lambda x: struct.pack("<d", x),
    "numpy": lambda x: (numpy.exp(x), numpy.array([x, 1.0]).sum(), numpy.float32(x)),
    "math": lambda x: (math.fsum([x, 1.0]), math.hypot(x, 1.0, 2.0), math.dist([x], [0.0])),
}


@pytest.mark.parametrize("use", FLOATS.values(), ids=FLOATS)
def test_a_float_is_the_calls_own(use):
    @tracehost.function
    def f(x):
        return x * len(repr(use(x.sum().item())))

    for scale in (1.5, 2.0, 1.5):
        assert torch.equal(f(X * scale), X * scale * len(repr(use((X * scale).sum().item()))))
    assert f.stats()["hits"] == 0
    assert "gives a float to C code at test_numbers_in_c_code.py:" in str(tracehost.events(f))


def test_the_context_of_decimal_is_compared():
    f = tracehost.function(lambda x: x * float(decimal.Decimal(1) / 3))
    with assert_traces(f, 2):
        for precision in (28, 28, 3, 3, 28):
            with decimal.localcontext() as context:
                context.prec = precision
                assert torch.equal(f(X), X * float(decimal.Decimal(1) / 3))
