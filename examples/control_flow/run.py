"""Runs every program of this folder in a process of its own, and prints one table: what a call costs in Python, as
a hit on the one staged graph, and if each path that data takes were a trace.

scripts/run examples/control_flow/run.py
"""

import json
import subprocess
import sys
from pathlib import Path

from measure import head, line

programs = [
    "newton",
    "bisection",
    "conjugate_gradient",
    "greedy_decoding",
    "adaptive_ode",
    "early_exit",
    "gradient_clipping",
    "k_means",
    "rnn",
    "monte_carlo",
]

print(head())
for name in programs:
    path = Path(__file__).with_name(name + ".py")
    done = subprocess.run(
        [sys.executable, path, "--json"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{path.name} failed:\n{done.stderr}")
    print(line(json.loads(done.stdout.splitlines()[-1])))
