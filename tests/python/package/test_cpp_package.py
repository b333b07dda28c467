"""The C++ package as a user has it: installed, moved elsewhere, found by CMake, used without Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import tracehost
from conftest import HOST, ROOT, clean_environment

BUILD = Path(os.environ.get("TRACEHOST_BUILD") or ROOT / "build" / "release")
HEADERS = sorted(p.name for p in (ROOT / "host" / "include" / "tracehost").glob("*.h"))

pytestmark = pytest.mark.skipif(
    not (BUILD / "cmake_install.cmake").exists(),
    reason=f"no build tree in {BUILD}: set TRACEHOST_BUILD",
)


def run(*command, cwd=None, env=None, timeout=500):
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_environment() if env is None else env,
        timeout=timeout,
    )


def passed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The prefix, at a place that it was not installed to."""
    folder = tmp_path_factory.mktemp("package")
    passed(run("cmake", "--install", BUILD, "--prefix", folder / "first"))
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"


def configure(package, source, build, *options):
    return run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={package}", "-DCMAKE_BUILD_TYPE=Release", *options)  # fmt: skip


def build(package, example, folder):
    passed(configure(package, ROOT / "examples" / "cpp" / example, folder))
    passed(run("cmake", "--build", folder))
    return folder / example


def without_environment(program, *arguments):
    """Under `env -i`: nothing of this process helps it to find anything."""
    return run(program, *arguments, env={}, cwd="/")


def test_libraries_show_names_of_ours_alone(package):
    """What is compiled in (fmt, JSON) may be there in other versions, too."""
    for name in ("libtracehost.so", "libtracehost_embed.so"):
        symbols = passed(run("nm", "-D", "--defined-only", package / "lib" / name)).split("\n")
        names = {line.split()[-1] for line in symbols if line}
        assert names - {"TRACEHOST_0", "TRACEHOST_PRIVATE"}
        assert {one for one in names if "9tracehost" not in one} <= {
            "TRACEHOST_0",
            "TRACEHOST_PRIVATE",
        }


PUBLIC = ROOT / "tests" / "python" / "data" / "public_symbols.txt"


def test_public_symbols_are_those_of_the_list(package):
    """The version node TRACEHOST_0 is what a program may link to. `TRACEHOST_WRITE_SYMBOLS=1` writes the list again."""
    shown = passed(run("nm", "-D", "-C", "--defined-only", package / "lib" / "libtracehost.so"))
    # Weak ones are inline code and templates, of which each compiler leaves others.
    rows = [line.split(maxsplit=2) for line in shown.splitlines()]
    public = sorted(
        {
            name.removesuffix("@@TRACEHOST_0")
            for _, kind, name in rows
            if kind == "T" and name.endswith("@@TRACEHOST_0")
        }
    )
    if os.environ.get("TRACEHOST_WRITE_SYMBOLS"):
        PUBLIC.write_text("".join(f"{name}\n" for name in public))
    assert public == PUBLIC.read_text().splitlines()


@pytest.fixture(scope="module")
def digits(package, tmp_path_factory):
    return build(package, "classify_digits", tmp_path_factory.mktemp("digits"))


def test_digits_are_classified_without_python(package, digits, tmp_path):
    program = digits
    libraries = passed(run("ldd", program))
    assert "not found" not in libraries and "libpython" not in libraries
    assert str(package / "lib" / "libtracehost.so") in libraries
    train = ROOT / "examples" / "cpp" / "classify_digits" / "train.py"
    passed(run(HOST, train, tmp_path / "data"))
    lines = passed(without_environment(program, tmp_path / "data")).splitlines()
    assert lines[:2] == [
        "predict(images: float32[None, 64], top=3)",
        "predict(images: float32[None, 64], top=1)",
    ]
    assert re.fullmatch(r"360 images, at most \d\.\de[-+]\d\d from Python's results", lines[2])
    assert re.fullmatch(r"4 threads, 2000 calls: p50 \d+\.\d+ ms, p99 \d+\.\d+ ms", lines[3])
    assert lines[4:6] == [
        "predict: none of 2 graphs serves this call.",
        "  why      argument 'images', dimension 1, is 80, not 64",
    ]


