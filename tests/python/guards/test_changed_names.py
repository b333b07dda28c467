"""Changes of names are seen: where CPython reports them, and where they are compared at each call."""

import subprocess
from pathlib import Path

import changed_names
import pytest
import torch
import tracehost
from changed_names import PROGRAMS, X, differences, with_globals
from conftest import PYTHON, clean_environment
from python_versions import DICT_WATCHERS
from tracehost import _tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


@pytest.mark.parametrize("program", PROGRAMS)
def test_changes_are_seen(program):
    assert differences(PROGRAMS[program]) == []


@pytest.mark.skipif(not DICT_WATCHERS, reason="dicts have version tags")
def test_changes_are_seen_where_other_code_has_all_watchers():
    done = subprocess.run(
        [PYTHON, changed_names.__file__],
        env=clean_environment(PYTHONPATH=str(Path(changed_names.__file__).parent)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("True {}\n", "")


@pytest.mark.skipif(not DICT_WATCHERS, reason="dicts have version tags")
def test_a_dict_whose_other_names_change_often_is_followed_no_more():
    body, names = with_globals(lambda x: x * SCALE)  # noqa: F821
    f = tracehost.function(body)
    with assert_traces(f, 2):
        f(X), f(X)
        assert _tracehost.follows_dict(names)
        for i in range(998):
            names["i"] = i
        f(X)
        assert _tracehost.follows_dict(names)
        for i in range(2):
            names["i"] = i
        f(X)
        assert not _tracehost.follows_dict(names)
        names["SCALE"] = 3.0
        assert torch.equal(f(X), X * 3.0)


@pytest.mark.skipif(not DICT_WATCHERS, reason="dicts have version tags")
def test_a_name_that_is_read_keeps_its_dict_followed():
    body, names = with_globals(lambda x: x * SCALE)  # noqa: F821
    f = tracehost.function(body)
    for scale in (2.0, 3.0, 2.0):
        names["SCALE"] = scale
        for i in range(600):
            names["i"] = i
        f(X)
    assert _tracehost.follows_dict(names)


def test_another_dict_at_the_same_address():
    holder = changed_names.Config()
    f = tracehost.function(lambda x: x * holder.table["a"])
    with assert_traces(f, 2):
        for scale in (2.0, 3.0) * 20:
            holder.table = {"a": scale}
            assert torch.equal(f(X), X * scale)


WEIGHTS = torch.ones(2)


def test_a_global_tensor_has_no_weak_reference():
    """torch.utils.swap_tensors() rejects a tensor that has one, and so does `module.to()` where it swaps."""
    f = tracehost.function(lambda x: x * WEIGHTS)
    for _ in range(4):
        f(torch.ones(2))
        globals()["LOOP"] = object()  # as a loop at module level
    torch.utils.swap_tensors(WEIGHTS, torch.full((2,), 8.0))
    assert f(torch.ones(2)).tolist() == [8.0, 8.0]
