"""Mutants of what CUDA devices need, each with the test that fails for it: `python tests/standin/mutants.py [NAME...]`.

A mutant is one change of the source. This builds it, runs its test on the simulated runtime, and undoes it. A test that
passes means that nothing would notice the fault. `--list` prints the mutants. tests/standin/test_mutants.py checks
that each can still be made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = "tests/python/trace"
CAPTURED = f"{TRACE}/test_cuda_graph_surroundings.py"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    test: str  # of pytest, or `cpp:` and a filter of GoogleTest
    lazy: bool = False  # on lazy streams
    simulated: bool = True  # on the simulated runtime


MUTANTS = [
    Mutant(
        "1: a device has no index",
        "host/shapes/device.cpp",
        "if (device.has_index() || ",
        "if (true || device.has_index() || ",
        f"{TRACE}/test_device_order.py::test_a_device_without_an_index_in_a_loop_and_a_branch",
    ),
    Mutant(
        "2: calls that order work are dropped",
        "bindings/src/observe/reads_outside.cpp",
        "if (!printing() && is_users_device_call(shown))",
        "if (false)",
        f"{TRACE}/test_device_order.py::test_a_call_that_orders_work_is_made_by_each_call",
    ),
    Mutant(
        "3: a hit keeps the GIL while it waits",
        "host/cache/specialization.cpp",
        " || is_on_device(signature);",
        ";",
        f"{TRACE}/test_device_order.py::test_a_hit_does_not_hold_the_gil_while_it_waits",
    ),
    Mutant(
        "4: copies for validation end the call",
        "host/validate/originals.cpp",
        'give_up("not enough memory");',
        "throw;",
        f"{TRACE}/test_device_checks.py::test_copies_for_a_check_do_not_run_the_call_out_of_memory",
    ),
    Mutant(
        "5: a miss in a capture is traced",
        "bindings/src/call/plain_calls.cpp",
        "if (is_capturing())",
        "if (false)",
        f"{TRACE}/test_device_order.py::test_a_miss_in_a_capture_runs_the_body",
    ),
    Mutant(
        "5: a miss breaks a capture of another thread",
        "host/validate/check.cpp",
        "quiet(any_on_cuda(originals))",
        "quiet(false)",
        f"{CAPTURED}::test_a_trace_does_not_break_a_capture_of_another_thread",
    ),
    Mutant(
        "7: flags of cuDNN are constants",
        "host/program/device_flags.cpp",
        "    drop_flags(node);",
        "    ;",
        f"{TRACE}/test_device_order.py::test_flags_of_cudnn_are_read_at_each_run",
    ),
    Mutant(
        "8: a copy waits on a hit",
        "host/trace/scope.cpp",
        "under_way_[depth].non_blocking)",
        "false)",
        f"{TRACE}/test_device_order.py::test_a_copy_that_does_not_wait_is_recorded_so",
    ),
    Mutant(
        "9: a factory wants a driver in a trace from specs",
        "bindings/src/hooks/fake_tensors.cpp",
        "is_missing_(!at::hasCUDA())",
        "is_missing_(false)",
        f"{TRACE}/test_device_checks.py::test_specs_of_a_device_where_there_is_no_driver",
        simulated=False,
    ),
    Mutant(
        "10: an input on the CPU forbids another device",
        "host/archive/read.cpp",
        "meta.device != move.from && !meta.device.is_cpu()",
        "meta.device != move.from",
        "tests/python/archive/test_archive_devices.py",
    ),
    Mutant(
        "11: atomic additions make a graph wrong",
        "host/validate/check.cpp",
        "if (node && is_near(first))",
        "if (false)",
        f"{TRACE}/test_device_checks.py::test_a_kernel_that_adds_in_any_order_is_not_judged_wrong",
    ),
    Mutant(
        "12: any dtype is compared by at::equal",
        "host/validate/compare.cpp",
        "return at::equal(bytes(a), bytes(b));",
        "return at::equal(a, b);",
        f"{TRACE}/test_device_order.py::test_validation_compares_any_dtype",
    ),
    Mutant(
        "the stream of captures does not wait for the caller's",
        "host/capture/entry.cpp",
        "  device_.wait(side, caller);\n  {",
        "  {",
        "cpp:Captures.TwoWarmRunsThenACaptureThenReplays",
    ),
    Mutant(
        "the caller does not wait for a warm run",
        "host/capture/entry.cpp",
        "~Joined() { device.wait(caller, side); }",
        "~Joined() {}",
        "cpp:Captures.TwoWarmRunsThenACaptureThenReplays",
    ),
    Mutant(
        "a replay does not wait for the last one",
        "host/capture/captured_calls.cpp",
        "if (pool_->last && caller != *pool_->last)",
        "if (false)",
        f"{CAPTURED}::test_sizes_of_one_function_on_two_streams",
        lazy=True,
    ),
    Mutant(
        "memory is freed before the last replay has run",
        "host/capture/entry.cpp",
        "if (last_ != home_ && captured_)",
        "if (false)",
        "cpp:Captures.AnotherStreamWaitsForTheLastReplay",
    ),
    Mutant(
        "the first replay is not undone",
        "host/capture/captured_calls.cpp",
        "  before.undo(given);",
        "",
        f"{TRACE}/test_cuda_graphs.py::test_twenty_calls_give_what_eager_gives",
    ),
    Mutant(
        "results are not copied out of the pool",
        "host/capture/results.cpp",
        "stack.emplace_back(make(result, memory, given));",
        "stack.emplace_back(result.value);",
        f"{TRACE}/test_cuda_graph_programs.py",
    ),
    Mutant(
        "the comparison breaks captures of other threads",
        "host/capture/captured_calls.cpp",
        "  const Unbreaking waits(device_);\n",
        "",
        f"{CAPTURED}::test_a_capture_of_another_thread_is_not_broken",
    ),
]


def run(*command: object, **environment: str) -> int:
    log = subprocess.DEVNULL
    return subprocess.run(
        [str(one) for one in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=log,
        stderr=log,
    ).returncode


def is_killed(mutant: Mutant, build: Path) -> bool:
    if run("cmake", "--build", build, "-j", os.environ.get("TRACEHOST_JOBS", "2")) != 0:
        raise SystemExit(f"{mutant.name}: it does not compile")
    if mutant.test.startswith("cpp:"):
        return run(build / "tracehost_tests", f"--gtest_filter={mutant.test[4:]}") != 0
    run("cmake", "--install", build, "--prefix", sys.prefix)
    host = Path(sys.prefix) / "bin" / "tracehost"
    simulated = ["-p", "standin"] if mutant.simulated else []
    environment = {
        "PYTHONPATH": str(ROOT / "tests" / "standin"),
        "STANDIN_LIBRARIES": str(build / "standin"),
        "STANDIN_LAZY": "1" if mutant.lazy else "0",
        "OMP_NUM_THREADS": "1",
    }
    tests = ["-m", "pytest", "-q", "-x", *simulated, "-p", "no:cacheprovider", mutant.test]
    return run(host, *tests, **environment) != 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants.py")
    parser.add_argument("names", nargs="*", help="mutants whose names contain one; all by default")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    survivors = 0
    for mutant in MUTANTS:
        if options.names and not any(name in mutant.name for name in options.names):
            continue
        if options.list:
            print(f"{mutant.name}: {mutant.test}")
            continue
        file = ROOT / mutant.file
        source = file.read_text()
        try:
            file.write_text(source.replace(mutant.old, mutant.new, 1))
            killed = is_killed(mutant, options.build)
        finally:
            file.write_text(source)
        survivors += not killed
        print(f"{'killed' if killed else 'SURVIVES'}: {mutant.name} by {mutant.test}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
