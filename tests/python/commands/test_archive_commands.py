"""tracehost export and tracehost inspect, through the binary."""

import json
import re
import sys

import pytest
import torch
import tracehost
from conftest import ROOT
from tracehost import TensorSpec
from tracehost_commands import export, inspect
from tracehost_commands.errors import CommandError
from tracehost_commands.reading import read

TESTS = ROOT / "tests" / "python"


@pytest.fixture
def command(run_host):
    def run(*words):
        return run_host(*words, env={"PYTHONPATH": str(TESTS / "support")})

    return run


@pytest.fixture
def said(command):
    """said(*words) -> exit code and the one line on stderr"""

    def run(*words):
        done = command(*words)
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stdout + done.stderr
        return done.returncode, done.stderr.removesuffix("\n")

    return run


@pytest.fixture
def archive(tmp_path):
    """a.pt of one function with two graphs."""
    double = tracehost.function(lambda x, n=2: x * n, name="double")
    double.warm_up([TensorSpec([None, 3])], [TensorSpec([], torch.int64), 3])
    double.save(tmp_path / "a.pt")
    return "a.pt"


def test_export_and_inspect(command):
    done = command("export", "archive_module:plain", "-o", "p.pt", "--signature", "f32[?,128]")
    assert (done.returncode, done.stderr) == (0, "")
    first, digest, sha256, *rest = done.stdout.splitlines()
    assert first.startswith("p.pt: ") and digest.startswith("hash xxh3:")
    assert re.fullmatch("sha256 [0-9a-f]{64}", sha256)
    assert rest == [
        "",
        "plain(x)",
        "  0  (x: float32[None, 128]) -> float32[None, 128]",
        "     method plain, 1 op, 0 tensors of the archive",
    ]
    assert command("inspect", "p.pt").stdout == done.stdout
    assert "aten::mul" in command("inspect", "p.pt", "--graph", "0").stdout
    assert command("inspect", "p.pt", "--code", "0").stdout == (
        "graph(%x : Tensor):\n"
        "  %1 : Tensor = prim::Constant[value={3}]()\n"
        "  %2 : Tensor = aten::mul(%x, %1)\n"
        "  return (%2)\n"
    )
    manifest = json.loads(command("inspect", "--json", "p.pt").stdout)
    assert manifest["functions"][0]["name"] == "plain"


def test_inspect_is_as_recorded(command, tmp_path):
    from archive_module import Net, shift

    net = Net().eval()
    net.classify.warm_up([TensorSpec([None, 3])], [TensorSpec([1, 3]), 1.0])
    tracehost.save(tmp_path / "net.pt", {"classify": net.classify, "shift": shift})
    done = command("inspect", "net.pt")
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(r"[\d,]+ bytes", "SIZE bytes", done.stdout)
    text = re.sub(r"(tracehost|torch) \d\S*?(?=,)", r"\1 VERSION", text)
    text = re.sub(r"xxh3:[0-9a-f]+", "xxh3:HASH", text)
    text = re.sub(r"sha256 [0-9a-f]+", "sha256 HASH", text)
    assert text == (TESTS / "data" / "inspect.txt").read_text()


