"""Lists and dicts among the arguments: what a body does to them, each hit does to those of its call; in a result they are themselves."""

import collections

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


def shown(value, names):
    """With the names of the arguments' own containers, so that identity counts."""
    name = names.get(id(value))
    if isinstance(value, dict):
        return name, {key: shown(x, names) for key, x in value.items()}, list(value)
    if isinstance(value, (list, tuple)):
        return name, type(value), [shown(x, names) for x in value]
    return (
        (type(value), value.tolist()) if isinstance(value, torch.Tensor) else (type(value), value)
    )


def stores(b):
    b["z"] = b["x"] * 2


def returns_it(b):
    b["z"] = b["x"] * 2
    return b


def pops(b):
    return b.pop("x") * 3


def several(b):
    b["y"] = b["x"] + 1
    b["x"] = b["x"] * 2
    del b["w"]
    return b["y"]


def nested(b):
    b["inner"]["k"] = b["x"] * 5
    b["inner"]["list"].append(b["x"])
    return b["inner"], [b["inner"]["list"]]


def takes_out(b):
    inner = b.pop("inner")
    inner["k"] = b["x"] * 5
    return inner


def other_values(b):
    b["n"] = b["x"].sum().item()
    b["s"] = "done"
    b["t"] = (b["x"], [1, b["x"] * 2])
    return b["n"]


def defaults(b):
    b.setdefault("q", b["x"] * 2)
    b.setdefault("w", None)


def a_view(b):
    b["v"] = b["x"][:1]
    b["v"].add_(1)


def in_place_too(b):
    b["x"].mul_(2)
    b["same"] = b["x"]


def if_positive(b):
    b["kind"] = 0
    if b["x"].sum() > 0:
        b["kind"] = 1
        b["sum"] = b["x"].sum()
    else:
        b["sum"] = b["x"].sum() * 2


def of_a_list(b):
    items = b["inner"]["list"]
    items.insert(0, b["x"])
    items[1] = items[1] * 2
    items.append([b["x"]])
    return items


def reverses(b):
    b["inner"]["list"].reverse()
    b["inner"]["list"] += [b["x"]]


def clears(b):
    b["inner"]["list"].clear()
    b["inner"].clear()
    return b["x"]


def only_returns(b):
    return b, b["inner"], b["inner"]["list"], b["x"] * 2


def moves(b):
    b["again"] = b["inner"]


def shares(b):
    made = [b["x"] * 2]
    b["made"] = made
    return made


def another_order(b):
    b["x"] = b.pop("x")
    b["inner"]["list"] = b["inner"].pop("list")


BODIES = [stores, returns_it, pops, several, nested, takes_out, other_values, defaults, a_view]
BODIES += [in_place_too, if_positive, of_a_list, reverses, clears, only_returns]
BODIES += [moves, shares, another_order]


def batch(n):
    inner = {"list": [torch.ones(1) * n, torch.zeros(2)]}
    return {"x": torch.ones(2) * n, "w": torch.zeros(1), "inner": inner}


def told(function, b):
    names = {id(b): "b", id(b["inner"]): "inner", id(b["inner"]["list"]): "list"}
    kept = b["inner"], b["inner"]["list"]
    result = function(b)
    return shown([result, b, *kept], names)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_as_in_eager(body):
    f = tracehost.function(body)
    for n in (1, -2, 3, -4):
        assert told(f, batch(n)) == told(body, batch(n))
    assert f.tracing_count() <= 2 and f.stats()["hits"] >= 2


@pytest.mark.parametrize("body", [stores, nested, of_a_list], ids=lambda body: body.__name__)
def test_each_hit_is_validated(body):
    f = tracehost.function(body, validate=1)
    for n in (1, -2, 3):
        assert told(f, batch(n)) == told(body, batch(n))
    assert f.stats()["mismatches"] == 0


def test_positional_extra_and_default_arguments():
    def body(x, *lists, memo=[]):  # noqa: B006
        for items in lists:
            items.append(x * len(items))
        memo.append(x)
        return len(memo)

    f = tracehost.function(body)
    for n in (1.0, 2.0, 3.0):
        a, b = [], [torch.zeros(1)]
        given = f(torch.tensor([n]), a, b, memo=[n])
        assert (given, len(a), len(b)) == (2, 1, 2)
        assert a[0].item() == 0 and b[1].item() == n


def test_gradients_flow_through_what_was_stored():
    f = tracehost.function(stores)
    for n in (1.0, 2.0):
        x = torch.full((2,), n, requires_grad=True)
        b = {"x": x}
        f(b)
        b["z"].sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]


def test_an_outer_function_sees_the_change():
    inner = tracehost.function(stores)

    def body(x):
        b = {"x": x}
        inner(b)
        return b["z"] + 1

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (1.0, 2.0):
            assert torch.equal(f(torch.tensor([n])), torch.tensor([n * 2 + 1]))


def an_object(b):
    b["o"] = object()


def a_key(b):
    b[(1, 2)] = b["x"]


@pytest.mark.parametrize("body", [an_object, a_key])
def test_what_later_calls_could_not_do_is_rejected(body):
    f = tracehost.function(body)
    expected = batch(1)
    body(expected)
    for _ in range(2):
        given = batch(1)
        with pytest.raises(
            tracehost.TraceError, match="changes its argument 'b' in a way that later"
        ):
            f(given)
        assert list(given) == list(expected)  # the body has run


def test_other_containers_are_rejected():
    def body(items):
        items["z"] = items["x"] * 2

    ordered = collections.OrderedDict(x=torch.ones(1))
    with pytest.raises(tracehost.TraceError, match="changes its argument 'items'"):
        tracehost.function(body)(ordered)


def test_a_concrete_function_and_an_archive_say_so(tmp_path):
    f = tracehost.function(stores)
    b = {"x": torch.ones(2)}
    with pytest.raises(tracehost.TraceError, match="changes its argument 'b' in a way that later"):
        f.get_concrete_function({"x": tracehost.TensorSpec([2])})
    f(b)
    with pytest.raises(tracehost.Error, match="changes an argument that is a list or dict"):
        f.save(tmp_path / "f.thz")
