"""No traced number stays in the program, wherever a body puts it; and lists that the body grows and then reads."""

import collections
import dataclasses
import gc
import sys

import pytest
import torch
import tracehost
from tracehost._traced.traced_number import TracedNumber
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.SideEffectWarning"
)


@dataclasses.dataclass
class Record:
    loss: float
    count: int = 0


class Slotted:
    __slots__ = ("value",)


class Place:
    def __init__(self):
        self.deque, self.set, self.kept = collections.deque(maxlen=2), set(), []
        self.slotted, self.record, self.call = Slotted(), Record(0.0), None


def closure(place, n):
    def call():
        return n

    place.call = call


WAYS = {
    "deque": lambda p, n: p.deque.append(n),
    "deque of tuples": lambda p, n: p.deque.append((1, (n, "a"))),
    "left of a deque": lambda p, n: p.deque.appendleft(n),
    "set": lambda p, n: p.set.add(int(n)),
    "tuple in a list": lambda p, n: p.kept.append(("loss", n)),
    "list in a list": lambda p, n: p.kept.append([n, [n]]),
    "dict in a list": lambda p, n: p.kept.append({"loss": n, int(n): 1}),
    "object in a list": lambda p, n: p.kept.append(Record(n)),
    "attribute of an object": lambda p, n: setattr(p.record, "loss", n),
    "slot": lambda p, n: setattr(p.slotted, "value", n),
    "closure": closure,
    "vars": lambda p, n: vars(p.record).update(loss=n),
    "default of a function": lambda p, n: setattr(p, "call", lambda n=n: n),
}


# Functions that the body makes: no hit makes another one, and a SideEffectWarning reports that.
OBJECTS = {"closure", "default of a function"}


def told(value):
    assert type(value) is not TracedNumber
    if callable(value):
        return told(value())
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [told(v) for v in value]
    if isinstance(value, (dict, set)):
        return type(value).__name__, [
            told(v) for v in (value.items() if type(value) is dict else sorted(value))
        ]
    if isinstance(value, (Record, Slotted, Place)):
        names = ["value"] if type(value) is Slotted else list(vars(value))
        return [(name, told(getattr(value, name, None))) for name in names]
    return type(value).__name__, value


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_each_call_is_as_in_eager(way, autograph):
    eager, traced = Place(), Place()

    def body(place, x):
        WAYS[way](place, x.sum().item())
        return x * 2

    f = tracehost.function(lambda x: body(traced, x), autograph=autograph)
    for i in range(1 if way in OBJECTS else 4):
        x = torch.ones(2) * i
        body(eager, x)
        try:
            f(x)
        except tracehost.Error as error:
            assert "test_numbers_left.py" in str(error)  # noqa: PT017 (rejected with its line)
            return
        assert told(traced) == told(eager)


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_raises_leaves_none(way):
    place = Place()

    def body(x):
        WAYS[way](place, x.sum().item())
        raise LookupError

    with pytest.raises((LookupError, tracehost.Error)):
        tracehost.function(body)(torch.ones(2))
    told(place)


def test_none_is_alive_after_a_trace():
    kept = collections.deque()

    @tracehost.function
    def f(x):
        kept.append({"loss": (x.sum().item(), [x.max().item()])})
        return x.min().item()

    f(torch.ones(2))
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o) is TracedNumber]


# ---- what is added, and then read

GROWING = {
    "append, len": ("[]", "h.append('x')", "len(h)"),
    "append, sum": ("[]", "h.append(1.5)", "sum(h)"),
    "extend": ("[]", "h.extend(['x', 'y'])", "len(h)"),
    "+=": ("[]", "h += ['x']", "len(h)"),
    "a list that holds some": ("[1.0]", "h.append(1.5)", "sum(h)"),
    "in a defaultdict": ("collections.defaultdict(list)", "h['a'].append(1)", "len(h['a'])"),
    "deque, len": ("collections.deque()", "h.append('x')", "len(h)"),
    "deque, sum": ("collections.deque()", "h.append(1.5)", "sum(h)"),
    "deque, iteration": ("collections.deque()", "h.append(1.5)", "sum(v for v in h)"),
    "deque that holds some": ("collections.deque([1.0])", "h.append(1.5)", "len(h)"),
    "window": ("collections.deque(maxlen=2)", "h.append(x.sum().item())", "sum(h) / len(h)"),
    "list of numbers": ("[]", "h.append(x.sum().item())", "sum(h) / len(h)"),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_is_added_and_then_read(name):
    """The first length was the length for good."""
    init, add, use = GROWING[name]
    text = f"def make():\n  h = {init}\n  def body(x):\n    nonlocal h\n    {add}\n    return x * ({use})\n  return body"
    scope = {"collections": collections}
    exec(text, scope)
    eager, f = scope["make"](), tracehost.function(scope["make"]())
    for i in range(6):
        x = torch.ones(1) * (i + 1)
        assert torch.equal(f(x), eager(x))


def test_what_is_added_and_not_read_is_still_one_trace():
    log = []

    @tracehost.function
    def f(x):
        log.append("x")
        return x * 2

    with assert_traces(f, 1):
        with pytest.warns(tracehost.SideEffectWarning):
            for _ in range(3):
                f(torch.ones(1))


# ---- exceptions -----------------------------------------------------------------------------------


def from_another(n):
    try:
        {1: 2}[n]
    except KeyError as error:
        raise ValueError("no key") from error


def of_a_group(n):
    raise ExceptionGroup("several", [ValueError(n), KeyError(n, n)])


def raised(error):
    raise error


RAISES = {
    "key": lambda n: {1: 2}[n],
    "arguments": lambda n: raised(ValueError("a", (n, [n]))),
    "SystemExit": lambda n: raised(SystemExit(n)),
    "StopIteration": lambda n: raised(StopIteration(n)),
    "OSError": lambda n: raised(OSError(n, "s", n)),
    "sys.exit": lambda n: sys.exit(n),
    "sys.exit of a text": lambda n: sys.exit("end"),
    "cause": from_another,
    "group": of_a_group,
}


def held_by(error):
    """Types of what an exception holds."""
    if error is None:
        return None
    members = [getattr(error, name, None) for name in ("code", "value", "errno", "filename")]
    leaves = torch.utils._pytree.tree_leaves([error.args, members])
    inner = [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return [type(leaf) for leaf in leaves], [held_by(e) for e in inner]


@pytest.mark.parametrize("name", RAISES)
def test_an_exception_holds_no_traced_number(name):
    def body(x):
        RAISES[name](x.item())
        return x

    f = tracehost.function(body)
    for n in (7, 8):
        with pytest.raises(BaseException) as expected:  # noqa: PT011
            body(torch.tensor(n))
        with pytest.raises(type(expected.value)) as got:
            f(torch.tensor(n))
        assert held_by(got.value) == held_by(expected.value)
        assert got.value.args[:1] == expected.value.args[:1] or name in ("group",)
