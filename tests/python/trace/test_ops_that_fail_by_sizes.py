"""Ops that fail for the sizes of their arguments, in a body that catches what they raise."""

import contextlib

import pytest
import torch
import tracehost


def product(x, y):
    try:
        return x @ y
    except RuntimeError:
        return x.sum() - y.sum()


def text_of_the_error(x, y):
    try:
        z = x + y
    except RuntimeError as error:
        return x * len(str(error)), str(error)
    return z, ""


def list_of_tensors(x, y):
    try:
        return torch.cat([x, y], 0)
    except RuntimeError:
        return torch.cat([x.flatten(), y.flatten()])


def view(x, y):
    try:
        return x.view(3, -1) * 2
    except RuntimeError:
        return x.reshape(-1) + y.numel()


def in_place(x, y):
    x = x.clone()
    try:
        x += y
    except RuntimeError:
        x += y.sum()
    return x


def in_a_branch(x, y):
    if x.sum() > 0:
        try:
            r = torch.cat([x, y])
        except RuntimeError:
            r = torch.cat([x.flatten(), y.flatten()])
        r = r.sum()
    else:
        r = x.sum() * 2
    return r


def through_a_call(x, y):
    with contextlib.suppress(RuntimeError):
        return added(x, y)
    return added(x.sum(), y)


def added(x, y):
    return x * 2 + y


BODIES = [product, text_of_the_error, list_of_tensors, view, in_place, in_a_branch, through_a_call]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("first", range(3))
def test_the_graph_of_these_sizes_has_what_the_body_did(body, first):
    sizes = [((2, 3), (3, 3)), ((2, 3), (2, 3)), ((4, 2), (3, 3))]
    f = tracehost.function(body)
    for _ in range(2):
        for a, b in sizes[first:] + sizes[:first]:
            x, y = torch.randn(a), torch.randn(b)
            got, expected = f(x, y), body(x, y)
            if body is text_of_the_error:
                assert got[1] == expected[1]
                got, expected = got[0], expected[0]
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert f.tracing_count() == 3
    assert f.stats()["hits"] == 3


def test_with_gradients():
    f = tracehost.function(product)
    for _ in range(2):
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
        f(x, y).backward()
        assert x.grad.tolist() == [[1.0] * 3] * 2
    assert f.tracing_count() == 1


def test_an_op_that_fails_for_a_value_is_no_such_op():
    @tracehost.function
    def inverse(x):
        try:
            return torch.linalg.inv(x)
        except torch.linalg.LinAlgError:
            return torch.zeros_like(x)

    for _ in range(2):
        for x in (torch.eye(2), torch.zeros(2, 2), 2 * torch.eye(2)):
            torch.testing.assert_close(inverse(x), inverse.python_function(x), rtol=0, atol=0)


def test_with_declared_sizes_it_is_an_error():
    spec = tracehost.TensorSpec([None, 3])
    f = tracehost.function(product, input_signature=[spec, tracehost.TensorSpec([2, None])])
    with pytest.raises(tracehost.TraceError, match="a graph can't catch what its ops raise"):
        f(torch.ones(2, 3), torch.ones(2, 2))


def test_an_op_that_fails_for_strides_fails_for_these_alone():
    def flat(x):
        try:
            return x.view(-1) + 1
        except RuntimeError:
            return x.reshape(-1) * 2

    f, wide = tracehost.function(flat), torch.arange(6.0).reshape(2, 3)
    for x in (wide.t(), wide.t().contiguous(), wide.t(), wide):
        assert f(x).tolist() == flat(x).tolist()


def test_a_side_that_fails_for_strides_fails_for_these_alone():
    def add(x, c):
        if c > 0:
            x.add_(1)
        return x * 2

    f, c = tracehost.function(add), torch.tensor(1.0)
    f(torch.ones(1, 3).expand(2, 3), -c)  # the side that is not taken can't write to such memory
    assert f(torch.ones(2, 3), c).tolist() == [[4.0] * 3] * 2
    with pytest.raises(RuntimeError, match="more than one element"):
        f(torch.ones(1, 3).expand(2, 3), c)
