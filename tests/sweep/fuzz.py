"""Random programs by hypothesis: none may differ silently from eager, and nine of ten are to be traced.

    cd tests && tracehost -m sweep.fuzz --count 2000 [--jobs N] [--seed 1]

A program that differs is made as small as it gets and printed; the exit status is 1.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

TESTS = Path(__file__).resolve().parents[1]
TRACED = 0.9


@st.composite
def programs(draw) -> str:
    from sweep.programs import program

    return program(lambda n: draw(st.integers(0, n - 1)))


def fuzz(count: int, first: int | None, folder: Path) -> collections.Counter:
    """Runs `count` programs, the same ones at each run where `first` is None; the states they came to."""
    from sweep.replay import replay

    states: collections.Counter = collections.Counter()

    @settings(
        max_examples=count,
        derandomize=first is None,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def each(source: str) -> None:
        file = folder / f"program_{sum(states.values())}.py"
        file.write_text(source)  # what is left of one that crashes
        result = replay(source, file)
        states[result.state] += 1
        assert result.state != "different", f"{result.text}\n\n{source}"

    (each if first is None else seed(first)(each))()
    return states


def summary(states: collections.Counter) -> tuple[str, bool]:
    """A line, and whether it is good."""
    valid = states["equal"] + states["rejected"]
    share = states["equal"] / max(valid, 1)
    line = f"{valid} programs: {states['equal']} traced and equal ({share:.1%}), {states['rejected']} rejected"
    return f"{line}, {states['invalid']} that eager rejects", share >= TRACED


def main() -> int:
    parser = argparse.ArgumentParser(prog="sweep.fuzz")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.count, options.seed)
    start = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "sweep.fuzz",
        "--worker",
        "--count",
        str(options.count // options.jobs),
    ]
    running = [
        subprocess.Popen(
            [*command, "--seed", str(options.seed + i)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(options.jobs)
    ]
    outputs = [p.communicate()[0] for p in running]
    states = collections.Counter()
    for process, output in zip(running, outputs):
        if process.returncode:
            print(f"{output}\nfuzz: a process ended with {process.returncode}")
            return 1
        states.update(json.loads(output.splitlines()[-1]))
    line, good = summary(states)
    print(f"{line}, in {time.monotonic() - start:.0f} s", flush=True)
    return 0 if good else 1


def work(count: int, first: int) -> int:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="tracehost-fuzz-"))
    print(json.dumps(fuzz(count, first, folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
