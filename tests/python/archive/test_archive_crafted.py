"""Archives that somebody made to do harm: each is rejected before anything of it is used, with a sentence."""

import copy
import dataclasses
import json
import pickletools
import struct
import subprocess
import sys

import pytest
import torch
import tracehost
from crafted import DEBUG, MANIFEST, SOURCE, changed, error, packed, records, with_hash
from fuzz.mutate import INTEGERS, mutant
from tracehost import ArchiveError, TensorSpec
from tracehost._classes_like import named_tuple_like, record_like

NOT = "it is not what tracehost writes: "
DATA, CONSTANTS = "archive/data.pkl", "archive/constants.pkl"


@pytest.fixture
def path(tmp_path):
    """An archive with a weight of 3 x 4 and a constant; `x @ weight + 0.5`."""
    weight = torch.arange(12.0).reshape(3, 4)

    @tracehost.function
    def f(x):
        return x @ weight + torch.tensor([0.5, 1.5, 2.5, 3.5])

    f(torch.ones(2, 3))
    f.save(tmp_path / "f.pt", source_paths=True)
    return tmp_path / "f.pt"


def test_put_together_again_it_is_as_good_as_before(path):
    expected = tracehost.load(path)["f"](torch.ones(2, 3))
    path.write_bytes(with_hash(packed(records(path.read_bytes()))))
    assert torch.equal(tracehost.load(path)["f"](torch.ones(2, 3)), expected)


# -- the source --------------------------------------------------------------------------------------------

HEAD = b"  training : bool\n"
SETSTATE = b"  def __setstate__(self: __torch__.tracehost.Archive,\n    state: Tensor) -> NoneType:\n    return None\n"


def with_line(path, line):
    source = records(path.read_bytes())[SOURCE]
    at = source.index(b"    return ")
    parts = records(path.read_bytes())
    parts[SOURCE] = source[:at] + b"    " + line + b"\n" + source[at:]
    path.write_bytes(with_hash(packed(parts, deflate=False)))


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (SETSTATE, "__setstate__"),
        (SETSTATE.replace(b"__setstate__", b"__getstate__"), "__getstate__"),
        (SETSTATE.replace(b"__setstate__", b"more"), "more"),
        (SETSTATE.replace(b"__setstate__", b"__len__"), "__len__"),
    ],
)
def test_methods_that_the_manifest_does_not_name(path, method, name):
    source = records(path.read_bytes())[SOURCE]
    changed(path, SOURCE, b"  def f(", method + b"  def f(")
    line = source[: source.index(b"  def f(")].count(b"\n") + 1
    assert error(path) == f"{NOT}line {line} of its source has a method '{name}', which the manifest does not name"  # fmt: skip


