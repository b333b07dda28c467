"""Monte Carlo: pi, and the price of an option, from random numbers that are drawn in the graph.

    scripts/run examples/04_monte_carlo.py

What it shows, and asserts:
  1. the number of samples as an int is a trace for each; as a declared dynamic dimension, one;
  2. `torch.rand` in the body draws new numbers at each call, the same as in eager for a seed;
  3. `random.random()` in the body is drawn once, while it is traced, and tracehost says so;
  4. a European call option costs what the closed form says, within three standard errors.
"""

import math
import random
import warnings

import torch
import tracehost
from retracing.measure import Program, compare
from tracehost import TensorSpec

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.02, 0.25, 1.0


def pi_of(points):
    """Four times the share of points, float32 [n, 2] in the unit square, within the quarter circle."""
    return 4 * (points.square().sum(1) <= 1).to(torch.float32).mean()


def pi_from_count(samples):
    return pi_of(torch.rand(samples, 2))


def pi_like(points):
    """The number of points is the size of `points`; its values are not used."""
    return pi_of(torch.rand_like(points))


def option(prices_like):
    """Mean and standard error of what the option pays, discounted; as many samples as `prices_like` has."""
    noise = torch.randn_like(prices_like)
    drift = (RATE - VOLATILITY**2 / 2) * YEARS
    end = SPOT * torch.exp(drift + VOLATILITY * math.sqrt(YEARS) * noise)
    paid = math.exp(-RATE * YEARS) * torch.relu(end - STRIKE)
    return paid.mean(), (paid.var() / prices_like.shape[0]).sqrt()


def closed_form():
    """Black and Scholes, 1973."""

    def below(z):
        return (1 + math.erf(z / math.sqrt(2))) / 2

    d = (math.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / VOLATILITY / YEARS**0.5
    later = STRIKE * math.exp(-RATE * YEARS)
    return SPOT * below(d) - later * below(d - VOLATILITY * math.sqrt(YEARS))


def seeded(seed, function, *args):
    torch.manual_seed(seed)
    return function(*args)


def main():
    counts = [1000 * n for n in range(1, 13)]
    by_count = tracehost.function(pi_from_count)
    by_size = tracehost.function(pi_like, input_signature=[TensorSpec([None, 2])])
    compare(
        "1. pi from 1,000 to 12,000 points",
        before=Program([by_count], [lambda n=n: seeded(n, by_count, n) for n in counts]),
        after=Program(
            [by_size], [lambda n=n: seeded(n, by_size, torch.empty(n, 2)) for n in counts]
        ),
        traces=(12, 1),
    )

    print("\n2. Drawn again at each call")
    points = torch.empty(5000, 2)
    torch.manual_seed(0)
    traced = [by_size(points).item() for _ in range(4)]
    torch.manual_seed(0)
    assert traced == [pi_like(points).item() for _ in range(4)]  # by eager
    assert len(set(traced)) == 4 and by_size.tracing_count() == 1
    print("  pi is about", *(f"{pi:.4f}" for pi in traced))

    print("\n3. Python's own random numbers are not")
    shifted = tracehost.function(lambda x: x + random.random(), name="shifted")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        drawn = [shifted(torch.zeros(())).item() for _ in range(4)]
    print(" ", *(f"{value:.4f}" for value in drawn))
    assert len(set(drawn)) == 1
    assert [w.category for w in told] == [tracehost.TraceWarning]
    assert "random.random" in str(told[0].message)
    print(" ", told[0].message)

    print("\n4. A European call option")
    price = tracehost.function(option, input_signature=[TensorSpec([None])])
    exact = closed_form()
    for samples in (1000, 30_000, 1_000_000):
        mean, error = seeded(1, price, torch.empty(samples))
        torch.testing.assert_close((mean, error), seeded(1, option, torch.empty(samples)))
        print(f"  {samples:9,} samples: {mean:.3f} +- {error:.3f}, exactly {exact:.3f}")
        assert abs(mean - exact) < 3 * error
    assert price.tracing_count() == 1
    print("  A large number of samples is all drawing and arithmetic: a trace saves nothing there.")


if __name__ == "__main__":
    main()
