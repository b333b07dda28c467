"""Numbers that a body reads from tensors are part of the graph: right at values other than the trace's."""

import enum
import logging
import math

import numpy as np
import pytest
import torch
import tracehost
from core_support import check
from test_core_reads import READS
from test_value_reads import NUMBERS, OTHERS
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.tensor([1.0, 2.5, -3.0])
INPUTS = [X, X * 2 + 0.1, -X, X + 7, X * 0.3]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def check_numbers(body, inputs=INPUTS, traces=1):
    f = tracehost.function(body)
    for x in inputs:
        expected, got = body(x), f(x)
        assert same(expected, got), f"{x}: {got!r}, expected {expected!r}"
    assert f.tracing_count() == traces, f.report()


BODIES = {
    "item": lambda x: x.sum().item(),
    "item of int": lambda x: x.to(torch.int32).sum().item(),
    "item of bool": lambda x: (x.sum() > 0).item(),
    "item of half": lambda x: x.sum().half().item(),
    "arithmetic": lambda x: (x.sum().item() * 2 + 1) / 3 - 0.5,
    "reflected": lambda x: 2 - (1 + x.sum().item()) * 3,
    "power": lambda x: abs(x.sum().item()) ** 0.5,
    "of ints": lambda x: (x.to(torch.int64).sum().item() * 7 + 3) // 4 % 5,
    "negative": lambda x: -x.sum().item(),
    "rounded": lambda x: round(x.sum().item(), 2),
    "rounded to int": lambda x: round(x.sum().item()),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool(x.sum() > 0),
    "compared": lambda x: x.sum().item() > 0.3,
    "not": lambda x: not (x.sum().item() > 0.3),
    "math": lambda x: math.sqrt(abs(x.sum().item())) + math.exp(-abs(float(x[0]))),
    "math of a tensor": lambda x: math.cos(x.sum()),
    "log of a base": lambda x: math.log(abs(x.sum().item()) + 1, 2),
    "floor": lambda x: math.floor(x.sum().item()) + math.ceil(x[1].item()),
    "min and max": lambda x: (min(x[0].item(), x[1].item()), max(x[0].item(), 1.0)),
    "times a tensor": lambda x: x * x.sum().item(),
    "a tensor times it": lambda x: x.sum().item() * x,
    "beside an int tensor": lambda x: torch.arange(3) * x.sum().item(),
    "a bool beside a tensor": lambda x: x * (x.sum().item() > 0),
    "tolist": lambda x: x.tolist(),
    "tolist of ints": lambda x: x.long().tolist(),
    "tolist of bools": lambda x: (x > 1).tolist(),
    "tolist of a number": lambda x: x.sum().tolist(),
    "tolist of rows": lambda x: (
        torch.stack([x, x * 2]).tolist(),
        torch.stack([x, x]).t().tolist()[1],
    ),
    "tolist of nothing": lambda x: (x[:0].tolist(), x.view(3, 1)[:, :0].tolist()),
    "tolist, summed": lambda x: x * sum(x.tolist()) / len(x.tolist()),
    "tolist, each": lambda x: [v * 2 for v in x.tolist()],
    "tolist, unpacked": lambda x: {k: v for k, v in zip("abc", x.tolist())},
    "tolist, the largest": lambda x: max(x.tolist()),
    "tolist, a tensor of": lambda x: torch.tensor(x.tolist()) * 2,
    "in place": lambda x: (x + 0).mul_(x.sum().item()).add_(x[0].item()),
    "a full tensor": lambda x: torch.full((3,), x.sum().item()),
    "alpha": lambda x: torch.add(x, x, alpha=x.sum().item()),
    "clamp": lambda x: x.clamp(x.min().item() / 2, x.max().item() / 2),
    "where": lambda x: torch.where(x > x.mean().item(), x, 0.0),
    "a slice": lambda x: x[: int((x > 0).sum())] * 2,
    "arange": lambda x: torch.arange(int(x.abs().sum().item())),
    "branch": lambda x: x * 2 if x.sum().item() > 0.3 else x - 1,
    "and": lambda x: x * 2 if x.sum().item() > 0.3 and x[0].item() > 1 else x - 1,
    "several": lambda x: {"loss": x.sum().item(), "rest": [x, x.mean().item()]},
}


@pytest.mark.parametrize("name", BODIES)
def test_a_number_that_is_read_is_part_of_the_graph(name):
    check_numbers(BODIES[name])


def test_a_number_is_a_number_to_the_body():
    def body(x):
        n = x.sum().item()
        assert isinstance(n, float) and not isinstance(n, int)
        assert isinstance(x.to(torch.int64).sum().item(), int)
        return n

    check_numbers(body)