def test_what_follows_forward_is_not_compiled(path):
    parts = records(path.read_bytes())
    parts[SOURCE] += SETSTATE + b"class Other(Module):\n  pass\nfor (\n"
    path.write_bytes(with_hash(packed(parts)))
    assert tracehost.load(path)["f"](torch.ones(2, 3)).shape == (2, 4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'_9 = torch.ljust("a", 4000000000)', "computes 'ljust' of constants"),
        (b"_9 = torch.factorial(999999999999)", "computes 'factorial' of constants"),
        (b"_9 = torch.floordiv(-9223372036854775808, -1)", "divides constants"),
        (b"_9 = torch.remainder(torch.sub(-9223372036854775807, 1), -1)", "divides constants"),
        (b'_9 = torch.add("a", "a")', "has text or a tuple as what none is"),
        (b'_9 = torch.format("{}", "a")', "has text or a tuple as what none is"),
        (b"_9 = (x_, (x_, x_))", "has a tuple of what no tuple has"),
        (b"_9 = [(x_, x_)]", "has a list of what no list has"),
        (b"_9 = ops.prim.unchecked_cast(x_)", "calls 'prim::unchecked_cast'"),
        (b"_9 = unchecked_cast(int, x_)", "reads 'unchecked_cast', which is no value"),
        (b"_9 = print(x_)", "reads 'print', which is no value"),
        (b"_9 = self.training", "reads 'self.training', which is no value"),
        (b"_9 = CONSTANTS.c7", "names a constant that is not there"),
        (b"_9 = 9223372036854775808", "has an integer that is too large"),
        (b"torch = x_", "assigns to 'torch'"),
        (b"_9 = x_ + x_", "continues behind its end"),
        (b"_9 = lambda: x_", "reads 'lambda', which is no value"),
        (b"import os", "reads 'import', which is no value"),
        (b"# x", "has no name where one is"),
        (b"\tpass", "has no name where one is"),
        (b"      pass", "is indented otherwise"),
    ],
)
def test_lines_that_no_save_writes(path, line, reason):
    with_line(path, line)
    source = records(path.read_bytes())[SOURCE]
    number = source[: source.index(b"    " + line + b"\n")].count(b"\n") + 1
    assert error(path) == f"{NOT}line {number} of its source {reason}"


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        (b'torch.save(x_, "written")', "aten::save"),
        (b'_9 = torch.from_file("written", True, torch.size(x_, 0))', "aten::from_file"),
        (b"_9 = torch._reshape_alias(x_, [100000], [1000])", "aten::_reshape_alias"),
        (b"_9 = torch.set_(x_, x_)", "aten::set_"),
        (b"_9 = torch.floordiv(torch.size(x_, 0), -1)", "aten::floordiv"),
        (b"_9 = torch.remainder(torch.size(x_, 0), 2)", "aten::remainder"),
        (b"_9 = ops.prims.neg(x_)", "prims::neg"),
    ],
)
def test_operators_that_no_archive_has(path, monkeypatch, tmp_path, line, operator):
    monkeypatch.chdir(tmp_path)
    with_line(path, line + b"\n    _8 = torch.add_(x_, _9)" * line.startswith(b"_9"))
    assert error(path) == f"it has operator '{operator}', which no archive may have"
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("depth", [60, 5000, 100_000])
@pytest.mark.parametrize(
    "form",
    ["_9 = {}x_{}", "_9 = annotate({}int{}, [])", "_9 = {}torch.neg(x_){}", "_9 = {}1"],
)
def test_depth_is_bounded_before_anything_recurses(path, form, depth):
    begin, end = {"_9 = {}x_{}": ("(", ")"), "_9 = {}1": ("-", "")}.get(form, ("List[", "]"))
    if "neg" in form:
        begin, end = "torch.neg(", ")"
    line = form.replace("{}", begin * depth, 1).replace("{}", end * depth)
    with_line(path, line.encode())
    assert error(path).startswith(f"{NOT}line ")


def test_blocks_in_each_other_are_bounded(path):
    def blocks(depth):
        lines = [b"  " * i + b"if torch.gt(torch.dim(x_), 0):" for i in range(depth)]
        lines.append(b"  " * depth + b"pass")
        for i in reversed(range(depth)):
            lines += [b"  " * i + b"else:", b"  " * i + b"  pass"]
        return b"\n    ".join(lines)

    whole = path.read_bytes()
    with_line(path, blocks(400))
    assert tracehost.load(path)["f"](torch.ones(2, 3)).shape == (2, 4)
    path.write_bytes(whole)
    with_line(path, blocks(401))
    assert error(path).endswith("is in more blocks than any is")


def test_lists_made_step_by_step_are_bounded(path):
    steps = b"\n    ".join(b"_%d = [_%d]" % (i + 1, i) for i in range(90, 2000))
    with_line(path, b"_90 = x_\n    " + steps)
    assert error(path).endswith("has lists in each other to a depth that none has")


def test_a_save_rejects_what_no_load_would_take(tmp_path):
    @tracehost.function
    def f(x):
        return torch.ops.aten._unsafe_masked_index(x, x > 0, [torch.arange(3)], 0.0)

    f(torch.ones(3))
    with pytest.raises(ArchiveError) as caught:
        f.save(tmp_path / "f.pt")
    assert str(caught.value) == (
        "f(x: float32[3]) can't be saved: it has operator 'aten::_unsafe_masked_index', which no archive may have"
    )
    assert list(tmp_path.iterdir()) == []


