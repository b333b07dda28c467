"""Disks, pipes, links and names that are in the way of an archive."""

import enum
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import types

import pytest
import torch
import tracehost
from crafted import MANIFEST, changed
from tracehost import ArchiveError
from tracehost_commands import export, inspect
from tracehost_commands.errors import CommandError
from tracehost_commands.reading import read


@pytest.fixture
def scaled():
    f = tracehost.function(lambda x, n=2: x * n, name="scaled")
    f(torch.ones(3))
    return f


@pytest.fixture
def large():
    weight = torch.rand(1000, 1000)
    f = tracehost.function(lambda x: x @ weight, name="large")
    f(torch.ones(1, 1000))
    return f


# -- writing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 100, 4000, 100_000, 3_999_000])
def test_a_limit_on_the_size_of_files(tmp_path, large, limit):
    path = tmp_path / "large.pt"
    path.write_bytes(b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(
        signal.SIGXFSZ, signal.SIG_DFL
    )  # as in a program that does not ignore it
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(ArchiveError) as caught:
            large.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(caught.value) == f"{path} can't be written: File too large"
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"before"
    large.save(path)
    assert torch.equal(
        tracehost.load(path)["large"](torch.ones(1, 1000)), large(torch.ones(1, 1000))
    )


def test_a_full_disk(tmp_path, large):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(ArchiveError) as caught:
            large.save(disk / "large.pt")
        assert str(caught.value) == f"{disk / 'large.pt'} can't be written: No space left on device"
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


SAVES = """
import sys, torch, tracehost
weight = torch.rand(1000, 1000)
f = tracehost.function(lambda x: x @ weight, name="large")
f(torch.ones(1, 1000))
while True:
    f.save(sys.argv[1])
"""


def unfinished(folder):
    return [name for name in os.listdir(folder) if name.startswith(".tracehost.")]


def test_a_killed_save_is_not_in_the_way_of_the_next(tmp_path, scaled):
    """The file that it leaves behind goes with the next save in its folder."""
    path = tmp_path / "large.pt"
    for _ in range(3):
        saving = subprocess.Popen([sys.executable, "-c", SAVES, str(path)])
        while not unfinished(tmp_path) and saving.poll() is None:
            pass
        saving.kill()
        saving.wait()
        if path.exists():
            tracehost.load(path)
    (tmp_path / ".tracehost.0123456789abcdef.new").write_bytes(b"PK")
    (tmp_path / ".tracehost.mine.new").write_bytes(b"of a user")
    scaled.save(tmp_path / "other.pt")
    assert unfinished(tmp_path) == [".tracehost.mine.new"]


def test_a_save_under_way_keeps_its_file(tmp_path, scaled):
    under_way = tmp_path / ".tracehost.0123456789abcdef.new"
    with open(under_way, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        scaled.save(tmp_path / "other.pt")
        assert under_way.exists()
    scaled.save(tmp_path / "other.pt")
    assert not under_way.exists()


def test_a_path_with_a_nul_byte(tmp_path, scaled):
    scaled.save(tmp_path / "a")
    message = f"{tmp_path}/a is followed by a NUL byte, and no file's path has one"
    for use in (scaled.save, tracehost.load):
        with pytest.raises(ArchiveError) as caught:
            use(f"{tmp_path}/a\0b")
        assert str(caught.value) == message


def test_a_name_as_long_as_the_disk_allows(tmp_path, scaled):
    path = tmp_path / ("a" * 252 + ".pt")
    scaled.save(path)
    assert list(tracehost.load(path)) == ["scaled"]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_link_to_a_device(path):
    path.symlink_to("/dev/full")


OTHERS = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": make_pipe,
    "a socket": make_socket,
    "a device": make_link_to_a_device,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_file_is_not_replaced(tmp_path, monkeypatch, scaled, kind):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    path = tmp_path / "s"
    OTHERS[kind](path if kind != "a socket" else type(path)("s"))
    mode = os.lstat(path).st_mode
    with pytest.raises(ArchiveError) as caught:
        scaled.save(path)
    assert str(caught.value) == f"{path} can't be written: it is {kind}"
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path)
    if kind != "a socket":  # which can't be opened at all
        assert str(caught.value) == f"{path} is no file: it is {kind}"
    assert os.lstat(path).st_mode == mode and os.listdir(tmp_path) == ["s"]


def test_devices_themselves(scaled):
    before = os.stat("/dev/full")
    with pytest.raises(ArchiveError, match="^/dev/full can't be written: it is a device$"):
        scaled.save("/dev/full")
    with pytest.raises(ArchiveError, match="^/dev/zero is no file: it is a device$"):
        tracehost.load("/dev/zero")
    assert os.stat("/dev/full").st_rdev == before.st_rdev


def test_a_link_stays_and_its_file_is_written(tmp_path, scaled):
    (tmp_path / "real").mkdir()
    link, target = tmp_path / "link.pt", tmp_path / "real" / "f.pt"
    link.symlink_to("real/f.pt")
    with pytest.raises(ArchiveError) as caught:
        scaled.save(link)
    assert str(caught.value) == (
        f"{link} can't be written: it is a link to a file that does not exist (No such file or directory)"
    )
    target.write_bytes(b"before")
    scaled.save(link)
    assert (
        link.is_symlink() and not target.is_symlink() and list(tracehost.load(target)) == ["scaled"]
    )
    assert os.listdir(tmp_path / "real") == ["f.pt"]


def test_paths_that_are_not_utf8(tmp_path, scaled, capsys):
    name = os.fsdecode(b"caf\xe9.pt")
    path = tmp_path / name
    scaled.save(path)
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9.pt"]
    for given in (path, str(path), os.fsencode(path)):
        archive = tracehost.load(given)
        assert archive.path == str(path) and torch.equal(archive["scaled"](torch.ones(3)), torch.ones(3) * 2)  # fmt: skip
    tracehost.save(os.fsencode(tmp_path / "other.pt"), {"scaled": scaled})
    assert inspect.main(*read("inspect", [str(path)])) == 0
    assert capsys.readouterr().out.startswith("caf\\xe9.pt: ")
    with pytest.raises(ArchiveError, match=r"n\\xe9.pt can't be read: No such file or directory$"):
        tracehost.load(tmp_path / os.fsdecode(b"n\xe9.pt"))
    path.write_bytes(b"x")
    with pytest.raises(CommandError) as caught:
        inspect.main(*read("inspect", [str(path)]))
    assert "caf\\xe9.pt is not a tracehost archive" in str(caught.value)


# -- the commands ------------------------------------------------------------------------------------------


def test_commands_reject_pipes_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CommandError) as caught:
        inspect.main(*read("inspect", [str(pipe)]))
    assert (caught.value.code, str(caught.value)) == (1, f"{pipe} is no file: it is a pipe")
    with pytest.raises(CommandError) as caught:
        export.main(*read("export", [f"--output={pipe}", "archive_module:plain"]))
    assert (caught.value.code, str(caught.value)) == (2, f"cannot write '{pipe}': it is no regular file")  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------------


