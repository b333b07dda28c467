"""The runner of tests/programs: what it calls right, wrong, `rejected` and a crash."""

import os
import random

import pytest
import torch
from programs import one
from programs.compare import difference
from programs.page import write_page
from programs.program import Program, inference, plain, training


def outcome_of(maker) -> one.Outcome:
    outcome = one.Outcome("some/row")
    one.compare_calls(*one.made(maker, []), outcome)
    return outcome


def numbers(index):
    return (torch.full((2,), float(index)),)


def test_a_right_row():
    layer = lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    step = training(layer, lambda model, i: {"input": torch.ones(1, 2) * i}, squared)
    outcome = outcome_of(step)
    assert (outcome.outcome, outcome.text) == ("right", "") and outcome.ratio > 0


def squared(model, **given):
    return model(**given).square().sum()


def test_a_row_that_differs():
    """numpy's numbers are drawn once, at the trace."""
    outcome = outcome_of(plain(lambda: (lambda x: x * random.random(), numbers)))
    assert outcome.outcome == "silently wrong"
    assert outcome.text.startswith("call 2: result: values differ by up to ")


def test_state_is_compared():
    def make(decorate):
        total = torch.zeros(1) if decorate.__name__ == "decorate" else torch.ones(1)
        return Program(decorate(lambda index: None), lambda: {"total": total})

    outcome = outcome_of(make)
    assert outcome.text == "call 1: state['total']: values differ by up to 1"


def test_a_rejection_and_a_crash():
    rejected = outcome_of(plain(lambda: (lambda x: x * x._version, numbers)))
    assert rejected.outcome == "rejected"
    assert rejected.text.startswith("ValueReadError: the body reads Tensor._version")
    assert rejected.line.startswith("python/validate/test_models_lane.py:")

    def differs_in_eager(decorate):
        def body(x):
            raise KeyError("lost")

        return Program(decorate(body) if decorate.__name__ == "decorate" else lambda i: 0, dict)

    crash = outcome_of(differs_in_eager)
    assert (crash.outcome, crash.text) == ("crash", "KeyError: 'lost'")


def test_a_model_that_eager_cannot_run():
    outcome = outcome_of(inference(lambda: torch.nn.Linear(2, 2), lambda model, i: {"input": 1}))
    assert outcome.outcome == "eager fails"


@pytest.mark.parametrize(
    "ours, text",
    [
        (torch.ones(2), None),
        (torch.ones(2) + 1e-7, "result: values differ by up to 1.2e-07"),
        (torch.ones(2, dtype=torch.double), "result: eager's dtype is torch.float32, ours torch.float64"),
        (torch.ones(4)[::2], "result: eager's strides are (1,), ours (2,)"),
        ([1], "result: eager gives a Tensor, ours is a list"),
    ],
)  # fmt: skip
def test_difference(ours, text):
    assert difference(torch.ones(2), ours) == text


def test_objects_are_compared_by_attributes():
    class Cache:
        def __init__(self, *layers):
            self.layers = layers
            self.owner = self

    assert difference(Cache(torch.ones(1)), Cache(torch.ones(1))) is None
    found = difference(Cache(torch.ones(1)), Cache(torch.zeros(1)))
    assert found == "result['layers'][0]: values differ by up to 1"
    assert difference(float("nan"), float("nan")) is None


def test_the_page(tmp_path):
    right = vars(one.Outcome("a/b/inference", traces=1, ratio=0.5))
    rejected = vars(one.Outcome("a/c/training", "rejected", "TypeError: x | y", "f.py:3"))
    write_page(tmp_path / "models.md", [right, rejected])
    text = (tmp_path / "models.md").read_text()
    assert "| a | 1 | 1 | 0 | 0 | 0 |" in text
    assert "| b/inference | right | 1 | 0.5 |  |" in text
    assert "| c/training | rejected |  |  | TypeError: x \\| y (f.py:3) |" in text
    assert os.listdir(tmp_path) == ["models.md"]
