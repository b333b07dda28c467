"""Results come back as from eager: types, structure, identity, aliases."""

import collections
import dataclasses
import enum
import typing

import pytest
import torch
import tracehost
from core_support import assert_same, check
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(4.0)
Pair = collections.namedtuple("Pair", "first second")


class Typed(typing.NamedTuple):
    x: torch.Tensor
    n: int = 3


class Color(enum.Enum):
    red = 1


class Items(list):
    pass


class Couple(tuple):
    pass


@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    parts: dict = dataclasses.field(default_factory=dict)
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Sealed:
    x: torch.Tensor
    inner: Output | None = None


def helper(x):
    return x


RESULTS = {
    "tensor": lambda x: x * 2,
    "none": lambda x: None,
    "numbers": lambda x: (1, 2.5, True, 3j, 2**70, float("inf")),
    "strings": lambda x: ("a", b"b", f"{x.shape[0]} rows"),
    "torch things": lambda x: (x.dtype, x.device, x.layout, x.shape),
    "enum": lambda x: [Color.red],
    "empty containers": lambda x: ((), [], {}),
    "nested": lambda x: {"a": [x + 1, (x + 2, {"b": x + 3})], "c": ([], x.sum())},
    "tuple of one": lambda x: (x + 1,),
    "namedtuple": lambda x: Pair(x + 1, Pair(1, x * 2)),
    "NamedTuple": lambda x: Typed(x * 2),
    "torch's named tuple": lambda x: (tuple(x.max(0)), tuple(torch.topk(x, 2))),
    "dict keys": lambda x: {7: x + 1, "k": x * 2, None: 3, 2.5: x - 1, True: 4},
    "tuple keys": lambda x: {(1, "a"): x - 1},
    "ordered dict": lambda x: collections.OrderedDict(b=x + 1, a=x + 2),
    "dataclass": lambda x: Output(x.sum(), {"x": x + 1}, "note"),
    "frozen dataclass": lambda x: Sealed(x + 1, Output(x + 2)),
    "list subclass": lambda x: Items([x + 1, 2]),
    "tuple subclass": lambda x: Couple((x + 1, 2)),
    "several tensors": lambda x: (x + 1, x + 2, x.sum(), x.long(), x > 1),
    "unpacked args": lambda x: [*(x + i for i in range(3))],
    "ellipsis": lambda x: ...,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_comes_back_as_from_eager(name):
    check(RESULTS[name], X.clone().requires_grad_())


def test_containers_are_new_at_each_call():
    f = tracehost.function(lambda x: {"list": [x + 1], "n": [1]})
    with assert_traces(f, 1):
        results = [f(X) for _ in range(3)]
        for a, b in zip(results, results[1:]):
            assert a is not b and a["list"] is not b["list"] and a["n"] is not b["n"]
            assert a["list"][0].data_ptr() != b["list"][0].data_ptr()
            a["n"].append("changed")
        assert f(X)["n"] == [1]


@pytest.mark.parametrize("tup", [lambda x: x.max(0), lambda x: torch.linalg.eigh(x.outer(x))])
def test_torch_return_types(tup):
    f = tracehost.function(tup)
    with assert_traces(f, 1):
        for _ in range(2):
            got, expected = f(X), tup(X)
            assert type(got) is type(expected)
            for a, b in zip(got, expected):
                assert_same(a, b)


def test_outputs_that_are_inputs_are_the_very_objects():
    def body(x, d):
        return x, [d["k"], x], d["k"].add_(1)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            x, k = torch.ones(2), torch.ones(3)
            a, (b, c), d = f(x, {"k": k})
            assert a is x and b is k and c is x and d is k


def test_outputs_that_are_captures_are_the_very_objects():
    w = torch.nn.Parameter(torch.ones(2))
    f = tracehost.function(lambda x: (w, w * x.sum()))
    with assert_traces(f, 1):
        for _ in range(3):
            assert f(X)[0] is w


def test_one_tensor_twice_is_one_object():
    def body(x):
        y = x + 1
        return y, [y], {"y": y}, y.view(2, 2)

    f = tracehost.function(body)
    for _ in range(3):
        a, (b,), c, view = f(X)
        assert a is b and a is c["y"] and view is not a
        a.zero_()
        assert torch.equal(view, torch.zeros(2, 2))


VIEWS = {
    "slice": lambda x: x[1:3],
    "view": lambda x: x.view(2, 2),
    "t": lambda x: x.view(2, 2).t(),
    "detach": lambda x: x.detach(),
    "expand": lambda x: x.expand(3, 4),
    "unsqueeze": lambda x: x[None, :],
    "reshape": lambda x: x.reshape(2, 2),
    "diagonal": lambda x: x.view(2, 2).diagonal(),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(torch.float32),
    "alias": lambda x: x.view_as(x),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_inputs_alias_them(name):
    view = VIEWS[name]
    f = tracehost.function(view)
    with assert_traces(f, 1):
        for call in range(3):
            x = X.clone()
            out = f(x)
            assert torch.equal(out, view(x)) and out.stride() == view(x).stride()
            assert out._is_view() == view(x)._is_view() and (out is x) == (view(x) is x)
            x.mul_(10)
            assert torch.equal(out, view(x)), call
            assert out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_views_of_inputs_that_require_grad():
    def body(x):
        y = x * 1
        v = y[1:]
        v.mul_(2)
        return y, v

    check(body, X.clone().requires_grad_())


def test_an_unused_and_an_untouched_argument():
    f = tracehost.function(lambda x, unused: 5)
    with assert_traces(f, 1):
        assert f(X, X + 1) == 5 and f(X, X + 2) == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (v for v in x),
        lambda x: {1, 2},
        lambda x: object(),
        lambda x: iter([x]),
        lambda x: [lambda: x],
        lambda x: torch.nn.Linear(2, 2),
        lambda x: x.numpy,
    ],
)
def test_other_objects_are_a_type_error(make):
    f = tracehost.function(make)
    with pytest.raises(TypeError, match=r"<lambda> \(test_core_results.py:\d+\)"):
        f(X)
    assert f.stats()["live"] == 0


