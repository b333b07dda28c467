"""Bisection until the interval is small enough: a loop with a branch in it."""

import torch
from measure import compare


def yearly_rate(payments, price, tolerance):
    """The rate at which `payments`, one a year, are worth `price` today."""
    low, high = torch.zeros_like(price), torch.ones_like(price)
    years = torch.arange(1, len(payments) + 1)
    steps = 0
    while high - low > tolerance:
        middle = (low + high) / 2
        worth = (payments / (1 + middle) ** years).sum()
        if worth > price:
            low = middle
        else:
            high = middle
        steps += 1
    return (low + high) / 2, steps


payments = torch.full((10,), 100.0)
compare(
    "Bisection until small enough",
    yearly_rate,
    [
        (payments, torch.tensor(price), torch.tensor(tolerance))
        for price, tolerance in ((800.0, 1e-2), (400.0, 1e-4), (950.0, 1e-5), (100.0, 2.0))
    ],
    gradients=False,
)

rate, steps = yearly_rate(payments, torch.tensor(800.0), torch.tensor(1e-5))
assert abs(rate.item() - 0.0428) < 1e-4 and steps == 17, (rate, steps)
