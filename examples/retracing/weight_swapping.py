"""Many models of one architecture: a Function for each is a trace for each; one Function that takes the weights
as an argument is one trace for all, and a model costs no graph."""

import torch
import tracehost
from measure import Program, compare


def model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


models = [model(seed) for seed in range(12)]
x = torch.linspace(0, 1, 16).expand(4, 16).contiguous()
skeleton = model(0)

one_each = [tracehost.function(m) for m in models]


@tracehost.function
def forward(weights, x):
    return torch.func.functional_call(skeleton, weights, (x,))


weights = [dict(m.named_parameters()) for m in models]


compare(
    "Weights swapped under one trace",
    before=Program(one_each, [lambda f=f: f(x) for f in one_each]),
    after=Program([forward], [lambda w=w: forward(w, x) for w in weights]),
    traces=(12, 1),
)
