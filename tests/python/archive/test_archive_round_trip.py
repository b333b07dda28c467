"""What is saved comes back: numbers, dtypes, strides, structures, in our reader and in plain PyTorch."""

import re
import subprocess
import sys
import textwrap

import archive_module
import hypothesis.strategies as st
import numpy
import pytest
import torch
import tracehost
from archive_module import Batch, Mode, Net, Point
from hypothesis import HealthCheck, given, settings
from tracehost import TensorSpec


@pytest.fixture
def keep(tmp_path):
    """keep(f, ...) -> the function, saved and read again."""

    def round_trip(function, name="f", **options):
        path = tmp_path / f"{name}.pt"
        tracehost.save(path, {name: function}, **options)
        return tracehost.load(path)[name]

    return round_trip


def same(a, b):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor)
        assert (a.dtype, a.shape, a.stride(), a.requires_grad) == (
            b.dtype,
            b.shape,
            b.stride(),
            b.requires_grad,
        )
        assert torch.equal(a, b) or torch.equal(a.isnan(), b.isnan())
        return
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, Batch):
        same(vars(a), vars(b))
    else:
        assert a == b or a != a


def test_a_method_keeps_its_module(keep):
    net = Net().eval()
    x = torch.randn(5, 3)
    expected = net.classify(x)
    loaded = keep(net.classify, "classify")
    same(loaded(x), expected)
    same(loaded(x=x, temperature=2.0), expected)
    assert loaded.signatures == (
        "(x: float32[5, 3], temperature=2.0) -> float32[5, 2], requires_grad",
    )
    assert sorted(loaded.tensors()) == sorted(["first_weight", "first_bias", "norm_running_mean", "norm_running_var", "norm_weight", "norm_bias", "last_weight", "last_bias"])  # fmt: skip


def test_strings_of_the_savers_own_come_back(tmp_path):
    path, own = tmp_path / "f.pt", {"classes": "Käse,dog", "version": "7", "": ""}
    tracehost.save(path, {"shift": archive_module.shift}, metadata=own)
    assert tracehost.load(path).metadata == own
    first = path.read_bytes()
    tracehost.save(path, {"shift": archive_module.shift}, metadata=dict(reversed(own.items())))
    assert path.read_bytes() == first
    tracehost.save(path, {"shift": archive_module.shift})
    assert tracehost.load(path).metadata == {}
    with pytest.raises(TypeError, match=r"save\(metadata=...\): strings by strings, got 'n': 3"):
        tracehost.save(path, {"shift": archive_module.shift}, metadata={"n": 3})


def test_gradients_flow_into_the_archives_parameters(keep):
    net = Net().eval()
    x = torch.randn(5, 3)
    loaded = keep(net.classify.get_concrete_function(x), "classify")
    loaded(x)[0, 0].backward()
    net(x).div(2.0).softmax(-1)[0, 0].backward()
    assert torch.allclose(loaded.tensors()["last_weight"].grad, net.last.weight.grad)


def test_a_declared_signature_needs_no_call(keep):
    loaded = keep(archive_module.shift)
    same(loaded(torch.ones(4, 3), torch.tensor(2)), (torch.full((4, 3), 3.0), 4))
    same(loaded(torch.ones(2, 3), 5), (torch.full((2, 3), 6.0), 2))
    same(loaded(numpy.ones((1, 3), dtype="float32"), 5), (torch.full((1, 3), 6.0), 1))
    assert loaded.signatures == (
        "(x: float32[None, 3], n: int64[]) -> (float32[None, 3], int64[])",
    )


def test_a_number_stays_a_number(keep):
    x = torch.ones(3)
    expected = archive_module.scaled(x)
    same(keep(archive_module.scaled)(x), expected)
    assert expected.dtype == torch.float32


def test_control_flow(keep):
    expected = archive_module.collatz(torch.tensor(27))
    loaded = keep(archive_module.collatz)
    same(loaded(torch.tensor(27)), expected)
    assert loaded(torch.tensor(6)).item() == 8


