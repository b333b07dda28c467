"""Exports a classifier by torch.jit.trace, loads the file again, and compares."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.features(x)
        return torch.softmax(self.head(x.view(x.size(0), -1)), dim=1)


torch.manual_seed(0)
model = Classifier()
model.eval()
with torch.no_grad():
    example = torch.rand(1, 1, 16, 16)
    traced = torch.jit.trace(model, example)
    traced.save("classifier.pt")
    loaded = torch.jit.load("classifier.pt")
    loaded.eval()
    for shape in [(1, 1, 16, 16), (4, 1, 16, 16), (2, 1, 24, 20)]:
        batch = torch.rand(shape)
        expected = model(batch)
        assert torch.allclose(traced(batch), expected, atol=1e-6)
        assert torch.allclose(loaded(batch), expected, atol=1e-6)
        print(shape, [round(p, 4) for p in loaded(batch)[0].tolist()])