def test_the_words_for_a_result_that_cannot_be_repeated():
    def body(x):
        return object()

    f = tracehost.function(body)
    line = body.__code__.co_firstlineno
    with pytest.raises(TypeError) as error:
        f(X)
    assert str(error.value) == (
        f"body (test_core_results.py:{line}) returned a object, which a later call could not make "
        "again. Return tensors, numbers, strings, None, dtypes, devices, enums, or tuples, lists, dicts, "
        "dataclasses and new objects of them."
    )


def test_a_result_that_contains_itself_is_rejected():
    def body(x):
        ring = [x]
        ring.append(ring)
        return ring

    with pytest.raises(TypeError, match="contains itself"):
        tracehost.function(body)(X)


def test_a_generator_function_is_rejected():
    def body(x):
        yield x

    with pytest.raises(TypeError, match="is a generator: a graph can't pause"):
        tracehost.function(body)(X)


def test_a_new_tensor_of_a_subclass_is_rejected():
    class Tagged(torch.Tensor):
        pass

    t = torch.ones(2).as_subclass(Tagged)
    f = tracehost.function(lambda t: t * 2)
    with pytest.raises(tracehost.TraceError, match="returned a new Tagged"):
        f(t)
    g = tracehost.function(lambda t: t.as_subclass(torch.Tensor) * 2)
    for _ in range(2):
        assert type(g(t)) is torch.Tensor and torch.equal(g(t), torch.full((2,), 2.0))


def test_parameters_made_in_the_body_are_rejected_or_right():
    def body(x):
        return torch.nn.Parameter(x * 2)

    f = tracehost.function(body)
    with pytest.raises(tracehost.Error):
        f(X)
