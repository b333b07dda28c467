"""`x[i, j] = number`: the tensor that torch makes of a number is part of the graph."""

import warnings
from types import SimpleNamespace

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

GRIDS = [torch.zeros(3, 3), torch.ones(3, 3), torch.arange(9.0).view(3, 3)]
ROWS = [torch.tensor([0, 1]), torch.tensor([2, 1]), torch.tensor([2, 0])]


def a_float(x, i):
    x[i, i] = 1.5
    return x


def an_int(x, i):
    x[i, i] = 2
    return x


def into_ints(x, i):
    y = x.long()
    y[i, i] = True
    return y


def a_mask(x, i):
    x[x > 0] = 0.5
    x[None, i, i] = 4
    return x


def added(x, i):
    x[i, i] += 1.0
    return x


def a_number_of_the_graph(x, i):
    x[i, i] = x.sum().item() / 2
    return x


def of_another_dtype(x, i):
    y = x.long()
    y[i, i] = i.sum().item() + 1
    return y


def in_a_branch(x, i):
    if x.sum() > 2:
        x[i, i] = 1.0
    else:
        x[i, i] = -1.0
    return x


def in_a_loop(x, i):
    for k in i:
        x[k, i] = 2.5
    return x


BODIES = [
    a_float,
    an_int,
    into_ints,
    a_mask,
    added,
    a_number_of_the_graph,
    of_another_dtype,
    in_a_branch,
    in_a_loop,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("declared", [False, True])
def test_a_number_is_written_at_tensors_of_indices(body, declared):
    specs = [tracehost.TensorSpec([None, None]), tracehost.TensorSpec([None], torch.int64)]
    f = tracehost.function(body, **({"input_signature": specs} if declared else {}))
    with assert_traces(f, 1):
        for grid, rows in zip(GRIDS, ROWS, strict=True):
            given, expected = grid.clone(), grid.clone()
            assert_same(f(given, rows), body(expected, rows))
            assert_same(given, expected)


def test_a_number_that_an_object_holds():
    thing = SimpleNamespace(value=1.0)

    @tracehost.function
    def f(x, i):
        x[i, i] = thing.value
        thing.value += 1
        return x

    with assert_traces(f, 2):
        for k, (grid, rows) in enumerate(zip(GRIDS * 2, ROWS * 2, strict=True)):
            expected = grid.clone()
            expected[rows, rows] = 1.0 + k
            assert_same(f(grid.clone(), rows), expected)
        assert thing.value == 7.0


def test_gradients_pass_by_what_was_written():
    def body(x, i):
        y = x * 2
        y[i, i] = 1.0
        return y

    f = tracehost.function(body)
    for _ in range(2):
        x = torch.ones(3, 3, requires_grad=True)
        f(x, ROWS[0]).sum().backward()
        assert x.grad.diagonal().tolist() == [0.0, 0.0, 2.0]


@pytest.mark.parametrize("autograph", [True, False])
def test_a_byte_without_dimensions_is_a_mask(autograph):
    def body(x, i):
        return x[i]

    f = tracehost.function(body, autograph=autograph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: indexing with dtype torch.uint8
        for value in (1, 0, 2, 1, 3, 0):
            i = torch.tensor(value, dtype=torch.uint8)
            assert_same(f(GRIDS[2], i), body(GRIDS[2], i))


# ---- a tensor without dimensions, in a block that runs without data ------------------------------


def write(x):
    x[1, 1] = x[0].sum()
    x[2, :] = x[0, 0]
    x[:, -1] = x[0].max()
    x[..., 0] = x[1].sum()
    x[None, 0, 1] = x[2].sum()
    x[2, 1:2] = x.mean()
    x[1, None] = x[0, 1]
    return x


def if_it_is(x, flag):
    return write(x) if flag else x


def unless_it_is(x, flag):
    if flag:
        x[0, 0] = x[1].sum()
    else:
        x[0, 0] = x[2, 2]
        x[0, 1] += x[2, 2]
    return x


def as_often_as_it_is(x, flag):
    for _ in range(flag.long() + 1):
        x[1, 2] = x[0].sum()
        x = write(x)
    return x


@pytest.mark.parametrize("body", [if_it_is, unless_it_is, as_often_as_it_is])
@pytest.mark.parametrize("first", [False, True])
def test_a_tensor_without_dimensions_is_written_in_a_block(body, first):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for flag in (first, not first, first):
            for grid in GRIDS:
                assert_same(
                    f(grid.clone(), torch.tensor(flag)), body(grid.clone(), torch.tensor(flag))
                )


def common(a, b):
    """The length of the longest common subsequence."""
    lengths = torch.zeros(len(a) + 1, len(b) + 1, dtype=torch.long)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                lengths[i, j] = lengths[i - 1, j - 1] + 1
            else:
                lengths[i, j] = torch.maximum(lengths[i - 1, j], lengths[i, j - 1])
    return lengths


def test_a_table_of_lengths():
    f = tracehost.function(common)
    generator = torch.Generator().manual_seed(0)
    with assert_traces(f, 1):
        for _ in range(5):
            a, b = (torch.randint(0, 3, (n,), generator=generator) for n in (4, 3))
            assert_same(f(a, b), common(a, b))


def test_what_torch_reads_at_a_list_is_checked():
    def body(x, flag):
        if flag:
            x[[0, 1], 1] = x.sum()
        return x

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for flag in (False, True, False, True):
            assert_same(
                f(GRIDS[1].clone(), torch.tensor(flag)), body(GRIDS[1].clone(), torch.tensor(flag))
            )


def routed(x, mask):
    out = torch.zeros_like(x)
    rows = mask.nonzero().squeeze(1)
    out[rows] = x[rows]
    return out


def routed_by_expert(x, mask):
    out = torch.zeros_like(x)
    for expert in range(2):
        rows = (mask == expert).nonzero(as_tuple=True)[0]
        out[rows] = x[rows] * (expert + 2)
    return out


@pytest.mark.parametrize("body", [routed, routed_by_expert])
def test_rows_of_any_count_are_written(body):
    f = tracehost.function(body)
    x = torch.rand(3, 2)
    with assert_traces(f, 1):
        for mask in ([1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]):
            assert_same(f(x, torch.tensor(mask)), body(x, torch.tensor(mask)))


@pytest.mark.parametrize("sizes", [(1, 2), (2,), (1, 1, 2), ()])
def test_a_value_of_fewer_rows_than_are_written(sizes):
    def body(x, rows, value):
        x[rows] = value
        return x

    f = tracehost.function(body)
    for rows in ([0], [0, 1], [2, 0, 1]):
        given = torch.tensor(rows), torch.ones(sizes)
        assert_same(f(torch.zeros(4, 2), *given), body(torch.zeros(4, 2), *given))
