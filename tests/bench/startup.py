"""What the import and the host add: whole processes, in turn, the fastest of each, in CPU time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from harness import Report

BIN = Path(sys.prefix) / "bin"


def children_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def fastest(commands: dict[str, list[str]], repeats: int) -> dict[str, float]:
    """Milliseconds of each command."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRACEHOST_")}
    results = {name: float("inf") for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            before = children_ms()
            subprocess.run(command, check=True, env=env)
            results[name] = min(results[name], children_ms() - before)
    return results


def run(report: Report, repeats: int) -> None:
    python, host = str(BIN / "python3"), str(BIN / "tracehost")
    ms = fastest({"python": [python, "-c", "pass"], "host": [host, "-c", "pass"]}, 5 * repeats)
    report.add("python3 -c pass", ms["python"], "ms")
    report.add("tracehost -c pass", ms["host"], "ms")
    report.add("start of the host / python3", ms["host"] / ms["python"], "x", 1.5)
    ms = fastest(
        {"torch": [python, "-c", "import torch"], "ours": [python, "-c", "import tracehost"]},
        repeats,
    )
    report.add("import torch", ms["torch"], "ms")
    report.add("import tracehost, torch included", ms["ours"], "ms")
    report.add("import tracehost / import torch", ms["ours"] / ms["torch"], "x", 1.05)
