"""Factories, dtypes, literals; settings of the process that a body would change."""

import itertools
import random

import numpy
import pytest
import torch
import tracehost
from core_support import check, place

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
NUMBERS = [2, 2.5, True, 1j]

MADE = {
    "full of a bool": lambda x: torch.full((2,), True),
    "full of a bool as int": lambda x: torch.full((2,), True, dtype=torch.int32),
    "full of an int": lambda x: torch.full((2,), 3),
    "full of a complex": lambda x: torch.full((2,), 3j),
    "full_like": lambda x: torch.full_like(x, True),
    "full_like of bools": lambda x: torch.full_like(x > 0, False),
    "new_full": lambda x: x.new_full((2,), True),
    "new_tensor": lambda x: x.new_tensor([1, 2]),
    "new_zeros": lambda x: (x.new_zeros(2), x.new_ones(2, dtype=torch.int8), x.new_empty(0)),
    "scalar_tensor": lambda x: (torch.scalar_tensor(True), torch.scalar_tensor(2)),
    "fill_": lambda x: (x.clone().fill_(True), (x > 0).fill_(True)),
    "masked_fill": lambda x: (x.masked_fill(x > 1, True), (x > 0).masked_fill(x > 1, False)),
    "where": lambda x: (torch.where(x > 1, x, True), torch.where(x > 1, x > 0, True)),
    "eq": lambda x: (x == True, (x > 0) == True, torch.ne(x, False)),  # noqa: E712
    "arange": lambda x: (torch.arange(3), torch.arange(0.0, 1.0, 0.3), torch.arange(1, 9, 3)),
    "linspace": lambda x: (torch.linspace(0, 1, 3), torch.logspace(0, 1, 3), torch.eye(2)),
    "zeros": lambda x: (torch.zeros(2), torch.ones(2, dtype=torch.bool), torch.zeros_like(x)),
    "tensor": lambda x: (torch.tensor([[1, 2], [3, 4]]), torch.tensor(1.5), torch.tensor([])),
    "tensor of others": lambda x: torch.tensor([True, False]),
    "tensor of numbers": lambda x: (torch.tensor((1, 2.5)), torch.tensor([1j]), torch.tensor(7)),
    "as_tensor": lambda x: (torch.as_tensor([1, 2]), torch.as_tensor(x), torch.as_tensor(2.5)),
    "asarray": lambda x: (torch.asarray([1, 2]), torch.asarray(x), torch.asarray(True)),
    "divided ints": lambda x: (x.int() / 2, x.int() / x.int(), x.int().sin(), x.int() // 2),
    "a device": lambda x: (torch.zeros(2, device="cpu"), torch.zeros(1, device=x.device)),
    "0-dim tensors": lambda x: (x.int() * torch.tensor(2.5), x * torch.tensor(2.5).double()),
    "out": lambda x: torch.zeros(3, out=torch.empty(3)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_factories_make(name):
    check(MADE[name], torch.arange(3.0))


@pytest.mark.parametrize("name", MADE)
def test_what_factories_make_by_the_default_dtype(name):
    torch.set_default_dtype(torch.float64)
    try:
        check(MADE[name], torch.arange(3.0))
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_with_every_dtype(dtype, number):
    if dtype in (torch.float16, torch.bfloat16) and number == 1j:
        pytest.skip("torch computes with no complex numbers of two halves")

    def body(x):
        return (
            x + number,
            number * x,
            x * torch.tensor(number),
            torch.where(x == x, x, number),
            torch.result_type(x, number),
            x == number,
        )

    check(body, torch.ones(3, dtype=dtype))
    check(body, torch.ones((), dtype=dtype))


def test_dtypes_of_two_tensors():
    for a, b in itertools.combinations(DTYPES, 2):
        body = tracehost.function(
            lambda x, y: (x * y, torch.cat([x, y]), torch.where(x == y, x, y))
        )
        x, y = torch.ones(2, dtype=a), torch.ones(2, dtype=b)
        for _ in range(2):
            for got, expected in zip(body(x, y), body.python_function(x, y)):
                assert got.dtype == expected.dtype and torch.equal(got, expected), (a, b)


def test_a_device_context_inside():
    def body(x):
        with torch.device("cpu"):
            y = torch.zeros(3) + x
        with torch.device("meta"):
            z = torch.zeros(2)
        return y, z.device, torch.ones(1)

    check(body, torch.arange(3.0))


def deterministic(x):
    torch.use_deterministic_algorithms(True)  # here
    return x * 2


def default_dtype(x):
    torch.set_default_dtype(torch.float64)  # here
    return torch.zeros(3) + x


def default_device(x):
    torch.set_default_device("cpu")  # here
    return torch.zeros(3) + x


def threads(x):
    torch.set_num_threads(torch.get_num_threads())  # here
    return x * 2


def tf32(x):
    torch.backends.cuda.matmul.allow_tf32 = False  # here
    return x * 2


def backend(x):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # here
        return x * 2


@pytest.mark.parametrize(
    "body", [deterministic, default_dtype, default_device, threads, tf32, backend]
)
def test_a_changed_setting_of_the_process_is_rejected(body):
    settings = (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(),
    )
    with pytest.raises(tracehost.TraceError) as error:
        tracehost.function(body)(torch.ones(3))
    assert str(error.value).startswith("the body changes a setting of the whole process (")
    assert f") at {place(body)}, which is not recorded in a graph. " in str(error.value)
    assert settings == (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(),
    )


GENERATOR = numpy.random.default_rng(0)

DRAWS = {
    "random.random": lambda: random.random(),
    "random.getrandbits": lambda: random.randint(0, 5),
    "numpy.random.rand": lambda: float(numpy.random.rand()),
    "numpy.random.normal": lambda: float(GENERATOR.normal()),
    "random.shuffle": lambda: random.shuffle([1, 2]),
}


@pytest.mark.parametrize("name", list(DRAWS)[:4])
def test_random_numbers_of_others_are_told_with_the_line(name):
    def body(x):
        value = DRAWS[name]()
        return x * value

    f = tracehost.function(body)
    with pytest.warns(tracehost.TraceWarning) as warned:
        f(torch.ones(2))
    line = DRAWS[name].__code__.co_firstlineno
    assert [str(w.message).split(" while")[0] for w in warned] == [
        f"body (test_factories.py:{body.__code__.co_firstlineno}) uses {name} at "
        f"test_factories.py:{line}"
    ]


def versions_of(value):
    if isinstance(value, torch.Tensor):
        return value._version
    return [versions_of(part) for part in value] if isinstance(value, (tuple, list)) else None


WRITTEN = {
    "made": lambda x: (torch.zeros(2), torch.full((2,), 1.0), torch.arange(3), torch.eye(2)),
    "drawn": lambda x: (
        torch.rand(2),
        torch.randn(2),
        torch.randint(0, 3, (2,)),
        torch.randperm(3),
    ),
    "written": lambda x: (torch.zeros(2).add_(1), torch.zeros(2).add_(x).mul_(2), x.new_zeros(2)),
    "a view": lambda x: torch.zeros(2, 2)[0].add_(x),
    "in a branch": lambda x: written_in_a_branch(x),
    "in a loop": lambda x: written_in_a_loop(x),
    "of a backward": lambda x: gradient_of_rows(x),
}


def written_in_a_branch(x):
    y = torch.ones(2)
    if x.sum() > 0:
        y = torch.zeros(2)
        y += x
    return y


def written_in_a_loop(x):
    y = torch.zeros(2)
    for row in x:
        y = torch.full((2,), 2.0)
        y += row
    return y


def gradient_of_rows(x):
    w = (x + torch.zeros(5, 2)).detach().requires_grad_()
    (w[[0, 3]] * 2).sum().backward()
    return w.grad


@pytest.mark.parametrize("optimize", ["exact", "off"])
@pytest.mark.parametrize("name", WRITTEN)
def test_versions_are_those_of_eager(name, optimize):
    body = WRITTEN[name]
    f = tracehost.function(lambda x: body(x), optimize=optimize)
    for _ in range(4):
        assert versions_of(f(torch.ones(2))) == versions_of(body(torch.ones(2)))
    assert f.tracing_count() == 1


def columns(x):
    w = (x + torch.zeros(5, 2)).detach().requires_grad_()
    (w[:, [1, 0]] * torch.tensor([2.0, 3.0])).sum().backward()
    return w.grad


@pytest.mark.parametrize("optimize", ["exact", "off"])
def test_a_hit_slices_nothing_where_eager_does_not(optimize):
    """While torch traces, `w[:, rows]` has a slice of the whole tensor. Its backward would be a copy."""
    f = tracehost.function(columns, optimize=optimize)
    f(torch.ones(2))
    expected = columns(torch.ones(2))
    for _ in range(3):
        got = f(torch.ones(2))
        assert torch.equal(got, expected) and got._version == expected._version
    assert f.tracing_count() == 1
