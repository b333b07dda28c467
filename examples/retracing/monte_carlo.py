"""Monte Carlo with noise: the number of samples as a Python int is a trace for each; as a declared
dynamic dimension, one. Each call draws new noise, as in eager."""

import torch
import tracehost
from measure import Program, compare

spot, strike, rate, volatility, years = 100.0, 105.0, 0.02, 0.25, 1.0


def price(noise):
    """A European call option's price from `noise`, float32 [samples] of a standard normal."""
    end = spot * torch.exp((rate - volatility**2 / 2) * years + volatility * years**0.5 * noise)
    return torch.exp(torch.tensor(-rate * years)) * torch.relu(end - strike).mean()


def by_number(samples, seed):
    torch.manual_seed(seed)
    return drawn_inside(samples)


def by_size(samples, seed):
    torch.manual_seed(seed)
    return drawn_as_like(torch.empty(samples))


drawn_inside = tracehost.function(lambda samples: price(torch.randn(samples)))
drawn_as_like = tracehost.function(
    lambda like: price(torch.randn_like(like)), input_signature=[tracehost.TensorSpec([None])]
)
runs = [(1000 * (1 + n), n) for n in range(8)]

compare(
    "Monte Carlo with noise",
    before=Program([drawn_inside], [lambda r=r: by_number(*r) for r in runs]),
    after=Program([drawn_as_like], [lambda r=r: by_size(*r) for r in runs]),
    traces=(8, 1),
)

# Closed form (Black and Scholes, 1973): 8.699; the mean of 800,000 samples has a standard error of 0.016.
many = torch.stack([by_size(200_000, seed) for seed in range(4)])
assert abs(many.mean().item() - 8.699) < 0.1, many
