"""Sweeps the operator database in several processes; each that dies or hangs costs its op, not the run.

    cd tests && tracehost -m sweep [--jobs N] [--only REGEX] [--sample] [--seconds 120] [--json FILE] [--resume]
                                   [--device cuda]

With TRACEHOST_OPTIMIZE=exact each op is called often enough that a kernel tape serves, without gradients.

The exit status is 1 if an op differs from eager, crashes or hangs, or if `rejected.toml` is not exact. It is 1
too if less than 97 % of the pairs are equal in all their calls.
"""

import argparse
import contextlib
import faulthandler
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

ENOUGH = 0.97
SAMPLE = Path(__file__).with_name("sample.txt")
TESTS = Path(__file__).resolve().parents[1]


def main() -> int:
    options = parsed()
    os.environ["SWEEP_DEVICE"] = options.device
    if options.worker:
        return work(options.seconds)
    from sweep.check import Verdict
    from sweep.operators import all_pairs
    from sweep.rejections import disagreements

    start = time.monotonic()
    pairs = SAMPLE.read_text().split("\n")[:-1] if options.sample else [str(p) for p in all_pairs()]
    pairs = [p for p in pairs if re.search(options.only, p)]
    lines = earlier(options.json) if options.resume else []
    done = {f"{v['op']} {v['dtype']}" for v in lines}
    rest = [p for p in pairs if p not in done]
    output = options.json.open("a" if options.resume else "w") if options.json else None
    shares = [rest[i :: options.jobs] for i in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for share in pool.map(lambda s: sweep(s, options.seconds, output), shares):
            lines += share
    verdicts = [Verdict(**v) for v in lines]
    problems = [f"{v.op} {v.dtype}: {v.text}" for v in verdicts if v.state == "different"]
    problems += disagreements(verdicts)
    return summary(verdicts, problems, time.monotonic() - start)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sweep")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="pairs whose `op dtype` matches, such as '^fft'")
    parser.add_argument("--sample", action="store_true", help="only those of sample.txt")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of an op and dtype")
    parser.add_argument("--json", type=Path, help="a line for each pair")
    parser.add_argument("--resume", action="store_true", help="go on after the pairs in --json")
    parser.add_argument("--device", default=os.environ.get("SWEEP_DEVICE", "cpu"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def earlier(file: Path | None) -> list[dict]:
    return (
        [json.loads(line) for line in file.read_text().splitlines()]
        if file and file.exists()
        else []
    )


def summary(verdicts: list, problems: list[str], seconds: float) -> int:
    for problem in problems:
        print(f"sweep: {problem}")
    equal = sum(v.state == "equal" for v in verdicts)
    rejected = sum(v.state == "rejected" for v in verdicts)
    share = equal / max(len(verdicts), 1)
    if share < ENOUGH and len(verdicts) > 100:
        problems.append("too few")
    print(
        f"{len(verdicts)} ops and dtypes: {equal} equal ({share:.1%}), {rejected} rejected, "
        f"{len(verdicts) - equal - rejected} different; {sum(v.calls for v in verdicts)} calls "
        f"in {seconds:.0f} s; {len(problems)} problems",
        flush=True,
    )
    return 1 if problems or not verdicts else 0


def sweep(pairs: list[str], seconds: int, output) -> list[dict]:
    """Runs the pairs in a worker, and in another one what is left when that ends early."""
    verdicts = []
    while pairs:
        part, under_way = worker(pairs, seconds, output)
        verdicts += part
        pairs = pairs[len(part) :]
        if pairs and under_way != pairs[0]:
            raise SystemExit(f"sweep: a worker ended before {pairs[0]}")
        if pairs:
            op, dtype = pairs.pop(0).split()
            text = f"crashed, or ran past {seconds} s"
            verdicts.append({"op": op, "dtype": dtype, "state": "different", "text": text})
    return verdicts


def worker(pairs: list[str], seconds: int, output) -> tuple[list[dict], str]:
    command = [sys.executable, "-m", "sweep", "--worker", "--seconds", str(seconds)]
    verdicts, under_way = [], ""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        process.stdin.write("\n".join(pairs))
        process.stdin.close()
        for line in process.stdout:
            if line.startswith("begin "):
                under_way = line.split(" ", 1)[1].strip()
            elif line.startswith("{"):
                verdicts.append(json.loads(line))
                if output:
                    print(line, end="", file=output, flush=True)
        if process.wait():
            errors.seek(0)
            print(errors.read()[-4000:], file=sys.stderr)
    return verdicts, under_way


def work(seconds: int) -> int:
    """One process: pairs on stdin, a line before each and its verdict after it on stdout."""
    if os.environ["SWEEP_DEVICE"] != "cpu":
        with contextlib.suppress(ImportError):
            importlib.import_module("standin")  # where PYTHONPATH has it; before torch
    import torch

    from sweep.check import check
    from sweep.operators import Pair

    torch.set_num_threads(1)
    for line in sys.stdin.read().splitlines():
        print("begin", line, flush=True)
        faulthandler.dump_traceback_later(seconds, exit=True)
        print(json.dumps(asdict(check(Pair.from_text(line)))), flush=True)
        faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
