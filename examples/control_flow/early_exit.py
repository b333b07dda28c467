"""A network that stops at the first layer whose answer is sure enough."""

import torch
from measure import compare
from torch import nn


class EarlyExit(nn.Module):
    def __init__(self, size=64, classes=10, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(size, size), nn.ReLU()) for _ in range(depth)
        )
        self.heads = nn.ModuleList(nn.Linear(size, classes) for _ in range(depth))

    def forward(self, x, sure):
        used = 0
        for block, head in zip(self.blocks, self.heads):
            x = x + block(x)
            used += 1
            answer = head(x).softmax(-1)
            if answer.max() > sure:
                break
        return answer, used


torch.manual_seed(4)
network = EarlyExit()
x = torch.randn(64)
calls = [(x, torch.tensor(sure)) for sure in (0.1, 0.185, 0.3, 0.35, 1.1)]
compare("Network with early exits", network, calls, parameters=list(network.parameters()))

used = {int(network(*call)[1]) for call in calls}
assert len(used) > 3, used
