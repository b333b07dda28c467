"""k-means until no centre moves."""

import torch
from measure import compare


def k_means(points, centres):
    moved = True
    rounds = 0
    while moved:
        nearest = torch.cdist(points, centres).argmin(1)
        members = torch.nn.functional.one_hot(nearest, len(centres)).to(points.dtype)
        counts = members.sum(0)
        means = members.T @ points / counts.clamp(min=1)[:, None]
        means = torch.where(counts[:, None] > 0, means, centres)
        moved = (means != centres).any()
        centres = means
        rounds += 1
    return centres, nearest, rounds


def cloud(seed):
    made = torch.Generator().manual_seed(seed)
    middles = torch.randn(4, 2, generator=made) * 4
    points = middles.repeat(50, 1) + torch.randn(200, 2, generator=made)
    return points, points[:4].clone()


clouds = [cloud(seed) for seed in range(5)]
compare("k-means until stable", k_means, clouds, gradients=False)
