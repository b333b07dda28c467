"""Functions whose results have sizes that numbers far above a trace's bound: slices, pads, pools, parts, windows."""

import torch
import torch.nn.functional as F
from sized_registry import sized


@sized()
def last_1024(x):
    recent = x[-1024:]
    return recent * (2 if recent.shape[0] < x.shape[0] else 3)


@sized()
def first_2000(x):
    head = x[:2000]
    return x * (2 if head.shape[0] == x.shape[0] else 3)


@sized()
def behind_1200(x):
    rest = x[1200:]
    return x + 1 if rest.shape[0] == 0 else rest


@sized()
def every_1100th(x):
    return x[::1100] * (2 if x[::1100].shape[0] == 1 else 3)


@sized()
def parts_of_2000(x):
    return [part * 2 for part in x.split(2000)]


@sized()
def number_of_parts(x):
    return x * len(x.split(1500))


@sized("1 3 n")
def pooled_to_1100(x):
    y = F.avg_pool1d(F.pad(x, (0, 1100)), 1100, 1)
    return y * (2 if y.shape[2] > x.shape[2] else 3)


@sized("1 3 n")
def reflected(x):
    y = F.pad(x, (0, 2), mode="reflect")[..., :1300]
    return y * (2 if y.shape[2] == x.shape[2] + 2 else 3)


@sized()
def windows_of_1024(x):
    y = F.pad(x, (0, 0, 0, 1024)).unfold(0, 1024, 512)
    return y.sum(-1) * (2 if y.shape[0] > 1 else 3)


@sized("1 3 n")
def halved_to_600(x):
    y = F.interpolate(x, scale_factor=0.5)[..., :600]
    return y * (2 if y.shape[2] * 2 < x.shape[2] - 1 else 3)


@sized("n 4", "m 4")
def joined_and_cut(x, y):
    z = torch.cat([x, y])[:1500]
    return z * (2 if z.shape[0] == x.shape[0] + y.shape[0] else 3)


@sized("2 n")
def contiguous_tail(x):
    y = x[:, -1500:]
    return y * 2 if y.is_contiguous() else y * 3


@sized("2 n")
def contiguous_tail_of_half(x):
    y = x[:, ::2][:, -700:]
    return y.contiguous().view(-1) * (2 if x[:, -1400:].is_contiguous() else 3)


@sized()
def window_of_mask(x):
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril().triu(-1200)
    seen = mask[:, :1100]
    return x * (2 if seen.shape[1] < x.shape[0] else 3)
