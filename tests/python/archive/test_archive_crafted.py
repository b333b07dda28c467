"""Archives that somebody made to do harm: each is rejected before anything of it is used, with a sentence."""

import copy
import dataclasses
import json
import re
import struct
import subprocess
import sys

import pytest
import torch
import tracehost
from crafted import (
    DATA,
    GRAPHS,
    MANIFEST,
    Miscounted,
    bits,
    branch,
    changed,
    constant,
    decode,
    encode,
    end,
    error,
    first,
    last,
    loop,
    packed,
    records,
    rewritten,
    with_hash,
)
from fuzz.growth import KINDS, grown
from fuzz.mutate import INTEGERS, mutant
from fuzz.victim import FOR_GRAPHS, FREE
from tracehost import ArchiveError, TensorSpec
from tracehost._classes_like import named_tuple_like, record_like

NOT = "it is not what tracehost writes: "
SOURCE = "archive/code/__torch__/tracehost.py"


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


def test_put_together_again_it_is_like_before(path):
    expected = tracehost.load(path)["f"](torch.ones(2, 3))
    path.write_bytes(with_hash(packed(records(path.read_bytes()))))
    assert torch.equal(tracehost.load(path)["f"](torch.ones(2, 3)), expected)


# -- the graphs --------------------------------------------------------------------------------------------

GONE = "which this PyTorch does not have. Load the file with the PyTorch that wrote it"
NOT_HERE = GONE.replace("PyTorch", "PyTorch's", 1)
ADD = ("aten::add", "Tensor", ["self", "other", "alpha"])
INT, YES, NONE = constant("integer", 1), constant("yes"), constant("none")
TUPLES = ["tuple", [1] * 250, 0]


def op_of(record, of, **fields):
    op = next(op for op in record.ops if op.name == of)
    for field, value in fields.items():
        setattr(op, field, value)


