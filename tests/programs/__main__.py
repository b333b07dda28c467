"""Runs the rows, each in a process of its own with a time limit, and writes the page.

    cd tests && tracehost -m programs [--only REGEX] [--seconds 120] [--json FILE] [--resume] [--page FILE]
    cd tests && tracehost -m programs --debug ROW     # its traceback

The exit status is 1 if a row is silently wrong or crashes.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import re
import sys
from pathlib import Path

# Models have random weights: nothing is fetched. Threads of PyTorch's would not survive in the process of a row.
os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
FORK = multiprocessing.get_context("fork")

from programs import one  # noqa: E402
from programs.page import write_page  # noqa: E402
from programs.rows import ROWS  # noqa: E402


def main() -> int:
    options = parsed()
    if options.debug:
        return one.debug(options.debug)
    wanted = [name for name in ROWS if re.search(options.only, name)]
    results = {}
    if options.resume and options.json.exists():
        results = {line["row"]: line for line in map(json.loads, options.json.open())}
    with options.json.open("a" if options.resume else "w") as output:
        for name in wanted:
            if name in results:
                continue
            results[name] = in_a_process(name, options.seconds)
            output.write(json.dumps(results[name]) + "\n")
            output.flush()
            print(summary(results[name]), flush=True)
    if options.page:
        write_page(options.page, [results[name] for name in ROWS if name in results])
    bad = [r for r in results.values() if r["outcome"] in ("silently wrong", "crash")]
    print(f"{len(results) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="programs")
    parser.add_argument("--only", default="", help="rows whose name matches")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of a row")
    parser.add_argument(
        "--json", type=Path, default=Path("models.jsonl"), help="a line for each row"
    )
    parser.add_argument("--resume", action="store_true", help="go on after the rows in --json")
    parser.add_argument("--page", type=Path, help="the page to write")
    parser.add_argument("--debug", help="one row, with its traceback")
    return parser.parse_args()


def in_a_process(name: str, seconds: int) -> dict:
    """Packages are imported here, once; the process of a row has them from the start."""
    importlib.import_module(name.split("/")[0])
    reader, writer = FORK.Pipe(duplex=False)
    process = FORK.Process(target=lambda: writer.send(one.run(name)))
    process.start()
    writer.close()
    try:
        return (
            reader.recv() if reader.poll(seconds) else failed(name, f"no result after {seconds} s")
        )
    except EOFError:
        process.join()
        return failed(name, f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def failed(name: str, text: str) -> dict:
    return {"row": name, "outcome": "crash", "text": text, "line": "", "traces": 0, "ratio": 0.0, "why": "", "warned": [], "runs_by": []}  # fmt: skip


def summary(result: dict) -> str:
    shown = f"{result['outcome']:15} {result['row']}: {result['traces']} traces, {result['ratio']}"
    return f"{shown} {result['text']} {result['line']}".rstrip()


sys.exit(main())
