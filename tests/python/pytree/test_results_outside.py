"""What a result holds from outside the body: each call returns the object that it finds there, as eager does."""

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import tracehost
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.SideEffectWarning"
)

X = torch.arange(1.0, 4.0)


class Plain:
    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Config:
    width: int
    tags: list


class Counted(dict):
    pass


layer = nn.Linear(3, 3)
plain = Plain([1])
tensors = [torch.ones(2), 2]
mixed = [layer, plain, 3, np.arange(2.0), {"inner": tensors}]
nested = {"a": {"b": [1, 2]}, "c": mixed}
array = np.arange(4.0)
ordered = OrderedDict(x=1, y=torch.zeros(1))
factory = defaultdict(list, a=[1])
counter = Counter("aab")
config = Config(3, ["a"])
pair = (layer, 2)
names = {"a", "b"}
queue = deque([1, 2])
own = Counted(a=1)
space = SimpleNamespace(fc=layer, items=[plain])
settings = {"fc": layer, "n": 2}
maker = iter([1, 2])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.state, self.history = nn.Linear(3, 3), {"k": torch.zeros(3)}, []

    def forward(self, x):
        return self.fc, self.fc(x)


model = Model()

RETURNED = {
    "a module": lambda x: (layer, layer(x)),
    "an object": lambda x: (plain, x * 2),
    "alone": lambda x: plain,
    "a list": lambda x: tensors,
    "a list of objects": lambda x: (mixed, x),
    "a nested dict": lambda x: {"of": nested, "y": x + 1},
    "an inner list": lambda x: nested["a"]["b"],
    "an element": lambda x: (mixed[1], mixed[0], x),
    "an array": lambda x: (array, x),
    "an ordered dict": lambda x: ordered,
    "a defaultdict": lambda x: [factory, x],
    "a counter": lambda x: (counter, x),
    "a dataclass": lambda x: (config, config.tags, x * config.width),
    "a tuple's element": lambda x: pair[0],
    "a set": lambda x: (names, x),
    "a deque": lambda x: (queue, x),
    "a dict of another class": lambda x: (own, x),
    "an attribute": lambda x: (space.fc, space.items, x),
    "of a dict": lambda x: (settings["fc"], settings.get("n"), x),
    "by getattr": lambda x: (getattr(space, "fc"), x),  # noqa: B009
    "a method's": lambda x: model(x),
    "a parameter": lambda x: (model.fc.weight, x),
    "by an iterator": lambda x: (next(iter(nested["c"])), x),
    "twice": lambda x: (plain, [plain, plain], x),
    "in a new object": lambda x: Plain((layer, x * 2)),
    "an iterator": lambda x: (maker, x),
    "a class and a function": lambda x: (Plain, torch.relu, len, x),
    "on one side": lambda x: (
        (plain if x.sum() > 0 else layer, x) if isinstance(x, int) else (plain, x)
    ),
}


def parts(value, depth=0):
    """Each object in a result with its place; those that the body makes are compared by what they hold."""
    if depth > 4:
        return
    yield value
    if type(value) in (list, tuple):
        for item in value:
            yield from parts(item, depth + 1)
    elif type(value) is dict:
        for item in value.values():
            yield from parts(item, depth + 1)
    elif isinstance(value, Plain):
        yield from parts(value.a, depth + 1)


OUTSIDE = [
    layer,
    plain,
    tensors,
    mixed,
    nested,
    nested["a"],
    nested["a"]["b"],
    array,
    ordered,
    factory,
    counter,
    config,
]
OUTSIDE += [
    config.tags,
    names,
    queue,
    own,
    space,
    space.items,
    settings,
    maker,
    model,
    model.fc,
    model.fc.weight,
]


def identities(value):
    return [
        next((i for i, o in enumerate(OUTSIDE) if o is part), type(part)) for part in parts(value)
    ]


@pytest.mark.parametrize("name", RETURNED)
def test_each_call_returns_what_is_there(name):
    body = RETURNED[name]
    f = tracehost.function(body)
    expected = identities(body(X))
    with assert_traces(f, 1):
        for i in range(4):
            assert identities(f(X + i)) == expected


