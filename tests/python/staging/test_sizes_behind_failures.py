"""Sizes that an exception, an empty tensor, a text or a number's type depends on."""

import pytest
import torch
import tracehost

VECTOR = tracehost.TensorSpec([None])
COUNT = tracehost.TensorSpec([], torch.int64)


def third_or_sum(x):
    try:
        return x[2]
    except IndexError:
        return x.sum()


def third_by_a_variable(x):
    at = 2
    try:
        return x[at]
    except IndexError:
        return x.sum()


def third_from_the_end(x):
    try:
        return x[-3] * 2
    except IndexError:
        return x.sum()


def in_a_tuple(x):
    try:
        return x[None, 2]
    except IndexError:
        return x[None].sum()


def stored(x):
    y = x.clone()
    try:
        y[2] = 7.0
    except IndexError:
        y = y - 1
    return y


def in_a_function(x):
    def third(values):
        return values[2]

    try:
        return third(x + 1)
    except IndexError:
        return x.sum()


BODIES = [third_or_sum, third_by_a_variable, third_from_the_end, in_a_tuple, stored, in_a_function]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize(
    "options", [{"input_signature": [VECTOR]}, {"reduce_retracing": True}], ids=["specs", "relaxed"]
)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_an_index_past_the_end_is_of_its_size(body, options):
    f = tracehost.function(body, **options)
    for size in (2, 4, 3, 2, 0, 5, 1, 6):
        x = torch.arange(float(size))
        assert torch.equal(f(x), body(x))


@pytest.mark.parametrize("sizes", [(0, 3, 1), (3, 0, 1), (0, 0, 2)])
def test_a_list_of_no_elements_is_of_its_size(sizes):
    def body(x, n):
        if n > 1:
            return x.tolist()
        return [x.sum().item()]

    f = tracehost.function(body, input_signature=[VECTOR, COUNT])
    for size in sizes:
        for n in (2, 1):
            given = torch.ones(size), torch.tensor(n)
            assert f(*given) == body(*given)


def test_a_raised_text_has_the_size_of_its_call():
    @tracehost.function(input_signature=[VECTOR])
    def f(x):
        if x.sum() < 0:
            raise ValueError(f"bad: {x.shape[0]} rows, {x.shape[0] * 2:4d} values")
        return x

    f(torch.ones(2))
    for size in (3, 5):
        with pytest.raises(ValueError, match=f"bad: {size} rows, {size * 2:4d} values"):
            f(-torch.ones(size))


def test_a_number_of_another_type_in_an_inner_side():
    def body(x, n):
        i, found = 0, -1
        if x.sum() > 0:
            if n > 1:
                found = i > 1
            else:
                x = x + 2
            i = i + 1
        return found, i

    f = tracehost.function(body)
    for sign, n in ((1, 2), (-1, 0), (1, 0), (1, 3), (-1, 3), (1, 2)):
        given = torch.ones(2) * sign, torch.tensor(n)
        assert repr(f(*given)) == repr(body(*given))


@pytest.mark.filterwarnings("ignore::tracehost.TraceWarning", "ignore::tracehost.RetraceWarning")
def test_a_loop_that_runs_as_python_leaves_plain_numbers():
    class State:
        count = 0

    @tracehost.function(input_signature=[VECTOR])
    def f(x):
        y = x * 1
        for row in x:
            if row > 1:
                if y.shape[0] > 2:
                    y = y[:-1]
                    State.count += 1
        return y

    f(torch.tensor([1.0, 2, 3]))
    f(torch.tensor([1.0, 2]))
    assert type.__call__(type, State.count) is int and State.count == 1
