"""value_reads="error": each read of a traced value raises, with its line."""

import bisect
import copy
import json
import math
import operator
import statistics

import numpy as np
import pytest
import torch
import tracehost
from core_support import assert_same, place
from tracehost.testing import assert_traces

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
    with assert_traces(f, 0):
        with pytest.raises(tracehost.ValueReadError) as error:
            f(N)
        assert f" at test_value_reads.py:{read.__code__.co_firstlineno}" in str(error.value)
        assert f.stats()["live"] == 0


def test_range_of_a_tensor_in_code_that_is_not_staged():
    def body(n):
        return [i * i for i in range(n)], n * 2

    with pytest.raises(tracehost.ValueReadError, match="the value of 'n'"):
        tracehost.function(body, autograph=False, value_reads="error")(N)


def scaled(x, n):
    return x * int(n)  # here


def test_the_error_names_the_input_and_the_remedies():
    with pytest.raises(tracehost.ValueReadError) as error:
        tracehost.function(scaled, value_reads="error")(X, N)
    assert str(error.value) == (
        f"the body reads the value of 'n' (aten::item) at {place(scaled)}, which a graph can't "
        "repeat. Keep the computation in tensors (torch.where, masks; under autograph, if, while "
        "and range() take tensors), or move the read out of the function."
    )


def test_a_declared_size_that_is_read_is_one_trace_a_size():
    def body(x):
        return x * len(list(range(x.shape[0])))

    spec = [tracehost.TensorSpec([None], torch.float32)]
    with pytest.raises(tracehost.ValueReadError):
        tracehost.function(body, input_signature=spec, value_reads="error")(X)
    f = tracehost.function(body, input_signature=spec)
    for count, size in [(1, 3), (1, 3), (2, 4), (2, 3), (2, 4)]:
        assert_same(f(torch.ones(size)), body(torch.ones(size)))
        assert f.tracing_count() == count


def test_sizes_are_numbers_in_every_mode():
    for mode in ("trace", "error"):
        f = tracehost.function(
            lambda x: x * x.shape[0] + len(x) + x.numel() + x.dim(), value_reads=mode
        )
        with assert_traces(f, 1):
            assert_same(f(X), X * 3 + 7)
            assert_same(f(X + 1), (X + 1) * 3 + 7)


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
    with assert_traces(f, 2):  # the side that prints does so in each call
        assert_same(f(X), X * 2)
        assert_same(f(-X), -X)
    one = "<traced tensor float32[3]>"
    assert capsys.readouterr().out == f"{one}\n{one} {one} {one}\n{one}\n"


def test_the_option_is_checked_and_kept():
    with pytest.raises(ValueError) as error:
        tracehost.function(scaled, value_reads="guard")
    assert str(error.value) == "value_reads must be 'trace' or 'error', got 'guard'"
    with pytest.raises(ValueError):
        tracehost.function(value_reads=True)
    module = torch.nn.Linear(2, 2)
    assert copy.deepcopy(tracehost.function(module, value_reads="error")) is not None
    decorated = tracehost.function(value_reads="error")(scaled)
    with pytest.raises(tracehost.ValueReadError):
        decorated(X, N)
