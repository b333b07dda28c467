"""The sweep over PyTorch's operators: a sample of it, and that it would find what it looks for."""

import subprocess
import sys

import pytest
import torch
from conftest import HOST, ROOT, clean_environment
from sweep.sameness import alias_pattern, difference


def test_a_sample_of_the_operators_is_equal_or_rejected_as_listed():
    # In a process of its own: torch.testing changes settings of torch's when it is imported.
    done = subprocess.run(
        [HOST, "-m", "sweep", "--sample", "--jobs", "1"],
        cwd=ROOT / "tests",
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert " 0 different; " in done.stdout


@pytest.mark.parametrize(
    "options",
    [["--count", "300"], ["--count", "1000", "--opcodes"], ["--count", "1000", "--effects"]],
    ids=["programs", "opcodes", "effects"],
)
def test_a_sample_of_programs_that_change_their_surroundings(options):
    if "--opcodes" in options and sys.version_info >= (3, 12):
        pytest.skip(
            "36 of 47 opcodes of Python 3.13 are missed by a program: the programs are written for those of 3.11"
        )
    done = subprocess.run(
        [HOST, "-m", "sweep.surroundings", *options],
        cwd=ROOT / "tests",
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


DIFFERENT = {
    "values": (lambda x: x + 1, lambda x: x + 2),
    "dtype": (lambda x: x.int(), lambda x: x.long()),
    "stride": (lambda x: x.t(), lambda x: x.t().contiguous()),
    "shape": (lambda x: x, lambda x: x[None]),
    "storage offset": (lambda x: x[1:], lambda x: x[1:].clone()),
    "requires_grad": (lambda x: x, lambda x: x.detach()),
    "structure": (lambda x: (x, x), lambda x: [x, x]),
    "gives a": (lambda x: 1, lambda x: True),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_seen(what):
    eager, ours = DIFFERENT[what]
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    assert difference(eager(x), eager(x)) is None
    assert what in difference(eager(x), ours(x))


def test_results_that_alias_an_input_are_told_from_copies():
    x = torch.ones(3)
    assert alias_pattern(x, (x, x[1:], x + 1)) == [
        "0 is input 0",
        "1 shares memory with input 0",
        "2 fresh",
    ]
