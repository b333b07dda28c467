"""The examples run, and say what they claim. They assert their claims themselves."""

import functools
import json
import re
import subprocess
import sys

import nbformat
import pytest
from conftest import HOST, ROOT, clean_environment

EXAMPLES = ROOT / "examples"


def run(folder, *args, **options):
    return subprocess.run(
        [HOST, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=folder,
        timeout=500,
        **options,
    )


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    return run(tmp_path_factory.mktemp("quickstart"), EXAMPLES / "quickstart.py")


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """archived("retracing", "shapes") -> what example_archives.py found; one process a folder."""

    @functools.cache
    def of_folder(name):
        scripts = [
            path for path in sorted((EXAMPLES / name).glob("*.py")) if path.stem not in HELPERS
        ]
        folder = tmp_path_factory.mktemp("archives")
        program = ROOT / "tests" / "python" / "docs" / "example_archives.py"
        done = run(folder, program, folder / "found.json", *scripts)
        assert done.returncode == 0, done.stderr
        return json.loads((folder / "found.json").read_text(encoding="utf-8"))

    return lambda folder, name: of_folder(folder)[name]


HELPERS = {"run", "measure", "timing"}
# Why a graph can't be saved, and how many there are of it.
REFUSED = {
    "objects": {
        "f can't be saved: argument 'settings' is <Settings object>, which an archive can't hold. Let the body "
        "reach it (self, a closure, functools.partial) in place of passing it": 16,
        "after: an object that it was traced with is gone, and its tensors with it. Keep it, or get a new "
        "ConcreteFunction.": 1,
    }
}


def check(found, name):
    """The script ran, and each of its graphs came back from an archive with the same results."""
    assert not found["error"], found["error"]
    assert found["rejected"] == REFUSED.get(name, {})
    assert found["not called"] == []
    assert found["equal"] > 0
    assert found["equal in torch"] + found["not in torch"] == found["equal"]


RETRACING = """shapes 10 2|dtypes 5 1|python_values 20 1|objects 16 2|external_state 7 1|python_control_flow 16 1
created_in_a_loop 10 1|declared 5 1|python_or_tensor 3 1|prediction 4 2|weight_swapping 12 1|boundary 5 1
monte_carlo 8 1""".replace("\n", "|").split("|")


@pytest.mark.parametrize("pattern", RETRACING)
def test_a_pattern_of_retracing_is_cured(pattern, archived):
    """Each asserts itself that both programs give the same."""
    name, before, after = pattern.split()
    found = archived("retracing", name)
    check(found, name)
    rows = [line.split()[:2] for line in found["printed"].splitlines()[2:4]]
    assert rows == [["before", before], ["after", after]]


def test_every_pattern_is_in_the_table():
    files = {path.stem for path in (EXAMPLES / "retracing").glob("*.py")}
    listed = {pattern.split()[0] for pattern in RETRACING}
    assert files - HELPERS == listed
    runner = (EXAMPLES / "retracing" / "run.py").read_text(encoding="utf-8")
    assert all(name in runner for name in listed)


CONTROL_FLOW = """newton bisection conjugate_gradient greedy_decoding adaptive_ode early_exit gradient_clipping
k_means rnn monte_carlo""".split()


@pytest.mark.parametrize("program", CONTROL_FLOW)
def test_control_flow_on_tensors_is_one_trace(program, archived):
    """Each asserts itself that with any call first, one trace gives eager's values to all."""
    found = archived("control_flow", program)
    check(found, program)
    row = found["printed"].splitlines()[-1]
    traces, _, _, _, per_path, _ = row.rsplit(maxsplit=6)[1:]
    assert int(traces) == 1 and int(per_path) > 1


def test_every_program_of_control_flow_is_in_the_table():
    files = {path.stem for path in (EXAMPLES / "control_flow").glob("*.py")}
    assert files - HELPERS == set(CONTROL_FLOW)
    runner = (EXAMPLES / "control_flow" / "run.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in runner for name in CONTROL_FLOW)


# What each prints, among other things.
NUMBERED = {
    "01_tracing_basics": [
        "tracing with <traced tensor float32[4]>",
        "x.shape[0]: 4 -> 5 (shape)",
        "traced again: 'factor (01_tracing_basics.py)', which the body reads, was 2.0, is 5.0",
        "changes calls (01_tracing_basics.py) at 01_tracing_basics.py:",
        "20 ops, 4 numbers",
    ],
    "02_input_signature": [
        "before              50 ",
        "after                1 ",
        "or    @tracehost.function(input_signature=[tracehost.TensorSpec([None], torch.int32)])   would save 4 of 5",
        "argument 'numbers': expected TensorSpec(shape=(None,), dtype=torch.int32, name=None), got int32[2, 3]",
    ],
    "03_python_vs_tensor_args": [
        "as an int: 6 traces, of 80 to 160 nodes, no loop",
        "as a tensor: 1 trace, with a loop",
        "fix   pass torch.tensor(lr) for 'lr'",
        "20 traces; with the line written, 1",
    ],
    "04_monte_carlo": [
        "before              12 ",
        "after                1 ",
        "uses random.random at 04_monte_carlo.py:",
        "1,000,000 samples: 8.",
    ],
    "05_decoder_growing_context": [
        "why   argument 'tokens', dimension 1, took 5 values (1, 2, 3, 4, 5)",
        "a trace a length",
        "cached, padded",
    ],
    "06_anomaly_variable_windows": [
        "calls 195, traces 3, hits 192",
        "a trace a length    45 traces",
        "padded               3 traces",
        "declared             1 traces",
    ],
    "07_digits_train_export": [
        "1437 images in batches of 64; the last batch has 29",
        "calls 184, traces 2, hits 182",
        "predict(images: float32[None, 1, 8, 8]) -> {'scores': float32[None, 10], 'digit': int64[None]}",
    ],
}


@pytest.mark.parametrize("name", NUMBERED)
def test_a_numbered_example_asserts_its_claims(name, tmp_path):
    done = run(tmp_path, EXAMPLES / f"{name}.py", "named.thz")
    assert done.returncode == 0, done.stderr
    for line in NUMBERED[name]:
        assert line in done.stdout
    exported = name == "07_digits_train_export"
    assert [path.name for path in tmp_path.iterdir()] == ["named.thz"] * exported


@pytest.mark.parametrize("name", ["quickstart", *NUMBERED])
def test_what_an_example_traces_comes_back_from_an_archive(name, archived):
    check(archived("", name), name)


NOTEBOOKS = {
    "01_tracing_basics": ["4 calls, 1 hit, 3 traces", "SideEffectWarning: counted"],
    "04_monte_carlo": ["exactly 8.699", "TraceWarning: shifted"],
    "05_decoder_growing_context": ["RetraceWarning: 5 out of the last 5 calls to next_token"],
    "07_digits_train_export": [
        "184 calls, 182 hits, 2 traces",
        "of 360 are right",
        "predict(images",
    ],
}


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    files = [EXAMPLES / f"{name}.ipynb" for name in NOTEBOOKS]
    return folder, run(folder, "notebook", "-j", "2", "-o", folder, *files)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, notebooks):
    folder, done = notebooks
    assert done.returncode == 0, done.stderr
    made = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    outputs = [output for cell in made.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    shown = "".join(output.get("text") or output.data.get("text/plain", "") for output in outputs)
    for text in NOTEBOOKS[name]:
        assert text in shown
    if name != "01_tracing_basics":
        assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_without_outputs(name):
    made = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(made)
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    for cell in made.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


def test_a_notebook_runs_under_plain_jupyter(tmp_path):
    """`jupyter execute`, with the kernel of this environment's python."""
    program = "from nbclient.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, EXAMPLES / "01_tracing_basics.ipynb"],
        capture_output=True,
        text=True,
        env=clean_environment(PYDEVD_DISABLE_FILE_VALIDATION="1", JUPYTER_PREFER_ENV_PATH="1"),
        cwd=tmp_path,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


def test_every_example_is_in_the_page():
    page = (ROOT / "docs" / "start" / "examples.md").read_text(encoding="utf-8")
    files = [path for kind in ("*.py", "*.ipynb", "*/*.py") for path in EXAMPLES.glob(kind)]
    files += [path.parent for path in EXAMPLES.glob("cpp/*/CMakeLists.txt")]
    assert len(files) > 40
    for path in files:
        assert path.stem in HELPERS or path.name in page, path


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
        r"fix   pass torch.tensor\(factor\) for 'factor'.*would save 4 of 5 traces", warning
    )
    assert warning.count("RetraceWarning") == 2  # at most two a function


def test_quickstart_ends_with_the_report(quickstart):
    lines = quickstart.stdout.splitlines()
    at = lines.index("The report")
    assert lines[at + 1].split()[:4] == ["function", "calls", "hits", "traces"]
    assert lines[-1].split()[:4] == ["total", "348", "333", "15"]
