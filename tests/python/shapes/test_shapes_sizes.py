"""Dynamic dimensions: what a body may do with them, and what makes them exact again."""

import math
import re
from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F
import tracehost
from shapes_support import check_sizes, same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

ROWS = [(8, 4), (6, 4), (5, 4), (9, 4), (8, 4), (1, 4)]
Pair = namedtuple("Pair", "size tensor")


def fill_rows(x):
    table = torch.zeros(20, 4)
    table[: x.shape[0]] = x
    return table


def grow(x):
    n = x.shape[0]
    n += 1
    n *= 2
    return x * n, n


# One trace for the first call, one for all other sizes.
ONE_TRACE = {
    "view": lambda x: x.view(x.shape[0], -1),
    "view with a product": lambda x: x.view(x.shape[0] * x.shape[1]),
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.unsqueeze(1).flatten(0, 1),
    "transpose": lambda x: x.t().transpose(0, 1).mT,
    "zeros": lambda x: torch.zeros(x.shape[0], 2) + torch.zeros((x.size(0), 2)),
    "zeros of a shape": lambda x: torch.zeros(x.shape) + x,
    "zeros of a changed shape": lambda x: torch.zeros(x.shape[:-1] + (3,)),
    "new_zeros": lambda x: x.new_zeros(x.size(0), 3),
    "arange": lambda x: torch.arange(x.shape[0]) + x.sum(),
    "full": lambda x: torch.full((2, x.shape[0]), x.shape[0]),
    "eye": lambda x: torch.eye(x.shape[0]) @ x,
    "linspace": lambda x: torch.linspace(0, 1, x.shape[0]),
    "expand": lambda x: torch.ones(1, 4).expand(x.shape[0], -1) * x,
    "expand by name": lambda x: x.expand(2, *x.shape),
    "repeat": lambda x: x.repeat(x.shape[0], 1),
    "slice": lambda x: x[: x.shape[0] // 2],
    "slices": lambda x: x[x.shape[0] // 2 :, : x.shape[1] - 1],
    "select": lambda x: x[x.shape[0] - 1],
    "setitem": fill_rows,
    "narrow": lambda x: x.narrow(0, 0, x.shape[0] - 1),
    "cat": lambda x: torch.cat([x, x]) * x.shape[0],
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "pad": lambda x: F.pad(x, (0, 0, 0, 16 - x.shape[0])),
    "mask": lambda x: torch.ones(x.shape[0], x.shape[0]).tril() @ x,
    "gather": lambda x: x[torch.arange(x.shape[0])],
    "mean": lambda x: x.sum(0) / x.shape[0],
    "scaled": lambda x: x * x.shape[0] - x.shape[0] ** 2 + -x.size(0) % 3,
    "grow": grow,
    "shape": lambda x: x.shape,
    "size": lambda x: {"a": [x.size(), x.size(0), (x @ x.t()).shape], "b": Pair(x.size(0), x)},
    "numel": lambda x: (x.numel(), torch.numel(x), x.nelement() * 2),
    "prod": lambda x: math.prod(x.shape),
    "rounding": lambda x: (math.floor(x.shape[0]), math.ceil(x.shape[0]), round(x.shape[0])),
    "divmod": lambda x: divmod(x.shape[0], 3),
    "isinstance": lambda x: isinstance(x.shape[0], int) and isinstance(x.shape, torch.Size),
    "dtypes": lambda x: (torch.ones(2, dtype=torch.int8) * x.shape[0], x.double() / x.shape[0]),
    "same size": lambda x: x * 2 if x.shape == (x + 1).shape else x,
    "chunks": lambda x: x.chunk(2, dim=1),
    "tensor_split": lambda x: torch.tensor_split(x, 3),
    "broadcast": lambda x: x + torch.ones(1, 4),
    "softmax": lambda x: torch.softmax(x, 0) * x.size(0),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long)),
}


