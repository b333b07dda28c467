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


RETRACING = """shapes 10 2|dtypes 5 1|python_values 20 1|objects 16 2|external_state 12 1|python_control_flow 16 1
created_in_a_loop 10 1|declared 5 1|python_or_tensor 3 1|prediction 4 2|weight_swapping 12 1|boundary 5 1
monte_carlo 8 1""".replace("\n", "|").split("|")


@pytest.mark.parametrize("pattern", RETRACING)
def test_a_pattern_of_retracing_is_cured(pattern, tmp_path):
    """Each asserts itself that both programs give the same."""
    import subprocess

    from conftest import HOST, clean_environment

    name, before, after = pattern.split()
    done = subprocess.run(
        [HOST, ROOT / "examples" / "retracing" / f"{name}.py"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=tmp_path,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()[2:4]]
    assert rows == [["before", before], ["after", after]]


def test_every_pattern_is_in_the_table():
    files = {path.stem for path in (ROOT / "examples" / "retracing").glob("*.py")}
    listed = {pattern.split()[0] for pattern in RETRACING}
    assert files - {"run", "measure"} == listed
    runner = (ROOT / "examples" / "retracing" / "run.py").read_text(encoding="utf-8")
    assert all(name in runner for name in listed)


CONTROL_FLOW = """newton bisection conjugate_gradient greedy_decoding adaptive_ode early_exit gradient_clipping
k_means rnn monte_carlo""".split()


@pytest.mark.parametrize("program", CONTROL_FLOW)
def test_control_flow_on_tensors_is_one_trace(program, tmp_path):
    """Each asserts itself that whatever call is the first, one trace gives eager's values to all."""
    import subprocess

    from conftest import HOST, clean_environment

    done = subprocess.run(
        [HOST, ROOT / "examples" / "control_flow" / f"{program}.py"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=tmp_path,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[-1]
    traces, _, _, _, per_path, _ = row.rsplit(maxsplit=6)[1:]
    assert int(traces) == 1 and int(per_path) > 1


def test_every_program_of_control_flow_is_in_the_table():
    files = {path.stem for path in (ROOT / "examples" / "control_flow").glob("*.py")}
    assert files - {"run", "measure"} == set(CONTROL_FLOW)
    runner = (ROOT / "examples" / "control_flow" / "run.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in runner for name in CONTROL_FLOW)


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
