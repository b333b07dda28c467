"""Code that is not converted asks which object a tensor is, and a staged block decides that: an error, as `is` is."""

import operator

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True)


def given(x, n):
    return x if n > 0 else x * 1


def carried(x, n):
    y = x
    for _ in range(n):
        y = y * 1
    return y


def attention(x, y):
    return ATTENTION(x, y, y)[0]


def operators_is(x, y):
    return operator.is_(x, y)


def operators_is_not(x, y):
    return operator.is_not(x, y)


def ids(x, y):
    return id(x) == id(y)


def hashes(x, y):
    return hash(x) == hash(y)


def a_set(x, y):
    return len({x, y})


def a_made_set(x, y):
    return len(set([x, y]))


def keys(x, y):
    return len({x: 1, y: 2})


def a_tuple_as_key(x, y):
    return {(x, 1): 2}.get((y, 1))


def a_lookup(x, y):
    return {x: 1}[y]


ASKS = [attention, operators_is, operators_is_not, ids, hashes, a_set, a_made_set, keys, a_lookup]


@pytest.mark.parametrize("block", [given, carried], ids=lambda f: f.__name__)
@pytest.mark.parametrize("asks", ASKS, ids=lambda f: f.__name__)
def test_of_a_result_of_a_block(asks, block):
    @tracehost.function
    def f(x, n):
        return asks(x, block(x, n))

    with pytest.raises(tracehost.ValueReadError, match="or the iterations of a loop that are part"):
        f(torch.ones(1, 2, 4), torch.tensor(1))


def test_the_remedy_for_a_librarys_code():
    def body(x, n):
        y = given(x, n)
        return attention(x, y.clone())

    f = tracehost.function(body)
    with pytest.raises(tracehost.ValueReadError, match=r"Pass a tensor of its own there: t.clone"):
        tracehost.function(lambda x, n: attention(x, given(x, n)))(
            torch.ones(1, 2, 4), torch.tensor(1)
        )
    with assert_traces(f, 1):
        for n in (1, 0, 1):
            x, count = torch.rand(1, 2, 4), torch.tensor(n)
            torch.testing.assert_close(f(x, count), body(x, count), rtol=0, atol=0)


@pytest.mark.parametrize("asks", [*ASKS[1:], a_tuple_as_key], ids=lambda f: f.__name__)
def test_of_a_tensor_that_no_block_decides(asks):
    def body(x):
        y = x * 2
        result = asks(y, y)
        return result, y

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(2):
            x = torch.ones(1, 2, 4)
            assert f(x)[0] == body(x)[0]