def nested(kind, depth):
    """A type or a constant that holds so many others in each other."""
    return b"\n" * depth + b"\1" if kind == "type" else b"\x0b\1" * depth + b"\0"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # bytes
        (lambda r: first(r, b"\0" + b"\xff" * 9 + b"\2"), "a number in its graphs is too large"),
        (lambda r: first(r, b"\0" + b"\xff" * 12), "a number in its graphs is too large"),
        (lambda r: r.graphs[0].nodes.pop(), "its graphs end early"),
        (lambda r: r.graphs.__setitem__(0, b""), "its graphs end early"),
        (lambda r: r.graphs.__setitem__(0, b"\5"), "a graph has other inputs than arguments and tensors"),
        (lambda r: first(r, b"\1\6\x7f"), "its graphs end early"),
        (lambda r: setattr(r.graphs[0], "nodes", [b"\1\4\0\0\0"]), "its graphs end early"),
        (lambda r: setattr(r, "places", Miscounted(r.places, 2**62)), "its graphs end early"),
        (lambda r: op_of(r, b"aten::matmul", arguments=[(b"self", 2), (b"other", 0)]), "a flag in it is neither 0 nor 1"),
        # tables
        (lambda r: first(r, constant("none")[:2] + [2]), "a graph names a line that is not there"),
        (lambda r: first(r, [11]), "a graph names a kind of node that is not there"),
        (lambda r: first(r, ["op", 5, [1], 0]), "a graph names an operator that is not there"),
        (lambda r: first(r, ["op", 2**64 - 1, [1], 0]), "a graph names an operator that is not there"),
        (lambda r: setattr(r, "rest", b"x"), "its graphs are followed by more"),
        (lambda r: r.graphs[0].nodes.append(b"x"), "a graph is followed by more"),
        (lambda r: r.graphs.clear(), "it has no graph of that number"),
        # values
        *[(lambda r, back=back: first(r, r.op("aten::relu", "", ["self"], [back])), "a graph uses a value that is not there") for back in (0, 3, 2**63)],
        (lambda r: first(r, YES, *branch(1, [], [INT, end()], [constant("none"), ["list", ["list", "int"], [2], 0], end()])), "a graph uses a value that is not there"),
        (lambda r: first(r, YES, *branch(1, [], [INT, end()], [end()]), ["tuple", [1], 0]), "a graph uses a value that is not there"),
        # types
        (lambda r: first(r, ["nothing", 14, 0]), "a graph names a type that is not there"),
        (lambda r: first(r, ["nothing", nested("type", 7), 0]), "a graph has types nested to more than 6"),
        (lambda r: first(r, ["nothing", ["dict", "tensor", "int"], 0]), "a graph has a dict whose key type cannot be a key"),
        (lambda r: first(r, ["nothing", ["tuple", ["int"] * 256], 0]), "a graph has a type that is too large"),
        (lambda r: first(r, NONE, ["tuple", [1] * 256, 0]), "a graph has a type that is too large"),
        (lambda r: first(r, NONE, TUPLES, ["tuple", [1, 1], 0]), "a graph has a type that is too large"),
        (lambda r: first(r, constant("tuple", [["none"]] * 256)), "a graph has a type that is too large"),
        (lambda r: first(r, ["list", "int", [], 0]), "a graph makes a list of another type"),
        (lambda r: first(r, INT, ["list", ["list", "tensor"], [1], 0]), "a graph has a value of another type than it says"),
        # constants
        (lambda r: first(r, constant(14)), "a graph names a constant that is not there"),
        (lambda r: first(r, constant("tensor", 2)), "a graph names a tensor that is not there"),
        (lambda r: first(r, constant("generator", 0)), "a graph names a generator that is not there"),
        (lambda r: first(r, constant("number_tensor", ["text", b"1"])), "a graph has a constant that is not a number"),
        (lambda r: first(r, ["constant", nested("value", 5), 0]), "a graph has constants nested to more than 4"),
        (lambda r: first(r, constant("list", "int", [["text", b"x"]])), "a constant of a graph holds a value of another type"),
        (lambda r: first(r, constant("dict", "int", "int", [["integer", 1], ["none"]])), "a constant of a graph holds a value of another type"),
        (lambda r: first(r, constant("dict", "int", "int", [["integer", 1]])), "a dict of a graph has a key without a value"),
        (lambda r: first(r, constant("dict", ["list", "int"], "int", [])), "a graph has a dict whose key type cannot be a key"),
        (lambda r: r.tensors[1][1][1].__setitem__(slice(3, 5), [[9, 4], [0, 1]]), "it has a tensor that is larger than its data"),
        # nodes without a schema
        (lambda r: first(r, INT, ["unpack_list", 1, ["int"], 0]), "a graph unpacks what it does not have"),
        (lambda r: first(r, INT, ["tuple", [1], 0], ["unpack_tuple", 1, ["int", "int"], 0]), "a graph unpacks what it does not have"),
        (lambda r: first(r, INT, ["tuple", [1], 0], ["unpack_tuple", 1, ["tensor"], 0]), "a graph has a value of another type than it says"),
        (lambda r: first(r, INT, ["element", 0, 1, 0]), "a graph unpacks what it does not have"),
        *[(lambda r, at=at: first(r, INT, ["tuple", [1], 0], ["element", at, 1, 0]), "a graph takes an element that its tuple does not have") for at in (1, -2, 2**63 - 1, -(2**63))],
        # blocks
        (lambda r: first(r, INT, *branch(1, [], [end()], [end()])), "a graph has a value of another type than it says"),
        (lambda r: first(r, YES, *branch(1, ["int"], [end(1)], [end(1)])), "a graph has a value of another type than it says"),
        (lambda r: first(r, YES, *branch(1, ["int"], [INT, end(1)], [end()])), "a block of a graph has other outputs than its node"),
        (lambda r: first(r, YES, *loop([1, 1], [], [end(2)])), "a graph has a value of another type than it says"),
        (lambda r: first(r, INT, *loop([1, 1], [], [end(2)])), "a graph has a value of another type than it says"),
        (lambda r: first(r, INT, YES, *loop([2, 1, 1], ["int"], [end(3, 1)])), "a graph has a value of another type than it says"),
        (lambda r: first(r, INT, YES, *loop([2, 1], [], [end(1)])), "a graph has a value of another type than it says"),
        (lambda r: first(r, INT, YES, *loop([2, 1], [], [end()])), "a block of a graph has other outputs than its node"),
        # of the whole
        (lambda r: setattr(r.graphs[0], "inputs", 3), "a graph has other inputs than arguments and tensors"),
        (lambda r: r.graphs[0].nodes[-1].__setitem__(1, [2]), "graph 'f' gives what is no tensor"),
        (lambda r: r.graphs[0].nodes[-1].__setitem__(1, [1, 1]), "graph 'f' gives other tensors than its result has"),
    ],
)  # fmt: skip
def test_graphs_that_no_save_writes(path, change, reason):
    rewritten(path, change)
    assert error(path) == NOT + reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: op_of(r, b"aten::matmul", name=b"aten::gone"), f"'aten::gone' {GONE}"),
        (lambda r: op_of(r, b"aten::matmul", overload=b"gone"), f"'aten::matmul.gone' {GONE}"),
        (lambda r: op_of(r, b"aten::matmul", arguments=[(b"self", 0), (b"more", 0)]), "'aten::matmul' without its argument 'other'"),
        (lambda r: op_of(r, b"aten::add", arguments=[(b"self", 0), (b"other", 0), (b"more", 0)]), f"'aten::add.Tensor' with an argument 'more', {NOT_HERE}"),
        (lambda r: op_of(r, b"aten::add", arguments=[(b"self", 0), (b"more", 0), (b"other", 0)]), f"'aten::add.Tensor' with an argument 'more', {NOT_HERE}"),
        (lambda r: op_of(r, b"aten::add", arguments=[(b"other", 0), (b"self", 0), (b"alpha", 1)]), f"'aten::add.Tensor' with an argument 'other', {NOT_HERE}"),
        (lambda r: first(r, constant("text", b""), r.op(*ADD, [2, 1, 1])), "'aten::add.Tensor' with arguments that it does not take"),
        *[(lambda r, number=number: first(r, constant("integer", number), r.op("aten::to", "dtype", ["self", "dtype"], [2, 1])), f"'aten::to.dtype' with {number} as its argument 'dtype', which is the number of none") for number in (99, -1, 2**40)],
        (lambda r: first(r, constant("integer", 9), r.op("aten::clone", "", ["self", "memory_format"], [2, 1])), "'aten::clone' with 9 as its argument 'memory_format', which is the number of none"),
        (lambda r: first(r, constant("integer", 77), r.op("aten::ones_like", "", ["self", "layout"], [2, 1])), "'aten::ones_like' with 77 as its argument 'layout', which is the number of none"),
    ],
)  # fmt: skip
def test_operators_of_another_pytorch(path, change, reason):
    """The file may be from one: no argument is left out unless it had its default."""
    rewritten(path, change)
    assert error(path) == f"it has operator {reason}"


