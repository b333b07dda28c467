"""value_reads: a traced value read as a number raises, is guarded, or baked with a warning; never silent."""

import bisect
import copy
import json
import math
import operator
import statistics
import warnings

import numpy as np
import pytest
import torch
import tracehost
from core_support import assert_same, place

X = torch.tensor([1.0, 2.0, 3.0])
N = torch.tensor(2)

# Of a one-element integer tensor `n`: each gives something that depends on its value.
NUMBERS = {
    "bool": lambda n: bool(n),
    "int": lambda n: int(n),
    "float": lambda n: float(n),
    "complex": lambda n: complex(n),
    "__index__": lambda n: operator.index(n),
    "item": lambda n: n.item(),
    "detached": lambda n: n.detach().item(),
    "tolist": lambda n: n.tolist(),
    "numpy": lambda n: n.numpy().item(),
    "np.asarray": lambda n: int(np.asarray(n)),
    "format": lambda n: f"{n:5d}",
    "format()": lambda n: format(n, ">4"),
    "percent": lambda n: "%d" % n,
    "list index": lambda n: [10, 11, 12, 13, 14, 15][n],
    "list slice": lambda n: [10, 11, 12, 13, 14, 15][:n],
    "list times": lambda n: [0] * n,
    "string times": lambda n: "-" * n,
    "bytes": lambda n: bytes(n),
    "round": lambda n: round(n.item() / 3, 1),
    "divmod": lambda n: divmod(7, int(n)),
    "math.sqrt": lambda n: math.sqrt(n),
    "math.floor": lambda n: math.floor(math.sqrt(n)),
    "math.factorial": lambda n: math.factorial(n),
    "math.isnan": lambda n: (math.isnan(n), n.item()),
    "math.comb": lambda n: math.comb(6, n),
    "hex": lambda n: hex(n),
    "chr": lambda n: chr(n),
    "json": lambda n: json.dumps({"n": n.item()}),
    "dict key": lambda n: {2: "two", 3: "three", 5: "five"}[n.item()],
    "statistics": lambda n: statistics.mean([n.item(), 4]),
    "max": lambda n: max([n.item(), 3]),
    "sorted": lambda n: sorted([n.item(), 3]),
    "is_nonzero": lambda n: (n.is_nonzero(), n.item()),
    "isinstance": lambda n: isinstance(n.item(), int) and n.item(),
}

# Reads that no number or value comes out of, or of tensors that the body computes.
OTHERS = {
    "deepcopy": lambda n: copy.deepcopy(n),
    "data_ptr": lambda n: n.data_ptr(),
    "storage": lambda n: n.untyped_storage(),
    "dlpack": lambda n: torch.from_dlpack(n),
    "computed int": lambda n: int(n + 1),
    "computed tolist": lambda n: n.view(1).tolist(),
    "computed format": lambda n: f"{n * 2:d}",
    "max of tensors": lambda n: bool(operator.gt(n, n - 1)),
    "sorted tensors": lambda n: [n + 1, n].sort(),
    "torch.equal": lambda n: torch.equal(n, n + 0),
    "json of a tensor": lambda n: json.dumps([int(n + 0)]),
    "round of one": lambda n: round((n / 3).item(), 1),
    "math of one": lambda n: math.exp(n / 2),
    "in": lambda n: n in [2, 5],
    "in range": lambda n: 2 in [n],
    "bisect": lambda n: bisect.bisect([1, 3], n),
    "min of many": lambda n: min(list((n + torch.arange(3)).numpy())),
}


def returning(read):
    """`read` as a body: the numbers it gives, and a tensor."""

    def body(n):
        return read(n), n * 2

    return body


