"""Each fault of tests/mutants can be made, and the tests that must notice it exist."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from mutants.faults import all_mutants  # noqa: E402

MUTANTS = all_mutants()


def has_test(name: str) -> bool:
    if name.startswith(("cpp:", "cli:")):
        suite, test = name[4:].split(".")
        files = (ROOT / "tests/cpp").rglob("*_test.cpp")
        starts = tuple(f"{macro}({suite}, {test})" for macro in ("TEST", "TEST_F"))
        return any(start in file.read_text() for file in files for start in starts)
    file, _, test = name.partition("::")
    return f"def {test.partition('[')[0]}" in (ROOT / file).read_text()


def test_their_names_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made(mutant):
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied(source) != source
    assert mutant.on in ("cpu", "simulated", "lazy")
    assert mutant.tests
    assert [test for test in mutant.tests if not has_test(test)] == []
