"""Memory over a thousand retraces, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import Report

PROGRAM = """
import gc, sys, warnings
import torch, tracehost
sys.path.insert(0, sys.argv[1])
from core import many_ops

warnings.simplefilter("ignore")

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024

inner = many_ops()

@tracehost.function(limit=16)
def made(x, y, k):
    return inner(x, y) + k

x, y = torch.rand(8, 8), torch.rand(8, 8)
with torch.no_grad():
    for k in range(1000):
        made(x, y, k)
        if k + 1 in (200, 1000):
            print(resident())
print(made.stats()["live"], made.tracing_count())
"""


def run(report: Report, _repeats: int) -> None:
    here = str(Path(__file__).parent)
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, here], capture_output=True, text=True, check=True
    ).stdout.split()
    early, late = map(float, found[:2])
    report.add("resident after 200 traces of 150 ops, limit 16", early, "MB")
    report.add("growth from 200 to 1,000 traces", late - early, "MB", 3)
    report.add("live specializations, limit 16", float(found[2]), "", 16)
    assert found[3] == "1000"