@pytest.mark.parametrize("name", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("autograph", [True, False])
def test_a_read_can_be_an_error(name, autograph):
    read = {**NUMBERS, **OTHERS}[name]
    f = tracehost.function(returning(read), autograph=autograph, value_reads="error")
    with pytest.raises(tracehost.ValueReadError) as error:
        f(N)
    assert f" at test_value_reads.py:{read.__code__.co_firstlineno}" in str(error.value)
    assert f.tracing_count() == 0 and f.stats()["live"] == 0


@pytest.mark.parametrize("name", NUMBERS)
def test_a_read_of_an_input_is_guarded(name):
    body = returning(NUMBERS[name])
    f = tracehost.function(body, value_reads="guard")
    for count, value in [(1, 2), (1, 2), (2, 5), (2, 2), (2, 5), (3, 3)]:
        n = torch.tensor(value)
        assert_same(f(n), body(n))
        assert f.tracing_count() == count


@pytest.mark.parametrize("name", OTHERS)
def test_what_can_not_be_guarded_is_an_error_that_says_why(name):
    read = OTHERS[name]
    f = tracehost.function(returning(read), value_reads="guard")
    with pytest.raises(tracehost.ValueReadError) as error:
        f(N)
    assert f" at test_value_reads.py:{read.__code__.co_firstlineno}, " in str(error.value)
    assert f.tracing_count() == 0


@pytest.mark.parametrize("name", NUMBERS)
def test_a_baked_read_warns_and_keeps_the_value(name):
    read = NUMBERS[name]
    body = returning(read)
    f = tracehost.function(body, value_reads="bake")
    with pytest.warns(tracehost.TraceWarning) as seen:
        assert_same(f(N), body(N))
    seen = [
        w for w in seen if w.category is tracehost.TraceWarning
    ]  # on a busy machine the traces cost enough for another
    assert len(seen) == 1
    assert f"test_value_reads.py:{read.__code__.co_firstlineno}" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(f(torch.tensor(5)), (read(N), torch.tensor(10)))
    assert f.tracing_count() == 1


def test_range_of_a_tensor_in_code_that_is_not_staged():
    def body(n):
        return [i * i for i in range(n)], n * 2

    with pytest.raises(tracehost.ValueReadError, match="the value of 'n'"):
        tracehost.function(body, autograph=False, value_reads="error")(N)
    f = tracehost.function(body, autograph=False, value_reads="guard")
    for count, value in [(1, 2), (2, 5), (2, 2)]:
        assert_same(f(torch.tensor(value)), body(torch.tensor(value)))
        assert f.tracing_count() == count


def scaled(x, n):
    return x * int(n)  # here


def test_the_error_names_the_input_and_the_remedies():
    with pytest.raises(tracehost.ValueReadError) as error:
        tracehost.function(scaled, value_reads="error")(X, N)
    assert str(error.value) == (
        f"the body reads the value of 'n' (aten::item) at {place(scaled)}, which a graph can't "
        "repeat. Keep the computation in tensors (torch.where, masks; under autograph, if, while "
        'and range() take tensors), have a graph for each value (value_reads="guard"), or move the '
        "read out of the function."
    )


def test_the_errors_of_guard_say_what_it_can_not_do():
    def computed(x, n):
        return x * int(n + 1)

    def changed(x, n):
        n.add_(1)
        return x * int(n)

    def large(x, n):
        return x * sum(x.tolist())

    def message(body, *args):
        with pytest.raises(tracehost.ValueReadError) as error:
            tracehost.function(body, value_reads="guard")(*args)
        return str(error.value)

    assert "the value of a tensor that it computes (aten::item) at test_value_reads.py:" in message(
        computed, X, N
    )
    assert "compare only the values of what is passed or captured, before the graph runs." in (
        message(computed, X, N)
    )
    assert "the value of 'n' (aten::item)" in message(changed, X, torch.tensor(1))
    assert ", after it may have been changed, and " in message(changed, X, torch.tensor(1))
    assert (
        ', 65 numbers, and value_reads="guard" compares at most 64 of a tensor at each call. '
        in message(large, torch.ones(65), N)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.add_(1),
        lambda x: x[1:].zero_(),
        lambda x: x.view(-1).mul_(2),
        lambda x: torch.add(x, 1, out=x),
        lambda x: x.copy_(x + 1),
    ],
)
def test_an_input_that_an_op_has_changed_is_not_guarded(change):
    def body(x):
        change(x)
        return x * sum(x.tolist())

    for guard in (torch.no_grad(), torch.inference_mode()):
        with guard, pytest.raises(tracehost.ValueReadError, match="after it may have been changed"):
            tracehost.function(body, value_reads="guard")(torch.ones(3))


