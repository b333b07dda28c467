"""scripts/device on the simulated CUDA runtime: what it will do on a machine with a GPU, as far as that goes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import standin

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["chain-100", "mlp", "transformer-block", "decode-step", "training-step"]
RUNNERS = ["eager", "tracehost-off", "tracehost-exact", "graphed-callables", "raw-graph"]

pytestmark = pytest.mark.skipif(
    standin.lazy or shutil.which("bash") is None, reason="once is enough"
)


def device(tmp_path, *parts, minutes=9, **environment):
    test = tmp_path / "test_one.py"
    if not test.exists():
        test.write_text("import torch\n\n\ndef test_it():\n    assert torch.cuda.is_available()\n")
    given = {
        "SIMULATED": "1",
        "RESULT": str(tmp_path / "result.json"),
        "MINUTES": str(minutes),
        "TESTS": str(test),
        "CPP_TESTS": "Captures.*",
        "BENCH": "--calls 4 --programs mlp --runners eager",
        **environment,
    }
    ran = subprocess.run(
        ["bash", ROOT / "scripts" / "device", *parts],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=280,
    )
    result = tmp_path / "result.json"
    return ran, json.loads(result.read_text()) if result.exists() else None


def test_all_parts(tmp_path):
    ran, result = device(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert result["parts"] == {"build": "passed", "test": "passed", "bench": "passed"}
    assert result["simulated"] and result["devices"][0]["name"] == "Simulated GPU 0"
    assert result["tests"].endswith(" passed, 0 failed, 0 skipped")
    assert int(result["tests"].split()[0]) > 20
    assert [(one["program"], one["runner"]) for one in result["bench"]] == [("mlp", "eager")]


def test_a_part_that_was_cut_off_is_continued(tmp_path):
    ran, result = device(tmp_path, "test", "bench", minutes=0)
    assert ran.returncode == 75, ran.stdout + ran.stderr
    assert result["parts"] == {"test": "cut off", "bench": "cut off"}
    ran, result = device(tmp_path, "bench")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert result["parts"] == {"test": "cut off", "bench": "passed"}
    ran, result = device(
        tmp_path, "bench", BENCH="--calls 4 --programs mlp --runners eager raw-graph"
    )
    assert [one["runner"] for one in result["bench"]] == ["eager", "raw-graph"]


def test_a_skip_for_want_of_a_gpu_fails(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n\ndef test_it():\n    pytest.skip('this machine has no GPU')\n"
    )
    ran, result = device(tmp_path, "test")
    assert ran.returncode == 1
    assert "skipped because they found no GPU" in ran.stderr
    assert result["parts"] == {"test": "failed"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_by_each_runner(tmp_path, program):
    out = tmp_path / "figures.jsonl"
    command = [Path(sys.prefix) / "bin" / "tracehost", ROOT / "tests" / "bench" / "device.py"]
    options = ["--out", out, "--calls", "4", "--programs", program, "--runners", *RUNNERS]
    ran = subprocess.run([*command, *options], capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = [json.loads(one) for one in out.read_text().splitlines()]
    assert not [one for one in figures if "error" in one]
    by_runner = {one["runner"]: one for one in figures}
    assert by_runner["tracehost-exact"]["runs_by"].startswith("a CUDA graph (")
    assert by_runner["tracehost-off"]["syncs"] == by_runner["eager"]["syncs"] == 0
    assert by_runner["tracehost-exact"]["syncs"] == 0
