"""Greedy decoding until the end-of-sequence token, or until there is no more room."""

import torch
from measure import compare
from torch import nn

START, END = 0, 1


class Decoder(nn.Module):
    def __init__(self, tokens=12, size=32, room=24):
        super().__init__()
        self.embedding = nn.Embedding(tokens, size)
        self.cell = nn.GRUCell(size, size)
        self.head = nn.Linear(size, tokens)
        self.room = room

    def forward(self, state):
        text = torch.full((self.room,), END)
        token = torch.tensor(START)
        length = 0
        while token != END and length < self.room:
            state = self.cell(self.embedding(token), state)
            token = self.head(state).argmax()
            text[length] = token
            length += 1
        return text, length


torch.manual_seed(1)
decoder = Decoder()
states = [(torch.randn(32) * scale,) for scale in (0.1, 1.0, 2.0, 4.0, 8.0, 16.0)]
parameters = list(decoder.parameters())
compare("Greedy decoding until the end", decoder, states, parameters=parameters, gradients=False)

lengths = {decoder(state)[1] for (state,) in states}
assert len(lengths) > 2, lengths
