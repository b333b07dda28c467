"""Sixty random programs with numbers, the same at each run; scripts/test --sweep runs thousands of others."""

import pytest
from sweep.numbers import Tally, Writer, check


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_programs_with_numbers(first):
    tally, shown = Tally(), []
    for seed in range(first, first + 10):
        check(seed, tally, shown.append)
    assert not tally.wrong, "\n".join(shown)
    assert tally.right > 10 and tally.hits > tally.calls / 2


def test_a_seed_makes_the_same_program():
    assert Writer(7).program() == Writer(7).program() != Writer(8).program()
