"""A bool that becomes an int: no tensor holds both, so a block that can't be checked is an error."""

import pytest
import torch
import tracehost

SPECS = tracehost.TensorSpec([None]), tracehost.TensorSpec([], torch.int64)


def added_in_a_for(x, n):
    result = False
    for _ in range(n):
        result = result + 1
    return result


def multiplied_in_a_while(x, n):
    result = True
    while n > 0:
        result = result * 1
        n = n - 1
    return result


def set_in_a_side_of_a_loop(x, n):
    result = True
    for i in range(n):
        if x.sum() > 2:
            result = i
    return result


def left_by_either_side_of_a_loop(x, n):
    result = True
    for i in range(n):
        result = result & (i > 0) if x.sum() > 2 else i
    return result


def an_int_that_becomes_a_bool(x, n):
    result = 0
    for i in range(n):
        result = i > 1
    return result


def in_a_loop_of_a_loop(x, n):
    result = False
    for _ in range(n):
        for _ in range(n):
            result = result + 1
    return result


BODIES = [
    added_in_a_for,
    multiplied_in_a_while,
    set_in_a_side_of_a_loop,
    left_by_either_side_of_a_loop,
    an_int_that_becomes_a_bool,
    in_a_loop_of_a_loop,
]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("specs", [None, SPECS])
def test_as_eager(body, specs):
    f = tracehost.function(body, **({"input_signature": specs} if specs else {}))
    for n in (2, 0, 3, 1, 0, 4):
        x, count = torch.ones(n), torch.tensor(n)
        assert repr(f(x, count)) == repr(body(x, count))


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_no_graph_of_specs(body):
    with pytest.raises(tracehost.StagingError, match="bool|True|False") as caught:
        tracehost.function(body).get_concrete_function(*SPECS)
    assert "test_bools_that_become_ints.py" in str(caught.value)


def test_the_message_and_its_remedy():
    with pytest.raises(
        tracehost.StagingError,
        match=r"its type changes, from bool False to a traced int\. .* Give it one type before the loop and at the "
        r"end of the body: int\(\.\.\.\) or bool\(\.\.\.\)\.",
    ):
        tracehost.function(added_in_a_for).get_concrete_function(*SPECS)

    def repaired(x, n):
        result = 0
        for _ in range(n):
            result = result + 1
        return result

    concrete = tracehost.function(repaired).get_concrete_function(*SPECS)
    assert [repr(concrete(torch.ones(1), torch.tensor(n))) for n in (0, 3)] == ["0", "3"]
