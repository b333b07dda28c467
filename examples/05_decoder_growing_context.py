"""Text generation: a decoder whose context grows by a token at each step.

    scripts/run examples/05_decoder_growing_context.py

A transformer decoder of two layers, with random weights, continues a prompt greedily to 128 tokens. What it
shows, and asserts:
  1. traced as it is, each length of the context is a trace: 127 of them, more than the 64 that a Function
     keeps by default (`limit=`);
  2. with a declared signature, `[1, None]`, it is one trace; with `reduce_retracing` two;
  3. keys and values are kept from token to token, in tensors that are padded to 32, 64, 96 or 128: the work
     for a token does not grow, and there are four traces;
  4. all of them give the tokens that eager gives. Times are printed, not asserted.
"""

import time
import warnings

import torch
import tracehost
from timing import pay_once
from torch import nn
from torch.nn import functional as F
from tracehost import TensorSpec

VOCABULARY, SIZE, HEADS, LAYERS, LENGTH, BUCKET = 64, 64, 4, 2, 128, 32


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.wide, self.narrow = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)

    def forward(self, x, attend):
        """x: [1, n, SIZE]. `attend` makes [1, HEADS, n, SIZE / HEADS] of three like it."""
        heads = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(attend(*heads).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, SIZE), nn.Embedding(LENGTH, SIZE)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, VOCABULARY)

    def next_token(self, tokens):
        """The most likely token after `tokens`, int64 [1, n]: int64 [1, 1]."""

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, attend)
        return self.head(self.norm(x[:, -1:])).argmax(-1)

    def next_token_cached(self, token, position, keys, values):
        """The same from one token, int64 [1, 1], at `position`, int64 [1].

        keys, values: a tensor for each layer, [1, HEADS, room, SIZE / HEADS], in which all earlier positions
        are filled in; this one is filled in here.
        """
        seen = torch.arange(keys[0].shape[2])[None] <= position
        x = self.tokens(token) + self.positions(position)
        for layer, k_seen, v_seen in zip(self.layers, keys, values):

            def attend(q, k, v, k_seen=k_seen, v_seen=v_seen):
                k_seen.index_copy_(2, position, k)
                v_seen.index_copy_(2, position, v)
                return F.scaled_dot_product_attention(q, k_seen, v_seen, attn_mask=seen)

            x = layer(x, attend)
        return self.head(self.norm(x)).argmax(-1)


def new_decoder():
    torch.manual_seed(3)
    decoder = Decoder().requires_grad_(False)
    for p in decoder.parameters():  # larger than a new model's: else it repeats itself at once
        p.mul_(1.5)
    return decoder


def generate(next_token):
    """LENGTH tokens from the first, which is 1, and the microseconds for each."""
    tokens, us = torch.ones(1, 1, dtype=torch.int64), []
    while tokens.shape[1] < LENGTH:
        start = time.perf_counter()
        tokens = torch.cat([tokens, next_token(tokens)], 1)
        us.append((time.perf_counter() - start) * 1e6)
    return tokens[0].tolist(), us


def generate_cached(next_token_cached):
    """The same; each BUCKET tokens the kept keys and values get more room."""
    token, tokens, us = torch.ones(1, 1, dtype=torch.int64), [1], []
    kept = [torch.zeros(1, HEADS, 0, SIZE // HEADS) for _ in range(2 * LAYERS)]
    while len(tokens) < LENGTH:
        start = time.perf_counter()
        position = len(tokens) - 1
        if position % BUCKET == 0:
            kept = [F.pad(one, (0, 0, 0, BUCKET)) for one in kept]
        token = next_token_cached(token, torch.tensor([position]), kept[:LAYERS], kept[LAYERS:])
        tokens.append(token.item())
        us.append((time.perf_counter() - start) * 1e6)
    return tokens, us


def ways(decoder):
    """name -> (how to generate, the Function or None for eager, how many traces)."""
    any_length = [TensorSpec([1, None], torch.int64)]
    found = {"eager": (generate, None, 0), "eager, cached": (generate_cached, None, 0)}
    for name, options, traces in (
        ("a trace a length", {"limit": LENGTH}, LENGTH - 1),
        ("reduce_retracing", {"reduce_retracing": True}, 2),
        ("any length", {"input_signature": any_length}, 1),
    ):
        found[name] = (generate, tracehost.function(decoder.next_token, **options), traces)
    cached = tracehost.function(decoder.next_token_cached)
    found["cached, padded"] = (generate_cached, cached, LENGTH // BUCKET)
    return found


def run(decoder):
    """name -> microseconds for each token: the first time, with all traces, and the second."""
    us, expected = {}, None
    for name, (generator, function, traces) in ways(decoder).items():
        eager = {generate: decoder.next_token, generate_cached: decoder.next_token_cached}
        tokens, first = generator(function or eager[generator])
        expected = expected or tokens
        assert tokens == expected, name
        if function is not None:
            assert function.tracing_count() == traces, (name, function.tracing_count())
        us[name] = first, generator(function or eager[generator])[1]
    assert len(set(expected)) > 16, expected
    return us


def main():
    torch.set_num_threads(1)
    pay_once()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", tracehost.RetraceWarning)
        us = run(new_decoder())
    print(told[0].message)
    print(f"\n{'us a token':20}{'first time':>14}{'second':>10}{'token 16':>10}{'token 127':>10}")
    for name, (first, second) in us.items():
        row = [sum(x) / len(x) for x in (first, second, second[14:18], second[-4:])]
        print(f"{name:20}{row[0]:14,.0f}" + "".join(f"{x:10,.0f}" for x in row[1:]))


if __name__ == "__main__":
    main()
