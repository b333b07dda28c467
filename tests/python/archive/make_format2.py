"""Makes the fixture of format 2: `tracehost tests/python/archive/make_format2.py`, once for a format.

format2.thz has a function for each kind of test_archive_kinds.py; format2.pt has the argument and what each
function gave. Later versions load both.
"""

import pathlib
import sys
import warnings

import torch
import tracehost

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "support"))
sys.path.insert(0, str(ROOT / "archive"))

from test_archive_kinds import ALONE, IN_TORCHSCRIPT, X  # noqa: E402


def made() -> None:
    bodies = IN_TORCHSCRIPT | {kind: body for kind, (body, _) in ALONE.items()}
    functions, expected = {}, {}
    for i, (kind, body) in enumerate(bodies.items()):
        functions[f"f{i}"] = tracehost.function(body, name=f"f{i}")
        result = functions[f"f{i}"](X.clone())
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        expected[f"f{i}"] = kind, [one.detach().clone() for one in results]
    warnings.simplefilter("ignore")  # some have no copy in TorchScript
    tracehost.save(ROOT / "data" / "format2.thz", functions, metadata={"of": "format 2"})
    torch.save({"x": X, "expected": expected}, ROOT / "data" / "format2.pt")


if __name__ == "__main__":
    made()
