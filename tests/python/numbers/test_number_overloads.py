"""Ops that take a Python number where another overload takes a tensor: given a number that the body has read, each
computes what eager does, also at a later call with another number."""

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0, 3.0])
RANDOM = {"normal", "randint_like"}


def kinds(schema):
    return [str(argument.type) for argument in schema.arguments]


def places():
    """(name, place) of each public op that has both overloads."""
    overloads = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if schema.name.startswith("aten::") and not name.startswith("_") and not name.endswith("_"):
            if not any(argument.is_out for argument in schema.arguments):
                overloads.setdefault(name, []).append(kinds(schema))
    for name, known in sorted(overloads.items()):
        for place in range(3):
            here = {kind[place] for kind in known if len(kind) > place}
            if "Tensor" in here and here & {"number", "int", "float"}:
                yield name, place


def forms(name):
    """The function of torch, of torch.special, and the method, taken from its class."""
    for owner in torch, torch.special, torch.Tensor:
        function = getattr(
            owner, name.removeprefix("special_") if owner is torch.special else name, None
        )
        if function is not None:
            yield function


def outcome(f, *args):
    torch.manual_seed(0)
    try:
        return f(*args)
    except tracehost.Error:
        raise
    except Exception as error:
        return type(error)


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a.dtype == b.dtype and torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "place"), list(places()))
def test_a_number_for_a_tensor(name, place):
    for function in forms(name):
        for more in (), (3,), (3, 3):

            def body(x, n, function=function, more=more):
                given = [x] * place + [n.item()] + ([x] if place == 0 and not more else [])
                return function(*given, *more)

            traced = tracehost.function(body)
            for numbers in (2.5, 3.5, 2.5), (2, 3, 4):
                for number in numbers:
                    n = torch.tensor(number)
                    expected = outcome(body, X, n)
                    if not isinstance(expected, type):
                        assert same(outcome(traced, X, n), expected)


def test_they_are_many():
    assert len(list(places())) > 60


def as_bound(x, n):
    return 1 / x.clamp(max=n.item())


def as_lower_bound(x, n):
    return 1 / torch.clamp(x, n.item(), 5.0)


def as_bound_in_place(x, n):
    return 1 / (x + 0).clamp_max_(n.item())


def between(x, n):
    return 1 / torch.clip(x, n.item() - 1, n.item())


@pytest.mark.parametrize("body", [as_bound, as_lower_bound, as_bound_in_place, between])
def test_a_bound_of_zero(body):
    """The kernel for a tensor gives 0.0 for the minimum of -0.0 and 0.0, the one for a number -0.0."""
    x = torch.tensor([-0.0, 0.0, -2.0, 3.0] * 8)
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for bound in (0.0, 0.0, 0.0, -0.0, 1.0, 0.0):
            assert torch.equal(f(x, torch.tensor(bound)), body(x, torch.tensor(bound)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("number", [1e300, -1e40, 1e5])
def test_a_number_past_the_range_of_the_dtype(dtype, number):
    def body(x):
        return x * number, x - number, x.sum() + number, x / number

    x = torch.tensor([1.0, -2.0, 0.0], dtype=dtype)
    f = tracehost.function(body)
    for _ in range(3):
        assert_same(f(x), body(x))
