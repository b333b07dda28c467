"""Calls of a Function against the same calls in plain Python: values, dtypes, gradients, errors."""

import pytest
import torch
import tracehost


def fresh(args, grad=True):
    return [
        a.clone().requires_grad_(grad and a.is_floating_point())
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    ]


def leaves(result):
    found = torch.utils._pytree.tree_leaves(result)
    return [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in found]


def same(f, *calls, traces=1, staged=None, grad=True, **options):
    """Each call gives what plain Python gives, with its gradients; `traces` in all."""
    staged = staged or tracehost.function(f, **options)
    for args in calls:
        given = [fresh(args, grad) for _ in range(2)]
        expected, result = f(*given[0]), staged(*given[1])
        assert torch.utils._pytree.tree_structure(result) == torch.utils._pytree.tree_structure(
            expected
        )
        for a, b in zip(leaves(result), leaves(expected)):
            torch.testing.assert_close(a, b)
            assert a.requires_grad == b.requires_grad
        differentiable = [x for x in leaves(expected) if x.requires_grad]
        if differentiable:
            sum((x**2).sum() for x in differentiable).backward()
            sum((x**2).sum() for x in leaves(result) if x.requires_grad).backward()
        for a, b in zip(*given):
            if isinstance(a, torch.Tensor) and a.requires_grad:
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    torch.testing.assert_close(b.grad, a.grad)
    assert staged.tracing_count() == traces, tracehost.events()
    return staged


def same_error(f, bad, error, text, good=None, traces=1, **options):
    """Plain Python, a trace and, behind a good call, a hit raise this error with this first line."""
    staged = tracehost.function(f, **options)
    for call in (f, staged):
        with pytest.raises(error) as caught:
            call(*bad)
        assert str(caught.value).split("\n")[0] == text
    if good is not None:
        same(f, good, staged=staged, traces=staged.tracing_count() + 1)
        with pytest.raises(error) as caught:
            staged(*bad)
        assert str(caught.value).split("\n")[0] == text
        assert staged.tracing_count() == traces, tracehost.events()
