"""Conjugate gradient: ends when the residual is small, at the latest after as many steps as there are unknowns."""

import torch
from measure import compare


def solve(a, b):
    x = torch.zeros_like(b)
    r = b
    p = r
    rr = r @ r
    small = 1e-10 * rr
    steps = 0
    while rr > small and steps < len(b):
        ap = a @ p
        alpha = rr / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        rr_next = r @ r
        p = r + (rr_next / rr) * p
        rr = rr_next
        steps += 1
    return x


def system(eigenvalues, seed):
    """One with few distinct eigenvalues is done in as many steps."""
    made = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(12, 12, generator=made, dtype=torch.float64))
    values = torch.tensor(eigenvalues, dtype=torch.float64).repeat(12)[:12]
    return q @ torch.diag(values) @ q.T, torch.randn(12, generator=made, dtype=torch.float64)


systems = [system(e, n) for n, e in enumerate(([2.0], [1.0, 4.0], [1.0, 2.0, 5.0], [1, 2, 4, 8]))]
compare("Conjugate gradient", solve, systems)

for a, b in systems:
    torch.testing.assert_close(solve(a, b), torch.linalg.solve(a, b), rtol=1e-4, atol=1e-4)
