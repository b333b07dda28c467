"""Warnings of ops that run in a graph are Python's, as in eager: by its filters, once for each call that warns."""

import subprocess
import sys
import warnings

import pytest
import torch
import tracehost
from conftest import clean_environment
from tracehost.testing import assert_traces


def std(x):
    return x.std()


def in_a_branch(x):
    if x.sum() > 0:
        y = x.std()
    else:
        y = x.var()
    return y


def trained(x):
    w = torch.ones(3, requires_grad=True)
    (w * x.std()).sum().backward()
    return w.grad


@pytest.mark.parametrize("optimize", ["exact", "off"])
@pytest.mark.parametrize("body", [std, in_a_branch, trained])
def test_each_call_warns_as_eager_does(body, optimize):
    f = tracehost.function(body, optimize=optimize)
    one, two = torch.ones(1), torch.ones(2)
    calls = (one, one, one, two, two, one, one)
    given = {}
    with assert_traces(f, 2):
        for function in (body, f):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                given[function] = []
                for x in calls:
                    caught.clear()
                    function(x)
                    given[function].append([(w.category, str(w.message)) for w in caught])
        assert given[f] == given[body]


@pytest.mark.parametrize("optimize", ["exact", "off"])
def test_a_filter_makes_an_error_of_it(optimize):
    f = tracehost.function(std, optimize=optimize)
    for _ in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(torch.ones(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="degrees of freedom"):
                f(torch.ones(1))


def test_the_line_is_that_of_the_call():
    f = tracehost.function(std)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            f(torch.ones(1))
    assert {w.filename for w in caught} == {__file__} and len(caught) == 4


def test_a_concrete_function_warns():
    f = tracehost.function(std).get_concrete_function(torch.ones(1))
    with pytest.warns(UserWarning, match="degrees of freedom"):
        f(torch.ones(1))


def test_nothing_goes_past_the_filters():
    code = (
        "import warnings, torch, tracehost\nwarnings.simplefilter('ignore')\n"
        "f = tracehost.function(lambda x: x.std(), validate=2)\nfor _ in range(6): f(torch.ones(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
