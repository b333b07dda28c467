"""Each kind of tensor, constant and op that a file has: as eager, bit for bit, and in plain torch."""

import pathlib
import threading
import warnings

import pytest
import torch
import tracehost

NAN = torch.tensor([0x7FC00123, 0x7F800001, -1], dtype=torch.int32).view(torch.float32)
WHOLE = torch.rand(10)
LEFT, RIGHT = WHOLE[:5], WHOLE[5:]
TRANSPOSED = torch.rand(5, 4).t()
INSIDE = torch.rand(20)[7:11]
CONJUGATED = torch.rand(4, dtype=torch.complex64).conj()
NEGATED = torch.rand(4, dtype=torch.complex64).conj().imag
SPARSE = torch.eye(3).to_sparse()
COALESCED = torch.eye(3).to_sparse().coalesce()
CSR = torch.eye(3).to_sparse_csr()
QUANTIZED = torch.quantize_per_tensor(torch.rand(4), 0.1, 3, torch.qint8)
BY_CHANNEL = torch.quantize_per_channel(
    torch.rand(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2]), 0, torch.quint8
)
FLOAT8 = torch.rand(4).to(torch.float8_e4m3fn)
BFLOAT16 = torch.rand(4).bfloat16()
EMPTY = torch.zeros(0, 4)
EXPANDED = torch.rand(1, 4).expand(3, 4)
PARAMETER = torch.nn.Parameter(torch.rand(4))
LSTM = torch.nn.LSTM(4, 5)
ATTENTION = torch.nn.MultiheadAttention(4, 2).eval()


def loop_that_ends_early(x):
    for _ in range(10):
        if x.sum() > 40:
            break
        x = x * 1.5
    return x


def loop(x):
    while x.sum() < 100:
        x = x * 2
    return x


def guard(x):
    if x.sum() < 0:
        raise ValueError(f"{x.sum()} is below 0")
    return x * 2


def guard_clause(x):
    if x.sum() > 0:
        return x * 2
    raise KeyError("no sum")


def no_grad(x):
    with torch.no_grad():
        y = x * 2
    return y + x


def autocast(x):
    with torch.autocast("cpu"):
        return x @ x.t()


def array(x):
    elements = tracehost.TensorArray(torch.float32)
    for i in range(3):
        elements = elements.write(i, x[i])
    return elements.stack()


def number_in_arithmetic(x):
    return x * (x.sum().item() + 1)


def truth_in_arithmetic(x):
    n = x.sum().item()
    return x * (n > 3) + (not n > 3)


def raises_for_a_number(x):
    n = x.sum().item()
    if n < 0:
        raise ValueError(f"{n:.1f}")
    return x * n


