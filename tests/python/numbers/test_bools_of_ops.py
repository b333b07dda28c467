"""Traced bools as the bools of ops: torch's argument parser takes none, so the graph checks them."""

import pytest
import torch
import tracehost

X = torch.tensor([[1.0, 3.0, 2.0], [4.0, -1.0, 0.5]])

CALLS = {
    "sum": lambda x, k: torch.sum(x, 1, keepdim=k),
    "sum by place": lambda x, k: x.sum(1, k),
    "sort": lambda x, k: x.sort(descending=k),
    "argsort": lambda x, k: torch.argsort(x, 0, k),
    "topk": lambda x, k: x.topk(2, largest=k),
    "var": lambda x, k: torch.var(x, 1, unbiased=k),
    "std": lambda x, k: x.std(0, k),
    "max": lambda x, k: x.max(1, keepdim=k),
    "amax": lambda x, k: x.amax((0, 1), keepdim=k),
    "any": lambda x, k: torch.any(x > 0, 0, k),
    "logsumexp": lambda x, k: x.logsumexp(1, k),
    "norm": lambda x, k: torch.norm(x, dim=1, keepdim=k),
    "linalg.norm": lambda x, k: torch.linalg.norm(x, dim=0, keepdim=k),
    "linalg.svd": lambda x, k: torch.linalg.svd(x, full_matrices=k)[1],
    "searchsorted": lambda x, k: torch.searchsorted(x.sort()[0], x, right=k),
    "put": lambda x, k: x.put(torch.tensor([0]), torch.tensor([5.0]), accumulate=k),
    "dropout": lambda x, k: torch.nn.functional.dropout(x, 0.0, training=k),
}
# The graph has the bool: one trace for both.
NUMBERS = {
    "full": lambda x, k: torch.full((2,), k),
    "masked_fill": lambda x, k: x.masked_fill(x > 0, k),
    "add": lambda x, k: x + k,
    "eq": lambda x, k: x.eq(k),
    "where": lambda x, k: torch.where(x > 0, k, 0.0),
}


@pytest.mark.parametrize("name", [*CALLS, *NUMBERS])
def test_as_eager(name):
    call = (CALLS | NUMBERS)[name]

    def body(x, n):
        return call(x, (n > 0).item())

    f = tracehost.function(body)
    for count in (1, 0, 2, -1, 1):
        n = torch.tensor(count)
        torch.testing.assert_close(f(X, n), body(X, n), rtol=0, atol=0)
    assert f.tracing_count() == (2 if name in CALLS else 1)


def test_in_a_loop_over_a_tensor():
    def body(x, n):
        for i in range(n):
            x = x + x.sort(descending=i.item() > 1 if isinstance(i, torch.Tensor) else i > 1)[0]
        return x

    f = tracehost.function(body)
    for count in (1, 4, 2, 1):
        n = torch.tensor(count)
        torch.testing.assert_close(f(X, n), body(X, n), rtol=0, atol=0)