def test_a_branch_assigns_numbers():
    def body(x):
        n = x.sum().item()
        if n > 0.3:
            m = n * 2
        else:
            m = 1.5
        return m, x * m

    check_numbers(body)


def test_a_loop_carries_a_number():
    def body(x):
        n, count = abs(x.sum().item()) + 1, 0
        while n < 100:
            n = n * 1.5 + 0.1
            count += 1
        return n, count, x * n

    check_numbers(body)


def test_a_loop_goes_to_a_number():
    def body(x):
        s = 0.0
        for i in range(int(x.abs().sum())):
            s = s + i * 0.5
        return s

    check_numbers(body)


def test_what_python_raises_the_graph_raises():
    @tracehost.function
    def f(x):
        return 1 / x.sum().item()

    with assert_traces(f, 1):
        assert f(X) == 1 / X.sum().item()
        with pytest.raises(ZeroDivisionError, match="float division by zero") as raised:
            f(X * 0)
        assert "test_traced_numbers.py" in raised.value.__notes__[0]


def test_gradients_go_past_a_number():
    def body(x):
        return (x * x.detach().sum().item()).sum()

    x = X.clone().requires_grad_()
    f = tracehost.function(body)
    for scale in (1.0, 2.0, -3.0):
        y = (x.detach() * scale).requires_grad_()
        z = y.detach().clone().requires_grad_()
        f(y).backward()
        body(z).backward()
        assert torch.equal(y.grad, z.grad)


def test_a_number_of_a_capture():
    scale = torch.tensor(2.0)
    f = tracehost.function(lambda x: x * scale.item())
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 2)
        scale.fill_(5.0)
        assert torch.equal(f(X), X * 5)


def test_a_state_that_a_number_is_stored_to():
    class Log:
        last = 0.0

    log = Log()

    @tracehost.function
    def f(x):
        log.last = x.sum().item()
        return x * 2

    with assert_traces(f, 1):
        for x in INPUTS:
            f(x)
            assert type(log.last) is float and log.last == x.sum().item()


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * len(str(x.sum().item())),
        lambda x: x * math.fsum([x[0].item()]),
        lambda x: x * {x.sum().item(): 2.0}[x.sum().item()],
        lambda x: x * len(x[0].item().hex()),
        lambda x: x * x[0].item().as_integer_ratio()[1],
        lambda x: x * complex(x[0].item(), 1.0),
        lambda x: x * float((np.ones(3) * x[0].item()).sum()),
    ],
)
@pytest.mark.parametrize("autograph", [True, False])
def test_the_trace_has_the_float_of_its_call_and_serves_no_other(body, autograph):
    f = tracehost.function(body, autograph=autograph)
    for x in (X, X * 2, X):
        assert torch.equal(f(x), body(x))
    assert f.stats()["hits"] == 0


def test_the_event_names_the_line_that_needs_a_float():
    f = tracehost.function(lambda x: {x.sum().item(): 1}[x.sum().item()] * x)
    f(X)
    line = f.__wrapped__.__code__.co_firstlineno
    why = f"the body needs the value of a float (a dict, a set or hash()) at test_traced_numbers.py:{line}"
    assert f"the last trace served its own call: {why}" in str(f.explain(X))
    with pytest.raises(tracehost.ValueReadError, match="and a trace from specs has no values"):
        f.get_concrete_function(tracehost.TensorSpec([2], torch.float32))


# Reads whose value the graph has, with autograph; the others raise.
TRACED = {
    "bool", "computed int", "detached", "divmod", "float", "int", "isinstance", "item", "map int", "math",
    "math of one", "math.floor", "math.isnan", "math.sqrt", "max", "max of tensors",
    "one_hot", "round", "round of one", "unique size",
}  # fmt: skip
# The graph has no op for them, and checks their ints.
CHECKED = {"math.comb", "math.factorial"}
# C code asks for the exact class of a number: Python's own TypeError.
OF_THE_CLASS = {"json", "json of a tensor", "statistics"}
OF_A_NUMBER = [torch.tensor(n) for n in (2, 5, 3, 1)]
OF_A_VECTOR = [torch.arange(4.0), torch.arange(4.0) + 1, torch.tensor([2.0, 0.0, 1.0, 2.0])]
EACH = [
    *((name, read, OF_A_NUMBER) for name, read in {**NUMBERS, **OTHERS}.items()),
    *((name, read, OF_A_VECTOR) for name, read in READS.items()),
]


