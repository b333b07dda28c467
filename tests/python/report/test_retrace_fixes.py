"""Each fix that a RetraceWarning prints, applied to the text of the program: the results are those of eager, and the
traces that it promises are saved. The programs are in data/retraces, with what is said of each in said.txt."""

import os
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import tracehost
from applied_fixes import FIX, apply, with_part

DATA = Path(__file__).parents[1] / "data" / "retraces"
SAID = DATA / "said.txt"
HEAD = (
    "import array\nimport dataclasses\nimport functools\nimport math\n\n"
    "import numpy as np\nimport torch\nimport tracehost\nfrom tracehost import TensorSpec\n\n"
)
# A fix for these says that results change.
OTHER_RESULTS = ("padding changes results", "results are then those of")


def sections(text):
    parts = re.split(r"(?m)^#### (\w+)\n", text)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


PROGRAMS = {
    name: HEAD + body
    for file in ("sizes", "numbers", "state", "apart")
    for name, body in sections((DATA / f"{file}.txt").read_text()).items()
}


@dataclass
class Run:
    results: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    traces: int = 0


def run(text, file, eager=False):
    file.write_text(text)
    made = Run()

    def out(value):
        value = torch.as_tensor(value)  # of numpy arrays graphs make tensors
        made.results.append(value.detach().clone())

    torch.manual_seed(0)
    tracehost.reset()
    tracehost.run_functions_eagerly(eager)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            scope = {"__name__": "__main__", "out": out, "with_part": with_part}
            exec(compile(text, str(file), "exec"), scope)
    finally:
        tracehost.run_functions_eagerly(False)
    made.warnings = [
        str(w.message) for w in seen if issubclass(w.category, tracehost.RetraceWarning)
    ]
    made.traces = sum(event.kind == "trace" for event in tracehost.events())
    return made


def said(made):
    text = "\n".join(made.warnings) or "(no warning)"
    return re.sub(r"[\d.]+ ms (so far|of traces)", r"T ms \1", text) + "\n"


@pytest.fixture(scope="module")
def recorded():
    """What was said of each program, written again with TRACEHOST_WRITE_SAID=1."""
    texts = sections(SAID.read_text()) if SAID.exists() else {}
    yield texts
    if os.environ.get("TRACEHOST_WRITE_SAID"):
        known = {name: texts[name] for name in PROGRAMS if name in texts}
        SAID.write_text("".join(f"#### {name}\n{text}" for name, text in known.items()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_is_told(name, tmp_path, recorded):
    made = run(PROGRAMS[name], tmp_path / f"{name}.py")
    if os.environ.get("TRACEHOST_WRITE_SAID"):
        recorded[name] = said(made)
    assert said(made) == recorded[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_fix_saves_what_it_says_and_gives_eagers_results(name, tmp_path):
    text = PROGRAMS[name]
    before = run(text, tmp_path / f"{name}.py")
    eager = run(text, tmp_path / f"{name}.py", eager=True)
    if not before.warnings:
        return
    warning = before.warnings[0]
    found = FIX.findall(warning)
    together = [fix for fix, others, _, _ in found if others]
    for number, (fix, others, saves, _) in enumerate(found):
        fixes = [one for one, *_ in found] if together and others else [fix]
        after = run(apply(text, warning, fixes), tmp_path / f"{name}_{number}.py")
        assert after.traces <= before.traces - int(saves), (fix, after.warnings)
        if not any(part in one for part in OTHER_RESULTS for one in fixes):
            torch.testing.assert_close(after.results, eager.results, check_stride=False)


def test_most_causes_have_a_fix(recorded):
    with_fix = [name for name in PROGRAMS if FIX.search(recorded[name])]
    assert len(PROGRAMS) == 81
    assert len(with_fix) >= 68, sorted(set(PROGRAMS) - set(with_fix))