# -- tensors -----------------------------------------------------------------------------------------------


def sizes(*numbers):
    return b"(" + b"".join(b"K%c" % n for n in numbers) + b"t"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (sizes(3, 4), sizes(3, 5)),
        (sizes(3, 4), sizes(255, 255)),
        (sizes(4, 1), sizes(5, 1)),
        (sizes(4, 1), b"(K\x04J\xff\xff\xff\xfft"),
        (b"K\x00" + sizes(3, 4), b"K\x01" + sizes(3, 4)),
        (b"K\x00" + sizes(3, 4), b"J\xff\xff\xff\xff" + sizes(3, 4)),
        (sizes(3, 4), b"(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ft"),
        (b"FloatStorage", b"DoubleStorage"),
        (b"K\x0ct", b"K\x0dt"),
    ],
)  # fmt: skip
def test_a_tensor_reaches_no_further_than_its_data(path, old, new):
    changed(path, DATA, old, new)
    assert error(path) == f"{NOT}record 'data.pkl' has a tensor that is larger than its data"


def test_data_that_is_cut(path):
    parts = records(path.read_bytes())
    parts["archive/data/0"] = parts["archive/data/0"][:-1]
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == f"{NOT}record 'data.pkl' has a tensor that is larger than its data"
    del parts["archive/data/0"]
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == f"{NOT}it has no record 'data/0'"


def test_other_sizes_than_the_manifest_says(path):
    """The graph's guards and checks go by the manifest."""
    changed(path, DATA, sizes(3, 4) + sizes(4, 1), sizes(4, 3) + sizes(3, 1))
    assert error(path) == f"{NOT}tensor 'nonlocal_weight' is of another form than its manifest says"


def test_a_bool_is_zero_or_one(tmp_path):
    mask = torch.tensor([True, False, True])
    f = tracehost.function(lambda x: torch.where(mask, x, 0.0), name="f")
    f(torch.ones(3))
    path = tmp_path / "f.pt"
    f.save(path)
    changed(path, "archive/data/0", b"\x01\x00\x01", b"\x02\x00\x01")
    assert error(path) == f"{NOT}record 'data.pkl' has a bool that is neither true nor false"


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_indices_of_a_sparse_tensor(tmp_path, layout):
    m = torch.eye(3).to_sparse() if layout == "coo" else torch.eye(3).to_sparse_csr()
    f = tracehost.function(lambda x: torch.sparse.mm(m, x), name="f")
    f(torch.ones(3, 3))
    path = tmp_path / "f.pt"
    f.save(path)
    assert torch.equal(tracehost.load(path)["f"](torch.ones(3, 3)), torch.ones(3, 3))
    parts = records(path.read_bytes())
    name = "archive/data/0" if layout == "coo" else "archive/data/1"
    content = parts[name]
    for value in (3, 1000, -1, 2**62):
        parts[name] = content[:-8] + struct.pack("<q", value)
        path.write_bytes(with_hash(packed(parts)))
        assert "PyTorch" in error(path)


@pytest.mark.parametrize("record", [DATA, CONSTANTS])
@pytest.mark.parametrize("name", [b"cos\nsystem\n", b"cbuiltins\neval\n", b"ctorch.jit._pickle\nrestore_type_tag\n"])  # fmt: skip
def test_a_pickle_calls_nothing(path, record, name):
    changed(path, record, b"ctorch._utils\n_rebuild_tensor_v2\n", name)
    short = record.removeprefix("archive/")
    assert error(path) == f"{NOT}record '{short}' has something else in place of a tensor"


