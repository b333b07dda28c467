"""numpy's arrays and scalars as arguments: tensors, by dtype and shape."""

import collections
import dataclasses
import functools
import subprocess
import sys

import numpy as np
import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces
from types_support import traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass(frozen=True)
class Batch:
    image: object
    label: object = 0


def test_an_array_is_a_tensor_by_dtype_and_shape():
    f = tracehost.function(lambda a: a * 2)
    a = np.arange(3, dtype=np.float32)
    calls = [(a,), (a + 1,), (X,), (a.astype(np.float64),), (X.double(),), (a[:2],), (a,)]
    assert traces(f, *calls) == "1001010"
    assert_same(f(a + 5), torch.tensor([10.0, 12.0, 14.0]))


def test_changes_of_an_array_in_place_are_seen():
    f = tracehost.function(lambda a: a + 1)
    a = np.zeros(2)
    with assert_traces(f, 1):
        for value in (0.0, 5.0, 7.0):
            a[:] = value
            assert_same(f(a), torch.full((2,), value + 1, dtype=torch.float64))


def test_what_the_body_does_in_place_is_done_to_the_array():
    f = tracehost.function(lambda a: a.add_(1))
    a = np.zeros(2, np.int64)
    with assert_traces(f, 1):
        for count in (1, 2, 3):
            f(a)
            assert a.tolist() == [count, count]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[::-1],
        lambda a: a.astype(">f8"),
        lambda a: np.broadcast_to(a[:1], (4,)),
        lambda a: np.frombuffer(a.tobytes()),
    ],
    ids=["reversed", "another byte order", "broadcast", "read-only"],
)
def test_an_array_that_cannot_be_shared_is_copied(change):
    f = tracehost.function(lambda a: a.add_(1))
    a = change(np.arange(4.0))
    before = a.tolist()
    with assert_traces(f, 1):
        for _ in range(2):
            assert_same(f(a), torch.tensor([v + 1 for v in before], dtype=torch.float64))
            assert a.tolist() == before


def test_scalars_are_tensors_without_dimensions():
    f = tracehost.function(lambda s: s)
    for value, dtype in (
        (np.float32(1.5), torch.float32),
        (np.float64(2.5), torch.float64),
        (np.int16(3), torch.int16),
        (np.uint32(4), torch.uint32),
        (np.bool_(True), torch.bool),
        (np.complex64(1j), torch.complex64),
    ):
        assert_same(f(value), torch.tensor(value.item(), dtype=dtype))
    before = f.tracing_count()
    assert_same(f(np.int16(9)), torch.tensor(9, dtype=torch.int16))
    assert f.tracing_count() == before == 6


def test_strings_of_numpy_are_literals():
    f = tracehost.function(lambda x, s: x * len(s))
    calls = [
        (X, np.str_("a")),
        (X, np.str_("ab")),
        (X, np.str_("a")),
        (X, "a"),
        (X, np.bytes_(b"a")),
    ]
    assert traces(f, *calls) == "11011"


NESTED = {
    "list": lambda a: [a, 1],
    "tuple": lambda a: (1, a),
    "namedtuple": lambda a: Pair(a, "b"),
    "dict": lambda a: {"k": a, "j": 2},
    "OrderedDict": lambda a: collections.OrderedDict(k=a, j=2),
    "dataclass": lambda a: Batch(a),
    "deep": lambda a: {"k": [(Batch([a]), 1)]},
}


@pytest.mark.parametrize("name", NESTED)
def test_arrays_in_containers(name):
    make = NESTED[name]
    f = tracehost.function(lambda tree: tree)
    with assert_traces(f, 1):
        for offset in (0, 1):
            a = np.arange(2.0) + offset
            value = make(a)
            assert_same(f(value), make(torch.as_tensor(a)))
            assert_same(f(make(torch.as_tensor(a))), make(torch.as_tensor(a)))


def test_an_array_met_twice_is_one_tensor():
    f = tracehost.function(lambda p, q: p[0].add_(1) + q["k"])
    a, b = np.zeros(2), np.zeros(2)
    shared = [a]
    assert traces(f, (shared, {"k": a}), ([a], {"k": b}), (shared, {"k": a})) == "110"
    assert f(shared, {"k": a}).tolist() == [8.0, 8.0]


def test_a_list_met_twice_stays_one_list():
    f = tracehost.function(lambda p, q: 1 if p is q else 2)
    shared = [np.zeros(2)]
    assert f(shared, shared) == 1