@pytest.mark.parametrize("name", ONE_TRACE)
def test_one_trace_serves_all_sizes(name):
    check_sizes(ONE_TRACE[name], ROWS, traces=2)


def test_size_zero_is_a_size():
    check_sizes(lambda x: (x * x.shape[0]).sum(0), [(8, 4), (6, 4), (0, 4), (1, 4)], traces=2)


# Each new size is traced: the body used the number.
SPECIALIZING = {
    "int": lambda x: x * int(x.shape[0]),
    "float": lambda x: x * float(x.shape[0]),
    "range": lambda x: sum([x[i] for i in range(x.shape[0])]),
    "iteration": lambda x: [row * 2 for row in x],
    "unbind": lambda x: x.unbind()[-1],
    "chunk": lambda x: x.chunk(3)[-1],
    "split": lambda x: x.split(2)[-1],
    "format": lambda x: f"{x.shape[0]:d}",
    "dict": lambda x: {n: 2 * n for n in range(10)}[x.shape[0]],
    "list": lambda x: list(range(10))[x.shape[0]],
    "list repetition": lambda x: [0] * x.shape[0],
    "division": lambda x: x * (x.shape[0] / 3),
    "root": lambda x: x / x.shape[0] ** 0.5,
    "sqrt": lambda x: x / math.sqrt(x.shape[0]),
    "times a float": lambda x: x * (0.1 * x.shape[0]),
    "dict key": lambda x: {x.shape[0]: x},
    "promotion": lambda x: torch.tensor(3, dtype=torch.int16) * x.shape[0],
    "power of two": lambda x: torch.zeros(2 ** x.shape[0]),
    "stride as a key": lambda x: {x.t().contiguous().stride(0): x},
}


@pytest.mark.parametrize("name", SPECIALIZING)
def test_uses_of_the_number_trace_each_size(name):
    check_sizes(SPECIALIZING[name], [(8, 4), (6, 4), (5, 4), (6, 4), (5, 4)], traces=3)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: torch.tensor(x.shape[0]),
        lambda x: torch.tensor([x.shape[0], 2]),
        lambda x: torch.as_tensor(len(x)),
        lambda x: x[[0, x.shape[0] - 1]],
    ],
)
def test_a_tensor_made_of_a_size_has_the_size_of_each_call(body):
    check_sizes(body, [(8, 4), (6, 4), (5, 4), (6, 4)], traces=2)


def test_an_op_that_needs_one_size_leaves_the_others_open():
    def body(x):
        return x @ torch.ones(3, 2) if x.dim() == 2 else x.sum()

    check_sizes(body, [(8, 3), (4, 3), (5, 3)], traces=2)
    f = tracehost.function(body, input_signature=[tracehost.TensorSpec((None, None))])
    assert torch.equal(f(torch.ones(8, 3)), body(torch.ones(8, 3)))
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        f(torch.ones(8, 4))


def test_even_and_odd_sizes_are_two_traces():
    f = check_sizes(
        lambda x: x.view(-1, 2, 4).sum(1) if x.shape[0] % 2 == 0 else x * 3,
        [(8, 4), (6, 4), (5, 4), (4, 4), (9, 4), (7, 4), (2, 4)],
        traces=3,
    )
    assert f.tracing_count() == 3


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * 2 if x.shape[0] > 6 else x * 3,
        lambda x: x * max(x.shape[0], 7),
        lambda x: x * min(7, x.shape[0]),
        lambda x: x * 2 if x.shape[0] + 1 in (9, 10) else x,
        lambda x: x[:7] if not x.shape[0] <= 6 else x.sum(),
        lambda x: x * 2 if 6 < x.shape[0] < 100 and x.numel() != 3 else x,
    ],
)
def test_a_comparison_is_one_trace_for_each_outcome(body):
    check_sizes(body, [(8, 4), (9, 4), (12, 4), (5, 4), (4, 4), (10, 4), (3, 4)], traces=3)