def test_opcodes_that_no_save_writes(path):
    parts = records(path.read_bytes())
    for opcode in pickletools.opcodes:
        code = opcode.code.encode("latin-1")
        if code in b"NKMJGXc)]}t(\x85\x86\x87euRb\x81Qqrhj.\x88\x89\x8a":
            continue
        mutated = dict(parts)
        mutated[DATA] = parts[DATA][:2] + code + parts[DATA][2:]
        path.write_bytes(with_hash(packed(mutated)))
        assert error(path) == f"{NOT}record 'data.pkl' has opcode {code[0]:#04x}", opcode.name


def test_lines_of_messages_are_checked_not_unpickled(path):
    """The record of the user's lines: PyTorch would unpickle it at the first error."""
    changed(path, DEBUG, b"ctorch.jit._pickle\nbuild_intlist\n", b"cos\nsystem\n")
    with pytest.raises(ArchiveError, match="debug_pkl' has another form$"):
        tracehost.load(path)
    parts = records(path.read_bytes())
    del parts[DEBUG]
    path.write_bytes(with_hash(packed(parts)))
    assert torch.equal(tracehost.load(path)["f"](torch.zeros(2, 3))[1], torch.tensor([0.5, 1.5, 2.5, 3.5]))  # fmt: skip


# -- the zip -----------------------------------------------------------------------------------------------


def test_records_that_no_save_writes(path):
    parts = records(path.read_bytes())
    for name in ("archive/code/__torch__/other.py", "archive/../x", "/etc/passwd", "archive/data/-1", "archive/bytecode.pkl"):  # fmt: skip
        path.write_bytes(with_hash(packed({**parts, name: b"x"})))
        assert error(path) == f"{NOT}it has a record that no archive has"


def test_what_unpacks_to_much_is_not_unpacked(path):
    """7 kB of file."""
    parts = records(path.read_bytes())
    parts[SOURCE] += b"\n" * 7_000_000
    path.write_bytes(with_hash(packed(parts)))
    assert path.stat().st_size < 16_000
    assert error(path) == f"{NOT}a record in it unpacks to more than its size allows"


def test_sizes_and_offsets_of_the_directory(path):
    whole = path.read_bytes()
    at = whole.index(b"PK\x01\x02")
    for field, width in ((20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4)):
        for value in INTEGERS:
            text = struct.pack("<Q", value % 2**64)[:width]
            place = at + field
            if whole[place : place + width] == text:
                continue
            path.write_bytes(with_hash(whole[:place] + text + whole[place + width :]))
            try:
                tracehost.load(path)
            except ArchiveError as reason:
                assert str(reason).startswith(f"{path}: {NOT}") or "manifest" in str(reason)


# -- the manifest ------------------------------------------------------------------------------------------


@pytest.fixture
def sized(tmp_path):
    """For sizes where x.shape[0] > 2."""

    @tracehost.function(input_signature=[TensorSpec([None, 3])])
    def g(x):
        return x * 2 if x.shape[0] > 2 else x

    g.get_concrete_function()
    g(torch.ones(3, 3))
    path = tmp_path / "g.pt"
    g.save(path)
    return path


def condition(path, postfix):
    parts = records(path.read_bytes())
    manifest = json.loads(parts[MANIFEST])
    graphs = manifest["functions"][0]["specializations"]
    for graph in graphs:
        graph["conditions"] = [{"postfix": postfix, "is": True, "where": ""}]
    parts[MANIFEST] = json.dumps(manifest).encode()
    path.write_bytes(with_hash(packed(parts)))


@pytest.mark.parametrize(
    "postfix",
    [
        [-(2**63), -1, "//"],
        [-(2**63), -1, "%", 0, "!="],
        [[0, 0], 2**62, "*", 2**62, "+"],
        [[0, 0], 0, "//"],
        [-(2**63), 1, "-"],
    ],
)
def test_conditions_that_can_not_be_computed_hold_for_no_call(sized, postfix):
    condition(sized, postfix)
    with pytest.raises(tracehost.SignatureError):
        tracehost.load(sized)["g"](torch.ones(3, 3))


