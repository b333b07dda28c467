"""Strides that follow from the side of an `if` or the rounds of a loop: what reads them follows as well."""

import pytest
import torch
import tracehost
from autograph_support import counting
from core_support import assert_same
from tracehost.testing import assert_traces

TRACES = {}
traces = counting(TRACES)


def one_of(x):
    return x if x.sum() > 0 else x.t()


@traces(2)
def contiguous(x):
    return one_of(x).contiguous()


@traces(2)
def contiguous_after_an_op(x):
    return (one_of(x) * 2).contiguous()


@traces(1)
def contiguous_after_a_product(x):
    return (one_of(x) @ x).contiguous()


@traces(2)
def asked(x):
    z = one_of(x)
    return z * 2 if z.is_contiguous() else z * 3


@traces(2)
def viewed_if_contiguous(x):
    z = one_of(x)
    return z.view(4) if z.is_contiguous() else z


@traces(1)
def strides(x):
    z = one_of(x)
    return z * z.stride(0) + sum(z.stride())


@traces(1)
def reshaped(x):
    z = one_of(x)
    return z.reshape(-1), z.flatten(), z.t().reshape(4)


@traces(2)
def nested(x):
    if x.sum() > 0:
        z = x
        if x[0, 0] > 2:
            z = x.t()
    else:
        z = x * 2
    return z.contiguous()


@traces(2)
def rounds(x):
    for _ in tracehost.range((x.sum() > 0).long() + 1):
        x = x.t()
    return x.contiguous()


@traces(1)
def channels_last(x):
    z = x[None, None] if x.sum() > 0 else x[None, None].to(memory_format=torch.channels_last)
    z = torch.cat([z, z + 1], 1) if x.sum() > 0 else torch.stack([x, x], -1).permute(2, 0, 1)[None]
    return z.contiguous(memory_format=torch.channels_last)


@traces(2)
def of_one_column(x):
    z = x[:1] if x.sum() > 0 else x[:, :1].t()
    return z.contiguous()


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", TRACES, ids=lambda body: body.__name__)
def test_as_eager(body):
    f = tracehost.function(body)
    with assert_traces(f, TRACES[body]):
        for sign in (1, 1, -1, 1, -1, -1, 3):
            x = torch.arange(4.0).view(2, 2) * sign + sign
            expected, got = body(x), f(x)
            assert_same(got, expected)
            for a, b in zip(
                torch.utils._pytree.tree_leaves(got),
                torch.utils._pytree.tree_leaves(expected),
                strict=True,
            ):
                assert a.stride() == b.stride()
                assert (a.data_ptr() == x.data_ptr()) == (b.data_ptr() == x.data_ptr())
