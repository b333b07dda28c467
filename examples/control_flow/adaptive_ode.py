"""An ODE solver with step-size control (Bogacki and Shampine, 1989): steps are tried, accepted or made smaller."""

import torch
from measure import compare


def pendulum(state, damping):
    angle, speed = state[0], state[1]
    return torch.stack([speed, -torch.sin(angle) - damping * speed])


def solve(state, damping, end, tolerance):
    """The state at time `end`, and the numbers of steps accepted and rejected."""
    time = torch.zeros_like(end)
    step = end / 100
    accepted = rejected = 0
    k1 = pendulum(state, damping)
    while time < end:
        step = torch.minimum(step, end - time)
        k2 = pendulum(state + step * k1 / 2, damping)
        k3 = pendulum(state + step * 3 * k2 / 4, damping)
        third = state + step * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = pendulum(third, damping)
        error = (step * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8)).abs().max()
        if error <= tolerance:
            time = time + step
            state = third
            k1 = k4
            accepted += 1
        else:
            rejected += 1
        factor = 0.9 * (tolerance / (error + 1e-12)) ** (1 / 3)
        step = step * torch.clamp(factor, 0.2, 5.0)
    return state, accepted, rejected


def given(angle, damping, end, tolerance):
    state = torch.tensor([angle, 0.0], dtype=torch.float64)
    return state, *(torch.tensor(v, dtype=torch.float64) for v in (damping, end, tolerance))


calls = [
    given(0.1, 0.0, 1.0, 1e-3),
    given(3.0, 0.1, 10.0, 1e-4),
    given(1.0, 0.5, 5.0, 1e-6),
    given(2.0, 0.0, 0.0, 1e-3),
]
compare("ODE solver with step control", solve, calls)

(angle, _), *_ = solve(*given(0.01, 0.0, torch.pi, 1e-8))  # small angles: a cosine
assert abs(angle.item() + 0.01) < 1e-5, angle