def test_an_argument_that_is_gone_had_its_default(path):
    expected = tracehost.load(path)["f"](torch.ones(2, 3))
    rewritten(path, lambda r: op_of(r, b"aten::add", arguments=[(b"self", 0), (b"other", 0), (b"gone", 1)]))  # fmt: skip
    assert torch.equal(tracehost.load(path)["f"](torch.ones(2, 3)), expected)


def raises(kind, details=b""):
    texts = [constant("text", text) for text in (kind, b"why", details)]
    return lambda r: [*texts, r.op("tracehost::raise_error", "", ["type", "message", "details"], [3, 2, 1])]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "values", "operator"),
    [
        (lambda r: [constant("text", b"written"), r.op("aten::save", "", ["item", "filename"], [2, 1])], 1, "aten::save"),
        (lambda r: [constant("text", b"written"), r.op("aten::from_file", "", ["filename"], [1])], 2, "aten::from_file"),
        (lambda r: [INT, ["list", ["list", "int"], [1], 0], r.op("aten::_reshape_alias", "", ["self", "size", "stride"], [3, 1, 1])], 3, "aten::_reshape_alias"),
        (lambda r: [r.op("aten::set_", "source_Tensor", ["self", "source"], [1, 1])], 1, "aten::set_"),
        (lambda r: [INT, r.op("aten::floordiv", "int", ["a", "b"], [1, 1])], 2, "aten::floordiv"),
        (lambda r: [INT, r.op("aten::remainder", "int", ["a", "b"], [1, 1])], 2, "aten::remainder"),
        (lambda r: [INT, r.op("aten::fmod", "int", ["a", "b"], [1, 1])], 2, "aten::fmod"),
        (lambda r: [r.op("prims::neg", "", ["self"], [1])], 1, "prims::neg"),
        (lambda r: [["list", ["list", "tensor"], [1], 0], ["list", ["list", ["optional", "tensor"]], [], 0], YES, r.op("tracehost::backward", "", ["tensors", "grad_tensors", "retain_graph", "create_graph", "inputs"], [3, 2, 1, 1, 3])], 3, "tracehost::backward"),
        (raises(b"builtins:KeyboardInterrupt"), 3, "tracehost::raise_error"),
        (raises(b"os:system"), 3, "tracehost::raise_error"),
        (raises(b"builtins:ValueError", b"x"), 3, "tracehost::raise_error"),
        (lambda r: [["nothing", "int", 0], ["list", ["list", "int"], [1], 0]], 2, "prim::Uninitialized"),
    ],
)  # fmt: skip
def test_operators_that_no_archive_has(path, monkeypatch, tmp_path, nodes, values, operator):
    monkeypatch.chdir(tmp_path)
    rewritten(path, lambda r: last(r, *nodes(r), values=values))
    assert error(path) == f"it has operator '{operator}', which no archive may have"
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("side", [0, 1])
def test_blocks_in_each_other_are_bounded(path, side):
    def blocks(depth):
        opened = [["branch", 1, []], *[end()] * side] * depth
        closed = [b"\n\0\0"] * depth if side else [b"\n\0\n\0\0"] * depth
        return [YES, *opened, *closed]

    whole = path.read_bytes()
    rewritten(path, lambda r: last(r, *blocks(400), values=1))
    assert tracehost.load(path)["f"](torch.ones(2, 3)).shape == (2, 4)
    path.write_bytes(whole)
    rewritten(path, lambda r: last(r, *blocks(401), values=1))
    assert error(path) == f"{NOT}a graph nests its blocks too deep"