IN_TORCHSCRIPT = {
    "NaN payloads": lambda x: NAN.clone(),
    "infinities": lambda x: x * float("inf") - float("-inf"),
    "minus zero": lambda x: torch.full((2,), -0.0),
    "a NaN": lambda x: torch.full((2,), float("nan")),
    "complex": lambda x: x * (1 + 2j),
    "2 ** 63 - 1": lambda x: torch.full((2,), 2**63 - 1),
    "-2 ** 63": lambda x: torch.full((2,), -(2**63)),
    "bools": lambda x: (torch.full((2,), True), x > 0.5),
    "a dtype": lambda x: x.to(torch.float64),
    "a device": lambda x: torch.zeros(2, device="cpu"),
    "a layout": lambda x: torch.zeros(2, layout=torch.strided),
    "a memory format": lambda x: x.expand(2, 3, 3, 4).contiguous(memory_format=torch.channels_last),
    "text": lambda x: torch.nn.functional.interpolate(x[None], 8, mode="linear"),
    "one storage": lambda x: (LEFT + RIGHT, WHOLE * 2),
    "strides": lambda x: x @ TRANSPOSED,
    "an offset": lambda x: x + INSIDE,
    "the conj bit": lambda x: (CONJUGATED, x * CONJUGATED),
    "the neg bit": lambda x: x * NEGATED,
    "sparse": lambda x: torch.sparse.mm(SPARSE, x),
    "sparse rows": lambda x: CSR @ x,
    "quantized": lambda x: x * QUANTIZED.dequantize(),
    "quantized by channel": lambda x: x * BY_CHANNEL.dequantize(),
    "float8": lambda x: x * FLOAT8.to(torch.float32),
    "bfloat16": lambda x: x * BFLOAT16,
    "no element": lambda x: torch.cat([x, EMPTY]),
    "expanded": lambda x: x * EXPANDED,
    "a parameter": lambda x: x * PARAMETER,
    "None": lambda x: x.sum(None),
    "a list": lambda x: x.permute([1, 0]).reshape(-1, 2),
    "optional elements": lambda x: x[:, torch.tensor([0, 1])],
    "a list of results": lambda x: x.chunk(3),
    "one of a list": lambda x: x.unbind(0)[1],
    "a number for a tensor": lambda x: torch.where(x > 0.5, x, 0.0),
    "a number before a tensor": lambda x: (2**x, 1 - x),
    "another memory": lambda x: x.data * 2,
    "an LSTM": lambda x: LSTM(x[:, None])[0],
    "attention": lambda x: ATTENTION(x, x, x)[0],
    "nothing": lambda x: (),
    "a loop": loop,
    "a side that returns": guard_clause,
    "grad mode": no_grad,
    "autocast": autocast,
    "an array": array,
}
ALONE = {
    "a loop that ends early": (loop_that_ends_early, "tracehost::py_not is an operator"),
    "a side that raises with text": (guard, "tracehost::py_text is an operator"),
    "a complex of a minus zero": (
        lambda x: torch.full((2,), complex(1, -0.0)),
        "TorchScript cannot write a complex",
    ),
    "arithmetic on a number": (number_in_arithmetic, "tracehost::py_add is an operator"),
    "arithmetic on a truth": (truth_in_arithmetic, "tracehost::py_gt is an operator"),
    "text of a number": (raises_for_a_number, "tracehost::py_tensor is an operator"),
    "bits as another dtype": (lambda x: x.view(torch.int32), "tracehost::view_dtype is an"),
}
X = torch.rand(3, 4) + 0.5


