"""A C++ application that embeds Python: each case is a process (tests/embed/cases.cpp)."""

import os
import subprocess
import sys
import sysconfig
import typing
import venv
from pathlib import Path

import pytest
import tracehost
from conftest import ROOT, clean_environment
from tracehost._embed_arguments import fitting

BUILD = Path(os.environ.get("TRACEHOST_BUILD") or ROOT / "build" / "release")
CASES = BUILD / "tracehost_embed_cases"
BODIES = ROOT / "tests" / "embed"

pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason=f"no {CASES.name} in {BUILD}: set TRACEHOST_BUILD"
)


def names():
    if not CASES.exists():
        return []
    return subprocess.run([CASES], capture_output=True, text=True, check=True).stdout.split()


def run(*command, **variables):
    packages = sysconfig.get_paths()["purelib"]
    environment = clean_environment() | {"TRACEHOST_PYTHON": sys.prefix, "PACKAGES": packages}
    environment |= variables
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


NEEDS_MORE = ["a_second_start_says_why_not"]


@pytest.mark.parametrize("name", [name for name in names() if name not in NEEDS_MORE])
def test_case(name):
    done = run(CASES, BODIES, name)
    assert done.returncode == 0, done.stdout + done.stderr
    after = {
        "a_static_that_joins_its_thread": "joined\n",
        "what_python_prints_is_there_without_stop": "traced for (2,)\n",
    }
    assert done.stdout.endswith("passed\n" + after.get(name, ""))


def test_an_annotation_that_says_nothing_of_its_items():
    """typing.List alone: the values stay as C++ passes them."""

    @tracehost.function
    def body(points: typing.List, by: typing.Dict, pair: typing.Tuple):  # noqa: UP006
        return points

    assert fitting(body) is None


def test_a_second_start_after_one_without_tracehost(tmp_path):
    """The remedy that the message names is tried by test_case: the first start() with the right one."""
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare"
    done = run(CASES, BODIES, NEEDS_MORE[0], TRACEHOST_PYTHON=str(bare), GOOD_PYTHON=sys.prefix)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stdout + done.stderr


def test_a_plug_in_that_is_loaded_privately():
    done = run(BUILD / "tracehost_embed_loader", BUILD / "libtracehost_embed_plugin.so", BODIES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "passed\n"


def test_no_such_python_is_an_error_that_names_it(tmp_path):
    done = subprocess.run(
        [CASES, BODIES, "the_report_names_causes"],
        capture_output=True,
        text=True,
        env=clean_environment() | {"TRACEHOST_PYTHON": str(tmp_path / "none")},
    )
    assert done.returncode != 0
    assert f"no Python at '{tmp_path / 'none'}'" in done.stderr
