"""Numbers that decide about tensors: sampling, decoding, parts of tensors, augmentation."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from value_programs import program


@program
def topk_sampling():
    def body(logits, temperature, k):
        logits = logits / max(temperature, 1e-5)
        v, _ = torch.topk(logits, min(k, logits.size(-1)))
        logits = torch.where(logits < v[..., [-1]], -float("inf"), logits)
        p = torch.softmax(logits, -1)
        nxt = torch.multinomial(p, 1)
        return nxt.item(), p

    return body, dict(args=lambda i: (torch.randn(6), 0.5 + i * 0.1, 2 + i % 3))


@program
def top_p():
    def body(logits):
        s, idx = torch.sort(logits, descending=True)
        cum = torch.softmax(s, -1).cumsum(-1)
        keep = int((cum < 0.8).sum()) + 1
        idx = idx[:keep]
        probs = torch.softmax(s[:keep], -1)
        return idx[torch.multinomial(probs, 1)], keep

    return body, dict(args=lambda i: (torch.randn(6) * (i + 1),))


@program
def beam_search():
    emb = torch.randn(5, 5, generator=torch.Generator().manual_seed(3))

    def body(start):
        beams = [([int(start)], 0.0)]
        for _ in range(3):
            cand = []
            for toks, score in beams:
                lp = torch.log_softmax(emb[toks[-1]], 0)
                v, i = lp.topk(2)
                for a, b in zip(v.tolist(), i.tolist()):
                    cand.append((toks + [b], score + a))
            beams = sorted(cand, key=lambda c: -c[1])[:2]
        return beams

    return body, dict(args=lambda i: (torch.tensor(i % 3),))


@program
def ragged_nonzero():
    def body(x):
        idx = x.nonzero().squeeze(1)
        if idx.numel() == 0:
            return x.new_zeros(1), 0
        sel = x[idx]
        return sel.mean().view(1), idx.numel()

    return body, dict(
        args=lambda i: ((torch.randn(5) > 0.5 - 0.1 * i).float() if i != 2 else torch.zeros(5),)
    )


@program
def unique_counts():
    def body(x):
        u, c = torch.unique(x, return_counts=True)
        return {int(k): int(v) for k, v in zip(u, c)}

    return body, dict(args=lambda i: (torch.randint(0, 2 + i % 2, (4,)),))


@program
def unique_sizes():
    def body(x):
        u, inv = torch.unique(x, return_inverse=True)
        out = torch.zeros(u.shape[0]).index_add_(0, inv, torch.ones(x.shape[0]))
        return out, len(u), u.size(0) / x.numel()

    return body, dict(args=lambda i: (torch.randint(0, 2 + i % 3, (6,)),))


@program
def random_crop():
    def body(img):
        i = torch.randint(0, img.shape[0] - 2 + 1, (1,)).item()
        j = torch.randint(0, img.shape[1] - 2 + 1, size=(1,)).item()
        return img[i : i + 2, j : j + 2], (i, j)

    return body, dict(args=lambda i: (torch.randn(4, 5),))


@program
def newton_iter():
    def body(a):
        x, n = a.clone(), 0
        while True:
            nx = 0.5 * (x + a / x)
            n += 1
            if (nx - x).abs().max() < 1e-5 or n > 20:
                break
            x = nx
        return x, n

    return body, dict(args=lambda i: (torch.rand(3) * 10 * (i + 1) + 0.1,))


@program
def decode_append():
    w = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))

    def body(tok):
        out = []
        for _ in range(5):
            tok = w[tok].argmax(-1)
            out.append(tok.item())
            if tok.item() == 2:
                break
        return out

    return body, dict(args=lambda i: (torch.tensor(i % 6),))


@program
def decode_tensor_append():
    w = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))

    def body(tok):
        out = [tok]
        while len(out) < 5:
            tok = w[tok].argmax(-1)
            out.append(tok)
            if tok == 2:
                break
        return torch.stack(out)

    return body, dict(args=lambda i: (torch.tensor(i % 6),))


@program
def moe():
    experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    gate = nn.Linear(4, 3)

    def body(x):
        which = gate(x).argmax(-1)
        y = torch.zeros_like(x)
        for k, e in enumerate(experts):
            m = which == k
            if m.any():
                y[m] = e(x[m])
        return y

    return body, dict(args=lambda i: (torch.randn(5, 4),))


@program
def nms():
    def iou(a, b):
        lt = torch.max(a[:2], b[:, :2])
        rb = torch.min(a[2:], b[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[:, 0] * wh[:, 1]
        return inter / (
            (a[2] - a[0]) * (a[3] - a[1]) + (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) - inter
        )

    def body(boxes, scores):
        order = scores.argsort(descending=True)
        keep = []
        while order.numel() > 0:
            i = order[0]
            keep.append(i)
            if order.numel() == 1:
                break
            ov = iou(boxes[i], boxes[order[1:]])
            order = order[1:][ov <= 0.3]
        return torch.stack(keep)

    def args(i):
        xy = torch.rand(5, 2) * 2
        return torch.cat([xy, xy + 1], 1), torch.rand(5)

    return body, dict(args=args)


@program
def bucket_by_len():
    def body(ids):
        n = int((ids != 0).sum())
        n = (n + 1) // 2 * 2
        return ids[:n], n

    return body, dict(
        args=lambda i: (
            torch.tensor([1, 2, 3, 4, 0, 0]) if i % 2 else torch.tensor([1, 2, 0, 0, 0, 0]),
        )
    )


@program
def packed_lengths():
    def body(x, lens):
        out = []
        for i, n in enumerate(lens.tolist()):
            out.append(x[i, :n].sum())
        return torch.stack(out)

    return body, dict(args=lambda i: (torch.randn(3, 5), torch.randint(1, 5, (3,))))


@program
def split_sizes():
    def body(x, lens):
        return [p.sum() for p in x.split(lens.tolist())]

    return body, dict(
        args=lambda i: (
            torch.arange(6.0) + i,
            torch.tensor([1, 2, 3]) if i % 2 else torch.tensor([2, 2, 2]),
        )
    )


@program
def repeat_interleave_counts():
    def body(x, c):
        y = torch.repeat_interleave(x, c)
        return y, y.shape[0], y.numel() // 2

    return body, dict(args=lambda i: (torch.arange(3.0), torch.randint(0, 3, (3,))))


@program
def masked_mean_len():
    def body(x):
        sel = x[x > 0]
        return sel.sum() / max(len(sel), 1)

    return body


@program
def empty_check():
    def body(x):
        sel = x[x > 1]
        if len(sel) == 0:
            return torch.tensor(0.0)
        return sel.max()

    return body


@program
def bool_of_len():
    def body(x):
        idx = torch.where(x > 0)[0]
        if not len(idx):
            return x
        return x * idx[0]

    return body


@program
def uniform_bounds():
    def body(a):
        return torch.empty(3).uniform_(a[0], a[1])

    return body, dict(args=lambda i: (torch.tensor([0.0 + i, 1.0 + i]),))


@program
def exp_draw():
    def body(x, e):
        return (
            torch.empty(3).exponential_(e.item()),
            torch.bernoulli(torch.ones(3), e.item() / 2),
            torch.empty(3).geometric_(e.item() / 2),
            torch.empty(3).cauchy_(0.0, e.item()),
            torch.empty(2).log_normal_(0.0, e.item()),
        )

    return body, dict(args=lambda i: (torch.randn(4), torch.tensor(0.1 + i * 0.1)))


@program
def tensor_ctor():
    def body(x):
        v = x.sum().item()
        return (
            torch.tensor([v, 1.0]),
            torch.tensor(v),
            torch.as_tensor([int(x[0]), 2]),
            x.new_tensor([v]),
        )

    return body


@program
def mixup_beta():
    def body(x):
        lam = torch.distributions.Beta(0.4, 0.4).sample().item()
        idx = torch.randperm(x.size(0))
        return lam * x + (1 - lam) * x[idx], lam

    return body, dict(args=lambda i: (torch.randn(3, 4),))


@program
def cutout():
    def body(img):
        n = img.shape[-1]
        cx = int(torch.randint(n, (1,)))
        cy = int(torch.randint(n, (1,)))
        out = img.clone()
        out[max(0, cy - 1) : min(n, cy + 1), max(0, cx - 1) : min(n, cx + 1)] = 0
        return out

    return body, dict(args=lambda i: (torch.ones(5, 5) * (i + 1),))


@program
def random_erasing():
    def body(img):
        area = img.numel()
        for _ in range(3):
            t = area * torch.empty(1).uniform_(0.1, 0.4).item()
            r = math.exp(torch.empty(1).uniform_(-1.0, 1.0).item())
            h = int(round(math.sqrt(t * r)))
            w = int(round(math.sqrt(t / r)))
            if not (h < 5 and w < 5):
                continue
            i = torch.randint(0, 5 - h + 1, (1,)).item()
            j = torch.randint(0, 5 - w + 1, (1,)).item()
            out = img.clone()
            out[i : i + h, j : j + w] = 0
            return out
        return img

    return body, dict(args=lambda i: (torch.ones(5, 5) * (i + 1),))


@program
def rotate_angle():
    def body(img):
        a = float(torch.empty(1).uniform_(-30, 30).item()) * math.pi / 180
        m = torch.tensor([[math.cos(a), -math.sin(a), 0.0], [math.sin(a), math.cos(a), 0.0]])
        g = F.affine_grid(m[None], [1, 1, 4, 4], align_corners=False)
        return F.grid_sample(img, g, align_corners=False)

    return body, dict(args=lambda i: (torch.randn(1, 1, 4, 4),))


@program
def pad_to_multiple():
    def body(x, mask):
        n = int(mask.sum())
        k = -n % 4
        return F.pad(x[:n], (0, k)), n, k

    return body, dict(args=lambda i: (torch.arange(8.0), (torch.arange(8) < 2 + i % 4)))


@program
def stochastic_depth():
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def body(x):
        for i, layer in enumerate(layers):
            if torch.rand(1).item() > i / 4:
                x = x + layer(x)
        return x.detach()

    return body, dict(args=lambda i: (torch.randn(2, 4),))


@program
def line_search():
    def body(x):
        lr, f0 = 1.0, x.square().sum().item()
        for _ in range(10):
            y = x - lr * 2.5 * x
            if y.square().sum().item() < f0:
                break
            lr *= 0.5
        return y, lr

    return body


@program
def adaptive_ode():
    def body(x):
        t, dt, n = 0.0, 0.3, 0
        while t < 1.0 and n < 30:
            k1 = -x
            k2 = -(x + dt * k1)
            err = (dt * (k2 - k1) / 2).abs().max().item()
            if err < 0.05:
                x = x + dt * (k1 + k2) / 2
                t += dt
            dt = min(max(dt * 0.9 * (0.05 / max(err, 1e-8)) ** 0.5, 0.05), 0.5)
            n += 1
        return x, t, n

    return body


@program
def kmeans_until():
    def body(x):
        c = x[:2].clone()
        it = 0
        for it in range(10):
            a = (x[:, None] - c[None]).abs().argmin(1)
            new = torch.stack([x[a == k].mean() if (a == k).any() else c[k] for k in range(2)])
            if torch.allclose(new, c):
                break
            c = new
        return c, it

    return body, dict(args=lambda i: (torch.randn(6),))


@program
def assign_with_number():
    def body(x):
        y = torch.zeros(4)
        i = int(x.argmax())
        y[i] = x.max().item()
        y[i - 1 : i] += 1
        return y

    return body


@program
def loop_range_number():
    def body(x):
        n = int((x > 0).sum())
        for i in range(n):
            x = x + i
        for i in range(n, 0, -1):
            x = x * 0.9
        return x

    return body


@program
def reshape_number():
    def body(x):
        k = 1 + int(x[0] > 0)
        return x.view(k, -1), x.reshape(-1, k), x.unflatten(0, (k, 4 // k)), x.chunk(k)[0]

    return body