def test_several_signatures_most_specific_first(keep):
    @tracehost.function
    def f(x, mode="a"):
        return x + 1 if mode == "a" else x - 1

    f.get_concrete_function(TensorSpec([None]), "b")
    f.get_concrete_function(TensorSpec([4]), "a")
    f.get_concrete_function(TensorSpec([None]), "a")
    loaded = keep(f)
    assert loaded.signatures == (
        "(x: float32[4], mode='a') -> float32[4]",
        "(x: float32[None], mode='b') -> float32[None]",
        "(x: float32[None], mode='a') -> float32[None]",
    )
    same(loaded(torch.zeros(2), "b"), torch.full((2,), -1.0))
    same(loaded(torch.zeros(2)), torch.full((2,), 1.0))


def test_a_list_becomes_the_tensor_of_the_first_graph_that_takes_one(keep):
    f = tracehost.function(lambda x, n: x * n)
    for dtype in torch.float32, torch.float64, torch.int64:
        f(torch.ones(2, dtype=dtype), torch.tensor(2))
    loaded = keep(f)
    for x in torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64):
        same(loaded(x, torch.tensor(2)), f(x, torch.tensor(2)))
        same(loaded([1.0, 2.0], 3), torch.tensor([3.0, 6.0]))  # whichever graph has served last


def test_classes_with_the_same_fields_have_their_own_graphs(keep):
    """In C++ each of these is a Map, and each member of an enum a string."""

    @tracehost.function
    def f(data, mode=None):
        if isinstance(data, Point):
            return data.x + 1
        if isinstance(data, Batch):
            return data.image + 2
        return next(iter(data.values())) + (4 if mode is Mode.PLUS else 3)

    x = torch.zeros(2)
    calls = [
        (Point(x, 1),),
        ({"x": x, "y": 1},),
        (Batch(x),),
        ({"image": x, "scale": 2.0},),
        ({"x": x}, Mode.PLUS),
        ({"x": x}, "Mode.PLUS"),
    ]
    for call in calls:
        f(*call)
    loaded = keep(f)
    for call in calls + calls[::-1]:
        same(loaded(*call), f(*call))


def test_a_condition_on_sizes_survives(keep):
    @tracehost.function
    def f(x):
        return x * 2 if x.shape[0] > 3 else x * 5

    f.get_concrete_function(TensorSpec([None, 2]))
    loaded = keep(f)
    few, many = torch.ones(2, 2), torch.ones(6, 2)
    served, rejected = (many, few) if _serves(loaded, many) else (few, many)
    same(loaded(served), f(served))
    with pytest.raises(
        tracehost.SignatureError, match=r"a comparison of sizes at .* x\.shape\[0\]"
    ):
        loaded(rejected)


def _serves(function, *args):
    try:
        function(*args)
    except tracehost.SignatureError:
        return False
    return True


def test_structures(keep):
    @tracehost.function
    def f(batch, point, mode, options):
        y = batch.image * batch.scale + point.x
        if mode is Mode.MINUS:
            y = -y
        return {
            "y": y,
            "point": Point(y, 3),
            "kind": (mode, options["name"], None, torch.float64),
        }, [y, 2**70, 1j]

    args = (Batch(torch.ones(2)), Point(torch.ones(2), "p"), Mode.MINUS, {"name": "n", 3: b"x"})
    expected = f(*args)
    same(keep(f)(*args), expected)


def test_shared_tensors_are_stored_once(tmp_path):
    weight = torch.randn(300, 300)
    view = weight[:10]
    a = tracehost.function(lambda x: x @ weight)
    b = tracehost.function(lambda x: x @ weight + view[0])
    x = torch.ones(2, 300)
    expected = a(x), b(x)
    path = tmp_path / "two.pt"
    tracehost.save(path, {"a": a, "b": b})
    assert path.stat().st_size < 1.2 * weight.nbytes
    loaded = tracehost.load(path)
    same((loaded["a"](x), loaded["b"](x)), expected)
    kept = loaded["a"].tensors()
    other = loaded["b"].tensors()
    shared = [name for name in kept if name in other]
    assert all(kept[n].data_ptr() == other[n].data_ptr() for n in shared) and shared


