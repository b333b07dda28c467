"""A number that says which dimension an op is about: the result's sizes and rank are those of each call."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(24.0).view(2, 3, 4)
SQUARE = torch.arange(16.0).view(4, 4)
ONES = torch.arange(3.0).view(1, 3, 1)
OPS = {
    "unsqueeze": lambda n: X.unsqueeze(n),
    "movedim": lambda n: X.movedim(n, 0),
    "transpose": lambda n: X.transpose(n, 0),
    "swapaxes": lambda n: X.swapaxes(0, n),
    "permute": lambda n: X.permute(n, 1 - n, 2),
    "sum": lambda n: X.sum(n),
    "sum of two": lambda n: X.sum((2, n)),
    "keepdim": lambda n: X.sum(n, keepdim=True),
    "max": lambda n: X.amax(n),
    "norm": lambda n: torch.linalg.norm(X, dim=n),
    "softmax": lambda n: X.softmax(n),
    "select": lambda n: X.select(n, 1),
    "narrow": lambda n: X.narrow(n, 0, 2),
    "stack": lambda n: torch.stack([X, X], n),
    "cat": lambda n: torch.cat([X, X], n),
    "diff": lambda n: X.diff(n),
    "diff of a dim": lambda n: X.diff(dim=n),
    "unfold": lambda n: X.unfold(n, 2, 1),
    "unflatten": lambda n: SQUARE.unflatten(n, (2, 2)),
    "diagonal": lambda n: SQUARE.diagonal(n),
    "diag_embed": lambda n: torch.diag_embed(SQUARE, n),
    "rot90": lambda n: torch.rot90(X[0], n),
    "repeat_interleave": lambda n: X.repeat_interleave(2, n),
    "index_select": lambda n: X.index_select(n, torch.tensor([0])),
    "flatten": lambda n: X.flatten(n),
    "flatten up to": lambda n: X.flatten(0, n),
    "flatten two": lambda n: torch.flatten(X, n, n + 1),
    "a layer that flattens": lambda n: torch.nn.Flatten(n)(X),
    "squeeze": lambda n: ONES.squeeze(n),
    "squeeze two": lambda n: ONES.squeeze((n, 2)),
    "unbind": lambda n: X.unbind(n)[0],
    "chunk": lambda n: X.chunk(2, n)[0],
    "split": lambda n: X.split(1, n)[0],
    "size": lambda n: X[: X.size(n)],
    "tensordot": lambda n: torch.tensordot(SQUARE, SQUARE, dims=n),
}
# The number says how many dimensions or results there are, Python reads it, or the parser makes a list of one int:
# each has its graph.
CHECKED = {
    *("flatten", "flatten up to", "flatten two", "a layer that flattens", "squeeze", "squeeze two"),
    *("unbind", "chunk", "split", "size", "tensordot", "sum", "keepdim", "max", "norm"),
}


def described(t):
    return tuple(t.shape), t.dim(), t.stride(), t.is_contiguous(), t.numel(), t * 1


@pytest.mark.parametrize("name", OPS)
def test_of_a_number_that_is_read(name):
    f = tracehost.function(lambda t: described(OPS[name](int(t))[...]))
    for n in (0, 1, 0, 1):
        assert repr(f(torch.tensor(n))) == repr(described(OPS[name](n)))
    assert f.tracing_count() <= (2 if name in CHECKED else 1)


def test_of_a_computed_number():
    def body(x, n):
        y = x.flatten(n.item() % 2)
        return y.shape, y.dim(), y.sum(-1)

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for n in (2, 3, 1, 4, 5, 2):
            assert repr(f(X, torch.tensor(n))) == repr(body(X, torch.tensor(n)))
