"""What the graph has no op for is computed by Python: an int is checked, a call with a float is plain Python."""

import math
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

# Of one float that is positive, and of a positive int below 5.
OF_FLOATS = {
    name: getattr(math, name)
    for name in ("acosh asin atan asinh atanh cosh degrees erf erfc exp2 expm1 fabs gamma isinf lgamma log10 log1p log2 "
                 "radians sinh tan tanh ulp cbrt modf frexp").split()
} | {
    "acosh": lambda n: math.acosh(n + 1),
    "asin": lambda n: math.asin(n / 8),
    "atanh": lambda n: math.atanh(n / 8),
    "atan2": lambda n: math.atan2(n, 2),
    "copysign": lambda n: math.copysign(2.0, -n),
    "fmod": lambda n: math.fmod(n, 2),
    "hypot": lambda n: math.hypot(n, 3),
    "hypot of three": lambda n: math.hypot(n, 3, 4),
    "isclose": lambda n: math.isclose(n, 2.5),
    "ldexp": lambda n: math.ldexp(n, 3),
    "nextafter": lambda n: math.nextafter(n, 9),
    "remainder": lambda n: math.remainder(n, 3),
    "dist": lambda n: math.dist([n], [1.0]),
    "fsum": lambda n: math.fsum([n, 1]),
    "prod": lambda n: math.prod([n, 2]),
}  # fmt: skip
OF_INTS = {
    "comb": lambda n: math.comb(6, n),
    "factorial": lambda n: math.factorial(n),
    "gcd": lambda n: math.gcd(n, 12),
    "isqrt": lambda n: math.isqrt(n),
    "lcm": lambda n: math.lcm(n, 4),
    "perm": lambda n: math.perm(6, n),
}
X = torch.ones(2)


def read(use, x, t):
    return x * use(t.item()), use(t.item())


def of_a_tensor(use, x, t):
    return x * use(t)


def in_an_if(use, x, t):
    if x.sum() > 0:
        return x * use(t.item())
    return x - 1


def in_the_other_side(use, x, t):
    if x.sum() > 1e9:
        return x * use(t.item())
    return x - 1


def in_a_side_that_assigns(use, x, t):
    y = x
    if x.sum() > 1e9:
        y = y * use(t.item())
    elif x.sum() < 0:
        y = y + use(t.item())
    return y * 2


def in_a_while(use, x, t):
    n = t.item()
    while x.sum() < 9:
        x = x + 1 + abs(use(n)) * 0
    return x


def in_a_loop(use, x, t):
    total = 0.0
    for row in x:
        total = total + row * use(t.item())
    return total


def in_a_loop_of_the_graph(use, x, t):
    for _ in range(int(x.sum())):
        x = x * 0.5 + use(t.item())
    return x


def after_a_store(use, x, t):
    x = x.clone()
    x += 1
    return x * use(t.item())


PLACES = [
    *(read, of_a_tensor, in_an_if, in_the_other_side, in_a_side_that_assigns, in_a_while, in_a_loop),
    *(in_a_loop_of_the_graph, after_a_store),
]  # fmt: skip


def values(result):
    return [
        v.tolist() if isinstance(v, torch.Tensor) else v
        for v in torch.utils._pytree.tree_leaves(result)
    ]


def compare(use, place, numbers):
    """No call raises, or has another result than eager's."""
    f = tracehost.function(lambda x, t: place(use, x, t))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.TraceWarning)
        for x in (X, X * 2, -X):
            for n in numbers * 2:
                t = torch.tensor(n)
                try:
                    expected = values(place(use, x, t))
                except (ValueError, TypeError, OverflowError) as error:
                    with pytest.raises(type(error)):
                        f(x, t)
                    continue
                assert repr(values(f(x, t))) == repr(expected)  # nan is itself
    return f


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", OF_FLOATS)
def test_of_a_float(name, place):
    use = OF_FLOATS[name]
    whole = (lambda n: sum(use(n))) if name in ("modf", "frexp") else use
    if name in ("dist", "fsum", "prod") and place is of_a_tensor:
        pytest.skip("Python's function takes no list of tensors for numbers")
    compare(whole, place, [1.5, 2.5, 3.25])


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", OF_INTS)
def test_of_an_int(name, place):
    f = compare(OF_INTS[name], place, [1, 2, 4])
    if place is read:
        assert f.stats()["hits"] > 0  # the graph checks an int


@pytest.mark.parametrize("name", ["log2", "gamma"])
def test_a_call_with_a_float_is_its_own(name):
    use = OF_FLOATS[name]
    f = compare(use, read, [1.5, 2.5])
    assert f.stats()["hits"] == 0
    assert f"gives a float to C code at {__file__.rpartition('/')[2]}:" in str(tracehost.events(f))


def test_functions_that_are_made_of_others():
    """trunc and a logarithm to a base have no op of their own."""

    def body(x, t):
        n = t.item()
        return x * math.log(n, 3), math.trunc(n), math.floor(n), math.ceil(n), math.log(8, n)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (1.5, 2.5, 7.0):
            assert values(f(X, torch.tensor(n))) == values(body(X, torch.tensor(n)))
    for n, error in ((0.0, "math domain error"), (1.0, "float division by zero")):
        with pytest.raises((ValueError, ZeroDivisionError), match=error):
            f(X, torch.tensor(n))


LEAVES = {
    "a complex number": (lambda n: abs((-n) ** 0.5), [1.5, 2.5]),
    "an int past 64 bits": (lambda n: float(3 ** (n * 30)), [1, 2, 4]),
    "an int of a large float": (lambda n: int(n * 1e300) % 7, [1.5, 2.5]),
}


@pytest.mark.parametrize("place", [read, after_a_store], ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", LEAVES)
def test_what_a_graph_has_no_number_for(name, place):
    use, numbers = LEAVES[name]
    compare(use, place, numbers)


def test_a_loop_that_no_check_may_precede_is_left_to_python():
    def body(x, t):
        x = tracehost.py_function(lambda t: t * 2, [x], torch.float32)  # could not be undone
        for _ in range(int(x.sum())):
            x = x * 0.5 + math.gamma(t.item())
        return x

    f = tracehost.function(body)
    with pytest.warns(tracehost.TraceWarning, match="runs as plain Python: .*by C code"):
        result = f(X, torch.tensor(2.5))
    assert values(result) == values(body(X, torch.tensor(2.5)))
    assert f.stats()["eager"] == 1


def test_a_trace_from_specs_has_no_value():
    f = tracehost.function(lambda x: x * math.gamma(x.sum().item()))
    with pytest.raises(tracehost.ValueReadError, match="by C code"):
        f.get_concrete_function(tracehost.TensorSpec([2], torch.float32))


METHODS = {
    "int": lambda n: (
        (5).__mul__(n),
        (5).__rpow__(n),
        (5).__divmod__(n),
        (5).__lt__(n),
        (5).__eq__(n),
    ),
    "bool": lambda n: (True.__and__(n), True.__add__(n)),
    "float": lambda n: ((5.0).__truediv__(n), (5.5).__add__(n), (2.0).__gt__(n)),
    "from the class": lambda n: (int.__add__(5, n), float.__mul__(5.0, n)),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_a_python_number(name):
    use = METHODS[name]
    of_a_number = tracehost.function(lambda t: use(t.item()))
    of_a_size = tracehost.function(lambda x: use(x.shape[0]), reduce_retracing=True)
    for n in (3, 4, 1, 3, 2):
        assert repr(of_a_number(torch.tensor(n))) == repr(use(n))
        assert repr(of_a_size(torch.ones(n))) == repr(use(n))