@pytest.mark.filterwarnings("error::tracehost.TraceWarning")
@pytest.mark.parametrize("name", RETURNED)
def test_validated_at_each_hit(name):
    f = tracehost.function(RETURNED[name], validate=1)
    expected = identities(RETURNED[name](X))
    for i in range(3):
        assert identities(f(X + i)) == expected


def test_another_object_there_is_traced_again():
    holder = SimpleNamespace(now=Plain(1))

    @tracehost.function
    def f(x):
        return holder.now, x * 2

    first = holder.now
    with assert_traces(f, 2):
        assert f(X)[0] is first and f(X)[0] is first
        holder.now = second = Plain(2)
        assert f(X)[0] is second and f(X)[0] is second
    holder.now = first
    with assert_traces(f, 0):
        assert f(X)[0] is first


def test_a_list_that_the_body_changes_is_returned():
    log = []

    @tracehost.function
    def f(x):
        log.append(x * 2)
        return log

    for i in range(1, 4):
        assert f(X * i) is log
        assert len(log) == i and torch.equal(log[-1], X * i * 2)


def test_state_that_the_body_stores_is_returned():
    model = Model()

    @tracehost.function
    def step(x):
        model.state["k"] = model.state["k"] + x
        model.history = model.state
        return model.state, x * 2

    total = torch.zeros(3)
    for i in range(4):
        total = total + X * i
        state, _ = step(X * i)
        assert state is model.state and torch.equal(state["k"], total)


def test_an_object_that_the_body_takes_away():
    holder = SimpleNamespace(now=Plain(1))

    @tracehost.function
    def f(x):
        taken = holder.now
        holder.now = None
        return taken, x + 1

    for _ in range(3):
        holder.now = made = Plain(2)
        assert f(X)[0] is made
        assert holder.now is None
    assert f(X)[0] is None


def test_contents_changed_from_outside():
    rows = [1, 2]

    @tracehost.function
    def f(x):
        return rows

    assert f(X) is rows
    rows.append(3)
    assert f(X) is rows and f(X) == [1, 2, 3]
    rows.append(layer)
    assert f(X) is rows and len(f(X)) == 4


def test_two_outcomes_of_a_check():
    a, b = Plain(1), Plain(2)

    @tracehost.function(autograph=False)
    def f(x):
        return (a if bool(x.sum() > 0) else b), x * 2

    with assert_traces(f, 2):
        for sign in (1, -1, 1, -1, 1):
            assert f(X * sign)[0] is (a if sign > 0 else b)


def test_an_argument_and_its_parts():
    @tracehost.function
    def f(holder, rows):
        return holder, holder.fc, rows, holder.items

    for _ in range(3):
        holder, rows = SimpleNamespace(fc=nn.Linear(1, 1), items=[1]), [X]
        got = f(holder, rows)
        assert (
            got[0] is holder and got[1] is holder.fc and got[2] is rows and got[3] is holder.items
        )


def test_a_concrete_function_finds_them_too():
    f = tracehost.function(lambda x: (layer, tensors, x * 2))
    concrete = f.get_concrete_function(X)
    module, rows, y = concrete(X + 1)
    assert module is layer and rows is tensors and torch.equal(y, (X + 1) * 2)


def test_an_archive_makes_lists_and_rejects_objects(tmp_path):
    f = tracehost.function(lambda x: {"rows": tensors, "y": x * 2})
    f(X)
    tracehost.save(tmp_path / "rows.thost", {"rows": f})
    loaded = tracehost.load(tmp_path / "rows.thost")["rows"](X)
    assert (
        loaded["rows"] is not tensors
        and torch.equal(loaded["rows"][0], tensors[0])
        and loaded["rows"][1] == 2
    )
    g = tracehost.function(lambda x: (plain, x))
    g(X)
    with pytest.raises(tracehost.ArchiveError, match="an object from outside of it"):
        tracehost.save(tmp_path / "plain.thost", {"g": g})


# ---- numpy ----------------------------------------------------------------------------------------