def test_a_library_that_is_not_loaded_is_named(tmp_path):
    """In a process of its own: an operator is registered for as long as a process lives."""
    program = tmp_path / "make.py"
    program.write_text(
        "import sys, torch, tracehost\n"
        "library = torch.library.Library('mylib', 'DEF')\n"
        "library.define('twice(Tensor x) -> Tensor')\n"
        "library.impl('twice', lambda x: x * 2, 'CompositeExplicitAutograd')\n"
        "f = tracehost.function(lambda x: torch.ops.mylib.twice(x), name='f')\n"
        "f(torch.ones(2))\n"
        "f.save(sys.argv[1])\n"
        "print(tracehost.load(sys.argv[1])['f'](torch.ones(2)))\n"
    )
    path = tmp_path / "f.pt"
    done = subprocess.run([sys.executable, program, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "tensor([2., 2.])\n"), done.stderr
    expected = (
        f"{path}: it has operators of 'mylib', which this process has not registered. Import the package, or load the "
        "library, before the archive."
    )
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path)
    assert str(caught.value) == expected
    with pytest.raises(CommandError) as caught:
        inspect.main(*read("inspect", [str(path)]))
    assert str(caught.value) == expected
    assert (
        inspect.main(*read("inspect", ["--json", str(path)])) == 0
    )  # the manifest needs no library


def test_an_enum_whose_module_is_not_imported(tmp_path, monkeypatch, capsys):
    module = types.ModuleType("palette")
    exec("import enum\nclass Colour(enum.Enum):\n  RED = 1\n  BLUE = 2\n", vars(module))
    monkeypatch.setitem(sys.modules, "palette", module)
    Colour = module.Colour
    assert issubclass(Colour, enum.Enum)

    @tracehost.function
    def paint(x, colour=Colour.RED):
        return x + 1 if colour is Colour.RED else (x - 1, colour)

    paint(torch.zeros(2))
    paint(torch.zeros(2), Colour.BLUE)
    path = tmp_path / "paint.pt"
    paint.save(path)
    monkeypatch.delitem(sys.modules, "palette")
    archive = tracehost.load(path)
    assert inspect.main(*read("inspect", [str(path)])) == 0
    shown = capsys.readouterr().out
    assert "\npaint(x, colour=Colour.RED)\n" in shown
    assert "palette" not in sys.modules
    with pytest.raises(ArchiveError) as caught:
        archive["paint"](torch.zeros(2))
    assert str(caught.value) == (
        "paint: the value RED of palette.Colour is needed: import palette first"
    )
    monkeypatch.setitem(sys.modules, "palette", module)
    assert torch.equal(archive["paint"](torch.zeros(2)), torch.ones(2))
    assert archive["paint"](torch.zeros(2), Colour.BLUE)[1] is Colour.BLUE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name": "n"', b'"name": "if x"'),
        (b'"name": "n"', b'"name": "x"'),
        (b'"name": "n"', b'"name": "class"'),
        (b'"kind": "positional"', b'"kind": "var_keyword"'),
        (b'"value": 2', b'"value": {"torch": "_inductor"}'),
        (b'"value": 2', b'"value": {"integer": "1_0"}'),
        (b'"value": 2', b'"value": {"record": "a:b", "fields": ["x y"], "items": [1]}'),
        (b'"value": 2', b'"value": {"dict": [[{"list": []}, 1]]}'),
        (b'"value": 2', b'"value": {"list": [{"absent": true}]}'),
        (b'"value": 2', b'"value": "\xff"'),
        (b'"value": 2', b'"value": {"member": "tracehost"}'),
        (b'"value": 2', b'"value": ' + b"[" * 100_000 + b"]" * 100_000),
    ],
)
def test_values_that_python_does_not_take(tmp_path, scaled, old, new):
    path = tmp_path / "f.pt"
    scaled.save(path)
    changed(path, MANIFEST, old, new)
    modules = set(sys.modules)
    try:
        tracehost.load(path)
    except ArchiveError as error:
        assert str(error).startswith(f"{path}: ") and len(str(error)) > len(f"{path}: ")
    else:
        assert b"absent" in new  # a field without a value, in a list: a None
    assert set(sys.modules) == modules
