"""Calls at several sizes, compared with eager code."""

import torch
import tracehost


def same(a, b):
    """Equal in type, dtype and bits, at any depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors(item)]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors(item)]
    return []


def backward(results):
    sums = [
        (t * torch.arange(1.0, t.numel() + 1).view(t.shape)).sum()
        for t in tensors(results)
        if t.requires_grad
    ]
    if sums:
        sum(sums).backward()


def check_sizes(body, shapes, traces, **options):
    """Calls a Function of `body` with a random tensor of each shape (or tuple of shapes, or
    tensor): results and gradients are eager's, and it traces `traces` times."""
    f = tracehost.function(body, **({"reduce_retracing": True} | options))
    for seed, shape in enumerate(shapes):
        torch.manual_seed(seed)
        several = isinstance(shape, list)
        ours = [
            torch.randn(s, requires_grad=True) if isinstance(s, tuple) else s
            for s in (shape if several else [shape])
        ]
        theirs = [t.detach().clone().requires_grad_(t.requires_grad) for t in ours]
        torch.manual_seed(seed)
        got = f(*ours)
        torch.manual_seed(seed)
        wanted = body(*theirs)
        assert same(got, wanted), (shape, got, wanted)
        backward(got)
        backward(wanted)
        for a, b in zip(ours, theirs):
            assert (a.grad is None) == (b.grad is None), shape
            assert a.grad is None or torch.equal(a.grad, b.grad), shape
    assert f.tracing_count() == traces
    return f
