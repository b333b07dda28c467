"""The manual page tracehost(1), which the build makes from the table of commands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tracehost
from conftest import clean_environment
from tracehost_commands import manual
from tracehost_commands.commands import commands

PAGE = Path(sys.prefix) / "share" / "man" / "man1" / "tracehost.1"


@pytest.fixture(scope="module")
def shown():
    man = shutil.which("man") or pytest.skip("man is not installed")
    env = clean_environment(MANWIDTH="80", LC_ALL="C.UTF-8", MANPAGER="cat")
    done = subprocess.run([man, "--warnings=w", "-l", PAGE], capture_output=True, text=True, env=env)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_installed_page_is_current():
    assert PAGE.read_text() == manual.page(tracehost.__version__)


def test_it_has_all_commands_and_options(shown):
    for command in commands().values():
        assert f"tracehost {command.name}" in shown
        assert command.name == "run" or f"       {command.description}\n" in shown
        for option in command.settings():
            assert f"--{option.name}" in shown and option.variable in shown


def test_special_characters_stay(shown):
    assert "source <(tracehost completion bash)      the same line in ~/.bashrc" in shown
    assert "--signature 'f32[?,128], i64[], True'" in shown
    assert "`parameters`" in shown and "-o, --output OUT" in shown
