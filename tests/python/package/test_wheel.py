"""An environment into which a wheel was installed that another one built: `scripts/test --wheel`."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import BIN, HOST, ROOT, clean_environment

pytestmark = pytest.mark.skipif(
    importlib.metadata.distribution("tracehost").read_text("INSTALLER").strip() == "cmake",
    reason="tracehost was not installed from a wheel: scripts/test --wheel",
)


def run(*command, env=None, cwd=None):
    done = subprocess.run(
        [str(part) for part in command],
        env=clean_environment() if env is None else env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_runs_in_this_environment():
    assert run(HOST, ROOT / ".ci" / "smoke.py").startswith("smoke: tracehost ")
    assert run(HOST, "-c", "import sys; print(sys.prefix, sys.executable)").split() == [
        sys.prefix,
        str(BIN / "tracehost-python"),
    ]
    assert f"OK    environment {sys.prefix}, from the directory of the binary" in run(
        HOST, "doctor"
    )


def test_what_it_installs_names_no_place_where_it_was_built():
    texts = [
        file.locate()
        for file in importlib.metadata.distribution("tracehost").files
        if file.suffix in (".cmake", ".pc", ".py", ".h") or file.name == "METADATA"
    ]
    assert len(texts) > 50
    folders = (str(ROOT), str(Path(torch.__file__).parents[1]))
    found = [(path, f) for path in texts for f in folders if f in Path(path).read_text()]
    assert found == []


@pytest.fixture
def build(tmp_path):
    """build("embed") -> the program of examples/cpp, which looks for the package in this environment."""

    def make(example):
        source, tree = ROOT / "examples" / "cpp" / example, tmp_path / "build"
        run("cmake", "-G", "Ninja", "-S", source, "-B", tree, f"-DCMAKE_PREFIX_PATH={sys.prefix}", "-DCMAKE_BUILD_TYPE=Release")  # fmt: skip
        run("cmake", "--build", tree)
        return tree / example

    return make


def test_a_program_without_python(build, tmp_path):
    program = build("hot_reload")
    run(HOST, ROOT / "examples" / "cpp" / "hot_reload" / "save.py", tmp_path / "data")
    assert "5 reloads, 5 rejected" in run(program, tmp_path / "data", env={}, cwd="/")


def test_a_program_with_python_finds_this_environment(build):
    program = build("embed")
    lines = run(program, ROOT / "examples" / "cpp" / "embed", env={"PATH": os.defpath}).splitlines()
    assert lines[-1] == "naive: 8 traces for 8 lengths; score: 1 trace, 39 calls without Python"


def test_pkg_config(tmp_path):
    env = clean_environment(PKG_CONFIG_PATH=f"{sys.prefix}/lib/pkgconfig")
    place = f"--define-variable=torch={Path(torch.__file__).parent}"
    flags = run("pkg-config", place, "--cflags", "--libs", "tracehost", env=env).split()
    (tmp_path / "main.cpp").write_text(
        "#include <tracehost/tracehost.h>\n#include <cstdio>\n"
        "int main() { std::puts(tracehost::metrics_text().c_str()); }\n"
    )
    run("g++", tmp_path / "main.cpp", "-o", tmp_path / "main", *flags)
    run(tmp_path / "main", env={})