@pytest.mark.parametrize(("name", "read", "inputs"), EACH, ids=[e[0] for e in EACH])
@pytest.mark.parametrize("autograph", [True, False])
def test_a_read_is_right_or_rejected(name, read, inputs, autograph):
    def outcome(function, x):
        try:
            return function(x.clone())
        except tracehost.Error:
            raise
        except Exception as error:
            if type(error) is TypeError:
                raise
            return type(error)

    f = tracehost.function(read, autograph=autograph)
    try:
        for x in inputs:
            assert same(outcome(read, x), outcome(f, x))
    except (tracehost.ValueReadError, tracehost.TraceError) as error:
        assert f"_reads.py:{read.__code__.co_firstlineno}" in str(error)  # noqa: PT017
        assert not autograph or name not in TRACED | CHECKED
    except TypeError:
        assert name in OF_THE_CLASS
    else:
        assert not autograph or name not in TRACED or f.tracing_count() == 1
        assert not autograph or name not in CHECKED or f.tracing_count() == len(inputs)


def test_value_reads_error_rejects_all():
    f = tracehost.function(lambda x: x.sum().item(), value_reads="error")
    with pytest.raises(tracehost.ValueReadError):
        f(X)


def test_a_print_shows_the_value_of_the_trace(capsys):
    @tracehost.function
    def f(x):
        print("sum", x.sum().item())
        return x * 2

    check(f.python_function, X)
    capsys.readouterr()
    f(X)
    assert capsys.readouterr().out == "sum 0.5\n"


def test_texts_for_people_show_the_value_of_the_trace(capsys):
    @tracehost.function
    def f(x):
        n = x.sum().item()
        print(f"{n:.2f} and {n > 0}", n)
        return x * n

    for x in INPUTS:
        assert torch.equal(f(x), x * x.sum().item())
    assert capsys.readouterr().out == "0.50 and True 0.5\n"


def test_a_logger_shows_the_value_of_the_trace(caplog):
    log = logging.getLogger("numbers")

    @tracehost.function
    def f(x):
        n = x.sum().item()
        log.warning("%.1f", n)
        log.warning(f"{n:.3f}")
        return x * n

    assert torch.equal(f(X), X * 0.5)
    assert [r.getMessage() for r in caplog.records] == ["0.5", "0.500"]


def test_a_function_with_the_name_of_what_shows_gets_the_number():
    class Tool:
        def log(self, n, base):
            return math.log(abs(n) + 1, base)

        def info(self, n):
            return n * 2

    tool = Tool()
    check_numbers(lambda x: tool.log(x.sum().item(), 2) + tool.info(x[0].item()))


def test_a_total_that_is_read_and_stored_is_as_in_eager():
    class Log:
        total = 0.0

    log = Log()
    log.history = []

    @tracehost.function
    def f(x):
        log.total = log.total + x.sum().item()
        log.history.append(x[0].item())
        return x * 2

    total = 0.0
    for n, x in enumerate(INPUTS):
        f(x)
        total += x.sum().item()
        assert type(log.total) is float and log.total == total
        assert log.history == [y[0].item() for y in INPUTS[: n + 1]]


# ---- in containers, and lists of numbers ---------------------------------------------------------

TABLE = torch.arange(30.0).reshape(6, 5)
IN_LISTS = {
    "in a dict": lambda n: n in {2: "a", 3.0: "b", "c": 4},
    "in a set": lambda n: n in {1, 4, None},
    "not in a frozenset": lambda n: n not in frozenset((2, 5)),
    "in a list": lambda n: n in [1, "a", 3],
    "in a range": lambda n: (n in range(1, 6, 2), n in range(5, 0, -2), n in range(0)),
    "in nothing": lambda n: n in {},
    "a tensor of a list": lambda n: torch.tensor([n, 2]),
    "of ints and floats": lambda n: torch.tensor([[n, 2.5], [1, n * 0.5]]),
    "of a dtype": lambda n: torch.tensor([n, 1], dtype=torch.float64),
    "of bools": lambda n: torch.as_tensor([n > 2, True]),
    "an index of a list": lambda n: TABLE[[n, 2]],
    "a list of lists, which is a tuple": lambda n: (TABLE[[[n - 1, 0]]], TABLE[[[n - 1], [1]]]),
    "a list of parts": lambda n: (TABLE[[slice(0, n), 1]], TABLE[[[n - 1, 0], Ellipsis]]),
    "a list in a key": lambda n: TABLE[1:, [n - 1, 0]],
    "a list that is stored to": lambda n: TABLE.clone().index_fill_(0, torch.tensor([n]), 0.0),
    "checked by torch": lambda n: torch._check(n > 0, lambda: "n is positive") or n,
}


@pytest.mark.parametrize("name", IN_LISTS)
def test_numbers_in_containers(name):
    body = IN_LISTS[name]
    check_numbers(lambda t: body(t.item()), [torch.tensor(n) for n in (3, 1, 4, 2, 5)])