OTHER_TORCH = """#include <stdint.h>
uint64_t aoti_torch_abi_version(void) { return (uint64_t)2 << 56 | (uint64_t)10 << 48; }
"""


def test_another_pytorch_at_run_time_is_named(digits, tmp_path):
    (tmp_path / "other.c").write_text(OTHER_TORCH)
    passed(run("gcc", "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so"))
    done = run(digits, tmp_path, env={"LD_PRELOAD": str(tmp_path / "other.so")}, cwd="/")
    minor = ".".join(torch.__version__.split(".")[:2])
    assert done.returncode == 1
    assert done.stderr == (
        f"tracehost {tracehost.__version__} was built for PyTorch {minor}, but 2.10 is loaded. Put the lib folder of "
        f"PyTorch {minor} on the program's library path.\n"
    )


NEWER_PROGRAM = """#include <torch/headeronly/version.h>
#undef TORCH_VERSION_MAJOR
#define TORCH_VERSION_MAJOR 3
#include <tracehost/archive.h>
#include <iostream>
int main() {
  try {
    tracehost::Archive::load("none.thz");
  } catch (const tracehost::Error &e) {
    std::cout << e.what() << "\\n";
  }
}
"""


def test_a_program_of_another_pytorch_is_told(package, tmp_path):
    (tmp_path / "main.cpp").write_text(NEWER_PROGRAM)
    passed(run("g++", "-std=c++20", tmp_path / "main.cpp", "-o", tmp_path / "main", *flags(package, "--cflags"), *flags(package, "--libs")))  # fmt: skip
    built, newer = (
        ".".join(v.split(".")[:2])
        for v in (torch.__version__, f"3.{torch.__version__.split('.')[1]}")
    )
    assert passed(
        run(
            tmp_path / "main",
            env={"LD_LIBRARY_PATH": f"{package}/lib:{Path(torch.__file__).parent}/lib"},
        )
    ) == (
        f"this program was compiled with PyTorch {newer}, but tracehost {tracehost.__version__} for {built}. Build both "
        f"with one, or install the tracehost made for {newer}.\n"
    )


def test_a_model_is_replaced_under_load(package, tmp_path):
    program = build(package, "hot_reload", tmp_path / "build")
    passed(run(HOST, ROOT / "examples" / "cpp" / "hot_reload" / "save.py", tmp_path / "data"))
    output = passed(without_environment(program, tmp_path / "data"))
    assert re.search(r"^\d+ calls, 0 failed; .*; 5 reloads, 5 rejected$", output, re.MULTILINE)


def test_a_python_file_is_called_from_threads(package, tmp_path):
    program = build(package, "embed", tmp_path / "build")
    folder = ROOT / "examples" / "cpp" / "embed"
    done = run(program, folder, env={"TRACEHOST_PYTHON": sys.prefix})
    lines = passed(done).splitlines()
    assert lines[-1] == "naive: 8 traces for 8 lengths; score: 1 trace, 39 calls without Python"
    assert re.search(r"^/.*/scores.py:23: RetraceWarning: 5 out of the last 5 calls", done.stderr)
    assert "argument 'items', dimension 0, took 5 values (1, 2, 3, 4, 5)" in done.stderr
    assert "input_signature=[tracehost.TensorSpec([None], torch.int64)]" in done.stderr


PROJECT = """cmake_minimum_required(VERSION 3.25)
project(consumer NONE)
find_package(tracehost {version} CONFIG REQUIRED COMPONENTS {components})
get_target_property(definitions tracehost::torch INTERFACE_COMPILE_DEFINITIONS)
message(STATUS "definitions ${{definitions}}; targets ${{tracehost_TORCH_ROOT}}")
foreach(name runtime headers torch)
  if(NOT TARGET tracehost::${{name}})
    message(FATAL_ERROR "no tracehost::${{name}}")
  endif()
endforeach()
"""


