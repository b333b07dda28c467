"""What can't be saved, loaded or called, and the exact words."""

import json

import archive_module
import pytest
import torch
import tracehost
from archive_module import Net
from tracehost import ArchiveError, SignatureError

THIS = "test_archive_errors.py"


def line(marker):
    """`test_archive_errors.py:12` of the line of this file that ends with `# marker`."""
    with open(__file__, encoding="utf-8") as source:
        for number, text in enumerate(source, 1):
            if text.rstrip().endswith(f"# {marker}"):
                return f"{THIS}:{number}"
    raise AssertionError(marker)


def rejection(tmp_path, function, name="f"):
    path = tmp_path / "rejected.pt"
    with pytest.raises(ArchiveError) as caught:
        tracehost.save(path, {name: function})
    assert not path.exists() and list(tmp_path.iterdir()) == []
    return str(caught.value)


# -- what can't be saved -----------------------------------------------------------------------------------


def test_calls_of_python(tmp_path):
    def double(x):
        return x * 2

    @tracehost.function
    def f(x):
        return tracehost.py_function(double, [x], torch.float32)  # py_function

    f(torch.ones(2))
    assert rejection(tmp_path, f) == (
        f"f(x: float32[2]) can't be saved: py_function 'double' at {line('py_function')} calls Python, which a "
        "program without it can't. Leave it out, or compute it with PyTorch's ops"
    )


def test_graphs_of_two_default_devices(tmp_path):
    @tracehost.function
    def f(x):
        return x * 2

    x = torch.ones(2)
    f(x)
    with torch.device("meta"):
        f(x)
    assert rejection(tmp_path, f) == (
        "f can't be saved: its graphs were traced under different default devices (none, meta), and calls of an "
        "archive have none. Save those of one, by get_concrete_function"
    )


def test_a_backward_pass(tmp_path):
    @tracehost.function
    def f(x):
        (g,) = torch.autograd.grad((x * x).sum(), [x])  # grad
        return g

    f(torch.ones(2, requires_grad=True))
    assert rejection(tmp_path, f) == (
        f"f(x: float32[2], requires_grad) can't be saved: a backward pass at {line('grad')} needs autograd's "
        "engine, which no op of TorchScript runs. Save the forward function"
    )


def test_inference_mode_in_the_body(tmp_path):
    @tracehost.function
    def f(x):
        with torch.inference_mode():  # inference
            y = x * 2
        return y.clone()

    f(torch.ones(2))
    assert rejection(tmp_path, f).startswith("f(x: float32[2]) can't be saved: inference_mode()")


def test_what_autocast_casts_inside(tmp_path):
    @tracehost.function
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.einsum("ij,jk->ik", x, y)  # einsum

    f(torch.ones(2, 2), torch.ones(2, 2))
    assert rejection(tmp_path, f) == (
        f"f(x: float32[2, 2], y: float32[2, 2]) can't be saved: aten::einsum at {line('einsum')} casts inside, by "
        "the autocast that it runs under, which no op of TorchScript sets. End the autocast region before it, or "
        "give it inputs of the lower precision"
    )


def test_autocast_whose_casts_are_in_the_graph(tmp_path):
    @tracehost.function
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.mm(x, x)

    x = torch.rand(3, 3)
    expected = f(x)
    f.save(tmp_path / "f.pt")
    for found in (tracehost.load(tmp_path / "f.pt")["f"](x), torch.jit.load(tmp_path / "f.pt")(x)):
        assert found.dtype == torch.bfloat16 and torch.equal(found, expected)


def test_objects_as_arguments(tmp_path):
    f = tracehost.function(lambda model, x: model(x), name="f")
    net = Net().eval()
    f(net, torch.ones(2, 3))
    assert rejection(tmp_path, f) == (
        "f can't be saved: argument 'model' is <Net object>, which an archive can't hold. Let the body reach it "
        "(self, a closure, functools.partial) in place of passing it"
    )


def test_attributes_that_each_call_stores(tmp_path):
    class Cell:
        def __init__(self):
            self.h = torch.zeros(2)

        @tracehost.function
        def step(self, x):
            self.h = self.h + x
            return self.h * 1

    cell = Cell()
    line = Cell.step.python_function.__code__.co_firstlineno + 2
    for _ in range(2):  # another call changes nothing of it
        cell.step(torch.ones(2))
        assert rejection(tmp_path, cell.step, "step") == (
            f"step can't be saved: the body stores to the Python variable self.h at test_archive_errors.py:{line}, which no "
            "archive has. Return the value in place of the store, or give the variable a tensor before the first call and "
            "change that tensor by copy_()"
        )


LAST = None


