"""Functions that use sizes in every way: what serves all sizes with one graph is what an oracle says can be.

The oracle traces a function on fakes at coprime sizes, each declared exactly, and compares the graphs: the same
ops between the same values, of numbers that are the same or follow from the sizes, can be one graph; others
can't. (More than two sizes: through two numbers there is always a line.) tracehost has one trace with the sizes
declared as any. Where the two differ, it is in a direction that is safe, and listed here by name.
"""

import re

import pytest
import sized_branches
import sized_functions
import sized_layers
import sized_slices
import sized_tensors
import sized_windows
import torch
import tracehost
from sized_registry import SIZED, Sized
from sweep.sameness import difference
from tracehost import TensorSpec

MODULES = (
    sized_functions,
    sized_tensors,
    sized_slices,
    sized_branches,
    sized_layers,
    sized_windows,
)  # each fills SIZED
# Coprime in each pair and between pairs; the second is what the first graph has to serve.
TRACED = FIRST, SECOND, THIRD, *_ = ((5, 3), (7, 8), (11, 9), (13, 4), (9, 14))
ODD = ((1, 3), (5, 1), (2, 2), (6, 6), (0, 3))

# The oracle says one graph; tracehost makes a graph for each size, or says that it can't be: safe.
NUMBER = "makes a Python number of the size, which specialized it"
SPECIALIZED = {
    "conv_transposed_to_size": "torch computes the padding from output_size as Python numbers",
    "shape_numel": "Size.numel() reads the number of each size",
    "int_of_size": NUMBER,
    "float_of_size": NUMBER,
    "ceil_of_size": NUMBER,
    "floor_of_size": NUMBER,
    "shift_of_size": NUMBER,
    "and_of_size": NUMBER,
    "index_of_list": NUMBER,
    "roll_by_size": "an int[1] argument is not recorded by libtorch's tracer from a size",
    "chunk_first": "how many chunks there are depends on the size",
    "len_of_chunks": "how many chunks there are depends on the size",
    "len_of_splits": "how many parts there are depends on the size",
    "compared_as_result": "a comparison becomes a condition of the graph",
}
# The oracle says one graph for each size; tracehost has one, which is right at all of them.
RECORDED = {
    "new_tensor_of_size": "the size is recorded as a number of the graph",
    "slice_size_of_six": "the size of x[:6] is recorded as what slicing gives",
    "index_by_lists": "a list with a size is recorded as a tensor of numbers of the graph",
}
# As text, a size that may vary shows that it is one (`<traced tensor int64 []>`): print never specialized.
SHOWN = ("str_of_size", "fstring_of_size")
# Raised by the graph's own code in place of Python's.
OTHER_EXCEPTION = {"unpack_rows_of_slice"}

# What a number of a graph may be, but for a factor and a term, if it comes from sizes.
OF_SIZES = (
    lambda n, m: n,
    lambda n, m: m,
    lambda n, m: n * m,
    lambda n, m: n + m,
    lambda n, m: n * n,
    lambda n, m: n // 2,
    lambda n, m: (n + 1) // 2,
    lambda n, m: n // 3,
    lambda n, m: n % 2,
    lambda n, m: n % 3,
    lambda n, m: -n % 4,
)


def oracle(case: Sized) -> bool | None:
    """Whether one graph can serve all sizes: the same ops, of numbers that follow from sizes."""
    graphs = [exact_graph(case, sizes) for sizes in TRACED]
    if None in graphs:
        return None
    texts, numbers = zip(*(canonical(g) for g in graphs))
    return len(set(texts)) == 1 and all(follows_from_sizes(values) for values in zip(*numbers))


def exact_graph(case: Sized, sizes: tuple[int, int]) -> str | None:
    """Traced on fakes of these sizes; None where the body can't be, or raises."""
    specs = [TensorSpec(t.shape, t.dtype) for t in case.tensors(*sizes)]
    try:
        return str(tracehost.function(case.function).get_concrete_function(*specs).graph)
    except Exception:
        return None


def canonical(graph: str) -> tuple[str, list[float]]:
    """The ops and what they are given, names of values and places taken out; and the numbers in it."""
    names: dict[str, str] = {}
    text = "\n".join(line.split(" # ")[0] for line in graph.splitlines())
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(), f"%v{len(names):x}_"), text)
    number = r"(?<![\w%.])-?\d+(?:\.\d*)?(?:e-?\d+)?\b"
    return re.sub(number, "#", text), [float(n) for n in re.findall(number, text)]


