"""What the tests of what a body reads share: a Function compared with its body, objects to read from."""

import torch
import tracehost
from torch import nn

X = torch.arange(4.0)
BATCH = torch.arange(12.0).reshape(3, 4)


class Config:
    lr = 0.5

    def __init__(self, scale=2.0):
        self.scale = scale


class Model:
    factor = 2.0

    def __init__(self, bias=1.0):
        self.bias = bias
        self.config = Config()
        self.count = 0
        self.h = None
        self.unused = 0
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def act(self, x):
        return x * 2

    def body(self, x):
        return self.act(x) * self.factor * self.config.scale + self.bias

    run = tracehost.function(body)

    def traces(self):
        return self.run.tracing_count()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.drop(self.bn(self.fc(x))))


def same(f, body, *args):
    """Asserts that the Function gives what its body gives."""
    expected = body(*args)
    torch.testing.assert_close(f(*args), expected, rtol=0, atol=0)