def test_a_global_that_each_call_stores(tmp_path):
    @tracehost.function
    def step(x):
        global LAST
        LAST = x * 2
        return x + 1

    line = step.python_function.__code__.co_firstlineno + 3
    for _ in range(2):
        step(torch.ones(2))
        assert rejection(tmp_path, step, "step") == (
            "step can't be saved: the body stores to the Python variable LAST (test_archive_errors.py) at "
            f"test_archive_errors.py:{line}, which no archive has. Return the value in place of the store, or give "
            "the variable a tensor before the first call and change that tensor by copy_()"
        )


def test_the_remedy_for_a_store_works(tmp_path):
    kept = torch.zeros(2)

    @tracehost.function
    def step(x):
        kept.copy_(x * 2)
        return x + kept

    step(torch.ones(2))
    tracehost.save(tmp_path / "f.pt", {"step": step})
    loaded = tracehost.load(tmp_path / "f.pt")["step"]
    torch.testing.assert_close(loaded(torch.ones(2)), torch.full((2,), 3.0))


def test_an_argument_that_each_call_changes(tmp_path):
    @tracehost.function
    def step(x, out):
        out.append(x * 2)
        return x + 1

    step(torch.ones(2), [])
    assert rejection(tmp_path, step, "step") == (
        "step can't be saved: the body changes an argument that is a list or dict, which a call of an archive does "
        "not do. Return the new value"
    )


def test_an_argument_that_is_a_capture(tmp_path):
    weight = torch.ones(2)
    f = tracehost.function(lambda x: x + weight, name="f")
    f(weight)
    assert "argument 'x' is the same tensor that the body reaches as" in rejection(tmp_path, f)


def test_a_function_without_a_trace(tmp_path):
    f = tracehost.function(lambda x: x, name="f")
    assert rejection(tmp_path, f) == (
        "f can't be saved: it has no specialization yet. Call it, or request one: "
        "f.get_concrete_function(tracehost.TensorSpec(...))"
    )


def test_a_trace_of_another_value(tmp_path):
    net = Net().eval()
    net.scale = 2

    f = tracehost.function(lambda x: net.first(x) * net.scale, name="f")
    f(torch.ones(1, 3))
    net.scale = 3
    assert "is another value now than when it was traced" in rejection(tmp_path, f)
    f(torch.ones(1, 3))
    f.save(tmp_path / "f.pt")
    loaded = tracehost.load(tmp_path / "f.pt")["f"]
    assert len(loaded.signatures) == 1
    assert torch.equal(loaded(torch.ones(1, 3)), net.first(torch.ones(1, 3)) * 3)


def test_names_and_other_things(tmp_path):
    with pytest.raises(
        ArchiveError,
        match="'a b' can't be saved: the name of a function must be a Python identifier",
    ):
        tracehost.save(tmp_path / "f.pt", {"a b": archive_module.scaled})
    with pytest.raises(TypeError, match="'f' can't be saved: it is a int"):
        tracehost.save(tmp_path / "f.pt", {"f": 3})
    for given, message in {
        "{}": "functions has no name. Give at least one: {'predict': predict}",
        "scaled": "functions is a Function, not a dict. Write tracehost.save(path, {'scaled': scaled})",
        "[scaled]": "functions is a list, not a dict. Write tracehost.save(path, {'predict': predict})",
    }.items():
        with pytest.raises(TypeError) as caught:
            tracehost.save(tmp_path / "f.pt", eval(given, {"scaled": archive_module.scaled}))
        assert str(caught.value) == "save(path, functions): " + message
    archive_module.scaled(torch.ones(2))
    with pytest.raises(ArchiveError, match="No such file or directory"):
        tracehost.save(tmp_path / "none" / "f.pt", {"f": archive_module.scaled})


# -- what can't be called ----------------------------------------------------------------------------------


@pytest.fixture
def shift(tmp_path):
    archive_module.shift.save(tmp_path / "shift.pt")
    return tracehost.load(tmp_path / "shift.pt")["shift"]


def test_what_fits_no_graph(shift):
    with pytest.raises(SignatureError) as caught:
        shift(torch.ones(3, 4), torch.tensor(1))
    assert str(caught.value) == (
        "shift: none of 1 graph serves this call.\n"
        "  why      argument 'x', dimension 1, is 4, not 3\n"
        "  call     (x: float32[3, 4], n: int64[])\n"
        "  nearest  (x: float32[None, 3], n: int64[])"
    )
    error = caught.value
    assert (error.parameter, error.expected, error.got) == ("x", "3", "4")
    assert error.nearest == "(x: float32[None, 3], n: int64[])"
    with pytest.raises(SignatureError) as caught:
        shift(torch.ones(3, 3), 0.5)
    assert str(caught.value) == (
        "shift: none of 1 graph serves this call.\n"
        "  why      argument 'n' is of type float, not Tensor\n"
        "  call     (x: float32[3, 3], n=0.5)\n"
        "  nearest  (x: float32[None, 3], n: int64[])"
    )