@pytest.mark.parametrize(
    ("kind", "most"), [("type", 6), ("value", 4)]
)  # fmt: skip
def test_types_and_constants_in_each_other_are_bounded(path, kind, most):
    def node(depth):
        return ["list", nested("type", depth), [], 0] if kind == "type" else ["constant", nested("value", depth), 0]  # fmt: skip

    whole = path.read_bytes()
    rewritten(path, lambda r: last(r, node(most), values=1))
    tracehost.load(path)
    for depth in (most + 1, 500):
        path.write_bytes(whole)
        rewritten(path, lambda r: last(r, node(depth), values=1))
        assert error(path).endswith(f"nested to more than {most}")


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


@pytest.mark.parametrize("kind", ["ops in a row", "branches in each other", "tuples"])
def test_memory_is_linear_in_the_file(path, kind):
    """`tracehost -m fuzz.growth` in tests/ measures all kinds, to 8 MB."""
    size = 256 << 10
    took, _, said = grown(path, kind, size)
    assert said == "loads"
    assert took < FREE + FOR_GRAPHS * size


USES, LOOPS = "a graph uses a value more than 32768 times", "a graph has more than 4096 loops"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("uses of one value", USES),
        ("items of a list", USES),
        ("outputs of a branch", USES),
        ("values of a loop", USES),
        ("unpacks of one list", USES),
        ("loops", LOOPS),
        ("inputs", "a graph has other inputs than arguments and tensors"),
        ("generators", "two generators in it have one state"),
        ("arguments left out", "a graph leaves out too many arguments"),
    ],
)
def test_what_would_take_long_is_counted(path, kind, reason):
    parts = records(path.read_bytes())
    record = decode(parts[GRAPHS])
    KINDS[kind](record, 256 << 10, parts)
    parts[GRAPHS] = encode(record)
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == NOT + reason


def test_a_graph_is_of_one_specialization(path):
    parts = records(path.read_bytes())
    manifest = json.loads(parts[MANIFEST])
    manifest["functions"][0]["specializations"] *= 2
    parts[MANIFEST] = json.dumps(manifest).encode()
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == (
        "its manifest is wrong: graph 0, 'f', is two specializations' or has no name"
    )