def test_a_list_of_256_numbers_is_of_the_graph():
    f = tracehost.function(lambda x: x * x.tolist()[-1])
    with assert_traces(f, 1):
        for last in (1.0, 2.0, 3.0):
            x = torch.full((256,), last)
            assert torch.equal(f(x), x * last)


@pytest.mark.parametrize("split", ["chunk", "tensor_split", "split"])
def test_how_many_parts_there_are_is_checked(split):
    f = tracehost.function(lambda t: [part.sum() for part in getattr(TABLE, split)(t.item())])
    for n in (2, 3, 2, 1):
        try:
            got = f(torch.tensor(n))
        except (
            tracehost.ValueReadError
        ) as rejected:  # tensor_split takes a tensor, which a number is not
            assert split == "tensor_split" and "test_traced_numbers.py" in str(rejected)  # noqa: PT017
            continue
        assert same([part.sum() for part in getattr(TABLE, split)(n)], got)
    assert f.tracing_count() <= 3


def test_a_list_with_a_number_is_no_index_of_code_that_is_not_converted():
    f = tracehost.function(lambda t: TABLE[[t.item(), 2]], autograph=False)
    with pytest.raises(
        tracehost.ValueReadError, match=r"a list with a number .* at test_traced_numbers.py:\d+"
    ):
        f(torch.tensor(1))


def test_a_type_that_values_tell_is_checked_where_it_counts():
    def body(t, x):
        x.add_(1)
        return 1 / max(1, t.item()) + x.sum().item()  # a float for each type that max() gives

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for value in (0.5, 2.5, -1.0, 4.0):
            x, y = torch.zeros(2), torch.zeros(2)
            assert f(torch.tensor(value), x) == body(torch.tensor(value), y) and torch.equal(x, y)

    def tensor_of(t, x):
        x.add_(1)
        return torch.arange(3) * max(1, t.item())

    f = tracehost.function(tensor_of)
    with assert_traces(f, 2):
        for value in (0.5, 2.5, -1.0, 4.0):
            x, y = torch.zeros(2), torch.zeros(2)
            got, expected = f(torch.tensor(value), x), tensor_of(torch.tensor(value), y)
            assert torch.equal(got, expected) and got.dtype == expected.dtype and torch.equal(x, y)

    def resized(t, x):
        x.resize_(4)
        return torch.arange(3) * max(1, t.item())

    with pytest.raises(
        tracehost.ValueReadError, match="the type of a number .* after aten::resize_ at"
    ):
        tracehost.function(resized)(torch.tensor(0.5), torch.zeros(2))


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Odd(int):
    """Equals what is odd: no int to a comparison."""

    def __eq__(self, other):
        return other % 2 == self % 2

    __hash__ = int.__hash__


def test_a_member_of_an_int_enum_is_an_int_beside_a_traced_one():
    def body(k):
        n = k.item()
        return (
            n == Level.HIGH,
            Level.LOW != n,
            n > Level.LOW,
            n + Level.HIGH,
            Level.HIGH - n,
            n in [Level.LOW],
        )

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for k in (3, 1, 0, -7):
            expected, got = body(torch.tensor(k)), f(torch.tensor(k))
            assert got == expected
            assert [type(x) for x in got] == [type(x) for x in expected]

    def asks_another(k):
        return k.item() == Odd(3)

    g = tracehost.function(asks_another)
    assert [g(torch.tensor(k)) for k in (3, 4, 5)] == [True, False, True]


def library_kinds(n):
    """As code that is not converted asks."""
    tensor = isinstance(n, torch.Tensor) or torch.is_tensor(n)
    return [tensor, isinstance(n, (int, torch.Tensor)), isinstance(n, torch.nn.Parameter)]


class Steps:
    n = 0


@pytest.mark.parametrize("autograph", [True, False])
def test_a_number_is_no_tensor_to_isinstance(autograph):
    steps = Steps()
    told = []

    def body(x, w):
        steps.n += 1
        told.append([library_kinds(n) for n in (steps.n, x.argmax().item(), x.shape[0], x, w)])
        return x * steps.n

    f = tracehost.function(body, autograph=autograph, reduce_retracing=True)
    w = torch.nn.Parameter(torch.ones(1))
    numbers = [[False, True, False]] * 3
    for size in (2, 3, 4, 5):
        f(torch.ones(size), w)
        assert told[-1] == [*numbers, [True, True, False], [True, True, True]]
    assert isinstance(w, torch.Tensor)
    assert "__instancecheck__" not in vars(type(torch.Tensor))
