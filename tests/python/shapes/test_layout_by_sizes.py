"""How a tensor lies in memory, and whether two have one size, where sizes are dynamic or depend on values: a number
that the graph reads."""

import pytest
import torch
import torch._prims_common as prims
import tracehost
from tracehost import TensorSpec
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

GRID = torch.arange(12.0).view(3, 4)
LAST = torch.channels_last


def layout(t):
    return t.stride(), t.is_contiguous(), [t.stride(d) for d in range(-t.dim(), t.dim())], t.shape


# ---- sizes that follow from a number -------------------------------------------------------------

MADE = {
    "rows": lambda n: GRID[:n],
    "columns": lambda n: GRID[:, :n],
    "transposed": lambda n: GRID[:n].t(),
    "transposed, contiguous": lambda n: torch.ones(3, n).t().contiguous(),
    "expanded": lambda n: torch.ones(1, n).expand(2, n),
    "expanded by a size of 1": lambda n: GRID[:1, :n].expand(2, n),
    "qr": lambda n: torch.linalg.qr(torch.ones(n, 3))[0],
    "lu": lambda n: torch.linalg.lu(torch.eye(n))[2],
    "repeat": lambda n: torch.ones(1, 2).repeat(n, n),
    "permuted": lambda n: torch.ones(2, n, 3).permute(2, 0, 1),
    "flattened": lambda n: torch.ones(2, n, 3).transpose(1, 2).flatten(0, 1),
    "unfold": lambda n: GRID.unfold(1, n, 1),
    "einsum": lambda n: torch.einsum("i,j->ij", torch.ones(n), torch.ones(3)),
    "zeros_like": lambda n: torch.zeros_like(torch.ones(2, n).t()),
    "rot90": lambda n: torch.rot90(torch.ones(n, 2)),
    "mask": lambda n: GRID[GRID > n],
    "masked rows": lambda n: GRID[GRID[:, 0] >= n].t(),
    "a linear layer": lambda n: torch.ones(n, 2) @ torch.ones(2, 3),
    "a window": lambda n: torch.arange(24.0).view(4, 6)[n - 1 : n + 1, 1:3],
}


@pytest.mark.parametrize("name", MADE)
def test_of_a_number(name):
    f = tracehost.function(lambda t: layout(MADE[name](int(t))))
    with assert_traces(f, 1):
        for n in (2, 3, 1, 2, 3):
            assert repr(f(torch.tensor(n))) == repr(layout(MADE[name](n)))


def test_what_needs_the_answer_is_checked():
    def body(x, n):
        y = x[:, : n.item()]
        library = prims.is_contiguous(y)
        return library, {y.stride(): 1}, [10, 20][y.is_contiguous()]

    f = tracehost.function(body)
    with assert_traces(f, 3):  # one size, all columns, and those between
        for n in (2, 4, 1, 2, 4, 1, 3):
            assert repr(f(GRID, torch.tensor(n))) == repr(body(GRID, torch.tensor(n)))


def test_a_branch_on_the_answer_is_staged():
    def body(x, n):
        y = x[:, : n.item()]
        return y.reshape(-1) * 2 if y.is_contiguous() else y + 1

    def of_strides(x, n):
        y = x[: n.item()].t()
        return y * 2 if y.stride(0) < y.stride(1) else y * 3

    for of, traces in ((body, 2), (of_strides, 1)):
        f = tracehost.function(of)
        for n in (2, 4, 1, 3, 4):
            value = torch.tensor(n) if of is body else torch.tensor(min(n, 3))
            assert torch.equal(f(GRID, value), of(GRID, value))
        assert f.tracing_count() <= traces


def test_of_a_view_that_is_written():
    def body(x, n):
        part = x[: n.item()].expand(2, 4).contiguous()
        part.mul_(2)
        return part

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for n in (2, 1, 2, 1, 1):
            x, y = GRID.clone(), GRID.clone()
            assert torch.equal(f(x, torch.tensor(n)), body(y, torch.tensor(n)))
            assert torch.equal(x, y)


def test_the_offset_of_a_window():
    def body(x, n):
        y = (x + 1)[n.item() : n.item() + 2]
        return y.storage_offset(), y.shape, y

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (0, 1, 0, 1):
            assert repr(f(GRID, torch.tensor(n))) == repr(body(GRID, torch.tensor(n)))


def test_another_memory_format():
    def body(n):
        images = torch.ones(1, n.item(), 4, 4)
        return images.is_contiguous(memory_format=LAST), images.is_contiguous()

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (1, 2, 3, 1):
            assert f(torch.tensor(n)) == body(torch.tensor(n))


def test_in_a_loop():
    def body(x, n):
        count = 0
        for i in range(n.item()):
            if x[: i + 1].t().is_contiguous():
                count = count + 1
        return count

    f = tracehost.function(body)
    for n in (2, 3, 1, 0):
        assert f(GRID, torch.tensor(n)) == body(GRID, torch.tensor(n))


