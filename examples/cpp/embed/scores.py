"""What the C++ program calls: a score for each item of a list of any length."""

import torch
import tracehost


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(100, 16)
        self.mix = torch.nn.GRU(16, 16, batch_first=True)
        self.head = torch.nn.Linear(16, 1)

    def forward(self, items):
        mixed, _ = self.mix(self.embedding(items[None]))
        return torch.sigmoid(self.head(mixed[0])).flatten()


model = Scorer().eval()


@tracehost.function
def naive(items):
    return model(items)


@tracehost.function(input_signature=[tracehost.TensorSpec([None], torch.int64)])
def score(items):
    return model(items)
