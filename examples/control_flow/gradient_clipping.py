"""Gradient clipping by norm, and a step that is left out where a gradient is not finite."""

import torch
from measure import compare


def update(weight, bias, weight_gradient, bias_gradient, most):
    """One step of SGD, in place. Returns the norm, and whether there was a step."""
    gradients = [weight_gradient, bias_gradient]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    done = False
    if torch.isfinite(norm):
        if norm > most:
            gradients = [g * (most / norm) for g in gradients]
        for p, g in zip((weight, bias), gradients):
            p.sub_(0.1 * g)
        done = True
    return norm, done


torch.manual_seed(0)
weight, bias = torch.randn(16, 16), torch.randn(16)
most = torch.tensor(1.0)
calls = [
    (weight, bias, torch.randn(16, 16) * scale, torch.randn(16) * scale, most)
    for scale in (1e-3, 1.0, float("inf"))
]
compare("Gradient clipping", update, calls, gradients=False)