def bits(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.reshape(-1).view(torch.uint8).tolist()


def assert_same_bits(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_same_bits(one, other)
        return
    if expected.layout != torch.strided:
        got, expected = got.to_dense(), expected.to_dense()
    for what in (lambda t: t.dtype, lambda t: t.shape, lambda t: t.stride(), torch.is_conj):
        assert what(got) == what(expected)
    assert bits(got) == bits(expected)


def saved(body, path):
    f = tracehost.function(body, name="f")
    expected = f(X.clone())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f.save(path)
    return expected, [str(one.message) for one in caught]


@pytest.mark.parametrize("kind", IN_TORCHSCRIPT)
def test_a_kind(kind, tmp_path):
    path = tmp_path / "f.pt"
    expected, notes = saved(IN_TORCHSCRIPT[kind], path)
    assert notes == []
    assert_same_bits(tracehost.load(path)["f"](X.clone()), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates TorchScript
        plain = torch.jit.load(path).f(X.clone())
    tensors = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    plain = [] if plain is None else list(plain) if isinstance(plain, tuple) else [plain]
    assert_same_bits(plain, tensors)


@pytest.mark.parametrize("kind", ALONE)
def test_a_kind_that_torchscript_lacks(kind, tmp_path):
    """The file has the graph; torch.jit.load opens the file, which has no method for it."""
    body, why = ALONE[kind]
    path = tmp_path / "f.pt"
    expected, notes = saved(body, path)
    assert len(notes) == 1
    assert notes[0].startswith(
        f"1 graph of {path} has no copy in TorchScript, for example f(x: float32[3, 4]): {why}"
    ), notes
    assert notes[0].endswith(". tracehost.load runs such a graph; torch.jit.load does not have it.")
    archive = tracehost.load(path)
    assert_same_bits(archive["f"](X.clone()), expected)
    (one,) = archive._core.described("f")
    assert one["no_torchscript"].startswith(why)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not hasattr(torch.jit.load(path), "f")


def test_a_generator_is_stored_with_its_state(tmp_path):
    """A loaded graph draws from a generator of its own, which two draws share."""
    generator = torch.Generator().manual_seed(3)

    @tracehost.function
    def f(x):
        return x + torch.rand(4, generator=generator), torch.rand(2, generator=generator)

    f.warm_up([tracehost.TensorSpec([3, 4])])
    with pytest.warns(tracehost.TraceWarning, match="^1 graph of .* has no copy in TorchScript"):
        f.save(tmp_path / "f.pt")
    loaded = tracehost.load(tmp_path / "f.pt")["f"]
    for _ in range(2):
        expected = X + torch.rand(4, generator=generator), torch.rand(2, generator=generator)
        assert_same_bits(loaded(X), expected)


def test_tensors_of_one_storage_are_stored_once_and_share_it(tmp_path):
    whole = torch.zeros(10_000)

    @tracehost.function
    def f(x):
        whole[:5000].add_(x)
        return whole.sum(), whole[:5000] * 1

    view = whole[5000:]
    g = tracehost.function(lambda x: view.add_(x).sum(), name="g")
    f(torch.tensor(1.0)), g(torch.tensor(2.0))
    tracehost.save(tmp_path / "f.pt", {"f": f, "g": g})
    assert (tmp_path / "f.pt").stat().st_size < 1.5 * 40_000
    archive = tracehost.load(tmp_path / "f.pt")
    before = archive["f"](torch.tensor(0.0))[0].item()
    archive["g"](torch.tensor(1.0))
    assert archive["f"](torch.tensor(0.0))[0].item() == before + 5000


def fixture(name):
    return pathlib.Path(__file__).parents[1] / "data" / name


def test_a_file_of_format_2_is_loaded_by_each_version():
    """make_format2.py made it, with PyTorch 2.15."""
    archive = tracehost.load(fixture("format2.thz"))
    known = torch.load(fixture("format2.pt"), weights_only=True)
    assert archive.version == 2
    assert archive.metadata == {"of": "format 2"}
    assert list(archive) == list(known["expected"])
    for name, (kind, expected) in known["expected"].items():
        got = archive[name](known["x"].clone())
        got = list(got) if isinstance(got, (tuple, list)) else [got]
        assert len(got) == len(expected), kind
        for one, other in zip(got, expected):
            torch.testing.assert_close(one.detach(), other, equal_nan=True, msg=lambda m, k=kind: f"{k}: {m}")  # fmt: skip


def summed(weights):
    return tracehost.function(lambda: torch.stack(weights).sum(0), name="f")


def test_a_file_that_changes_meanwhile_is_one_of_both_or_damaged(tmp_path):
    """The bytes that the hash was computed over are the bytes that are used."""
    path, files = tmp_path / "f.pt", []
    for value in (1.0, 2.0):
        weights = [torch.full((4096,), value) for _ in range(64)]
        f = summed(weights)
        f()
        f.save(path)
        files.append(path.read_bytes())
    assert len(files[0]) == len(files[1])
    ended = threading.Event()

    def overwrite():
        with open(path, "r+b") as file:
            while not ended.is_set():
                for content in files:
                    file.seek(0)
                    file.write(content)

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        for _ in range(200):
            try:
                total = tracehost.load(path)["f"]()
            except tracehost.ArchiveError as error:
                assert " is damaged: " in str(error) or " is cut off" in str(error), error
                continue
            assert torch.equal(total, torch.full((4096,), total[0].item()))
            assert total[0] in (64.0, 128.0)
    finally:
        ended.set()
        writer.join()
    assert tracehost.load(path)["f"]()[0] == 128.0
