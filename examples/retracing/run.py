"""Runs every pattern of this folder in a process of its own, and prints one table: what retraced, what cured it.

scripts/run examples/retracing/run.py
"""

import json
import subprocess
import sys
from pathlib import Path

patterns = [
    "shapes",
    "dtypes",
    "python_values",
    "objects",
    "external_state",
    "python_control_flow",
    "created_in_a_loop",
    "declared",
    "python_or_tensor",
    "prediction",
    "weight_swapping",
    "boundary",
    "monte_carlo",
]


def run(name: str, *options: str) -> str:
    """The last line that the pattern prints, in a process of its own."""
    path = Path(__file__).with_name(name + ".py")
    done = subprocess.run(
        [sys.executable, path, *options], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{path.name} failed:\n{done.stderr}")
    return done.stdout.splitlines()[-1]


def change(before: float, after: float, digits: int = 1) -> str:
    return f"{before:.{digits}f} -> {after:.{digits}f}"


def verdict(before: float, after: float) -> str:
    """Of the calls together, all traces included: what the cure gains at once. Later calls gain in any case."""
    if after < 0.9 * before:
        return f"gains {before / after:.1f}x"
    return "no gain" if after < 1.1 * before else f"costs {after / before:.1f}x"


print(
    f"{'':34}{'traces':>12}{'warm ms':>18}{'':>14}{'first ms':>18}{'':>14}{'heap KiB':>14}{'p99 us':>9}"
)
for name in patterns:
    row = json.loads(run(name, "--json"))
    (traces, ms, kib, _), (traces_after, ms_after, kib_after, p99) = row["before"], row["after"]
    first, first_after = (float(run(name, "--first", which)) for which in ("before", "after"))
    print(
        f"{row['title']:34}{f'{traces} -> {traces_after}':>12}"
        f"{change(ms, ms_after):>18}{verdict(ms, ms_after):>14}"
        f"{change(first, first_after):>18}{verdict(first, first_after):>14}"
        f"{change(kib, kib_after, 0):>14}{p99:9.1f}"
    )
print(
    "\nwarm: in a process that has traced before. first: the pattern's calls are the first that are traced."
)
