"""Each fix that a RetraceWarning prints, applied to the text of the program: the results are those of eager, and the
traces that it promises are saved. The programs are in data/retraces, with what is said of each in said.txt."""

import os
import re

import pytest
import torch
from applied_fixes import FIX, apply
from retrace_programs import DATA, PROGRAMS, run, sections

SAID = DATA / "said.txt"
# A fix for these says that results change.
OTHER_RESULTS = ("padding changes results", "results are then those of")


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
    assert len(PROGRAMS) == 84
    assert len(with_fix) >= 71, sorted(set(PROGRAMS) - set(with_fix))