def test_a_graph_for_one_value_of_an_input(path):
    """Of value_reads="guard", which 0.1 had."""
    parts = records(path.read_bytes())
    manifest = json.loads(parts[MANIFEST])
    guard = {"input": 0, "dtype": "int64", "scalar": True, "bytes": "00" * 8, "where": "net.py:1"}
    manifest["functions"][0]["specializations"][0]["values"] = [guard]
    parts[MANIFEST] = json.dumps(manifest).encode()
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == (
        "it has a graph for one value of an input, which this version cannot compare. Trace it again "
        'without value_reads="guard", and save that.'
    )


@pytest.mark.parametrize("name", [b"x", b"aten::", b"::add", b"aten::a\0b", b"aten::a b", b"aten::add::b"])  # fmt: skip
def test_names_that_no_operator_has(path, name):
    rewritten(path, lambda r: op_of(r, b"aten::matmul", name=name))
    assert error(path) == f"{NOT}an operator in it has no valid name"


def test_what_calls_python_is_in_no_archive(path):
    """Its first argument is an object that no file has."""
    rewritten(path, lambda r: last(r, ["list", ["list", "tensor"], [1], 0], r.op("tracehost::py_function", "", ["function", "inputs"], [1, 1]), values=2))  # fmt: skip
    assert error(path) == "it has operator 'tracehost::py_function' with arguments that it does not take"  # fmt: skip


# -- tensors -----------------------------------------------------------------------------------------------

LARGER, OTHER = "it has a tensor that is larger than its data", "which its dtype can't have"  # fmt: skip
RECORD, DTYPE, DEVICE, SIZES, STRIDES, OFFSET, GRAD, CONJ, NEG = range(9)


def weight(field, value):
    return lambda r: r.tensors[0][1][1].__setitem__(field, value)


def quantized(sizes=(3, 4), dtype=b"QInt8", scales=(3,), zeros=(3,), axis=0):
    def change(r):
        part = [0, dtype, b"cpu", list(sizes), [4, 1], 0, 0, 0, 0]
        of = [[1, b"Float", b"cpu", list(size), [1] * len(size), 0, 0, 0, 0] for size in (scales, zeros)]  # fmt: skip
        r.tensors[:] = [[b"q", ["per_channel", part, *of, axis]]]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *[(weight(field, value), LARGER) for field, value in (
            (SIZES, [3, 5]), (SIZES, [255, 255]), (SIZES, [3]), (SIZES, [-1, 4]), (SIZES, [2**63 - 1, 2**63 - 1]), (STRIDES, [5, 1]), (STRIDES, [4, -1]),
            (STRIDES, [2**62, 2**62]), (OFFSET, 1), (OFFSET, -1), (OFFSET, 2**63 - 1), (DTYPE, b"Double"), (RECORD, 1))],
        (lambda r: r.tensors[0][1][1].__setitem__(slice(3, 5), [[1] * 65, [1] * 65]), LARGER),
        (weight(DTYPE, b"float32"), "it has a tensor of no known dtype"),
        (weight(DTYPE, b"Undefined"), "it has a tensor of no known dtype"),
        (weight(RECORD, 7), "it has no record 'data/7'"),
        (weight(RECORD, 2**63), "it has no record 'data/9223372036854775808'"),
        (lambda r: r.tensors[1][1][1].__setitem__(slice(0, 2), [0, b"Int"]), "it has data of two dtypes"),
        (weight(GRAD, 2), "a flag in it is neither 0 nor 1"),
        (weight(CONJ, 1), OTHER),
        (lambda r: r.tensors[0][1][1].__setitem__(slice(1, 9), [b"Int", b"cpu", [3, 4], [4, 1], 0, 1, 0, 0]), OTHER),
        (lambda r: r.tensors[0][1][1].__setitem__(slice(1, 9), [b"Int", b"cpu", [3, 4], [4, 1], 0, 0, 0, 1]), OTHER),
        (weight(DTYPE, b"QInt8"), "it has a quantized tensor without a scale"),
        (lambda r: r.tensors[0].__setitem__(1, ["per_tensor", r.tensors[0][1][1], bits(0.1), 0]), "it has a quantized tensor of another dtype"),
        (quantized(dtype=b"Float"), "it has a quantized tensor of another dtype"),
        *[(quantized(**other), "it has a quantized tensor with other scales than channels") for other in (
            {"axis": 1}, {"axis": 2}, {"axis": -1}, {"axis": 2**63 - 1}, {"scales": (2,)}, {"zeros": (2,)}, {"scales": (3, 1)})],
        (lambda r: r.tensors[0].__setitem__(1, ["coo", [2**62, 2**62], 0, 0]), "it has a tensor whose elements can't be counted"),
        (lambda r: r.tensors[0].__setitem__(1, ["coo", [3], 0, 0, [0, b"Long", b"cpu", [1, 9], [0, 0], 0, 0, 0, 0], r.tensors[1][1][1]]), LARGER),
        (lambda r: r.tensors[0].__setitem__(1, 5), "a graph names a kind of tensor that is not there"),
        (lambda r: r.tensors[1].__setitem__(0, r.tensors[0][0]), "it has two tensors of one name"),
        (lambda r: r.tensors[0].__setitem__(0, b"x"), "it has no tensor 'nonlocal_weight'"),
        (lambda r: r.generators.append(2), "a graph names a tensor that is not there"),
        (weight(SIZES, [2, 4]), "tensor 'nonlocal_weight' differs in shape or dtype from its manifest"),
    ],
)  # fmt: skip
def test_tensors_that_no_save_writes(path, change, reason):
    """None reaches further than its data, and graphs' guards and checks go by the manifest."""
    rewritten(path, change)
    found = error(path)
    if reason is OTHER:
        dtype = re.fullmatch(
            f"{NOT}it has a (Float|Int) tensor with a conj bit, a neg bit or a gradient, {OTHER}",
            found,
        )
        assert dtype, found
    else:
        assert found == NOT + reason


