"""Programs as public repositories have them, run as they are: output as in plain Python, and the report."""

import re
import subprocess
from pathlib import Path

from conftest import HOST, PYTHON, clean_environment

PROGRAMS = Path(__file__).parent / "programs"


def rows(report: str) -> dict[str, tuple[int, int, int]]:
    """By function: calls, hits, traces of the report's table."""
    found = re.findall(r"^(\S+) \(\S+:\d+\) +(\d+) +(\d+) +(\d+) ", report, re.MULTILINE)
    return {name: tuple(map(int, counts)) for name, *counts in found}


def as_plain(tmp_path, program, *options, env=None):
    """Runs a program in plain Python and intercepted; the report and stderr of the latter."""
    outputs = {}
    for who in ("plain", "intercepted"):
        folder = tmp_path / who
        folder.mkdir()
        command = [PYTHON] if who == "plain" else [HOST, *options, "--report=report.txt"]
        done = subprocess.run(
            [*command, "-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning", PROGRAMS / program],
            cwd=folder, env=clean_environment(**(env or {})), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs[who] = done
    assert outputs["intercepted"].stdout == outputs["plain"].stdout != ""
    return (tmp_path / "intercepted" / "report.txt").read_text(), outputs["intercepted"].stderr


def test_a_language_model_trained_under_torch_compile(tmp_path):
    report, stderr = as_plain(
        tmp_path,
        "language_model.py",
        "--intercept",
        "torch.compile",
        env={"TORCHDYNAMO_DISABLE": "1"},
    )
    assert (
        stderr
        == "tracehost: torch.compile at language_model.py:101: mode has no meaning for tracehost, and is left out\n"
    )
    assert rows(report) == {"GPT": (22, 20, 2), "grad_norm": (20, 19, 1)}
    assert "grad mode" in report


def test_a_deployment_by_torch_jit_trace(tmp_path):
    report, stderr = as_plain(tmp_path, "deploy.py", "--intercept", "torch.jit.trace")
    assert stderr == ""
    assert rows(report) == {"Classifier": (4, 1, 3), "Classifier.save": (10, 0, 4)}


def test_an_evaluation_that_is_not_decorated(tmp_path):
    report, stderr = as_plain(
        tmp_path, "evaluate.py", "--trace", "__main__:batch_metrics,reduce_retracing"
    )
    assert stderr == ""
    assert rows(report) == {"batch_metrics": (12, 10, 2)}
    assert "'inputs' dimension 0" in report