def test_signatures_are_a_graph_each(command, tmp_path):
    done = command(
        "export", "archive_module:plain", "--output=p.pt",
        "--signature", "f32[?,128]", "--signature", "f64[]", "--name", "scale", "--device", "cpu",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    loaded = tracehost.load(tmp_path / "p.pt")
    assert list(loaded) == ["scale"] and loaded.device == torch.device("cpu")
    assert sorted(map(str, loaded["scale"].signatures)) == [
        "(x: float32[None, 128]) -> float32[None, 128]",
        "(x: float64[]) -> float64[]",
    ]


def test_a_function_with_an_input_signature_needs_none(command, tmp_path):
    assert command("export", "archive_module:shift", "-o", "s.pt").returncode == 0
    loaded = tracehost.load(tmp_path / "s.pt")
    assert torch.equal(
        loaded["shift"](torch.ones(2, 3), torch.tensor(1))[0], torch.full((2, 3), 2.0)
    )


SCRIPT = """import json, sys
print(sys.argv, json.dumps(1), sys.path[0])
class tools:
    @staticmethod
    def halve(x): return x / 2
def broken(x): return x.no_such_thing
if __name__ == "__main__": print("not reached")
"""


def test_scripts(command, tmp_path):
    """One named like a module that others need; it sees its folder first on the path, as with python."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "json.py").write_text(
        SCRIPT.replace("import json, sys", "import sys\nclass json: dumps = str")
    )
    done = command("export", "sub/json.py:tools.halve", "-o", "h.pt", "--signature=f32[2]")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"['sub/json.py'] 1 {tmp_path / 'sub'}"
    assert list(tracehost.load(tmp_path / "h.pt")) == ["halve"]


def test_lines_of_the_source_are_kept_on_demand(command, tmp_path):
    (tmp_path / "tool.py").write_text("def at(x, i):\n    return x[i]\n")
    words = ("export", "tool.py:at", "-o", "at.pt", "--signature=f32[?], i64[]", "--source-paths")
    assert command(*words).returncode == 0
    at = tracehost.load(tmp_path / "at.pt")["at"]
    with pytest.raises(IndexError) as caught:
        at(torch.ones(3), torch.tensor(7))
    assert any("tool.py" in note for note in caught.value.__notes__)


def test_what_a_body_raises_has_its_traceback(command, tmp_path):
    (tmp_path / "tool.py").write_text(SCRIPT)
    done = command("export", "tool.py:broken", "-o", "b.pt", "--signature=f32[2]")
    assert done.returncode == 1 and "no_such_thing" in done.stderr and "tool.py" in done.stderr
    assert not (tmp_path / "b.pt").exists()


@pytest.fixture
def complaint(tmp_path, monkeypatch):
    """complaint(module, options, words) -> exit code and message, in this process"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("sys.argv", [*sys.argv])

    def run(module, options, words):
        with pytest.raises(CommandError) as caught:
            module.main(*read(module.__name__.rpartition(".")[2], [*options, *words]))
        return caught.value.code, str(caught.value)

    return run


def test_complaints_are_one_line(said, tmp_path, archive):
    (tmp_path / "b.pt").write_bytes(b"hello")
    assert said("export", "none.py:f", "-o", "p.pt") == (
        2,
        "tracehost: cannot open 'none.py': No such file or directory",
    )
    assert said("export", "archive_module:plain", "-o", "p.pt") == (
        1,
        "tracehost: plain can't be saved: it has no specialization yet. Call it, or request one: plain.get_concrete_function(tracehost.TensorSpec(...))",
    )
    assert said("export", "archive_module:plain", "--singature", "f32[]") == (
        2,
        "tracehost: unknown option '--singature'; did you mean '--signature ARGUMENTS'? (try 'tracehost help export')",
    )
    assert said("export", "archive_module:plain", "-o") == (
        2,
        "tracehost: the required argument for option '--output' is missing; try 'tracehost help export'",
    )
    assert said("inspect", "none.pt") == (
        2,
        "tracehost: cannot open 'none.pt': No such file or directory",
    )
    assert said("inspect", "b.pt") == (
        1,
        "tracehost: b.pt is not a tracehost archive: it is not a zip file",
    )
    assert said("inspect", "a.pt", "--output=b") == (
        2,
        "tracehost: option '--output' does not apply to 'inspect'; try 'tracehost help inspect'",
    )


TO, PLAIN = "--output=p.pt", "archive_module:plain"
EXPORTS = [
    ([TO], [], "'export' takes one MODULE:FUNCTION or SCRIPT.py:FUNCTION"),
    ([TO], [PLAIN, "x"], f"'export' takes one MODULE:FUNCTION or SCRIPT.py:FUNCTION, got '{PLAIN} x'"),
    ([], [PLAIN], "'export' needs the file to write: -o OUT"),
    ([TO], ["archive_module:none"], "archive_module has no 'none'"),
    ([TO], ["archive_module:torch"], "archive_module:torch is of type module, not a function"),
    ([TO], ["no_such:f"], "there is no module 'no_such', and no such file; a script needs its suffix .py"),
    ([TO], ["f"], "'f' names no function: write MODULE:FUNCTION or SCRIPT.py:FUNCTION"),
    ([TO, "--signature=f33[2]"], [PLAIN], "'f33' in --signature is not a dtype; write one of f16, f32, f64, bf16, i8, i16, i32, i64, u8, c64, c128, bool"),
    ([TO, "--signature=f32[x]"], [PLAIN], "'x' in 'f32[x]' is not a size: write a number, or ? for any"),
    ([TO, "--signature=relu"], [PLAIN], "'relu' in --signature is neither a tensor like f32[?,128] nor a Python literal"),
    ([TO, "--signature=f32[?,3"], [PLAIN], "'f32[?,3' in --signature lacks its ']'"),
    ([TO, "--signature=f32[], 2"], [PLAIN], "--signature 'f32[], 2' does not fit (x): too many positional arguments"),
    ([TO, "--device=cpu"], [PLAIN], "--device is that of tensors in --signature; give one"),
    ([TO, "--signature=f32[]", "--device=tpu"], [PLAIN], "--device takes a device such as cpu or cuda:0, got 'tpu'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words", "message"), EXPORTS)
def test_exports_that_are_wrong(complaint, tmp_path, options, words, message):
    assert complaint(export, options, words) == (2, message)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_stops_before_the_code(complaint, tmp_path):
    (tmp_path / "tool.py").write_text("raise RuntimeError")
    assert complaint(export, ["--output=no/p.pt"], ["tool.py:f"]) == (
        2,
        "cannot write 'no/p.pt': No such file or directory",
    )
    assert complaint(export, ["--output=."], ["tool.py:f"]) == (
        2,
        "cannot write '.': Is a directory",
    )


INSPECTIONS = [
    ([], [], "'inspect' takes one FILE"),
    ([], ["a.pt", "b.pt"], "'inspect' takes one FILE, got 'a.pt b.pt'"),
    (["--json"], ["none.pt"], "cannot open 'none.pt': No such file or directory"),
    ([], ["."], "cannot open '.': Is a directory"),
    (["--json", "--code=0"], ["a.pt"], "give one of --json, --graph and --code"),
    (["--graph=2"], ["a.pt"], "a.pt has 2 graphs, there is no graph 2"),
    (["--code=2"], ["a.pt"], "a.pt has 2 graphs, there is no graph 2"),
    (["--graph=-1"], ["a.pt"], "--graph takes a non-negative integer, got '-1'"),
    (["--device=tpu"], ["a.pt"], "--device takes a device such as cpu or cuda:0, got 'tpu'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words", "message"), INSPECTIONS)
def test_inspections_that_are_wrong(complaint, archive, options, words, message):
    assert complaint(inspect, options, words) == (2, message)


def test_a_script_is_no_archive(complaint, tmp_path):
    (tmp_path / "net.py").write_text("print(1)\n" * 20)
    text = complaint(inspect, [], ["net.py"])[1]
    assert text.startswith("net.py is not a tracehost archive")
    assert text.endswith("; 'tracehost export net.py:FUNCTION -o FILE' makes one")


def test_a_file_that_is_no_archive(complaint, tmp_path):
    (tmp_path / "b.pt").write_bytes(b"hello")
    for options in ([], ["--json"], ["--graph=0"]):
        assert complaint(inspect, options, ["b.pt"]) == (
            1,
            "b.pt is not a tracehost archive: it is not a zip file",
        )
