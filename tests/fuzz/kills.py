"""`tracehost -m fuzz.kills [--count N] [--seed S]`: saves that are killed, each followed by a save of the same process number.

A container's program has the same number at each start. So what a killed save left would be in the way of the next one, if
its name had the number alone. A child saves again and again and is killed at a random moment. Its follower saves once, with
the same number where the kernel lets that be chosen (root, /proc/sys/kernel/ns_last_pid). Then the file must load, and
nothing else may lie in the folder.
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tracehost


def child(work: Callable[[], None], number: int) -> int:
    """Its process number: `number`, if the kernel can be asked for it."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(number - 1))
    made = os.fork()
    if made == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(1)
    return made


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    weights = torch.arange(500_000, dtype=torch.float32)
    scaled = tracehost.function(lambda x: x * weights)
    expected = scaled(torch.full((), 2.0))
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.pt"
        started = time.perf_counter()
        tracehost.save(file, {"scaled": scaled})
        takes = time.perf_counter() - started

        def save_again_and_again() -> None:
            while True:
                tracehost.save(file, {"scaled": scaled})

        killed = same = 0
        for _ in range(options.count):
            first = child(save_again_and_again, os.getpid() + 10_000)
            time.sleep(chance.uniform(0, 3 * takes))
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            killed += len(os.listdir(folder)) > 1
            second = child(lambda: tracehost.save(file, {"scaled": scaled}), first)
            same += first == second
            status = os.waitpid(second, 0)[1]
            left = sorted(os.listdir(folder))
            if status != 0 or left != [file.name]:
                print(f"seed {options.seed}: status {status}, left {left}")
                return 1
            if not torch.equal(tracehost.load(file)["scaled"](torch.full((), 2.0)), expected):
                print(f"seed {options.seed}: another value")
                return 1
    print(
        f"{options.count} kills, {killed} within a file, {same} followers with the same number: all saved"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
