"""What a call is compared by: Python values, containers, aliases, objects, contexts."""

import collections
import dataclasses
import enum

import numpy as np
import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)
A, B = torch.ones(2), torch.zeros(2)
Point = collections.namedtuple("Point", "x y")
NAN = float("nan")


class Mode(enum.Enum):
    add = 1
    mul = 2


class Level(enum.IntEnum):
    low = 1


class Words(str):
    pass


@dataclasses.dataclass
class Batch:
    x: object
    n: object = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    inner: object = None


def helper(x):
    return x * 2


def other_helper(x):
    return x * 3


def traces(f, *calls):
    """How many of the calls traced, one digit each."""
    result = ""
    for args in calls:
        before = f.tracing_count()
        f(*args)
        result += str(f.tracing_count() - before)
    return result


DIFFERENT = {
    "True and 1": (True, 1),
    "1 and 1.0": (1, 1.0),
    "False and 0": (False, 0),
    "0 and None": (0, None),
    "-0.0 and 0.0": (-0.0, 0.0),
    "nan and inf": (NAN, float("inf")),
    "1 and 2": (1, 2),
    "2**64 and 2**64 + 1": (2**64, 2**64 + 1),
    "2**63 and -2**63": (2**63, -(2**63)),
    "str": ("a", "b"),
    "str and bytes": ("a", b"a"),
    "str and its subclass": ("a", Words("a")),
    "complex": (1j, 2j),
    "1 and 1+0j": (1.0, 1 + 0j),
    "dtype": (torch.float32, torch.float64),
    "device": (torch.device("cpu"), torch.device("meta")),
    "memory format": (torch.contiguous_format, torch.channels_last),
    "enum": (Mode.add, Mode.mul),
    "int and IntEnum": (1, Level.low),
    "None and tensor": (None, A),
    "number and tensor": (1.0, torch.tensor(1.0)),
    "list and tuple": ([1], (1,)),
    "tuple and namedtuple": ((1, 2), Point(1, 2)),
    "length": ([1], [1, 1]),
    "empty containers": ((), []),
    "nesting": ([A, [B]], [[A], B]),
    "dict order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "dict keys": ({"a": 1}, {"b": 1}),
    "dict key types": ({1: 2}, {1.0: 2}),
    "types in tuple keys": ({(1, 2): 2}, {(1, 2.0): 2}),
    "dict and OrderedDict": ({"a": 1}, collections.OrderedDict(a=1)),
    "dataclass field": (Batch(X, 1), Batch(X, 2)),
    "dataclass types": (Batch(X, None), Frozen(X, None)),
    "function": (helper, other_helper),
    "class": (int, float),
    "module": (torch, np),
    "slice": (slice(1, 2), slice(1, 3)),
    "range": (range(2), range(3)),
    "ellipsis": (..., None),
    "tensor in list": ([A], [A.double()]),
    "frozenset-free tuple": (("a", 1), ("a", True)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_are_two_traces(name):
    f = tracehost.function(lambda x, v: x * 2)
    a, b = DIFFERENT[name]
    assert traces(f, (X, a), (X, b), (X, a), (X, b)) == "1100"


EQUAL = {
    "nan": (NAN, float("inf") - float("inf")),
    "nan of another sign": (NAN, -NAN),
    "complex nan": (complex(NAN, 1), complex(float("inf") - float("inf"), 1)),
    "str": ("word" * 2, "wordword"),
    "big int": (10**30, 10**29 * 10),
    "float": (0.1 + 0.2, 0.30000000000000004),
    "tuple": ((1, ("a", 2.0)), (1, ("a", 2.0))),
    "bytes": (b"ab", bytes([97, 98])),
    "list": ([1, [2]], [1, [2]]),
    "dataclass": (Batch(A, 3), Batch(B, 3)),
    "frozen dataclass": (Frozen(1, Frozen(2)), Frozen(1, Frozen(2))),
    "namedtuple": (Point(A, 1), Point(B, 1)),
    "dtype": (torch.float32, X.dtype),
    "device": (torch.device("cpu"), torch.device("cpu")),
    "slice": (slice(1, None, 2), slice(1, None, 2)),
    "tuple keys": ({(1, "a"): 2}, {tuple([1, "a"]): 2}),
    "tensor values": (A, B),
    "defaultdict": (
        collections.defaultdict(int, a=1),
        collections.defaultdict(int, a=1),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_values_are_one_trace(name):
    f = tracehost.function(lambda x, v: x * 2)
    a, b = EQUAL[name]
    assert traces(f, (X, a), (X, b), (X, a)) == "100"


def test_bracketing_counts():
    f = tracehost.function(lambda *args: [a for a in args if isinstance(a, list)])
    a, b = torch.ones(2), torch.zeros(2)
    with assert_traces(f, 4):
        for _ in range(2):
            assert_same(f([a], [b]), [[a], [b]])
            assert_same(f([a, [b]]), [[a, [b]]])
            assert_same(f([[a], b]), [[[a], b]])
            assert_same(f([a, b]), [[a, b]])


def test_the_alias_pattern_counts():
    def body(x, y, z):
        x.add_(1)
        return x + y * 2 + z * 3

    f = tracehost.function(body)
    with assert_traces(f, 5):
        for count in (5, 5):
            for pattern in ("abc", "aab", "aba", "baa", "aaa"):
                ours = {k: torch.ones(2) for k in "abc"}
                theirs = {k: torch.ones(2) for k in "abc"}
                got = f(*[ours[k] for k in pattern])
                assert torch.equal(got, body(*[theirs[k] for k in pattern])), pattern


def test_aliases_inside_of_containers_count():
    f = tracehost.function(lambda p, q: [p[0] + q["k"]])
    a, b = torch.ones(2), torch.ones(2)
    calls = (([a], {"k": a}), ([a], {"k": b}), ([b], {"k": b}), ([b], {"k": a}))
    assert traces(f, *calls) == "1100"


def test_many_aliases_are_told_apart():
    f = tracehost.function(lambda ts: torch.stack(ts).sum(0))
    t = [torch.full((2,), float(i)) for i in range(40)]
    assert traces(f, (t,), (t[::-1],), (t[:39] + t[:1],), (t[:39] + t[1:2],), (t,)) == "10110"


@pytest.mark.parametrize("value", [{1, 2}, {"k": [{1}]}])
def test_sets_are_rejected_by_name(value):
    f = tracehost.function(lambda x, options: x)
    message = r"argument 'options': a set has no fixed order. Use a tuple, or sorted\(...\) of it."
    with pytest.raises(tracehost.SignatureError, match=message):
        f(X, value)
    with pytest.raises(TypeError):
        f(X, options=value)
    assert f.stats()["live"] == 0


def test_cycles_and_deep_nesting_are_rejected():
    f = tracehost.function(lambda tree: X * 2)
    ring = [1]
    ring.append({"self": ring})
    message = "argument 'tree': a list contains itself. Use it without the cycle."
    with assert_traces(f, 1):
        with pytest.raises(tracehost.SignatureError, match=message):
            f(ring)
        deep = []
        for _ in range(5000):
            deep = [deep]
        message = "argument 'tree': nested deeper than 200 levels, at a list. Use flatter data."
        with pytest.raises(tracehost.SignatureError, match=message):
            f(deep)
        shared = [1]
        f([shared, shared])


WEIGHT = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))


def embedded(i):
    return torch.nn.functional.embedding(i, WEIGHT).contiguous() * 2


def attention(i):
    x = torch.nn.functional.linear(torch.nn.functional.embedding(i, WEIGHT), WEIGHT[:8])
    heads = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
    weights = (heads @ heads.transpose(-2, -1)).softmax(-1)
    return (weights @ heads).transpose(1, 2).contiguous().view(x.shape)


def elementwise(i):
    y = i * 2
    return y.contiguous(), y.is_contiguous()


def made_and_replaced(i):
    made = torch.zeros(2, 8)
    made.data = i.float()
    return made.contiguous(), made.is_contiguous()


@pytest.mark.parametrize(
    "body, traces", [(embedded, 1), (attention, 1), (elementwise, 4), (made_and_replaced, 4)]
)
def test_strides_count_where_what_is_read_lies_as_an_input_does(body, traces):
    base = torch.randint(0, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    f = tracehost.function(body)
    with assert_traces(f, traces):
        for i in (
            base[:, :8].clone(),
            base[:, :8],
            base.t()[:8].contiguous().t(),
            base[:, :12].clone()[:, :8],
        ):
            for a, b in zip(f(i), body(i)):
                assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b
