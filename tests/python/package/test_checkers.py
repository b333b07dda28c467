"""Decorated functions keep their types: mypy and pyright read data/typed.py without a complaint."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment

MISSING = [name for name in ("mypy", "basedpyright") if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"not installed: {', '.join(MISSING)}; `scripts/test --checkers` runs these tests with what they need",
)
TYPED = ROOT / "tests" / "python" / "data" / "typed.py"
BIN = Path(sys.prefix) / "bin"


def check(tmp_path, *command):
    done = subprocess.run(
        [*map(str, command)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mypy(tmp_path):
    options = ("--warn-unused-ignores", "--follow-imports=silent", "--cache-dir", tmp_path)
    python = BIN / "python"
    shown = check(tmp_path, python, "-m", "mypy", "--python-executable", python, *options, TYPED)
    assert shown == "Success: no issues found in 1 source file\n"


def test_pyright(tmp_path):
    """By basedpyright, which is pyright on PyPI, with pyright's own rules."""
    settings = {
        "include": [str(TYPED)],
        "typeCheckingMode": "standard",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    python = BIN / "python"
    shown = check(tmp_path, python, "-m", "basedpyright", "-p", tmp_path, "--pythonpath", python)
    assert shown == "0 errors, 0 warnings, 0 notes\n"