@pytest.fixture
def consume(package, tmp_path):
    """consume(*options, components=, version=) -> what configuring such a project says."""

    def configured(*options, components="runtime", version="0.2"):
        text = PROJECT.format(components=components, version=version)
        (tmp_path / "CMakeLists.txt").write_text(text)
        return configure(package, tmp_path, tmp_path / "build", *options)

    return configured


def words(done):
    return " ".join(done.stderr.split())


def test_the_package_carries_what_torch_was_compiled_with(consume):
    assert "definitions _GLIBCXX_USE_CXX11_ABI=1" in passed(consume())


def test_another_torch_is_rejected_by_version(consume, tmp_path):
    torch = tmp_path / "old" / "torch"
    for path, text in {
        "share/cmake/Torch/TorchConfig.cmake": "",
        "include/torch/headeronly/version.h": "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n",
    }.items():
        (torch / path).parent.mkdir(parents=True)
        (torch / path).write_text(text)
    done = consume(f"-DTorch_DIR={torch}/share/cmake/Torch")
    assert done.returncode != 0
    assert re.search(
        r"this tracehost was built for PyTorch 2\.\d+, but \S+/old/torch \(Torch_DIR or CMAKE_PREFIX_PATH\) is PyTorch 2\.9\.",
        words(done),
    )


def test_a_component_that_is_not_there_is_named(consume):
    done = consume(components="runtime nonsense")
    assert done.returncode != 0
    assert "this tracehost has no component 'nonsense'" in words(done)


def test_another_version_of_ours_is_rejected(consume):
    done = consume(version="9.0")
    assert done.returncode != 0 and "9.0" in words(done)


def flags(package, *wanted, module="tracehost"):
    env = clean_environment(PKG_CONFIG_PATH=str(package / "lib" / "pkgconfig"))
    return passed(run("pkg-config", *wanted, module, env=env)).split()


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config_finds_it_where_it_is(package):
    compile_flags, link_flags = flags(package, "--cflags"), flags(package, "--libs")
    included = [Path(f[2:]) for f in compile_flags if f.startswith("-I")]
    assert any((folder / "tracehost" / "tracehost.h").exists() for folder in included)
    assert "-DNDEBUG" not in compile_flags, "asserts are the program's own choice"
    folders = [Path(f[2:]).resolve() for f in link_flags if f.startswith("-L")]
    assert (package / "lib").resolve() in folders


def needed(file):
    """The libraries that a file names itself, and where it looks for them."""
    lines = passed(run("readelf", "-d", file)).splitlines()
    names = {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}
    paths = [
        line.split("[")[1].rstrip("]") for line in lines if "RPATH" in line or "RUNPATH" in line
    ]
    return names, paths[0].split(":") if paths else []


def test_a_program_for_the_cpu_names_no_cuda_library(digits, package):
    for file in (
        digits,
        package / "lib" / "libtracehost.so",
        package / "lib" / "libtracehost_embed.so",
    ):
        names, _ = needed(file)
        assert not {n for n in names if "cuda" in n or n == "libtorch.so"}, (file, names)
    libraries = passed(run("ldd", digits))
    assert "libtorch_cpu.so" in libraries and "libtorch_cuda.so" not in libraries


HAS_CUDA = (Path(torch.__file__).parent / "lib" / "libtorch_cuda.so").exists()