def test_arguments_by_name_defaults_and_variable_ones():
    def body(x, w=np.ones(3, np.float32), *rest, scale=np.float32(2), **more):
        assert all(isinstance(v, torch.Tensor) for v in (x, w, scale, *rest, *more.values()))
        return (x * w * scale + sum(rest) + sum(more.values()),)

    f = tracehost.function(body)
    a = np.arange(3, dtype=np.float32)
    t = torch.as_tensor(a)
    with assert_traces(f, 3):
        for _ in range(2):
            assert_same(f(a)[0], t * 2)
            assert_same(f(a, scale=a)[0], t * t)
            assert_same(f(a, a, a, t, extra=a)[0], t * t * 2 + 3 * t)
            assert_same(f(w=t.clone(), x=t)[0], t * t * 2)


def test_methods_take_arrays():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        @tracehost.function
        def forward(self, x):
            return x * self.w

    net = Net()
    for value in (1.0, 2.0):
        assert_same(net(np.full(2, value, np.float32)).detach(), torch.full((2,), value))


REFUSED = {
    "<U1": np.array(["a"]),
    "object": np.array([None]),
    r"\[\('k', '<f4'\)\]": np.zeros(2, [("k", "f4")]),
    r"datetime64\[D\]": np.datetime64("2020-01-01"),
}


@pytest.mark.parametrize("dtype", REFUSED)
def test_dtypes_that_torch_lacks_are_named(dtype):
    f = tracehost.function(lambda x, y: x)
    message = rf"argument 'y': torch has no tensors of a numpy \w+'s dtype {dtype}\. Convert it"
    with pytest.raises(tracehost.SignatureError, match=message):
        f(X, [REFUSED[dtype]])
    assert f.stats()["live"] == 0


def test_masked_arrays_are_rejected():
    f = tracehost.function(lambda y: y)
    with pytest.raises(tracehost.SignatureError, match="argument 'y': a tensor has no mask"):
        f(np.ma.masked_array([1.0, 2.0]))


def test_an_array_of_the_body_is_an_argument_of_a_nested_function():
    inner = tracehost.function(lambda x, w: x * w)
    outer = tracehost.function(lambda x: inner(x, np.full(3, 2.0)))
    with assert_traces(outer, 1):
        for _ in range(2):
            assert_same(outer(X), X * np.full(3, 2.0))


def test_a_nested_function_gets_the_tensors_that_the_outer_one_got():
    inner = tracehost.function(lambda x, w: x * w)
    outer = tracehost.function(lambda x, w: inner(x, w))
    with assert_traces(outer, 1):
        for scale in (1, 2):
            assert_same(outer(X, np.full(3, scale, np.float32)), X * scale)


def test_a_partial_of_numpys_is_still_a_callable():
    f = tracehost.function(lambda g, x: x * g(4.0))
    assert f(functools.partial(np.sqrt), X).tolist() == [0.0, 2.0, 4.0]


def test_cycles_and_depth_with_an_array_in_them():
    f = tracehost.function(lambda tree: 1)
    ring = [np.ones(1)]
    ring += [ring, ring]
    with pytest.raises(tracehost.SignatureError, match="a list contains itself"):
        f(ring)
    deep = np.ones(1)
    for _ in range(500):
        deep = [deep, deep]
    with pytest.raises(tracehost.SignatureError, match="nested deeper than 200 levels"):
        f(deep)


def test_numpy_is_not_imported_for_it():
    program = """
import sys
sys.modules["numpy"] = None  # as if it was not installed
import torch, tracehost
f = tracehost.function(lambda x, n: x * n)
print(f(torch.ones(1), 3).item(), f([torch.ones(1)], 2)[0].item() if False else "", f.tracing_count())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True
    )
    assert done.stdout.split() == ["3.0", "1"], done.stderr


def test_a_key_of_numpy_is_no_empty_key():
    """Converted code compared a subscript's key with (), which of numpy's keys is an array."""
    table = torch.arange(10.0)

    @tracehost.function
    def pick(x):
        y = table.clone()
        y[np.int64(1)] = 7.0
        return x * table[np.int64(3)], y[np.uint8(1)], table[()] is table

    with assert_traces(pick, 1):
        for x in (torch.ones(2), torch.ones(2) * 2):
            assert_same(pick(x), pick.python_function(x))


@pytest.mark.parametrize("key", [(), (torch.tensor(1),), (torch.tensor(1), np.int64(0))], ids=str)
def test_keys_that_select_all(key):
    rows = torch.arange(6.0).reshape(3, 2)

    @tracehost.function
    def pick(i):
        part = rows[tuple(i if isinstance(k, torch.Tensor) else k for k in key)]
        return part * 1, part is rows

    with assert_traces(pick, 1):
        for i in (torch.tensor(0), torch.tensor(2)):
            assert_same(pick(i), pick.python_function(i))
