"""What pip reads of this project, what it is built from, and what an installation holds. The build itself: test_wheel.py."""

import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import torch
import tracehost
from conftest import HOST, PYTHON, ROOT, clean_environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = Path(os.environ.get("TRACEHOST_BUILD") or ROOT / "build" / "release")
TORCH_MINOR = ".".join(torch.__version__.split(".")[:2])
MINOR = ".".join(PROJECT["project"]["version"].split(".")[:2])
CACHE = BUILD / "CMakeCache.txt"


def call(hook, *arguments, python=PYTHON, **environment):
    """A hook of the build back end, in a process of its own, as pip calls it."""
    return subprocess.run(
        [PYTHON, "-c", f"import sys; from scikit_build_core import build; print(build.{hook}(*sys.argv[1:]))", *map(str, arguments)],
        cwd=ROOT, env=clean_environment(**environment), capture_output=True, text=True, timeout=100)  # fmt: skip


def prepared(folder, **environment):
    return call("prepare_metadata_for_build_wheel", folder, **environment)


def in_one_line(done):
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def bare(tmp_path):
    """An environment without packages; bare("2.9.1") -> with what looks like such a torch."""

    def make(version=None):
        base = Path(sys.base_prefix) / "bin" / "python3"
        subprocess.run([base, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
        if version:
            (package,) = (tmp_path / "bare" / "lib").glob("python3*/site-packages")
            (package / "torch").mkdir()
            (package / "torch" / "__init__.py").touch()
            (package / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
        return tmp_path / "bare" / "bin" / "python"

    return make


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metadata")
    done = prepared(folder)
    assert done.returncode == 0, done.stderr
    return email.message_from_string((folder / done.stdout.split()[-1] / "METADATA").read_text())


def test_a_wheel_asks_for_the_torch_that_it_is_built_for(metadata):
    required = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    assert sorted(text.split(">")[0] for text in required) == ["numpy", f"torch=={TORCH_MINOR}.*"]
    assert metadata["Requires-Python"] == "<3.15,>=3.11"
    assert (metadata["Name"], metadata["Version"]) == ("tracehost", tracehost.__version__)


def test_notebooks_are_an_extra(metadata):
    extra = [text for text in metadata.get_all("Requires-Dist") if 'extra == "notebook"' in text]
    wanted = PROJECT["project"]["optional-dependencies"]["notebook"]
    assert len(extra) == len(wanted) > 5


def test_torch_is_no_build_requirement():
    assert [one.split(">")[0] for one in PROJECT["build-system"]["requires"]] == [
        "scikit-build-core"
    ]
    done = call("get_requires_for_build_wheel")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_version_stands_in_one_place():
    assert tracehost.__version__ == PROJECT["project"]["version"]
    assert importlib.metadata.version("tracehost") == tracehost.__version__


FIND = "import sys; sys.path.insert(0, 'cmake'); import wheel_metadata; print(wheel_metadata.find('torch')[0])"


def find(python, **environment):
    """Where installed packages are hidden from the build, as pip does it."""
    env = clean_environment(**environment)
    return subprocess.run([python, "-S", "-c", FIND], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)  # fmt: skip


def test_torch_is_found_although_pip_hides_it(bare):
    assert find(PYTHON).stdout == f"{PYTHON}\n"
    # In the environment that a front end made for the build, while that of the user is active.
    done = find(bare(), VIRTUAL_ENV=sys.prefix)
    assert done.stdout == f"{sys.prefix}/bin/python\n", done.stderr


def test_an_environment_is_named(bare):
    for named in (sys.prefix, str(PYTHON)):
        done = find(bare(), TRACEHOST_PYTHON=named)
        assert Path(done.stdout.strip()).parent == PYTHON.parent, done.stderr


def test_no_torch(bare, tmp_path):
    python = bare()
    assert in_one_line(prepared(tmp_path, TRACEHOST_PYTHON=str(python))) == (
        f"tracehost: {python} has no torch, and tracehost is built for the torch that it will run with: install "
        "'torch>=2.11,<2.16' there first, or name the environment that has it, TRACEHOST_PYTHON=<venv>/bin/python"
    )


@pytest.mark.parametrize("version", ["2.10.1+cpu", "2.16.0"])
def test_an_unsupported_torch(version, bare, tmp_path):
    python = bare(version)
    assert in_one_line(prepared(tmp_path, TRACEHOST_PYTHON=str(python))) == (
        f"tracehost: {python} has torch {version.split('+')[0]}, which is not supported: "
        "install 'torch>=2.11,<2.16' there first"
    )


def test_an_interpreter_that_is_not_there(tmp_path):
    line = in_one_line(prepared(tmp_path, TRACEHOST_PYTHON="/no/python"))
    assert line.startswith("tracehost: /no/python can't be asked for its torch: ")


def sources():
    """Files of the repository that a build reads."""
    for folder in ("bindings", "cmake", "host"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield str(path.relative_to(ROOT))


def test_a_source_archive_holds_what_is_built(tmp_path, bare):
    # One needs no torch to pack it.
    done = call("build_sdist", tmp_path, TRACEHOST_PYTHON=str(bare()))
    assert done.returncode == 0, done.stderr
    name = f"tracehost-{tracehost.__version__}"
    with tarfile.open(tmp_path / f"{name}.tar.gz") as archive:
        held = {path.removeprefix(f"{name}/") for path in archive.getnames()}
        info = archive.extractfile(f"{name}/PKG-INFO").read().decode()
    top = {"CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert held == {*sources(), *top}
    assert {"Requires-Dist: torch<2.16,>=2.11", "Dynamic: Requires-Dist"} <= {*info.splitlines()}


def test_missing_packages_are_told_at_once_by_name(tmp_path):
    off = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("fmt", "Boost", "nlohmann_json")]
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DTRACEHOST_BUILD_TESTS=OFF", *off], env=clean_environment(), capture_output=True, text=True, timeout=100)  # fmt: skip
    assert done.returncode != 0
    assert (
        " tracehost: this machine lacks what these packages of Debian have: "
        "apt-get install libfmt-dev nlohmann-json3-dev libboost-program-options-dev\n"
    ) in done.stderr


def test_pip_knows_the_files_of_this_installation():
    """What setup installs, pip can replace and remove; so can setup what pip has installed."""
    files = {
        Path(file.locate()).resolve() for file in importlib.metadata.distribution("tracehost").files
    }
    assert {file for file in files if not file.exists() and file.suffix != ".pyc"} == set()
    assert {HOST.resolve(), Path(tracehost.__file__).resolve()} <= files
    prefix = Path(sys.prefix).resolve()
    assert prefix / "include" / "tracehost" / "tracehost.h" in files
    assert prefix / "lib" / "pkgconfig" / "tracehost.pc" in files


@pytest.mark.skipif(
    not (BUILD / "cmake_install.cmake").exists(),
    reason=f"no build tree in {BUILD}: set TRACEHOST_BUILD",
)
@pytest.mark.parametrize("destdir", [False, True])
def test_a_module_that_has_moved_is_removed(tmp_path, destdir):
    """An older installation's file would still be imported by its old name. Where a package is made, nothing is
    removed, nor is a file that no installation of tracehost has written down."""
    prefix = "/opt/tracehost" if destdir else tmp_path
    into = {"DESTDIR": str(tmp_path)} if destdir else {}
    site = Path(f"{tmp_path}/{prefix}" if destdir else tmp_path).joinpath(
        *Path(tracehost.__file__).parts[len(Path(sys.prefix).parts) : -2]
    )
    moved = [
        site / "tracehost/autograph/_compile.py",
        site / "tracehost_commands/runner_of_old.py",
        site / "tracehost/lib/libtracehost.so.0.0",
    ]
    others = [
        site / "tracehost_of_mine/kept.py",
        site / "tracehost/lib/kept.txt",
        site / "tracehost/not_ours.py",
    ]
    for file in moved + others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    older = site / "tracehost-0.0.1.dist-info"
    older.mkdir()
    files = [file.relative_to(site).as_posix() for file in moved]
    (older / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, "tracehost/gone.py"]))
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], env=clean_environment(**into), capture_output=True, text=True, timeout=100)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [file for file in moved if file.exists()] == (moved if destdir else [])
    assert all(file.exists() for file in others)
    assert (site / "tracehost/autograph/conversion/compile.py").exists()
    assert older.exists() == destdir
    (info,) = set(site.glob("tracehost-*.dist-info")) - {older}
    assert "/_compile.py" not in (info / "RECORD").read_text()


