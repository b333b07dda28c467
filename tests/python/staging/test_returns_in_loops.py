"""Returns, and variables, of different kinds in a loop that is staged: no path shows another one's."""

import pytest
import torch
import tracehost


def texts(x):
    for v in x:
        if v > 5:
            return "big"
        if v < -5:
            return "small"
    return "none"


def one_text(x):
    for v in x:
        if v > 5:
            return "big"
    return "none"


def numbers(x):
    for v in x:
        if v > 5:
            return 1
        if v < -5:
            return 2
    return 3


def tensor_or_text(x):
    for v in x:
        if v > 5:
            return v
        if v < -5:
            return "small"
    return "none"


def variable(x):
    r = "none"
    for v in x:
        if v > 5:
            r = "big"
        if v < -5:
            r = "small"
    return r


def none_or_tensor(x):
    for v in x:
        if v > 5:
            return None
        if v < -5:
            return x
    return x * 2


def tuples(x):
    for v in x:
        if v > 5:
            return (v, "a")
        elif v < -5:
            return (v, "b")
    return (x[0], "c")


def in_while(x):
    i = 0
    while x[i] < 5:
        if x[i] < -5:
            return "small"
        i += 1
        if i == 2:
            return "none"
    return "big"


def over_python_range(x):
    for i in range(2):
        if x[i] > 5:
            return "big"
        if x[i] < -5:
            return "small"
    return "none"


def dtypes(x):
    for v in x:
        if v > 5:
            return torch.float32
    return torch.int32


def nested_loops(x):
    for r in x.reshape(2, 1):
        for v in r:
            if v > 5:
                return "big"
            if v < -5:
                return "small"
    return "none"


def breaks(x):
    kind = "none"
    for v in x:
        if v > 5:
            kind = "big"
            break
        if v < -5:
            kind = "small"
            break
    else:
        kind = "else"
    return kind


def tensor_or_text_or_none(x):
    found = None
    for v in x:
        if v > 5:
            found = v
        if v < -5:
            found = "s"
    return found


def chain(x):
    for v in x:
        if v > 5:
            out = "a"
        elif v < -5:
            out = "b"
        else:
            out = "c"
    return out


def while_with_index(x):
    i = 0
    while i < x.shape[0] and x[i] < 5:
        if x[i] < -5:
            return ("neg", i)
        i += 1
    return ("end", i)


def dicts(x):
    for i, v in enumerate(x):
        if v > 5:
            return {"i": i, "k": "big"}
        if v < -5:
            return {"i": i, "k": "small"}
    return {}


def over_traced_range(x):
    for i in range(x.abs().max().to(torch.int64)):
        if i > 6:
            return "far"
        if x[0] * i > 20:
            return "mid"
    return "near"


def in_a_helper(x):
    def inner(x):
        for v in x:
            if v > 5:
                return "big"
            if v < -5:
                return "small"
        return None

    r = inner(x)
    return "x" if r is None else r + "!"


def tuples_of_other_lengths(x):
    n = 0
    for v in x:
        if v > 5:
            return x, n
        if v < -5:
            return x * 2, n, "neg"
        n += 1
    return x, "none"


def raises(x):
    for v in x:
        if v > 5:
            raise ValueError("big")
        if v < -5:
            return "small"
    return "none"


def bool_or_none(x):
    best = x[0]
    for v in x:
        if v > 5:
            return v > best
        if v < -5:
            return None
        best = v
    return best


def bool_or_text(x):
    for v in x:
        if v > 5:
            return True
        if v < -5:
            return False
    return "no"


def other_shapes(x):
    for v in x:
        if v > 5:
            return torch.ones(2)
        if v < -5:
            return torch.ones(3, dtype=torch.int64)
    return torch.ones(1)


def text_with_a_count(x):
    k = 0
    while True:
        k += 1
        if k > 4:
            return "end", k
        x = x * 2
        if x.sum() > 40:
            break
    return x, k


def text_after_some_turns(x):
    k = 0
    while x.sum().abs() < 20:
        k += 1
        if k > 3:
            return {"why": "too many", "turns": k}
        x = x * 2
    return x, k


def texts_of_an_endless_loop(x):
    while True:
        if x.sum() > 10:
            return "big"
        if x.sum() < -10:
            return "small"
        x = x * 2


def deleted_in_some_turns(x):
    known = x[0]
    for v in x:
        if v > 5:
            del known
        else:
            known = v
    try:
        return known
    except UnboundLocalError:
        return "deleted"


BODIES = (
    texts, one_text, numbers, tensor_or_text, variable, none_or_tensor, tuples, in_while, over_python_range, dtypes, nested_loops, breaks, tensor_or_text_or_none, chain, while_with_index, dicts, over_traced_range, in_a_helper, tuples_of_other_lengths, raises, bool_or_none, bool_or_text, other_shapes,
    text_with_a_count, text_after_some_turns, texts_of_an_endless_loop, deleted_in_some_turns,
)  # fmt: skip
ROWS = (
    [1.0, 2.0],
    [1.0, 9.0],
    [-9.0, 1.0],
    [9.0, 1.0],
    [1.0, -7.0],
    [2.0, 2.0],
    [9.0, 2.0],
    [2.0, 9.0],
)


def outcome(f, x):
    try:
        return repr(f(x))
    except ValueError as error:
        return f"ValueError: {error}"


@pytest.mark.parametrize("reduce_retracing", [False, True])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_as_eager(body, reduce_retracing):
    f = tracehost.function(body, reduce_retracing=reduce_retracing)
    for row in ROWS:
        x = torch.tensor(row)
        assert outcome(f, x) == outcome(body, x), row


def test_a_trace_without_values_says_why():
    f = tracehost.function(texts)
    with pytest.raises(
        tracehost.StagingError, match="the value returned differs between the branches"
    ):
        f.get_concrete_function(tracehost.TensorSpec([2]))


def test_a_trace_without_values_with_one_return_says_why():
    f = tracehost.function(one_text)
    message = (
        r"a value of another kind than a tensor or number is returned in the for at .*:\d+, at an iteration that "
        "depends on values. Return a tensor or a number there."
    )
    with pytest.raises(tracehost.StagingError, match=message):
        f.get_concrete_function(tracehost.TensorSpec([None]))