def test_arguments_that_do_not_bind(shift):
    with pytest.raises(TypeError, match=r"^shift\(\) missing a required argument: 'n'$"):
        shift(torch.ones(3, 3))
    with pytest.raises(TypeError, match=r"^shift\(\) got an unexpected keyword argument 'm'$"):
        shift(torch.ones(3, 3), 1, m=2)


def test_objects_are_named(shift):
    with pytest.raises(
        SignatureError,
        match=r"^shift: argument 'n' is <Net object>, for which no archive has a graph$",
    ):
        shift(torch.ones(3, 3), Net())


def test_another_default_dtype(shift):
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(SignatureError, match="default dtype is float64, not float32"):
            shift(torch.ones(3, 3, dtype=torch.float32), torch.tensor(1))
    finally:
        torch.set_default_dtype(torch.float32)


def test_not_in_another_functions_graph(shift):
    f = tracehost.function(lambda x: shift(x, torch.tensor(1))[0])
    with pytest.raises(
        tracehost.TraceError, match="shift of an archive is called in a body that is being traced"
    ):
        f(torch.ones(2, 3))


def test_unknown_names(shift, tmp_path):
    archive = tracehost.load(tmp_path / "shift.pt")
    with pytest.raises(KeyError, match="'run' is no function of .*; there is shift"):
        archive["run"]
    with pytest.raises(IndexError, match="shift has 1 graph, there is no graph 2"):
        shift.graph(2)


# -- what can't be read ------------------------------------------------------------------------------------


def test_files_that_are_none(tmp_path, shift):
    def error(content):
        path = tmp_path / "g.pt"
        path.write_bytes(content)
        with pytest.raises(ArchiveError) as caught:
            tracehost.load(path)
        return str(caught.value).removeprefix(f"{path} ")

    whole = (tmp_path / "shift.pt").read_bytes()
    assert error(b"") == "is not a tracehost archive: it is empty"
    assert error(b"\x80\x02}q\x00.") == "is not a tracehost archive: it is not a zip file"
    assert (
        error(whole[:-1])
        == "is not a tracehost archive, or it is cut off: its end is missing. Copy or save it again."
    )
    damaged = "is damaged: its bytes do not match its checksum. Copy or save it again."
    assert error(whole[:500] + b"~" + whole[501:]) == damaged
    with pytest.raises(ArchiveError, match=r"none\.pt can't be read: No such file or directory$"):
        tracehost.load(tmp_path / "none.pt")


def test_devices(tmp_path, shift):
    with pytest.raises(RuntimeError, match="tpu"):
        tracehost.load(tmp_path / "shift.pt", device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ArchiveError) as caught:
            tracehost.load(tmp_path / "shift.pt", device="cuda")
        assert str(caught.value) == (
            f"{tmp_path / 'shift.pt'}: it is for the device cuda:0, which this machine does not have. Give device= one that it has."
        )


def test_ops_and_tensors_move_to_the_device(tmp_path):
    weight = torch.ones(3)
    f = tracehost.function(lambda x: x * weight + torch.arange(3), name="f")
    f(torch.ones(3))
    f.save(tmp_path / "f.pt")
    loaded = tracehost.load(tmp_path / "f.pt", device="meta")
    assert loaded.device == torch.device("meta")
    found = loaded["f"](torch.ones(3, device="meta"))
    assert (found.device.type, found.shape) == ("meta", (3,))
    with pytest.raises(SignatureError, match="argument .x. is on cpu, not meta"):
        loaded["f"](torch.ones(3))


def test_nothing_is_unpickled(tmp_path, shift):
    """The pickles in it name no class but torch's own."""
    import pickletools
    import zipfile

    with zipfile.ZipFile(tmp_path / "shift.pt") as archive:
        for name in archive.namelist():
            if name.endswith(".pkl"):
                for op, argument, _ in pickletools.genops(archive.read(name)):
                    assert op.name != "GLOBAL" or argument.split()[0].split(".")[0] in ("torch", "__torch__", "collections"), (name, argument)  # fmt: skip
        assert json.loads(archive.read("archive/extra/tracehost.json"))["version"] == 2


def test_one_tensor_twice_is_rejected_with_what_to_pass(tmp_path):
    f = tracehost.function(lambda x, y: x * y, name="f")
    f(torch.ones(3), torch.ones(3))
    f.save(tmp_path / "f.pt")
    loaded, x = tracehost.load(tmp_path / "f.pt")["f"], torch.rand(3)
    with pytest.raises(SignatureError) as caught:
        loaded(x, x)
    assert str(caught.value) == (
        "f: none of 1 graph serves this call.\n"
        "  why      argument 'y' is the same tensor as x, not a tensor of its own\n"
        "  call     (x: float32[3], y=x)\n"
        "  nearest  (x: float32[3], y: float32[3])\n"
        "  fix      pass y.clone()"
    )
    assert torch.equal(loaded(x, x.clone()), x * x)
