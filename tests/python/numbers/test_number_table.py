"""Each op on numbers that graphs have (host/program/numbers.h) gives what Python gives, to the bit."""

import itertools
import math
import operator
import struct
import warnings

import pytest
import python_versions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracehost import _tracehost

OPERATORS = {
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
    "truth": bool,
    "int": int,
    "float": float,
    "round": round,
    "round_to": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "min": min,
    "max": max,
}
ARITIES = _tracehost.number_ops()
EDGES = [
    *(False, True, 0, 1, -1, 2, 3, -3, 7, 10, 63, 64, 2**31),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 2.675, 1e-308, 5e-324, 1e16, 2.0**53, 2.0**63, 1e308),
    *(math.inf, -math.inf, math.nan, 0.1, 3.7, -7.25),
    # ints beside powers of two and of ten, the ends of factorial, shift and round
    *(-2, 4, 5, 15, 20, 21, 22, 25, 62, 65, -64, 323, -308, -309, 2**31 - 1, -(2**31), 2**62 - 1, -(2**62) - 1),
    *(3037000499, 3037000500, 5 * 10**18, 5 * 10**18 + 1, 9 * 10**18, -19, -18, -20, 2**63 - 512, 1 - 2**63),
    # floats beside ints, of each size, and ties
    *(-0.5, 2.0, 3.0, -3.0, 22.0, 23.0, 24.0, 140.5, 171.5, 200.5, -150.25, -200.5, 5e-21, -5e-21, -1.5, 4.5),
    *(2.0**63 - 1024, -(2.0**63), -(2.0**64), 2.0**52 + 0.5, 1e22, 1e23, 9.5, 25.0, 1.7976931348623157e308),
    *(2.2250738585072014e-308, 709.78, 710.0, -745.2, 1024.0, -1075.0, 1e-5, math.pi, math.e, math.nextafter(1, 2)),
]  # fmt: skip
LEAVES = "leaves"  # Python's result is no int64, no float and no bool


def python_function(name):
    if name in OPERATORS:
        return OPERATORS[name]
    if name.startswith("math_"):
        return getattr(math, name.removeprefix("math_"))
    return getattr(operator, name)


def without_evaluation(name, *numbers):
    """What Python takes too long, or too much memory, to find; None: it can be asked."""
    if any(isinstance(number, float) for number in numbers):
        return None
    first, second = numbers if len(numbers) == 2 else (numbers[0], 0)
    if (name == "pow" and second > 64 and abs(first) > 1) or (
        name == "lshift" and second > 64 and first
    ):
        return LEAVES
    return 0 if name == "round_to" and second < -30 else None


def outcome(result):
    """A value that distinguishes types and bits."""
    if isinstance(result, complex) or result is NotImplemented or result is LEAVES:
        return LEAVES
    if isinstance(result, float):
        return "nan" if math.isnan(result) else (float, struct.pack("d", result))
    in_range = -(2**63) <= result < 2**63
    return (type(result), int(result)) if in_range else LEAVES


def what_comes(function, *numbers):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ~True, from 3.12 on
            return outcome(function(*numbers))
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error), str(error) if python_versions.NUMBER_TEXTS else None


def of_python(name, *numbers):
    known = without_evaluation(name, *numbers)
    return what_comes(python_function(name), *numbers) if known is None else outcome(known)


def of_graph(name, *numbers):
    return what_comes(_tracehost.number_op, name, *numbers)


def compare(name, *numbers):
    expected = of_python(name, *numbers)
    assert of_graph(name, *numbers) == expected, f"{name}{numbers}: Python gives {expected}"


def combinations(name):
    return itertools.product(EDGES, repeat=ARITIES[name])


@pytest.mark.parametrize("name", ARITIES)
def test_edge_values(name):
    for numbers in combinations(name):
        compare(name, *numbers)


@pytest.mark.parametrize("name", ARITIES)
def test_kind_of_the_result(name):
    found = {}
    for numbers in combinations(name):
        come = of_graph(name, *numbers)
        types = found.setdefault(tuple(type(number) for number in numbers), set())
        if come == "nan":
            types.add(float)
        elif come != LEAVES and not issubclass(come[0], Exception):
            types.add(come[0])
    for operands, types in found.items():
        kind = _tracehost.kind_of_number(name, *operands)
        assert types <= {kind} if kind else len(types) != 1, (name, operands, types, kind)


def test_which_there_are():
    """Another one needs a reason: a model, an example or a program that uses it."""
    assert {*ARITIES} == {
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "abs"),
        *("and", "or", "xor", "invert", "lshift", "rshift"),
        *("eq", "ne", "lt", "le", "gt", "ge", "truth", "not", "min", "max"),
        *("int", "float", "round", "round_to", "floor", "ceil"),
        *(
            "math_sqrt",
            "math_exp",
            "math_log",
            "math_pow",
            "math_cos",
            "math_sin",
            "math_tan",
            "math_radians",
        ),
        *("math_isfinite", "math_isnan"),
    }


def test_texts_of_errors():
    """3.11's, on any Python."""
    texts = {
        ("mod", 1, 0): "integer modulo by zero",
        ("mod", 2.5, 0): "float modulo",
        ("truediv", 1, False): "division by zero",
        ("math_log", 0): "math domain error",
        ("pow", 0, -1): "0.0 cannot be raised to a negative power",
        ("lshift", 1.0, True): "unsupported operand type(s) for <<: 'float' and 'bool'",
        ("math_sqrt", -1): "math domain error",
    }
    for call, text in texts.items():
        with pytest.raises((ArithmeticError, ValueError, TypeError)) as raised:
            _tracehost.number_op(*call)
        assert str(raised.value) == text


INTEGERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-100, 100),
    st.builds(lambda power, more: min(2**power + more, 2**63 - 1), st.integers(0, 63), st.integers(-2, 2)),
)  # fmt: skip
FLOATS = st.one_of(
    st.floats(),
    st.floats(-250, 250),
    INTEGERS.map(float),
    st.builds(lambda whole, places: whole / 10**places, st.integers(-(10**6), 10**6), st.integers(0, 6)),
)  # fmt: skip
NUMBERS = st.one_of(INTEGERS, FLOATS, st.booleans())


@pytest.mark.parametrize("name", ARITIES)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_values(name, data):
    for numbers in data.draw(st.lists(st.tuples(*[NUMBERS] * ARITIES[name]), max_size=8)):
        compare(name, *numbers)


@settings(max_examples=400, deadline=None)
@given(number=st.one_of(FLOATS, INTEGERS), digits=st.integers(-20, 330))
def test_rounding_to_digits(number, digits):
    compare("round_to", number, digits)


@settings(max_examples=400, deadline=None)
@given(number=st.floats(), digits=st.integers(-310, 0))
def test_rounding_to_tens(number, digits):
    compare("round_to", number, digits)