@pytest.mark.skipif(not HAS_CUDA, reason="a PyTorch without CUDA")
def test_a_program_for_cuda_names_its_libraries(consume, package, tmp_path):
    passed(consume(components="runtime cuda"))
    (tmp_path / "main.cpp").write_text(DEVICES)
    source = tmp_path / "main.cpp"
    compile_flags = flags(package, "--cflags")
    for name, module in (("plain", "tracehost"), ("cuda", "tracehost-cuda")):
        passed(run("g++", source, "-o", tmp_path / name, *compile_flags, *flags(package, "--libs", module=module)))  # fmt: skip
    assert "libtorch_cuda.so" in needed(tmp_path / "cuda")[0]
    assert passed(run(tmp_path / "plain")) == (
        "there is no device 'cuda:99': this program has no CUDA libraries of PyTorch. Link tracehost::cuda "
        "(pkg-config: tracehost-cuda).\n"
    )
    assert re.fullmatch(r"there is no device 'cuda:99': \d+ CUDA devices? can be used\n", passed(run(tmp_path / "cuda")))  # fmt: skip


DEVICES = """#include <tracehost/tracehost.h>
#include <iostream>
int main() {
  try {
    tracehost::Archive::load("none.thz", {.device = "cuda:99"});
  } catch (const tracehost::DeviceError &e) {
    std::cout << e.what() << "\\n";
  }
}
"""


def test_libraries_in_one_folder_find_each_other(package):
    for name in ("libtracehost.so", "libtracehost_embed.so"):
        _, paths = needed(package / "lib" / name)
        assert paths[0] == "$ORIGIN"
    _, paths = needed(package / "lib" / "libtracehost.so")
    assert all(path.startswith("$ORIGIN") for path in paths)


EMBEDS = """#include <tracehost/embed.h>
#include <ATen/ATen.h>
#include <iostream>
int main(int, char **argv) {
  tracehost::embed::start({.path = {argv[1]}});
  std::cout << at::Tensor(tracehost::embed::import("bodies.py", "scale")(at::ones({1}), 3)).item<float>() << "\\n";
}
"""


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config_for_embedding_and_a_program_that_is_moved(package, tmp_path):
    """Found by a path from the program: where it lies with the libraries does not matter."""
    (tmp_path / "main.cpp").write_text(EMBEDS)
    (tmp_path / "app" / "bin").mkdir(parents=True)
    program = tmp_path / "app" / "bin" / "embeds"
    relative = "--define-variable=rpath=$ORIGIN/../lib"
    compile_flags = flags(package, "--cflags", module="tracehost-embed")
    link_flags = flags(package, relative, "--libs", module="tracehost-embed")
    passed(run("g++", tmp_path / "main.cpp", "-o", program, *compile_flags, *link_flags))
    assert needed(program)[1] == ["$ORIGIN/../lib"]
    lib = tmp_path / "app" / "lib"
    lib.mkdir()
    for file in (package / "lib").glob("libtracehost*.so.*"):
        shutil.copy(file, lib)
    torchs = Path(torch.__file__).parent
    for file in (torchs / "lib").glob("*.so*"):
        (lib / file.name).symlink_to(file)  # in place of copies of 2 GB
    (tmp_path / "nvidia").symlink_to(torchs.parent / "nvidia")
    (tmp_path / "app").rename(tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere" / "bin" / "embeds"
    done = run(moved, ROOT / "tests" / "embed", env={"TRACEHOST_PYTHON": sys.prefix}, cwd="/")
    assert passed(done) == "3\n"


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone_and_includes_atens_alone(header, package, tmp_path):
    text = (package / "include" / "tracehost" / header).read_text()
    included = re.findall(r'#include [<"]([^>"]+)[>"]', text)
    others = [i for i in included if "/" in i and not i.startswith(("tracehost/", "ATen/", "c10/"))]
    assert others in ([], ["torch/headeronly/version.h"])
    if header in ("function.h", "value.h"):  # others include them
        return
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <tracehost/{header}>\n#include <tracehost/{header}>\n")
    torch = next(
        line.split("=", 1)[1]
        for line in (package / "lib" / "pkgconfig" / "tracehost.pc").read_text().splitlines()
        if line.startswith("torch=")
    )
    passed(
        run(
            "g++",
            "-std=c++20",
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{package}/include",
            "-isystem",
            f"{torch}/include",
            source,
        )  # fmt: skip
    )