def test_in_place_updates_stay_in_the_archive(keep):
    count = torch.zeros(())

    @tracehost.function
    def f(x):
        count.add_(1)
        return x + count

    f.get_concrete_function(TensorSpec([]))
    loaded = keep(f)
    assert [loaded(torch.zeros(())).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert count.item() == 0


def test_a_tensor_array(keep):
    @tracehost.function
    def f(x):
        array = tracehost.TensorArray(torch.float32)
        i = torch.zeros((), dtype=torch.int64)
        while i < x.shape[0]:
            array = array.write(i, x[i] * i)
            i = i + 1
        return array.stack()

    x = torch.randn(4, 2)
    expected = f(x)
    same(keep(f)(x), expected)


def test_tensor_arrays_in_plain_pytorch(tmp_path):
    @tracehost.function
    def f(x):
        a = tracehost.TensorArray(torch.float32).write(2, x).write(0, x + 1)
        b = tracehost.TensorArray(torch.float32, size=2).write(1, x * 3)
        return a.read(2) + b.read(1)

    x = torch.rand(3)
    expected = f(x)
    f.save(tmp_path / "f.pt")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    module = torch.jit.load(tmp_path / "f.pt")
    for _ in range(3):  # the executor optimizes after the first
        assert torch.equal(module(x), expected)
    same(tracehost.load(tmp_path / "f.pt")["f"](x), expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_random_ops_draw_as_eager(keep):
    @tracehost.function
    def f(x):
        torch.rand(3)
        return x + torch.rand(2)

    f(torch.zeros(2))
    loaded = keep(f)
    torch.manual_seed(3)
    expected = f(torch.zeros(2))
    torch.manual_seed(3)
    same(loaded(torch.zeros(2)), expected)


def test_what_a_graph_raises(keep):
    @tracehost.function
    def f(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    f(torch.ones(2))
    loaded = keep(f)
    with pytest.raises(ValueError, match="^negative$"):
        loaded(-torch.ones(2))


def test_a_guard_clause(keep):
    @tracehost.function
    def f(x):
        if x.sum() > 0:
            y = x * 2
            return y, y.sum()
        raise ValueError("not positive")

    expected = f(torch.ones(2))
    loaded = keep(f)
    same(loaded(torch.ones(2)), expected)
    with pytest.raises(ValueError, match="^not positive$"):
        loaded(-torch.ones(2))


def test_the_same_functions_give_the_same_bytes(tmp_path):
    net = Net().eval()
    net.classify(torch.ones(2, 3))
    for name in ("a.pt", "b.pt"):
        net.classify.save(tmp_path / name)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()


def test_file_names_are_left_out_unless_asked_for(keep, tmp_path):
    archive_module.collatz(torch.tensor(3))
    keep(archive_module.collatz, "without")
    assert b"archive_module" not in (tmp_path / "without.pt").read_bytes()
    keep(archive_module.collatz, "with_lines", source_paths=True)
    assert tracehost.load(tmp_path / "with_lines.pt")["with_lines"](torch.tensor(3)).item() == 7


def test_lines_are_in_errors_if_asked_for(keep):
    @tracehost.function
    def f(x, i):
        return x[i]

    f(torch.ones(3), torch.tensor(0))
    loaded = keep(f, source_paths=True)
    with pytest.raises(IndexError) as caught:
        loaded(torch.ones(3), torch.tensor(7))
    assert any("test_archive_round_trip.py" in note for note in caught.value.__notes__)


def test_opens_in_plain_pytorch(tmp_path):
    net = Net().eval()
    x = torch.arange(6.0).reshape(2, 3)
    expected = net.classify(x)
    net.classify.save(tmp_path / "net.pt")
    archive_module.scaled(x)
    tracehost.save(
        tmp_path / "two.pt",
        {
            "scaled": archive_module.scaled,
            "collatz": archive_module.collatz.get_concrete_function(TensorSpec([], torch.int64)),
        },
    )
    program = """
        import sys, torch
        x = torch.arange(6.0).reshape(2, 3)
        torch.save(torch.jit.load("net.pt")(x), "out.pt")
        two = torch.jit.load("two.pt")
        print(two.scaled(x), two.scaled(x).dtype, two.collatz(torch.tensor(27)))
        assert not [m for m in sys.modules if "tracehost" in m]
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr, done.stdout) == (
        0,
        "",
        "tensor(7.5000) torch.float32 tensor(111)\n",
    )
    assert torch.equal(torch.load(tmp_path / "out.pt"), expected)


def test_the_loading_process_needs_none_of_the_classes(tmp_path):
    f = tracehost.function(lambda x: {"p": Point(x, 1), "b": Batch(x)})
    f(torch.ones(2))
    tracehost.save(tmp_path / "f.pt", {"f": f})
    program = """
        import torch, tracehost
        found = tracehost.load("f.pt")["f"](torch.ones(2))
        print(found, type(found["p"]).__module__)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert (
        done.stdout
        == "{'p': Point(x=tensor([1., 1.]), y=1), 'b': Batch(image=tensor([1., 1.]), scale=2.0)} archive_module\n"
    )


# -- random signatures -------------------------------------------------------------------------------------

_DTYPES = [
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.complex64,
    torch.bfloat16,
]
_sizes = st.lists(st.integers(0, 3), max_size=3)
_tensors = st.builds(
    lambda sizes, dtype: torch.ones(sizes, dtype=dtype), _sizes, st.sampled_from(_DTYPES)
)
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8).filter(lambda s: s.isascii() or s.encode("utf-8", "ignore").decode() == s),
    st.binary(max_size=4), st.complex_numbers(allow_nan=False), st.sampled_from([torch.float16, torch.device("cpu"), Mode.PLUS, ...]), _tensors,
)  # fmt: skip
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Batch, _tensors, st.floats(allow_nan=False)),
    ),  # fmt: skip
    max_leaves=6,
)


