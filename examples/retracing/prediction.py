"""Prediction through a model: the last batch is smaller, and the model is in training mode now and then; a
declared size and one call of eval() leave a trace for each mode."""

import torch
import tracehost
from measure import Program, compare

torch.manual_seed(0)
data = torch.rand(72, 16)  # batches of 32, 32 and 8


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(32, 4)
    )


def program(**options):
    net = model()
    f = tracehost.function(lambda x: net(x), **options)

    def predict(batch, training):
        net.train(training)
        torch.manual_seed(2)  # dropout, where it trains
        with torch.no_grad():
            return f(batch)

    batches = data.split(32)
    calls = [lambda b=b, t=t: predict(b, t) for t in (True, False) for b in batches]
    return Program([f], calls)


compare(
    "Prediction through a model",
    before=program(),
    after=program(input_signature=[tracehost.TensorSpec([None, 16])]),
    traces=(4, 2),
)
