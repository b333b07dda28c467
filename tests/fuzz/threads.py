"""`tracehost -m fuzz.threads [--seconds N]`: eight threads that call, retrace, evict, save, load and report at once.

For the thread sanitizer (`scripts/test --sanitize=thread`), which sees races that a result does not show. Each call is
compared with what eager gives.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import torch
import tracehost

W = torch.ones(3)


@tracehost.function(limit=4)
def scaled(x, n):
    return x * n + W.sum()


@tracehost.function
def branch(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def step(chance: random.Random, file: Path) -> None:
    """One thing that a thread does."""
    kind, x = chance.randrange(12), torch.ones(chance.randrange(1, 6))
    if kind < 6:
        n = chance.randrange(3)
        assert torch.equal(scaled(x, n), x * n + 3)
    elif kind < 9:
        sign = chance.choice([1, -1])
        assert torch.equal(branch(x * sign), x * 2 if sign > 0 else -x - 1)
    elif kind == 9:
        tracehost.save(file, {"scaled": scaled, "branch": branch})
    elif kind == 10 and file.exists():
        loaded = tracehost.load(file)["branch"]
        assert not loaded.signatures or torch.equal(branch(x), x * 2)
    else:
        tracehost.events()
        tracehost.report()
        scaled.stats()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    end = time.monotonic() + parser.parse_args().seconds
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    scaled(torch.ones(1), 1), branch(torch.ones(1))
    done, failed = [0] * 8, []
    with tempfile.TemporaryDirectory() as folder:

        def work(number: int) -> None:
            chance = random.Random(number)
            try:
                while time.monotonic() < end:
                    step(chance, Path(folder) / f"net{number % 3}.pt")
                    done[number] += 1
            except BaseException as error:
                failed.append(f"thread {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"{sum(done)} steps of 8 threads", *failed, sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
