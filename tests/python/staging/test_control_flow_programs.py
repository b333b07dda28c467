"""The table of control-flow programs: staged, traced from each path, and compared with Python on all inputs."""

import copy
import os

import pytest
import torch
import tracehost
from autograph_support import outcome
from control_flow_programs import PROGRAMS
from tracehost import autograph
from tracehost.autograph.run.calls import convert_callable


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def equal(expected, got):
    """Same structure and values. A Python number may have become a 0-dim tensor of the graph."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    elif isinstance(expected, dict):
        assert list(expected) == list(got)
        equal(list(expected.values()), list(got.values()))
    elif isinstance(expected, (list, tuple)):
        assert type(expected) is type(got) and len(expected) == len(got)
        for e, g in zip(expected, got):
            equal(e, g)
    elif isinstance(got, torch.Tensor):
        assert got.dim() == 0 and got.item() == pytest.approx(expected)
    else:
        assert expected == got


def run(function, inputs, gradients):
    """Result, the inputs afterwards, and the inputs' gradients of the sum of all results."""
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    if gradients:
        given = [
            x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for x in given
        ]
    result = function(*given)
    gradient = None
    leaves = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    loss = [y.sum() for y in tensors_in(result) if y.requires_grad]
    if loss and leaves:
        gradient = torch.autograd.grad(sum(loss), leaves, allow_unused=True)
        gradient = [
            torch.zeros_like(x) if g is None else g for g, x in zip(gradient, leaves, strict=True)
        ]
    return result, given, gradient


def ids(p):
    return p.name


def fresh(p):
    return tracehost.function(p.function)


@pytest.mark.parametrize("p", [p for p in PROGRAMS if not p.error], ids=ids)
def test_traced_from_each_input(p):
    for first in range(len(p.inputs)):
        staged = fresh(p)
        for inputs in p.inputs[first:] + p.inputs[:first]:
            try:
                expected = run(p.function, inputs, p.gradients)
            except AssertionError:
                assert p.fails_as_python
                with pytest.raises(AssertionError):
                    run(staged, inputs, p.gradients)
                continue
            result, given, gradient = run(staged, inputs, p.gradients)
            equal(expected[0], result)
            equal(expected[1], given)
            if expected[2] is not None:
                equal(expected[2], gradient)
        shapes = {tuple(x.shape for x in i if isinstance(x, torch.Tensor)) for i in p.inputs}
        most = max(p.traces, len(shapes))
        assert staged.tracing_count() <= most if p.fails_as_python else True
        if not p.fails_as_python:
            assert staged.tracing_count() == most


@pytest.mark.parametrize("p", [p for p in PROGRAMS if p.error], ids=ids)
def test_rejected_from_each_input(p):
    """Where the graph may check a number, some of them run."""
    for inputs in p.inputs:
        staged = tracehost.function(p.function, value_reads="error")
        with pytest.raises(tracehost.Error) as caught:
            run(staged, inputs, False)
        text = str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
        assert p.error in text
        assert os.path.basename(p.function.__code__.co_filename) in text


@pytest.mark.parametrize("p", PROGRAMS, ids=ids)
def test_unstaged_is_python(p):
    """Outside a trace the converted program is the program."""
    made = convert_callable(p.function)
    assert made is not p.function
    for inputs in p.inputs:
        try:
            expected = run(p.function, inputs, p.gradients)
        except Exception:
            assert outcome(made, inputs) == outcome(p.function, inputs)
            continue
        result, given, gradient = run(made, inputs, p.gradients)
        equal(expected[0], result)
        equal(expected[1], given)
        equal(expected[2], gradient)


def test_table():
    assert len(PROGRAMS) >= 120
    names = [p.name for p in PROGRAMS]
    assert len(set(names)) == len(names)
    assert all(autograph.to_code(p.function) for p in PROGRAMS)
    assert copy.deepcopy(PROGRAMS[0].inputs)


@pytest.mark.parametrize("kind", ["declared", "reduced"])
def test_a_loop_that_is_staged_again_under_open_sizes(kind):
    """The first attempt, with an int, is taken out of the graph; nothing still refers to its ops."""

    def body(x, n):
        k = 0
        for i in range(n):
            k = k + 0.5
        return x * k

    specs = [tracehost.TensorSpec([None, 2]), tracehost.TensorSpec([], torch.int64)]
    f = tracehost.function(
        body, **({"input_signature": specs} if kind == "declared" else {"reduce_retracing": True})
    )
    for size in (3, 4, 5, 6):
        n = torch.tensor(size)
        assert torch.equal(f(torch.ones(size, 2), n), torch.full((size, 2), size / 2))
