"""Plants faults in the production code, and asks whether tests notice: `cd tests && tracehost -m mutants [NAME...]`.

Each .toml file of this folder lists faults: devices.toml those of CUDA devices, production.toml those of the rest of the
production code. A fault is one change of one file:

    [[mutant]]
    name = "row 3, a hit keeps the GIL while it waits"
    file = "host/cache/specialization.cpp"
    old = " || is_on_device(signature);"    # occurs once in the file
    new = ";"
    tests = ["tests/python/trace/test_device_order.py::test_a_hit_does_not_hold_the_gil_while_it_waits"]
    on = "simulated"                        # optional

`tests`: one of them must fail. They are pytest's names. `cpp:` with a filter of GoogleTest names C++ tests, and `cli:`
those of the binary's options. `on`: `simulated` is the simulated CUDA runtime (tests/standin), `lazy` the same with lazy
streams and protected memory, and the default `cpu` none of them.

Each fault is built into the build tree and the environment of this Python, tested, and undone. So run it in a clone of its
own. The exit status is 1 if a fault survives. tests/python/package/test_mutants.py checks that each can still be made.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mutants.faults import Mutant, all_mutants

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["tracehost_core", "tracehost_module"]  # what Python's tests load
OF_THE_BINARY = ("host/cli/", "host/interpreter/")
CPP_TESTS = {"cpp": "tracehost_tests", "cli": "tracehost_cli_tests"}
NOT_RUN = (2, 3, 4, 5)  # of pytest: interrupted, its own error, wrong options, no tests
SIMULATED = {
    "cpu": {},
    "simulated": {"STANDIN_LAZY": "0"},
    "lazy": {"STANDIN_LAZY": "1", "STANDIN_PROTECT": "1"},
}


class Runner:
    def __init__(self, build: Path):
        self.build = build
        self.host = Path(sys.prefix) / "bin" / "tracehost"
        self.built: dict[str, None] = {}  # with a fault, and then again without

    def make(self, targets: list[str]) -> bool:
        self.built |= dict.fromkeys(targets)
        jobs = os.environ.get("TRACEHOST_JOBS", "2")
        built = run("cmake", "--build", self.build, "-j", jobs, "--target", *self.built)
        if built.status != 0:
            return False
        # CMake takes a file of the same second for the one that is installed.
        install = ["cmake", "--install", self.build, "--prefix", sys.prefix]
        return run(*install, CMAKE_INSTALL_ALWAYS="1").status == 0

    def targets(self, mutant: Mutant) -> list[str]:
        plugin = ["tracehost_cuda"] if "/cuda/" in mutant.file else []
        binary = ["tracehost_binary"] if mutant.file.startswith(OF_THE_BINARY) else []
        cpp = [CPP_TESTS[kind] for test in mutant.tests if (kind := test[:3]) in CPP_TESTS]
        return [*TARGETS, *plugin, *binary, *cpp]

    def first_failure(self, test: str, on: str) -> str | None:
        """The name of the test that fails first."""
        kind, _, name = test.partition(":")
        if kind in CPP_TESTS:
            ran = run(self.build / CPP_TESTS[kind], f"--gtest_filter={name}")
            return test if ran.status else None
        environment = {"OMP_NUM_THREADS": "1", "TRACEHOST_BUILD": str(self.build), **SIMULATED[on]}
        if on != "cpu":
            environment["PYTHONPATH"] = str(ROOT / "tests" / "standin")
            environment["STANDIN_LIBRARIES"] = str(self.build / "standin")
        plugin = [] if on == "cpu" else ["-p", "standin"]
        pytest = ["-m", "pytest", "-q", "-x", "-rfE", *plugin, "-p", "no:cacheprovider", test]
        ran = run(self.host, *pytest, **environment)
        if ran.status in NOT_RUN:
            raise SystemExit(f"mutants: pytest ends with {ran.status}, and has not run {test}")
        if ran.status == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.output, re.MULTILINE)
        return failed[1] if failed else f"{test}, whose process ends with {ran.status}"

    def outcome(self, mutant: Mutant) -> str:
        """`killed by TEST`, `SURVIVES`, or `does not compile`."""
        file = ROOT / mutant.file
        source = file.read_text()
        try:
            file.write_text(mutant.applied(source))
            if not self.make(self.targets(mutant)):
                return "does not compile"
            for test in mutant.tests:
                if failed := self.first_failure(test, mutant.on):
                    return f"killed by {failed}"
            return "SURVIVES"
        finally:
            file.write_text(source)


@dataclass(frozen=True)
class Ran:
    status: int
    output: str


def run(*command: object, **environment: str) -> Ran:
    """The status is 124 where it takes ten minutes, as a deadlock does."""
    try:
        ran = subprocess.run(
            [str(one) for one in command],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=600,
        )
    except subprocess.TimeoutExpired:
        return Ran(124, "")
    return Ran(ran.returncode, ran.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("names", nargs="*", help="regular expressions; all mutants by default")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--list", action="store_true", help="names and tests only")
    options = parser.parse_args()
    chosen = [
        mutant
        for mutant in all_mutants()
        if not options.names or any(re.search(name, mutant.name) for name in options.names)
    ]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}: {', '.join(mutant.tests)}")
        return 0
    runner, killed = Runner(options.build), 0
    for mutant in chosen:
        began = time.monotonic()
        outcome = runner.outcome(mutant)
        killed += outcome.startswith("killed")
        print(f"{mutant.name}: {outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    restored = runner.make(TARGETS)
    print(f"{killed} of {len(chosen)} killed")
    return 0 if restored and killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
