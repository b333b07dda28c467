"""Runs benchmarks and prints a table. Called by scripts/bench."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from harness import Report, header, line, machine

PARTS = {  # name: module, and what it measures
    "core": ("core", "calls, further arguments, signatures, traces"),
    "forms": (
        "forms",
        "ways to write a call: keywords, defaults, methods, containers, declared sizes",
    ),
    "instructions": ("instructions", "the host's share of a call, counted by callgrind"),
    "import": ("startup", "import tracehost, start of the host"),
    "traces": (
        "traces",
        "plain traces, of declared sizes, of branches, from specs, first and warm, beside others",
    ),
    "settled": (
        "settled",
        "settled calls of seven graphs, with tapes too, against torch.jit.trace and eager",
    ),
    "compile": (
        "compiled",
        "the same graphs and steps against torch.compile, with the time to the first result",
    ),
    "counters": ("counters", "numbers that objects hold, two graphs that serve in turn"),
    "autograph": ("autograph", "conversion of a function, choice of a callee"),
    "control_flow": ("control_flow", "staging of an if and of loops, long loops, the first one"),
    "training": ("training", "a whole training step, eager and in one Function"),
    "memory": ("memory", "memory over 1,000 retraces"),
}


def versions() -> dict[str, str]:
    import torch
    import tracehost

    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "tracehost": tracehost.__version__,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench")
    known = "; ".join(f"{name}: {what}" for name, (_, what) in PARTS.items())
    parser.add_argument("part", nargs="*", help=f"{known}; all (default: core)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a budget is passed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument(
        "--repeats", type=int, default=20, help="take the best of so many (default 20)"
    )
    options = parser.parse_args()
    parts = list(PARTS) if "all" in options.part else options.part or ["core"]
    for part in parts:
        if part not in PARTS:
            parser.error(f"no part {part!r}; there are {', '.join(PARTS)}, cpp and all")

    report = Report()
    about = versions()
    print(", ".join(f"{name} {version}" for name, version in about.items()), "on", machine())
    print(header())
    for part in parts:
        print(part)
        importlib.import_module(PARTS[part][0]).run(report, options.repeats)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        report.save(options.json, about)
    over = report.over()
    for row in over:
        print("over budget:", line(row))
    return 1 if over and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