def sections(file: Path) -> set[str]:
    shown = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True)
    return set(re.findall(r"\] (\.\S+)", shown.stdout))


@pytest.mark.skipif(
    not CACHE.exists() or "CMAKE_BUILD_TYPE:STRING=Release" not in CACHE.read_text(),
    reason=f"{BUILD} is no Release build: its libraries keep their debug information",
)
def test_debug_information_lies_apart(tmp_path):
    module = Path(tracehost._tracehost.__file__)
    for library in [module, module.parent / "lib" / f"libtracehost.so.{MINOR}"]:
        assert {".symtab", ".gnu_debuglink"} <= sections(library)
        assert ".debug_info" not in sections(library)
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "debug"], env=clean_environment(), capture_output=True, text=True, timeout=100)  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = {file.name: file for file in tmp_path.rglob("?*.debug")}
    assert {f"{module.name}.debug", f"libtracehost.so.{MINOR}.debug", "tracehost.debug"} <= set(files)  # fmt: skip
    assert all(file.parent.name == ".debug" for file in files.values())


def test_libraries_are_looked_for_beside_their_own_place():
    prefix, package = Path(sys.prefix), Path(tracehost.__file__).parent
    libraries = [
        *package.glob("*.so"),
        *(package / "lib").iterdir(),
        *(prefix / "lib").glob("libtracehost*"),
    ]
    assert len(libraries) >= 4
    system = re.compile(r"/(usr/)?lib(/|$)")
    for library in libraries:
        shown = subprocess.run(
            ["readelf", "-d", library], capture_output=True, text=True, check=True
        ).stdout
        (paths,) = re.findall(r"\(RUNPATH\) .*\[(.*)\]", shown)
        # libpython may lie where it was built.
        others = [p for p in paths.split(":") if not p.startswith("$ORIGIN")]
        assert all(not system.match(p) and list(Path(p).glob("libpython3*")) for p in others), paths
