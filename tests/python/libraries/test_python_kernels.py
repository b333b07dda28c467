"""Ops whose kernels are Python code: what a kernel does is the op's, at each run of the graph."""

import threading

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

LOCK = threading.Lock()
SEEN = {"runs": 0}
FACTOR = [2.0]


def locks(x):
    with LOCK:
        return x * 2


def imports(x):
    import json

    return x * json.loads("2")


def counts(x):
    SEEN["runs"] += 1
    return x * 2


def reads_what_changes(x):
    return x * FACTOR[0]


def draws_by_python(x):
    sorted([3, 1, 2], key=lambda i: -i)
    return x * (2 if id(x) else 3)


def calls_a_traced_function(x):
    return INNER(x)


def stages_within(x):
    @tracehost.function
    def inner(y):
        if y.sum() > 0:
            with LOCK:
                y = y * 2
        return y + 0

    return inner(x)


def raises_and_catches(x):
    try:
        raise KeyError("k")
    except KeyError:
        return x * 2


@tracehost.function
def INNER(x):
    return x * 2


KERNELS = [
    locks,
    imports,
    counts,
    reads_what_changes,
    draws_by_python,
    calls_a_traced_function,
    stages_within,
    raises_and_catches,
]
LIBRARY = torch.library.Library("tests_python_kernels", "DEF")


def custom_op(kernel):
    def typed(x: torch.Tensor) -> torch.Tensor:
        return kernel(x)

    op = torch.library.custom_op(f"tests_python_kernels::{kernel.__name__}_op", mutates_args=())(
        typed
    )
    op.register_fake(torch.empty_like)
    return op


def implemented(kernel, key):
    name = f"{kernel.__name__}_{key}"
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, kernel, key)
    return getattr(torch.ops.tests_python_kernels, name)


WAYS = {
    "custom_op": custom_op,
    "CPU": lambda kernel: implemented(kernel, "CPU"),
    "CompositeExplicitAutograd": lambda kernel: implemented(kernel, "CompositeExplicitAutograd"),
}
# A kernel for the CPU alone says nothing of shapes, so each side of an `if` is a graph of its own.
TRACES = {"custom_op": 1, "CPU": 2, "CompositeExplicitAutograd": 1}
OPS = {(kernel, way): make(kernel) for kernel in KERNELS for way, make in WAYS.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_in_a_side(kernel, way):
    op = OPS[kernel, way]

    @tracehost.function
    def f(x):
        if x.sum() > 0:
            x = op(x)
        else:
            x = op(x) - 1
        return x + 1

    FACTOR[0] = 2.0
    for factor in (2.0, 3.0, 2.0):
        FACTOR[0] = factor
        for x in (torch.ones(3), -torch.ones(3)):
            expected = op(x) + (1 if x[0] > 0 else 0)
            assert_same(f(x), expected)
    staged = kernel is not stages_within  # a trace within needs the data
    assert f.tracing_count() == (TRACES[way] if staged or way == "custom_op" else 2)
    assert not LOCK.locked()


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_runs_as_often_as_in_eager(way):
    op = OPS[counts, way]

    @tracehost.function(validate="off")
    def f(x):
        if x.sum() > 0:
            x = op(x)
        return x + 1

    SEEN["runs"] = 0
    for x in (torch.ones(3), -torch.ones(3)) * 3:
        f(x)
    assert (SEEN["runs"], f.tracing_count()) == (3, 1)


def test_a_custom_op_without_a_fake_kernel():
    @torch.library.custom_op("tests_python_kernels::no_fake", mutates_args=())
    def no_fake(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @tracehost.function
    def f(x):
        return no_fake(x) if x.sum() > 0 else no_fake(x) - 1

    with assert_traces(f, 2):
        for x in (torch.ones(3), -torch.ones(3)) * 2:
            assert_same(f(x), no_fake(x) - (0 if x[0] > 0 else 1))
    with pytest.raises(tracehost.TraceError) as error:
        f.get_concrete_function(tracehost.TensorSpec([None]))
    assert str(error.value) == (
        "f: tests_python_kernels::no_fake does not run without data, so there is no trace from specs "
        "alone. Call the function once with example tensors, then ask for get_concrete_function() with the "
        "same tensors."
    )


ones = torch.ones_like  # found before a test replaces a kernel


def scaled(x):
    return torch.tanh(x * 2) + 1


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "Autograd"])
def test_a_kernel_of_torch_that_is_replaced(key):
    """Tapes call torch's kernels directly: none runs while the program has replaced one."""
    kept = []

    def multiply(a, b):
        kept.append(a)
        return ones(a)

    f = tracehost.function(scaled, optimize="exact")
    x = torch.rand(3)
    plain, calls = scaled(x), 4
    for _ in range(calls):
        assert_same(f(x), plain)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mul.Tensor", multiply, key)
        replaced = scaled(x)
        for _ in range(calls):
            assert_same(f(x), replaced)
        g = tracehost.function(lambda x: scaled(x), optimize="exact")
        for _ in range(calls):
            assert_same(g(x), replaced)
        assert (
            g.specializations()[0].runs_by
            == "the interpreter: torch.library has replaced a kernel of ATen's"
        )
    for _ in range(calls):
        assert_same(f(x), plain)
        assert_same(g(x), plain)
    assert g.specializations()[0].runs_by.startswith("a tape")
    assert all(torch.equal(a, x) for a in kept)  # arguments live as long as a kernel wants


def test_a_kernel_of_torch_that_is_registered_as_another_goes():
    """The number of registrations is the same as when the tape was made."""
    f = tracehost.function(scaled, optimize="exact")
    x = torch.rand(3)
    with torch.library._scoped_library("tests_python_kernels_b", "DEF") as library:
        library.define("other(Tensor x) -> Tensor")
        library.impl("other", torch.neg, "CPU")
        for _ in range(4):
            f(x)
        assert f.specializations()[0].runs_by.startswith("a tape")
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mul.Tensor", lambda a, b: ones(a), "CPU")
        assert_same(f(x), scaled(x))
