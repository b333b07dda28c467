"""Newton's method until convergence: how many steps it takes is up to the data."""

import torch
from measure import compare


def solve(a):
    """x with x + exp(x) = a, elementwise."""
    x = torch.zeros_like(a)
    step = torch.ones_like(a)
    while step.abs().max() > 1e-6 * (1 + x.abs().max()):
        e = torch.exp(x)
        step = (x + e - a) / (1 + e)
        x = x - step
    return x


compare(
    "Newton until convergence",
    solve,
    [(torch.linspace(0.5, most, 32),) for most in (1.5, 3.0, 8.0, 20.0, 60.0)],
)

x = solve(torch.tensor([1.0, 2.0]))
torch.testing.assert_close(x + torch.exp(x), torch.tensor([1.0, 2.0]))