def follows_from_sizes(values: tuple[float, ...]) -> bool:
    if len(set(values)) == 1:
        return True
    for of in OF_SIZES:
        sizes = [of(*s) for s in TRACED]
        other = next((i for i, s in enumerate(sizes) if s != sizes[0]), 0)
        factor = (values[other] - values[0]) / ((sizes[other] - sizes[0]) or 1)
        if all(v == values[0] + factor * (s - sizes[0]) for v, s in zip(values, sizes)):
            return True
    return False


def outcome(function, tensors: list[torch.Tensor]) -> object:
    try:
        return function(*[t.clone() for t in tensors])
    except tracehost.Error:
        raise
    except Exception as error:
        name = getattr(function, "__name__", "")
        return "an exception" if name in OTHER_EXCEPTION else type(error).__name__


def classified(case: Sized) -> str:
    """`one`: a graph for all sizes; `many`: further traces; `rejected`: by an error. Values are as eager's."""
    signature = [TensorSpec(shape, torch.float32) for shape in case.declared()]
    function = tracehost.function(case.function, input_signature=signature)
    for sizes in (FIRST, SECOND, THIRD):
        tensors = case.tensors(*sizes)
        try:
            ours = outcome(function, tensors)
        except tracehost.Error:
            return "rejected"
        found = difference(outcome(case.function, tensors), ours)
        assert found is None, f"at {sizes}: {found}"
    return "one" if function.tracing_count() == 1 else "many"


def expected(name: str) -> str:
    verdict = oracle(SIZED[name])
    if name in SPECIALIZED:
        assert verdict, "the oracle agrees: not a row of SPECIALIZED"
        return "many or rejected"
    if name in RECORDED:
        assert verdict is False, "the oracle agrees: not a row of RECORDED"
        return "one"
    if verdict is None:
        return "one, many or rejected"
    return "one" if verdict else "many or rejected"


NAMES = [name for name in SIZED if name not in SHOWN]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_serves_the_sizes_that_the_oracle_says(name):
    assert classified(SIZED[name]) in expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_graph_is_wrong_at_another_size(name):
    """With sizes dynamic as they differ: at further ones, and at those that broadcast or are empty."""
    case = SIZED[name]
    function = tracehost.function(case.function, reduce_retracing=True)
    for sizes in (FIRST, SECOND, THIRD, *ODD, FIRST):
        tensors = case.tensors(*sizes)
        found = difference(outcome(case.function, tensors), outcome(function, tensors))
        assert found is None, f"at {sizes}: {found}"


@pytest.mark.parametrize("name", NAMES)
def test_no_declared_graph_is_wrong_where_sizes_broadcast(name):
    case = SIZED[name]
    signature = [TensorSpec(shape, torch.float32) for shape in case.declared()]
    function = tracehost.function(case.function, input_signature=signature)
    for sizes in (FIRST, *ODD, SECOND):
        tensors = case.tensors(*sizes)
        try:
            ours = outcome(function, tensors)
        except tracehost.Error:
            continue  # said, not wrong
        found = difference(outcome(case.function, tensors), ours)
        assert found is None, f"at {sizes}: {found}"


def constants(code) -> set[int]:
    """The ints that a body and what is defined in it have."""
    found = set()
    for constant in code.co_consts:
        if hasattr(constant, "co_consts"):
            found |= constants(constant)
        values = constant if isinstance(constant, tuple) else (constant,)
        found |= {abs(value) for value in values if type(value) is int}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_graph_is_wrong_around_the_numbers_of_its_body(name):
    """Below, at and above each number: a size of a result may be cut off there."""
    case = SIZED[name]
    numbers = {k + d for k in constants(case.function.__code__) if k > 1 for d in (-1, 0, 1)}
    function = tracehost.function(case.function, reduce_retracing=True)
    far = max(numbers, default=0) + 30
    for sizes in (FIRST, SECOND, *((n, 8) for n in sorted(numbers)), (far, 8), FIRST):
        tensors = case.tensors(*sizes)
        found = difference(outcome(case.function, tensors), outcome(function, tensors))
        assert found is None, f"at {sizes}: {found}"


def test_there_are_200_functions():
    assert len(SIZED) >= 200
    assert {*SPECIALIZED, *RECORDED, *SHOWN, *OTHER_EXCEPTION} <= SIZED.keys()
