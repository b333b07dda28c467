"""The scenarios recorded on tf.function, and the control-flow cases; they lie beside the repository."""

import importlib
import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT

FOLDER = ROOT.parent / "shared" / "conformance"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no {FOLDER}")


def cases():
    if not FOLDER.is_dir():
        return []
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("control_flow_cases").CASES
    finally:
        sys.path.remove(str(FOLDER))


def signatures(inputs):
    """How many of the inputs differ in more than values: each is a trace of its own."""
    return len(
        {tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in i) for i in inputs}
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_control_flow(case, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    run_case = importlib.import_module("control_flow_run").run_case
    _name, function, inputs, expect, _options = case
    allowed = f"{signatures(inputs)} traces, wanted 1"
    problems = [p for p in run_case(function, inputs, expect) if not p.endswith(allowed)]
    assert not problems


def test_scenarios():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / "run.py"), "-q"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", last), done.stdout[-4000:]