MADE = {
    "an array": lambda x: np.ones(2) * 3,
    "with a tensor": lambda x: (x * 2, np.arange(6).reshape(2, 3)),
    "a view of its own": lambda x: np.arange(6)[2:4],
    "of a column": lambda x: {"a": np.asfortranarray(np.ones((2, 3)))},
    "booleans": lambda x: [np.array([True, False]), x],
    "text": lambda x: np.array(["a", "bc"]),
    "times": lambda x: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "records": lambda x: np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    "empty": lambda x: np.zeros((0, 3)),
    "not a number": lambda x: np.array([np.nan, 1.0]),
    "of guarded values": lambda x: np.full(3, config.width),
    "from a list": lambda x: np.asarray([1, 2, 3]) + 1,
    "in an object": lambda x: Plain(np.ones(2)),
    "scalars": lambda x: (
        np.float64(2.5),
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        np.float64("nan"),
    ),
    "complex": lambda x: (np.complex64(1 + 2j), np.zeros(1, dtype=np.complex128)),
    "types": lambda x: (np.float32, np.dtype("int8"), x),
    "without dimensions": lambda x: np.array(3.0),
}


def shown(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape, value.strides, value.tobytes()
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, Plain):
        return shown(value.a)
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.filterwarnings("error::tracehost.TraceWarning")
@pytest.mark.parametrize("validate", ["first", 1])
@pytest.mark.parametrize("name", MADE)
def test_numpy_made_by_the_body(name, validate):
    body = MADE[name]
    f = tracehost.function(body, validate=validate)
    with assert_traces(f, 1):
        for i in range(3):
            assert shown(f(X + i)) == shown(body(X + i))


def test_each_call_has_an_array_of_its_own():
    f = tracehost.function(lambda x: np.zeros(2))
    with assert_traces(f, 1):
        got = [f(X) for _ in range(4)]
        for i, one in enumerate(got):
            one += i
        assert [one.tolist() for one in got] == [[i, i] for i in map(float, range(4))]
        assert f(X).tolist() == [0, 0]


def test_an_array_twice_in_a_result_is_one():
    @tracehost.function
    def f(x):
        made = np.zeros(2)
        return made, [made], x

    with assert_traces(f, 1):
        for _ in range(3):
            a, (b,), _x = f(X)
            assert a is b
            a += 1


def test_contents_of_the_array_from_outside():
    f = tracehost.function(lambda x: (array, x + 1))
    assert f(X)[0] is array and f(X)[0] is array
    array[0] = 7
    assert f(X)[0] is array
    array[0] = 0


kept = []
SHARED = (
    "a numpy.ndarray has memory that something else has too, or holds objects. Return array.copy(), or of objects "
    "array.tolist()."
)


def keeps(x):
    made = np.zeros(2)
    kept.append(made)
    return made


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: array[1:], SHARED),
        (lambda x: np.array([None, "a"], dtype=object), SHARED),
        (keeps, "a numpy.ndarray that something else refers to as well"),
    ],
)
def test_arrays_that_no_later_call_can_make(body, message):
    f = tracehost.function(body)
    with pytest.raises((TypeError, tracehost.SignatureError)) as caught:
        f(X)
    assert message in str(caught.value)


def test_the_remedy_for_a_view():
    f = tracehost.function(lambda x: array[1:].copy())
    for _ in range(2):
        assert f(X).tolist() == array[1:].tolist()
    array[1] = 9
    assert f(X).tolist() == array[1:].tolist()
    array[1] = 1


READ = {
    "a number": lambda x: np.full(2, round(x.sum().item())),
    "a size": lambda x: np.zeros(len(x)),
    "a shape": lambda x: np.ones(x.shape),
    "a truth": lambda x: np.array([bool(x.sum() > 7)]),
}


@pytest.mark.parametrize("name", READ)
def test_an_array_of_what_the_body_reads(name):
    f = tracehost.function(READ[name])
    for x in (X, X + 1, X, torch.ones(4), torch.ones(5), X * 3):
        try:
            assert shown(f(x)) == shown(READ[name](x))
        except tracehost.ValueReadError as rejected:
            assert "test_results_outside.py" in str(rejected)  # noqa: PT017