@pytest.mark.parametrize(
    ("postfix", "reason"),
    [
        ([1] * 33 + ["+"] * 32, "a condition has more terms than any has"),
        ([1] + ["not"] * 5000, "a condition has more terms than any has"),
        ([2**63], "a number is none, or too large"),
        ([[0, 2**40]], "a number is none, or too large"),
        ([[0, 2]], "a condition on a size that is not there"),
        (["+"], "a condition without what it compares"),
        ([], "a condition that is none"),
    ],
)
def test_conditions_are_bounded(sized, postfix, reason):
    condition(sized, postfix)
    assert error(sized) == f"its manifest is wrong: {reason}"


# -- all of it ---------------------------------------------------------------------------------------------


def test_a_mutant_is_made_again_from_its_number(path):
    corpus = [path.read_bytes()]
    first = [mutant(3, number, corpus) for number in range(20)]
    assert [mutant(3, number, corpus) for number in range(20)] == first
    assert len({content for _, content in first}) > 15


def test_a_few_hundred_mutants(tmp_path):
    """`scripts/test --fuzz` runs more."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--count", "400", "--seconds", "10000", "--seed", "20", "--keep", tmp_path],
        capture_output=True, text=True, cwd=__file__.rpartition("/python/")[0],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 20: 400 files (") and done.stdout.endswith(" 0 findings\n")


# -- classes that are not imported ---------------------------------------------------------------------------

AUDITED = """
import sys
import torch, tracehost
import dataclasses, collections

path, seen = sys.argv[1], []
sys.addaudithook(lambda event, args: seen.append(event) if event in ("exec", "compile") else None)
archive = tracehost.load(path)
print(seen, archive["f"].__signature__)
"""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"record": "gone:Options", "fields": ["a", "b"], "items": [1, 2]}, "Options(a=1, b=2)"),
        ({"namedtuple": "gone:Pair", "fields": ["a", "b"], "items": [1, 2]}, "Pair(a=1, b=2)"),
    ],
)
def test_a_class_that_is_not_imported_is_made_without_text_that_is_run(tmp_path, value, shown):
    """dataclasses and namedtuple compile methods from the fields' names, which a stranger may have written."""

    @tracehost.function
    def f(x, options=None):
        return x + 1

    f(torch.ones(2))
    file = tmp_path / "f.pt"
    f.save(file)
    parts = records(file.read_bytes())
    manifest = json.loads(parts[MANIFEST])
    manifest["functions"][0]["parameters"][1]["default"] = {"value": value, "text": ""}
    parts[MANIFEST] = json.dumps(manifest).encode()
    file.write_bytes(with_hash(packed(parts)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AUDITED, str(file)], capture_output=True, text=True
    )
    assert done.stdout == f"[] (x, options={shown})\n", done.stderr


@pytest.mark.parametrize("make", [record_like, named_tuple_like])
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("a b",), "'a b' is no name of a class or a field"),
        (("class",), "'class' is no name of a class or a field"),
        (("a", "a"), "two fields of Pair have one name: a, a"),
    ],
)
def test_names_that_no_class_has_are_rejected(make, fields, why):
    with pytest.raises(ValueError, match=f"^{why}$"):
        make("gone:Pair", fields)


def test_a_class_like_one_that_is_not_imported_does_what_that_one_does():
    pair = named_tuple_like("gone:Pair", ("a", "b"))(1, b=2)
    assert (pair.a, pair._replace(a=5), pair._asdict()) == (1, (5, 2), {"a": 1, "b": 2})
    assert copy.copy(pair) == pair and repr(pair) == "Pair(a=1, b=2)"
    with pytest.raises(TypeError, match="Pair takes a, b"):
        type(pair)(1)
    record = record_like("gone:Options", ("a", "b"))
    assert dataclasses.asdict(record(1, b=2)) == {"a": 1, "b": 2}
    assert record(1, 2) == record(1, 2) != record(1, 3)
    with pytest.raises(TypeError, match="Options has the fields a, b"):
        record(1, 2, 3)
