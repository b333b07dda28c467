"""Saves three versions of a model, each of which adds its own number: save.py FOLDER"""

import sys
from pathlib import Path

import torch
import tracehost
from tracehost import TensorSpec

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)


def save(version):
    weight = torch.full((8,), float(version))

    @tracehost.function
    def add(x):
        return x + weight

    tracehost.save(
        folder / f"version{version}.thz",
        {"add": add.get_concrete_function(TensorSpec([None, 8]))},
    )


for version in (1, 2, 3):
    save(version)