def test_states_that_no_generator_has(path):
    rewritten(path, lambda r: r.generators.append(0))
    assert error(path) == f"{NOT}a generator in it has a tensor that is no state"


def test_data_that_is_cut(path):
    parts = records(path.read_bytes())
    parts[DATA + "0"] = parts[DATA + "0"][:-1]
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == NOT + LARGER
    del parts[DATA + "0"]
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == f"{NOT}it has no record 'data/0'"


def test_a_bool_is_zero_or_one(tmp_path):
    mask = torch.tensor([True, False, True])
    f = tracehost.function(lambda x: torch.where(mask, x, 0.0), name="f")
    f(torch.ones(3))
    path = tmp_path / "f.pt"
    f.save(path)
    changed(path, "archive/data/0", b"\x01\x00\x01", b"\x02\x00\x01")
    assert error(path) == f"{NOT}it has a bool that is neither true nor false"


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
        assert re.search("ind(ices|ex)", error(path))


@pytest.mark.parametrize("name", ["archive/data.pkl", "archive/constants.pkl", "archive/code/__torch__/tracehost.py", "archive/code/__torch__/tracehost.py.debug_pkl"])  # fmt: skip
def test_what_is_there_for_torch_alone_is_not_read(path, name):
    expected = tracehost.load(path)["f"](torch.ones(2, 3))
    parts = records(path.read_bytes())
    for content in (b"cos\nsystem\n(X\x01\x00\x00\x00xtR.", b""):
        path.write_bytes(with_hash(packed({**parts, name: content})))
        assert torch.equal(tracehost.load(path)["f"](torch.ones(2, 3)), expected)
    del parts[name]
    path.write_bytes(with_hash(packed(parts)))
    assert torch.equal(tracehost.load(path)["f"](torch.ones(2, 3)), expected)


# -- the zip -----------------------------------------------------------------------------------------------


def test_records_that_no_save_writes(path):
    parts = records(path.read_bytes())
    for name in ("archive/code/__torch__/other.py", "archive/../x", "/etc/passwd", "archive/data/-1", "archive/bytecode.pkl"):  # fmt: skip
        path.write_bytes(with_hash(packed({**parts, name: b"x"})))
        assert error(path) == f"{NOT}it has an unknown record"


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


def entry(name, field, value, width=2):
    """Another number in the directory's entry of a record."""

    def change(whole):
        at = whole.rindex(b"archive/" + name) - 46
        assert whole[at : at + 4] == b"PK\1\2"
        text = struct.pack("<Q", value)[:width]
        return whole[: at + field] + text + whole[at + field + width :]

    return change


