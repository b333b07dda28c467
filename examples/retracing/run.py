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

print(f"{'':34}{'traces':>12}{'ms':>18}{'heap KiB':>16}{'p99 us':>9}")
for name in patterns:
    path = Path(__file__).with_name(name + ".py")
    done = subprocess.run(
        [sys.executable, path, "--json"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{path.name} failed:\n{done.stderr}")
    row = json.loads(done.stdout.splitlines()[-1])
    (traces, ms, kib, _), (traces_after, ms_after, kib_after, p99) = row["before"], row["after"]
    print(
        f"{row['title']:34}{f'{traces} -> {traces_after}':>12}{f'{ms:.1f} -> {ms_after:.1f}':>18}"
        f"{f'{kib:.0f} -> {kib_after:.0f}':>16}{p99:9.1f}"
    )
