"""The devices that tests are parametrised over: those that this machine has, the others skipped with a reason."""

import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    ),
]