def test_a_quotient_of_a_negative_size_in_a_comparison():
    check_sizes(
        lambda x: x * 2 if (x.shape[0] - 7) // 2 > -2 else x * 3,
        [(8, 4), (9, 4), (3, 4), (2, 4), (4, 4), (5, 4), (1, 4)],
        traces=3,
    )


def test_a_size_modulo_zero_is_pythons_error():
    f = declared(lambda x: x * (x.shape[0] % 0))
    with pytest.raises(ZeroDivisionError, match="^integer (division or )?modulo by zero$"):
        f(torch.ones(3, 4))


def test_sizes_of_results_in_comparisons():
    check_sizes(
        lambda x: x * 2 if torch.cat([x, x[:1]]).shape[0] > 7 else x * 3,
        [(8, 4), (9, 4), (12, 4), (5, 4), (4, 4)],
        traces=3,
    )


def test_a_size_cut_off_by_a_bound_is_not_taken_for_the_whole():
    def body(x):
        return x * (2 if x[:16].shape[0] == x.shape[0] else 3)

    f = tracehost.function(body, reduce_retracing=True)
    for n in (8, 9, 10, 16, 17, 30, 2000, 1, 0):
        x = torch.randn(n)
        assert same(f(x), body(x)), n


def test_squeeze_has_a_trace_of_its_own_for_size_one():
    check_sizes(
        lambda x: (x.squeeze(), x.squeeze().dim()),
        [(8, 4), (6, 4), (1, 4), (3, 4), (1, 4), (9, 4)],
        traces=3,
    )


def test_two_sizes_that_were_equal_may_differ_later():
    def body(x, y):
        return torch.cat([x, y]) * (2 if x.shape[0] == y.shape[0] else 3)

    shapes = [(3, 3), (4, 4), (5, 5), (5, 6), (7, 8), (8, 8)]
    check_sizes(body, [[(a, 2), (b, 2)] for a, b in shapes], traces=3)


def test_a_difference_of_equal_sizes_is_not_zero_for_ever():
    def body(x, y):
        return x[y.shape[0] :].shape[0], torch.zeros(x.shape[0] - y.shape[0] + 9).shape

    shapes = [(3, 3), (4, 4), (5, 5), (5, 3), (8, 1), (8, 8), (1, 7)]
    check_sizes(body, [[(a, 2), (b, 2)] for a, b in shapes], traces=2)


def test_only_the_size_that_was_used_becomes_exact():
    f = check_sizes(
        lambda x, y: x * int(y.shape[0]),
        [[(3, 2), (4,)], [(5, 2), (6,)], [(7, 2), (6,)], [(9, 2), (6,)], [(9, 2), (7,)]],
        traces=3,
    )
    assert f.tracing_count() == 3


