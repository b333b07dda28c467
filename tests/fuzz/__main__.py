"""Mutants of archives, loaded, inspected and called by processes that may die: none does.

    cd tests && tracehost -m fuzz --seconds 60 [--seed 1] [--keep FOLDER]
    cd tests && tracehost -m fuzz --seed 1 --only 1234 [--keep FOLDER]

A mutant is made again from its seed and number. What is found is printed, its file is kept; the exit status is 1.
At a load and an inspection these count: a crash, an endless loop, and memory beyond what docs/guides/archives.md says. So does
an exception that is no ArchiveError, Python that runs, and a file that is written. At a call they are counted apart,
as a call computes what the file says.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .corpus import archives
from .mutate import mutant

TESTS = Path(__file__).resolve().parents[1]
AT_A_TIME = 2000  # a process
LONGEST = {"load": 30.0, "inspect": 30.0, "call": 5.0}  # seconds


class Fuzzer:
    def __init__(self, seed: int, keep: Path, corpus: Path) -> None:
        self.seed, self.keep, self.folder = seed, keep, corpus
        self.files = [path.read_bytes() for path in sorted(corpus.glob("*.pt"))]
        self.counts: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.findings: list[str] = []
        self.at_call: list[str] = []

    def run(self, first: int, end: int, until: float) -> int:
        """From `first` on, in one process; the number of the mutant that is next."""
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.victim", str(self.seed), str(first), str(end), folder, str(self.folder)],
                cwd=TESTS, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            number, step, why = self.watch(process, first, until)
            process.kill()
            code = process.wait()
            process.stdout.close()  # type: ignore[union-attr]
            errors = Path(folder) / "errors.txt"
            last = errors.read_text(errors="replace").strip()[-600:] if errors.exists() else ""
        if why == "late":
            return number + 1
        if step == "start":
            raise SystemExit(f"the process ends before its first mutant: {why} {last}")
        if step == "end":
            return end
        if why != "time":
            why = f"died, {signal.Signals(-code).name if code < 0 else f'exit {code}'} {last}"
        elif step == "call":  # an endless loop is what the file says
            self.counts["endless calls"] += 1
            return number + 1
        else:
            why = f"does not end in {LONGEST[step]:.0f} s"
        self.found(number, step, why)
        return number + 1

    def watch(
        self, process: subprocess.Popen[bytes], first: int, until: float
    ) -> tuple[int, str, str]:
        """The last mutant, what was done with it, and why that is the last: `died`, `time`, `late`."""
        number, step, rest = first, "start", b""
        out = process.stdout
        assert out is not None
        patience = 600.0  # to start, on a busy machine
        while True:
            ready, _, _ = select.select([out], [], [], patience)
            if not ready:
                return number, step, "time"
            more = os.read(out.fileno(), 1 << 16)
            if not more:
                return number, step, "died"
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                words = line.decode(errors="replace").split(" ")
                if words[1] == "finding":
                    self.found(int(words[0]), words[2], " ".join(words[3:]))
                    continue
                number, step = int(words[0]), words[1]
                patience = LONGEST.get(step, 30.0)
                self.counts[step] += step != "end"
                if step == "load":
                    self.kinds[words[2]] += 1
                    if time.monotonic() > until:
                        return number, step, "late"
                if step == "end":
                    return number, step, "end"

    def found(self, number: int, step: str, what: str) -> None:
        text = f"seed {self.seed}, number {number}, {mutant(self.seed, number, self.files)[0]}: {step}: {what}"
        print(text, flush=True)
        (self.at_call if step == "call" else self.findings).append(text)
        self.keep.mkdir(parents=True, exist_ok=True)
        (self.keep / f"{self.seed}_{number}.pt").write_bytes(
            mutant(self.seed, number, self.files)[1]
        )

    def summary(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.counts['load']:,} files ({kinds}): {self.counts['inspect']:,} loaded, {self.counts['good']:,} called, "
            f"{self.counts['endless calls']} calls without an end, {len(self.at_call)} findings at calls, "
            f"{len(self.findings)} findings"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, default=2**62)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.only is not None:
        options.first, options.count = options.only, 1
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder)
        for number, content in enumerate(archives()):
            (corpus / f"{number:03}.pt").write_bytes(content)
        fuzzer = Fuzzer(seed, options.keep.absolute(), corpus)
        number, end = options.first, options.first + options.count
        until = time.monotonic() + options.seconds
        while number < end and time.monotonic() < until:
            number = fuzzer.run(number, min(end, number + AT_A_TIME), until)
    print(f"seed {seed}: {fuzzer.summary()}")
    return bool(fuzzer.findings)


if __name__ == "__main__":
    sys.exit(main())
