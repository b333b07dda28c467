"""Monte Carlo over time steps: a path of a price, each step kept in a TensorArray."""

import torch
import tracehost
from measure import compare


def paths(spot, volatility, steps):
    """Prices at each of `steps` times within a year, for 256 samples: [steps, 256]."""
    price = spot.expand(256)
    dt = 1 / steps
    prices = tracehost.TensorArray(torch.float32, size=steps)
    for i in tracehost.range(steps):
        noise = torch.randn(256)
        price = price * torch.exp(-(volatility**2) / 2 * dt + volatility * torch.sqrt(dt) * noise)
        prices = prices.write(i, price)
    return prices.stack()


calls = [
    (torch.tensor(100.0), torch.tensor(volatility), torch.tensor(steps))
    for volatility, steps in ((0.2, 12), (0.3, 4), (0.25, 52))
]
compare("Monte Carlo over time", paths, calls)