def test_sizes_that_divide():
    check_sizes(
        lambda x: x.view(x.shape[0] // 2, 2, -1).sum(1), [(8, 4), (6, 4), (4, 4), (10, 4)], traces=2
    )


def test_a_table_with_an_end():
    table = torch.randn(9, 4)
    check_sizes(lambda x: x + table[: x.shape[0]], [(8, 4), (6, 4), (9, 4), (2, 4)], traces=2)


def test_what_is_printed_makes_no_size_exact(capsys):
    @tracehost.function(reduce_retracing=True)
    def f(x):
        print(x.shape[0], x.shape)
        return x * 2

    with assert_traces(f, 2):
        for n in (3, 4, 5):
            f(torch.ones(n, 2))
        assert capsys.readouterr().out.splitlines() == [
            "3 torch.Size([3, 2])",
            "4 torch.Size([4, 2])",
        ]


@pytest.mark.parametrize("text", [str, repr, lambda n: f"{n}", lambda n: f"{n:d}", "{}".format])
def test_a_text_of_a_size_is_that_of_the_number(text):
    weights = {text(n): float(n) for n in range(8)}
    f = tracehost.function(lambda x: x * weights[text(x.shape[0])], reduce_retracing=True)
    for n in (3, 4, 5, 3):
        assert torch.equal(f(torch.ones(n)), torch.full((n,), float(n)))


def test_a_size_kept_after_the_trace_is_the_number():
    kept = []

    @tracehost.function(reduce_retracing=True)
    def f(x):
        kept.append(x.shape[0] * 2)
        return x * 2

    with pytest.warns(tracehost.SideEffectWarning, match="changes kept"):
        f(torch.ones(3))
        f(torch.ones(4))
    assert kept[1] == 8 and int(kept[1]) == 8 and kept[1] / 3 == 8 / 3 and str(kept[1]) == "8"
    assert [5] * 8 == [5] * kept[1] and {8: 1}[kept[1]] == 1 and f"{kept[1]:03d}" == "008"


def test_a_module_may_note_a_size():
    class Net(torch.nn.Module):
        def forward(self, x):
            self.rows = x.shape[0]
            return x * self.rows

    net = Net()
    f = tracehost.function(net, reduce_retracing=True)
    with assert_traces(f, 2):
        for n in (3, 4, 5, 6):
            x = torch.randn(n, 2)
            assert torch.equal(f(x), x * n)
            assert type(net.rows) is int and net.rows == n


def declared(body, shape=(None, 4)):
    return tracehost.function(body, input_signature=[tracehost.TensorSpec(shape)])


def test_declared_sizes_are_one_trace():
    def body(x):
        return x.view(x.shape[0], 2, -1), x.shape, x * x.stride(0)

    f = declared(body)
    with assert_traces(f, 1):
        for n in (8, 3, 1, 5):
            x = torch.randn(n, 4)
            assert same(f(x), body(x))


READS_OF_A_SIZE = [
    (lambda x: x * int(x.shape[0]), r"int\(\) of a size"),
    (lambda x: x * x.shape[0] ** 0.5, r"\*\* of a size"),
    (lambda x: [i for i in range(x.shape[0])] + [x + 1], r"len\(\), range\(\) or another use"),
    (lambda x: list(x), r"aten::unbind \(which gives as many results as the size says\)"),
    (lambda x: x.squeeze(0) * int(x.shape[0]), r"int\(\) of a size"),
]


@pytest.mark.parametrize("body, why", READS_OF_A_SIZE)
def test_a_declared_size_that_is_read_is_one_trace_a_size(body, why):
    f = declared(body)
    for count, rows in [(1, 8), (2, 3), (2, 8), (3, 1), (3, 3), (3, 1)]:
        x = torch.randn(rows, 4)
        assert same(f(x), body(x)) and f.tracing_count() == count
    specialized = f.specializations()[0].specialized[0]
    assert re.search(why, str(specialized)) and "x.shape[0]" in str(specialized)


@pytest.mark.parametrize(
    "body, why",
    [*READS_OF_A_SIZE, (lambda x: x.t().contiguous().stride(), "its strides or offset")],
)
def test_a_declared_size_is_not_read_where_reads_are_errors(body, why):
    f = tracehost.function(
        body, input_signature=[tracehost.TensorSpec((None, 4))], value_reads="error"
    )
    with pytest.raises(tracehost.ValueReadError, match=why) as caught:
        f(torch.ones(8, 4))
    assert "needs the value of x.shape[0], which is declared dynamic" in str(caught.value)
    assert "test_shapes_sizes.py:" in str(caught.value)


def test_a_size_that_equals_one_computed_from_it():
    """What computes the size of a view must not ask for that same size again."""

    def body(i, m):
        i = i.view(-1, i.shape[-1])
        m = m.view(i.shape[0], -1)
        k = m.shape[-1] + 0
        if k - m.shape[-1] > 0:
            return i * 2
        return i + m

    spec = tracehost.TensorSpec([None, None])
    f = tracehost.function(body, input_signature=[spec, spec])
    with assert_traces(f, 1):
        for rows, columns in ((2, 3), (2, 5), (4, 3), (1, 6)):
            i, m = torch.randn(rows, columns), torch.randn(columns, rows)
            assert same(f(i, m), body(i, m))