def _tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors_of(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors_of(v)]
    return [value.image] if isinstance(value, Batch) else []


@settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(value=_values, other=_values)
def test_random_signatures(tmp_path_factory, value, other):
    def body(value, other=0, *, flag=True):
        return value, [t.clone() for t in _tensors_of((value, other))], flag

    f = tracehost.function(body, autograph=False, validate="off")
    expected = f(value, other)
    path = tmp_path_factory.getbasetemp() / "random.pt"
    tracehost.save(path, {"f": f})
    loaded = tracehost.load(path)["f"]
    same(loaded(value, other), expected)
    same(loaded(other=other, value=value, flag=True), expected)
    with pytest.raises(tracehost.SignatureError):
        loaded(value, other, flag=False)
    text = f.pretty_printed_concrete_signatures()
    assert text and len(loaded.signatures) == 1
    if _tensors_of((value, other)):
        module = torch.jit.load(path)
        assert hasattr(module, "forward")


COUNTED = """
import sys
import torch, tracehost

@tracehost.function
def inverse(x):
    return torch.linalg.inv(x)

inverse(torch.eye(2))
inverse.save(sys.argv[1])
tracehost.load(sys.argv[1])["inverse"].__signature__
loaded = tracehost.load(sys.argv[1])["inverse"]
for x in torch.eye(2), torch.eye(2), torch.zeros(2, 2), torch.eye(3), object():
    try:
        loaded(x)
    except (RuntimeError, tracehost.SignatureError) as error:
        print(type(error).__name__)
print(tracehost.report())
"""


def test_calls_of_a_loaded_function_are_in_the_report(run_host, tmp_path):
    """As those of the C++ API are: hits, and ops that failed. A function that is only looked at is not there."""
    figures = tmp_path / "figures.prom"
    done = run_host(f"--metrics-file={figures}", "-c", COUNTED, str(tmp_path / "a.pt"))
    lines = done.stdout.splitlines()
    assert lines[:3] == ["_LinAlgError", "SignatureError", "SignatureError"], done.stderr
    rows = [line.split() for line in lines if "a.pt" in line]
    assert len(rows) == 1 and rows[0][:4] == ["inverse", "(a.pt)", "5", "2"]
    counted = re.findall(r'\(a\.pt\)".*result="(\w+)"} (\d+)', figures.read_text())
    assert [(kind, n) for kind, n in counted if n != "0"] == [
        ("hit", "2"),
        ("failed", "1"),
        ("rejected", "2"),
    ]
