"""Compares a Function with its body."""

import torch


def same(f, body, *args):
    """Asserts that the Function gives what its body gives."""
    expected = body(*args)
    torch.testing.assert_close(f(*args), expected, rtol=0, atol=0)
