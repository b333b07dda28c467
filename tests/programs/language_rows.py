"""PyTorch's own examples on sequences, as example_rows.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from programs.program import Decorate, Maker, Program, generator, trained

WORDS = 20


class LstmLanguage(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.2), nn.Embedding(WORDS, 8)
        self.rnn, self.decoder = nn.LSTM(8, 8, 2, dropout=0.2), nn.Linear(8, WORDS)
        self.state = (torch.zeros(2, 4, 8), torch.zeros(2, 4, 8))

    def forward(self, words):
        self.state = tuple(s.detach() for s in self.state)
        output, self.state = self.rnn(self.drop(self.encoder(words)), self.state)
        return F.log_softmax(self.decoder(self.drop(output)).view(-1, WORDS), dim=1)


class TransformerLanguage(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.mask = nn.Embedding(WORDS, 8), None
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.2)
        self.encoder, self.decoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, WORDS)  # fmt: skip
        self.register_buffer("positions", positions(8, 8))

    def forward(self, words):
        if self.mask is None or self.mask.size(0) != len(words):
            self.mask = torch.log(torch.tril(torch.ones(len(words), len(words))))
        x = self.embedding(words) * math.sqrt(8) + self.positions[: words.size(0)]
        output = self.encoder(x, mask=self.mask)
        return F.log_softmax(self.decoder(output).view(-1, WORDS), dim=-1)


def positions(most: int, width: int) -> torch.Tensor:
    at = torch.arange(most).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([torch.sin(at * rate), torch.cos(at * rate)], -1).view(most, 1, width)


def language_model(make) -> Maker:
    """Gradients are clipped and applied by hand, as in the example; the state of an LSTM continues."""

    def maker(decorate: Decorate) -> Program:
        model = make().train()

        @decorate
        def step(words, targets):
            model.zero_grad()
            loss = F.nll_loss(model(words), targets.view(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.5)
            return loss.item()

        def run(index):
            words = torch.randint(WORDS, (7, 4), generator=generator(index))
            return step(words[:6], words[1:])

        return Program(run, lambda: {n: (p, p.grad) for n, p in model.named_parameters()})

    return maker


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1)
        self.register_buffer("positions", positions(8, 8))

    def embedded(self, words):
        return self.embedding(words.long()) * math.sqrt(8) + self.positions[: words.size(0)]

    def forward(self, source, target):
        later = nn.Transformer.generate_square_subsequent_mask(target.size(0))
        nothing = torch.zeros((source.size(0), source.size(0))).type(torch.bool)
        padded, padded_target = (source == 0).transpose(0, 1), (target == 0).transpose(0, 1)
        output = self.transformer(
            self.embedded(source), self.embedded(target), nothing, later.isinf(), None, padded,
            padded_target, padded,
        )  # fmt: skip
        return self.out(output)


def sentences(model, index):
    draw = generator(index)
    return {
        name: torch.randint(1, WORDS, (n, 3), generator=draw)
        for name, n in (("source", 5), ("target", 6))
    }


def translated(model, source, target) -> torch.Tensor:
    logits = model(source, target[:-1, :])
    return F.cross_entropy(logits.reshape(-1, WORDS), target[1:, :].reshape(-1), ignore_index=0)


class Entailment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(WORDS, 8), nn.LSTM(8, 8, bidirectional=True)
        self.out = nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def encoded(self, words):
        inputs = self.embed(words)
        state = inputs.new_zeros(2, inputs.size(1), 8)
        _, (hidden, _) = self.rnn(inputs, (state, state))
        return hidden[-2:].transpose(0, 1).contiguous().view(inputs.size(1), -1)

    def forward(self, premise, hypothesis):
        both = torch.cat([self.encoded(premise), self.encoded(hypothesis)], 1)
        return F.log_softmax(self.out(both), 1)


def two_sentences(model, index):
    draw = generator(index)
    words = {k: torch.randint(WORDS, (5, 4), generator=draw) for k in ("premise", "hypothesis")}
    return words | {"target": torch.randint(3, (4,), generator=draw)}


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2 = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8)
        self.linear = nn.Linear(8, 1)

    def forward(self, x, future=0):
        outputs = []
        h, c, h2, c2 = (torch.zeros(x.size(0), 8) for _ in range(4))
        for part in x.split(1, dim=1):
            h, c = self.lstm1(part, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            output = self.linear(h2)
            outputs += [output]
        for _ in range(future):
            h, c = self.lstm1(output, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            output = self.linear(h2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def time_sequence(decorate: Decorate) -> Program:
    """LBFGS calls back for the loss, as often as it needs it: the closure is decorated, as no graph has the step."""
    model = Sequence()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=3)

    @decorate
    def loss_of(x):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[:, :-1], future=2)[:, :-2], x[:, 1:])
        loss.backward()
        return loss

    def run(index):
        at = torch.arange(10.0) + torch.rand(3, 1, generator=generator(index))
        return optimizer.step(lambda: loss_of(torch.sin(at)))

    return Program(run, lambda: trained(model, optimizer))