def ended(field, text):
    """Another number in the end of the zip."""

    def change(whole):
        at = whole.rindex(b"PK\5\6") + field
        return whole[:at] + text + whole[at + len(text) :]

    return change


def twice(whole):
    at = whole.rindex(b"archive/data/1")
    return whole[:at] + b"archive/data/0" + whole[at + 14 :]


def at_one_place(whole):
    at = whole.rindex(b"archive/data/0") - 4
    return entry(b"data/1", 42, struct.unpack("<I", whole[at : at + 4])[0], 4)(whole)


JSON, BINARY = b"extra/tracehost.json", b"extra/tracehost.graphs"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ended(0, b"PK\5\7"), "its zip does not end"),
        (ended(4, b"\1"), "its zip does not end"),
        (ended(16, b"\xfe\xff\xff\xff"), "its directory lies behind its end"),
        (ended(12, b"\xfe\xff\xff\xff"), "its directory lies behind its end"),
        (ended(8, b"\xff\xff"), "its directory is cut off"),
        (ended(12, b"\0\0\0\0"), "its directory is cut off"),
        (entry(JSON, 28, 60_000), "its directory is cut off"),
        (entry(JSON, 2, 0), "its directory has another form"),
        (entry(JSON, 8, 1), "a record in it is encrypted, or packed in another way"),
        (entry(JSON, 10, 12), "a record in it is encrypted, or packed in another way"),
        (entry(JSON, 42, 2**32 - 2, 4), "a part of it would lie behind its end"),
        (entry(JSON, 42, 1, 4), "a record in it does not begin"),
        (entry(JSON, 20, 2**31 * (1 + 2**32), 8), "a record in it is larger than the file"),
        (entry(JSON, 24, 1, 4), "a record in it has two sizes"),
        (entry(JSON, 10, 8), "record 'extra/tracehost.json' can't be unpacked"),
        (entry(BINARY, 10, 8), "record 'extra/tracehost.graphs' is packed, which it never is"),
        (entry(b"data/0", 10, 8), "record 'data/0' is packed, which it never is"),
        (twice, "it has two records of one name"),
        (at_one_place, "two records in it are at one place"),
    ],
)  # fmt: skip
def test_zips_that_no_save_writes(path, change, reason):
    path.write_bytes(with_hash(change(packed(records(path.read_bytes())))))
    assert error(path) == NOT + reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [(MANIFEST, "it has no manifest"), (GRAPHS, "it has no record 'extra/tracehost.graphs'")],
)
def test_records_that_each_archive_has(path, name, reason):
    parts = records(path.read_bytes())
    del parts[name]
    path.write_bytes(with_hash(packed(parts)))
    assert error(path) == NOT + reason


def test_data_is_where_a_tensor_may_be(path, monkeypatch):
    monkeypatch.setattr("fuzz.container.padding", lambda name, at: b"")
    path.write_bytes(with_hash(packed(records(path.read_bytes()))))
    assert error(path) == f"{NOT}record 'data/0' is not aligned"


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
        ([1] * 33 + ["+"] * 32, "a condition has too many terms"),
        ([1] + ["not"] * 5000, "a condition has too many terms"),
        ([2**63], "a number is not an integer, or out of range"),
        ([[0, 2**40]], "a number is not an integer, or out of range"),
        ([[0, 2]], "a condition on a size that is not there"),
        (["+"], "a condition without what it compares"),
        ([], "a condition with more than one value left"),
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

# dataclasses compiles a text without any name of a field from Python 3.13 on.
path, seen = sys.argv[1], []
sys.addaudithook(lambda event, args: seen.append(args[0]) if event == "compile" and "stranger" in str(args[0]) else None)
archive = tracehost.load(path)
print(seen, archive["f"].__signature__)
"""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            {"record": "gone:Options", "fields": ["stranger_a", "b"], "items": [1, 2]},
            "Options(stranger_a=1, b=2)",
        ),
        (
            {"namedtuple": "gone:Pair", "fields": ["stranger_a", "b"], "items": [1, 2]},
            "Pair(stranger_a=1, b=2)",
        ),
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
