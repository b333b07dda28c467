"""The examples run, and say what they claim. They assert their claims themselves."""

import re

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    import subprocess

    from conftest import HOST, clean_environment

    return subprocess.run(
        [HOST, ROOT / "examples" / "quickstart.py"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=tmp_path_factory.mktemp("quickstart"),
        timeout=240,
    )


def test_quickstart_runs(quickstart):
    assert quickstart.returncode == 0, quickstart.stderr


def test_quickstart_counts_traces_and_equals_eager(quickstart):
    out = quickstart.stdout
    assert "1797 images in batches of 64; the last batch has 5" in out
    assert "calls 116, traces 2, hits 114" in out
    assert "calls 116, traces 11, hits 105" in out
    assert re.findall(r"largest difference from plain PyTorch: (.*)", out) == ["0.0"] * 3


def test_quickstart_shows_the_warning_with_cause_and_remedy(quickstart):
    warning = quickstart.stderr
    assert re.search(
        r"RetraceWarning: 5 out of the last 5 calls to scaled_loss \(quickstart.py:\d+\) triggered retracing",
        warning,
    )
    assert re.search(
        r"why   argument 'factor' took 5 values \(0.1, 0.2, 0.3, 0.4, 0.5\), from quickstart.py:\d+",
        warning,
    )
    assert re.search(
        r"fix   pass torch.tensor\(0.5\) for 'factor'.*would save 4 of 5 traces", warning
    )
    assert warning.count("RetraceWarning") == 2  # at most two a function


def test_quickstart_ends_with_the_report(quickstart):
    lines = quickstart.stdout.splitlines()
    at = lines.index("The report")
    assert lines[at + 1].split()[:4] == ["function", "calls", "hits", "traces"]
    assert lines[-1].split()[:4] == ["total", "348", "333", "15"]