def test_running_statistics_count_as_changed():
    norm = torch.nn.BatchNorm1d(2)

    def body(x):
        y = norm(x)
        return y * norm.running_mean.tolist()[0]

    with pytest.raises(tracehost.ValueReadError, match="after it may have been changed"):
        tracehost.function(body, value_reads="guard")(torch.randn(4, 2))


def test_an_input_that_is_changed_after_the_read_is_guarded_by_what_was_read():
    def body(x, n):
        k = int(n)
        n.add_(1)
        return x * k

    f = tracehost.function(body, value_reads="guard")
    n = torch.tensor(1)
    assert [f(X, n)[0].item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert n.item() == 4 and f.tracing_count() == 3
    assert f(X, torch.tensor(2))[0].item() == 2.0 and f.tracing_count() == 3
    (cause,) = [e.causes[0] for e in tracehost.events() if e.signature.endswith("n: int64[] = 3)")][
        -1:
    ]
    assert cause.endswith("is 3")


def test_a_captured_value_is_guarded():
    steps = torch.tensor(2)
    f = tracehost.function(lambda x: x * int(steps), value_reads="guard")
    assert_same(f(X), X * 2)
    steps.fill_(5)
    assert_same(f(X), X * 5)
    steps.fill_(2)
    assert_same(f(X), X * 2)
    assert f.tracing_count() == 2


def test_arrays_and_lists_are_compared_element_by_element():
    def body(x, w):
        return x * sum(w.tolist()) + float(w.numpy().max())

    f = tracehost.function(body, value_reads="guard")
    for count, w in [(1, [1.0, 2.0]), (1, [1.0, 2.0]), (2, [2.0, 1.0]), (2, [1.0, 2.0])]:
        w = torch.tensor(w)
        assert_same(f(X, w), body(X, w))
        assert f.tracing_count() == count
    base = torch.tensor([[1.0, 9.0], [2.0, 9.0]])
    assert_same(f(X, base[:, 0].contiguous()), body(X, base[:, 0]))
    assert f.tracing_count() == 2


def test_nan_equals_itself_and_zeros_differ():
    f = tracehost.function(lambda x, a: x * math.copysign(2, a), value_reads="guard")
    for count, value in [(1, math.nan), (1, math.nan), (2, 0.0), (3, -0.0), (3, 0.0)]:
        f(X, torch.tensor(value))
        assert f.tracing_count() == count


def test_an_array_can_not_be_written_to():
    def body(x):
        x.numpy()[0] = 5
        return x * 2

    with pytest.raises(ValueError, match="read-only"):
        tracehost.function(body, value_reads="guard")(torch.ones(3))


def test_no_read_no_guard():
    f = tracehost.function(lambda x, n: x * n, value_reads="guard")
    for value in (1, 2, 3):
        f(X, torch.tensor(value))
    assert f.tracing_count() == 1


def test_explain_and_events_name_the_read():
    f = tracehost.function(scaled, value_reads="guard")
    f(X, torch.tensor(3))
    explained = f.explain(X, torch.tensor(5))
    assert not explained.hit
    assert [str(d) for d in explained.differences] == ["n: 3 -> 5 (read)"]
    assert f.explain(X, torch.tensor(3)).hit
    f(X, torch.tensor(5))
    assert tracehost.events()[-1].causes == (f"the value of 'n' at {place(scaled)} was 3, is 5",)
    assert [s.signature for s in f.specializations()] == [
        "(x: float32[3], n: int64[] = 3)",
        "(x: float32[3], n: int64[] = 5)",
    ]


def test_many_values_are_told_by_a_retrace_warning():
    def repeated(x, n):
        return x * int(n)  # here

    f = tracehost.function(repeated, value_reads="guard")
    with pytest.warns(tracehost.RetraceWarning) as seen:
        for value in range(6):
            f(X, torch.tensor(value))
    assert (
        f"the value of 'n' at {place(repeated)} took 5 values (0, 1, 2, 3, 4), each with a"
        in str(seen[0].message)
    )


def test_a_request_from_specs_has_no_values():
    f = tracehost.function(scaled, value_reads="guard")
    spec = tracehost.TensorSpec([], torch.int64)
    f(X, torch.tensor(3))
    with pytest.raises(tracehost.ValueReadError, match="where it has no data"):
        f.get_concrete_function(tracehost.TensorSpec([3]), spec)


@pytest.mark.parametrize("value_reads", ["trace", "guard"])
def test_a_declared_size_that_is_read_is_one_trace_a_size(value_reads):
    def body(x):
        return x * len(list(range(x.shape[0])))

    spec = [tracehost.TensorSpec([None], torch.float32)]
    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(body, input_signature=spec, value_reads="error")(X)
    f = tracehost.function(body, input_signature=spec, value_reads=value_reads)
    for count, size in [(1, 3), (1, 3), (2, 4), (2, 3), (2, 4)]:
        assert_same(f(torch.ones(size)), body(torch.ones(size)))
        assert f.tracing_count() == count


def test_baking_warns_once_a_line_and_function():
    def body(x, n):
        a = x * int(n) + float(n)  # here
        return a

    f = tracehost.function(body, value_reads="bake")
    with pytest.warns(tracehost.TraceWarning) as seen:
        f(X, torch.tensor(3))
        f(torch.ones(4), torch.tensor(3))
    first = body.__code__.co_firstlineno
    assert [str(w.message) for w in seen] == [
        f"body (test_value_reads.py:{first}) reads the value of 'n' (aten::item), 3 at {place(body)}, "
        'and value_reads="bake" keeps it in the graph: later calls use it even if the value has changed. '
        'Use "guard" for a graph for each value of an input, or keep the computation in tensors.'
    ]


def test_computed_values_are_baked_too():
    f = tracehost.function(lambda x: x * x.sum().item(), value_reads="bake")
    with pytest.warns(tracehost.TraceWarning, match=r"a traced tensor \(aten::item\), 6.0 at"):
        assert_same(f(X), X * 6)
    assert_same(f(X + 1), (X + 1) * 6)


def test_sizes_are_numbers_in_every_mode():
    for mode in ("error", "guard", "bake"):
        f = tracehost.function(
            lambda x: x * x.shape[0] + len(x) + x.numel() + x.dim(), value_reads=mode
        )
        assert_same(f(X), X * 3 + 7)
        assert_same(f(X + 1), (X + 1) * 3 + 7)
        assert f.tracing_count() == 1


def test_print_never_fails_and_says_where_there_is_no_data(capsys):
    def body(x):
        if x.sum() > 0:
            y = x * 2
        else:
            print(x, f"{x - 1}", "%s" % x)
            y = x
        print(y)
        return y

    f = tracehost.function(body)
    assert_same(f(X), X * 2)
    assert_same(f(-X), -X)
    assert f.tracing_count() == 2  # the side that prints does so in each call
    one = "<traced tensor float32[3]>"
    assert capsys.readouterr().out == f"{one}\n{one} {one} {one}\n{one}\n"


def test_the_option_is_checked_and_kept():
    with pytest.raises(ValueError) as error:
        tracehost.function(scaled, value_reads="eager")
    assert str(error.value) == (
        "value_reads must be 'trace', 'error', 'guard' or 'bake', got 'eager'"
    )
    with pytest.raises(ValueError):
        tracehost.function(value_reads=True)
    module = torch.nn.Linear(2, 2)
    kept = copy.deepcopy(tracehost.function(module, value_reads="guard"))
    assert kept is not None
    decorated = tracehost.function(value_reads="guard")(scaled)
    assert_same(decorated(X, N), X * 2)