# ---- dynamic sizes -------------------------------------------------------------------------------

OF_DYNAMIC = {
    "input": lambda x: layout(x),
    "transposed": lambda x: layout(x.t()),
    "sum": lambda x: layout(x + 1),
    "cut": lambda x: layout(x[1:]),
    "cut and transposed": lambda x: layout(x[1:].t()),
    "columns": lambda x: layout(x[:, :2]),
    "unsqueezed": lambda x: layout(x.unsqueeze(0).transpose(0, 1)),
    "heads": lambda x: layout(x.view(x.shape[0], 1, -1).transpose(0, 1).reshape(x.shape[0], -1)),
    "flattened": lambda x: layout(x.unsqueeze(-1).transpose(0, 1).flatten(0, 1)),
    "windows": lambda x: (x.unfold(0, 1, 1).is_contiguous(), x.unfold(1, 2, 2).is_contiguous()),
    "image": lambda x: (x[None, None].is_contiguous(memory_format=LAST), x.t()[None].stride(0)),
    "product": lambda x: layout(x @ x.t()),
}
SHAPES = [(2, 3), (4, 5), (3, 2), (1, 5), (5, 2), (4, 2), (1, 2), (3, 3)]


@pytest.mark.parametrize("declared", [False, True], ids=["reduced", "declared"])
@pytest.mark.parametrize("name", OF_DYNAMIC)
def test_of_a_dynamic_size(name, declared):
    body = OF_DYNAMIC[name]
    options = (
        {"input_signature": [TensorSpec([None, None])]} if declared else {"reduce_retracing": True}
    )
    f = tracehost.function(body, **options)
    for shape in SHAPES:
        x = torch.arange(1.0 * shape[0] * shape[1]).view(shape)
        assert repr(f(x)) == repr(body(x)), shape
    # Exact, one dynamic size, the other, both.
    assert f.tracing_count() <= (1 if declared else 4)


def test_a_stride_that_an_op_takes():
    f = tracehost.function(
        lambda x: torch.as_strided(x, (2, 2), (x.stride(0), 1)), reduce_retracing=True
    )
    with assert_traces(f, 2):
        for n in (2, 4, 3, 5):
            x = torch.arange(1.0 * n * n).view(n, n)
            assert torch.equal(f(x), x[:2, :2])


def test_static_sizes_have_no_node():
    f = tracehost.function(lambda x: x.t() * x.t().stride(0) if x.t().is_contiguous() else x.t())
    f(torch.ones(2, 3))
    code = f.get_concrete_function(torch.ones(2, 3)).code
    assert "stride" not in code
    assert "contiguous" not in code


# ---- two sizes -----------------------------------------------------------------------------------


def test_one_size_of_a_number():
    def body(x, n):
        rows = x[: n.item()]
        return rows.is_same_size(x[:2]), torch.is_same_size(x[:2], rows), rows.is_same_size(rows)

    f = tracehost.function(body)
    for n in (2, 1, 3, 2, 1):
        assert repr(f(GRID, torch.tensor(n))) == repr(body(GRID, torch.tensor(n)))


@pytest.mark.parametrize("declared", [False, True], ids=["reduced", "declared"])
def test_one_size_of_dynamic_sizes(declared):
    def body(x, y):
        return (x * 2 if x.is_same_size(y) else y * 3), torch.is_same_size(y, x)

    options = (
        {"input_signature": [TensorSpec([None])] * 2} if declared else {"reduce_retracing": True}
    )
    f = tracehost.function(body, **options)
    with assert_traces(f, (2 if declared else 3)):
        for a, b in ((2, 3), (3, 4), (4, 4), (5, 4), (5, 5), (6, 7), (8, 8)):
            x, y = torch.ones(a), torch.ones(b)
            assert repr(f(x, y)) == repr(body(x, y))


def test_shapes_that_are_broadcast():
    def body(n):
        k = n.item()
        return torch.broadcast_shapes((k, 1), (1, 3)), torch.broadcast_shapes(
            torch.ones(k).shape, (1,)
        )

    f = tracehost.function(body)
    for n in (2, 1, 3, 2):
        assert f(torch.tensor(n)) == body(torch.tensor(n))


def rows_of(x, y):
    torch._check_value(x.shape[0] == y.shape[0], lambda: "other rows")
    return x + y


def test_a_check_of_torch():
    def body(x, n):
        return rows_of(x[: n.item()], torch.ones(2, 4))

    f = tracehost.function(body)
    for n in (2, 1, 3, 2):
        if n == 2:
            assert torch.equal(f(GRID, torch.tensor(n)), body(GRID, torch.tensor(n)))
        else:
            with pytest.raises(ValueError, match="other rows"):
                f(GRID, torch.tensor(n))
