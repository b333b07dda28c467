"""Trains a character-level transformer, as small repositories do it: torch.compile, AdamW, evaluation, a sample."""

import argparse
import math
import this  # its text is what is learned

import torch
import torch.nn as nn
from torch.nn import functional as F

text = "".join(this.d.get(c, c) for c in this.s)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
train_data, val_data = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, block_size):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads
        self.register_buffer(
            "bias",
            torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size),
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for t in self.c_attn(x).split(C, dim=2)
        )
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads, block_size):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, block_size)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size=16, width=32, layers=2, heads=4):
        super().__init__()
        self.block_size = block_size
        self.wte, self.wpe = nn.Embedding(vocab_size, width), nn.Embedding(block_size, width)
        self.h = nn.ModuleList(Block(width, heads, block_size) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        assert T <= self.block_size, f"cannot forward a sequence of length {T}"
        x = self.wte(idx) + self.wpe(torch.arange(T, device=idx.device))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.block_size :])
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits[:, -1], dim=-1), 1)), dim=1)
        return idx


def get_batch(split, batch_size, block_size):
    source = train_data if split == "train" else val_data
    ix = torch.randint(len(source) - block_size, (batch_size,))
    x = torch.stack([source[i : i + block_size] for i in ix])
    return x, torch.stack([source[i + 1 : i + 1 + block_size] for i in ix])


@torch.compile
def grad_norm(parameters):
    return torch.stack([p.grad.square().sum() for p in parameters]).sum().sqrt()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(1337)
    model = torch.compile(GPT(len(chars)), mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    for step in range(args.steps):
        x, y = get_batch("train", 8, model.block_size)
        logits, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = grad_norm(list(model.parameters()))
        optimizer.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                val = model(*get_batch("val", 8, model.block_size))[1]
            model.train()
            print(
                f"step {step}: loss {loss.item():.4f}, val {val.item():.4f}, norm {norm.item():.4f}"
            )
    checkpoint = {k.removeprefix("_orig_mod."): v for k, v in model.state_dict().items()}
    print(len(checkpoint), next(iter(checkpoint)))
    out = model.generate(torch.zeros((1, 1), dtype=torch.long), 24)[0].tolist()
    print(repr("".join(chars[i] for i in out)))


if __name__ == "__main__":
    main()
