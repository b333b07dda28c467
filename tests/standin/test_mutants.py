"""Each mutant of mutants.py can be made, and its test exists."""

import pytest
from mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made(mutant):
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.old) == 1
    if mutant.test.startswith("cpp:"):
        suite, name = mutant.test[4:].split(".")
        tests = (ROOT / "tests/cpp/capture").glob("*_test.cpp")
        assert any(f"TEST({suite}, {name})" in file.read_text() for file in tests)
        return
    file, _, name = mutant.test.partition("::")
    assert f"def {name}" in (ROOT / file).read_text()
