"""Sizes, ranks and strides that depend on values are those of each call."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

ROWS = torch.arange(6.0).view(3, 2)
MASKS = [torch.tensor(mask) for mask in ([1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1])]
COUNTS = [torch.tensor(n) for n in (1, 2, 3, 1)]
PAIRS = [torch.tensor([n, 3 - n]) for n in (1, 2, 0, 3)]


def split_by_a_list(x, n):
    return x.split(n.tolist())[0].shape[0]


def averaged_parts(x, n):
    return torch.cat([part / part.shape[0] for part in x.split(n.tolist())])


def unpacked_parts(x, n):
    a, b = torch.split(x, [n.item(), 3 - n.item()])
    return a.sum() / max(len(a), 1), b.numel(), [len(part) for part in (a, b)]


def squeezed_rank(x, mask):
    return mask.nonzero().squeeze().dim()


def chosen_by_the_rank(x, mask):
    index = mask.nonzero().squeeze()
    return x[index] * 10 if index.dim() == 0 else x[index].sum(0)


def squeezed_rows(x, mask):
    return x[mask.bool()].squeeze().shape, x[mask.bool()].squeeze(0).tolist()


def bytes_of_rows(x, mask):
    return x[mask.bool()].nbytes, x[mask.bool()].double().nbytes * 2 + x.nbytes


def contiguity(x, n):
    return x[: n.item()].T.is_contiguous()


def reshaped(x, n):
    part = x[: n.item()]
    return part.transpose(0, 1).contiguous().view(2, -1), part.stride()


def written_if_contiguous(x, n):
    part = x[:, : n.item()].contiguous()
    part.add_(1)
    return x, part


@pytest.mark.parametrize("options", [{}, {"reduce_retracing": True}], ids=["exact", "reduced"])
@pytest.mark.parametrize(
    ("body", "given"),
    [
        (split_by_a_list, PAIRS),
        (averaged_parts, PAIRS),
        (unpacked_parts, COUNTS),
        (squeezed_rank, MASKS),
        (chosen_by_the_rank, MASKS),
        (squeezed_rows, MASKS),
        (bytes_of_rows, MASKS),
        (contiguity, COUNTS),
        (reshaped, COUNTS),
        (written_if_contiguous, COUNTS[:2]),
    ],
)
def test_as_eager(body, given, options):
    f = tracehost.function(body, **options)
    for _ in range(2):
        for value in given:
            x, y = ROWS.clone(), ROWS.clone()
            torch.testing.assert_close(f(x, value), body(y, value), rtol=0, atol=0, equal_nan=True)
            assert torch.equal(x, y)


def test_the_columns_of_nonzero_are_no_check():
    f = tracehost.function(lambda x, mask: x[mask.nonzero().squeeze(1)] * 2)
    with assert_traces(f, 1):
        for mask in MASKS:
            assert torch.equal(f(ROWS, mask), ROWS[mask.nonzero().squeeze(1)] * 2)


def test_rows_of_a_mask_are_contiguous_with_any_count():
    f = tracehost.function(lambda x, mask: x[mask.bool()].contiguous() * 2)
    with assert_traces(f, 1):
        for mask in MASKS:
            assert torch.equal(f(ROWS, mask), ROWS[mask.bool()] * 2)


@pytest.mark.parametrize("as_dict", [False, True])
def test_one_tensor_as_two_arguments_beside_dynamic_sizes(as_dict):
    def body(q, k):
        return q.sum() + k.sum() * 2

    def of_a_dict(d):
        return body(d["q"], d["k"])

    f = tracehost.function(of_a_dict if as_dict else body, reduce_retracing=True)
    for n, same in ((2, False), (2, True), (3, False), (4, True), (5, False), (6, True)):
        q = torch.rand(n)
        k = q if same else torch.rand(n)
        given = ({"q": q, "k": k},) if as_dict else (q, k)
        assert torch.equal(f(*given), body(q, k))
