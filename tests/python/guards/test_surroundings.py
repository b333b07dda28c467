"""Programs that change their surroundings between calls, each in a process of its own: traced as eager, by theme.

The programs are shared with other projects, and not part of this repository."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT
from surroundings import NOT_RIGHT, RACES_IN_TORCH

FOLDER = ROOT.parent / "shared" / "programs"
THEMES = sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("third/*.txt")])


def names_of(theme):
    return re.findall(r"^#### *(\S+)", theme.read_text(), re.MULTILINE)


@pytest.mark.skipif(not THEMES, reason=f"{FOLDER} is not there")
def test_the_table_names_programs():
    names = {name for theme in THEMES for name in names_of(theme)}
    assert len(names) > 1200
    assert NOT_RIGHT.keys() <= names


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.stem)
def test_as_eager(theme):
    """All but those of the table are right; a row of the table that has become right is to be taken out."""
    done = subprocess.run(
        [sys.executable, str(theme.parent / "run.py"), str(theme), "--modes", "d"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert f"\n{theme.stem}: programs " in f"\n{done.stdout}", done.stdout + done.stderr
    found = dict(re.findall(r"^(\w+)/d: ([A-Z]+)\b", done.stdout, re.MULTILINE))
    for name in RACES_IN_TORCH:
        found.pop(name, None)
    assert "CRASH" not in found.values()
    expected = {name: NOT_RIGHT[name] for name in names_of(theme) if name in NOT_RIGHT}
    if sys.version_info >= (3, 12):  # the table is of Python 3.11
        assert found.keys() <= expected.keys()
    else:
        assert found == expected
