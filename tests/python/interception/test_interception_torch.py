"""What torch.compile, torch.jit.trace and torch.jit.script give under interception, beside PyTorch's own."""

import copy
import io
import os
import pickle
import warnings

import pytest
import torch
import tracehost
from torch import nn
from tracehost.testing import assert_traces
from tracehost_interception import apply, messages, replace
from tracehost_interception.targets import read

x = torch.arange(3.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))
        self.gain = 1.0

    def forward(self, x, *, twice=False):
        y = self.linear(x) * self.scale * self.gain
        return y * 2 if twice else y

    def describe(self):
        return f"gain {self.gain}"


@pytest.fixture(autouse=True)
def intercepted(monkeypatch):
    """torch's decorators are ours, as after `import torch` under --intercept."""
    monkeypatch.setenv(messages.FIRST, str(os.getpid()))
    targets = read("torch.compile;torch.jit.trace;torch.jit.script", traces=False)
    theirs = (torch.compile, torch.jit.trace, torch.jit.script, torch.jit.freeze)
    apply.replace_in(torch, targets)
    yield
    replace.undo_all()
    assert (torch.compile, torch.jit.trace, torch.jit.script, torch.jit.freeze) == theirs


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


# -- torch.compile(module) ---------------------------------------------------------------------------------


def test_a_compiled_module_is_the_module(net):
    compiled = torch.compile(net)
    assert isinstance(compiled, nn.Module) and compiled._orig_mod is net
    assert [n for n, _ in compiled.named_parameters()] == [
        "_orig_mod.linear.weight",
        "_orig_mod.linear.bias",
    ]
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in net.state_dict()]
    assert all(a is b for a, b in zip(compiled.parameters(), net.parameters()))
    assert compiled.linear is net.linear and compiled.describe() == "gain 1.0"
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Net(")
    compiled.gain = 3.0
    assert net.gain == 3.0 and "gain" in dir(compiled)
    del compiled.gain
    assert not hasattr(net, "gain")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        compiled.nothing  # noqa: B018
    assert compiled.eval() is compiled and not net.training and not net.linear.training
    net.train()
    assert (
        compiled.training
        and compiled.requires_grad_(False) is compiled
        and not net.linear.weight.requires_grad
    )
    compiled.to(torch.float64)
    assert net.scale.dtype == torch.float64
    assert (
        len(torch.compile(nn.Sequential(net, net))) == 2
        and torch.compile(nn.Sequential(net))[0] is net
    )
    with pytest.raises(TypeError):
        len(compiled)
    assert bool(compiled)


def test_calls_are_traced_once_a_signature_and_follow_the_module(net):
    compiled = torch.compile(net)
    with assert_traces(compiled.forward, 1):
        for _ in range(3):
            assert torch.equal(compiled(x), net(x))
    with assert_traces(compiled.forward, 2):
        assert torch.equal(compiled(x, twice=True), net(x, twice=True))
        compiled.gain = 0.5
        assert torch.equal(compiled(x), net(x))
    compiled.load_state_dict({k: v + 1 for k, v in compiled.state_dict().items()})
    with assert_traces(compiled.forward, 0):
        assert torch.equal(compiled(x), net(x))
    compiled(x).sum().backward()
    grad = net.linear.weight.grad.clone()
    net.zero_grad()
    net(x).sum().backward()
    assert torch.equal(grad, net.linear.weight.grad)


def test_hooks_of_both_run_at_each_call(net):
    compiled, seen = torch.compile(net), []
    compiled.register_forward_hook(lambda module, args, out: seen.append("compiled"))
    compiled(x)
    compiled(x)
    assert seen == ["compiled"] * 2


def test_copies_and_pickles_of_a_compiled_module(net):
    compiled = torch.compile(net, dynamic=False)
    compiled(x)
    copied = copy.deepcopy(compiled)
    assert copied._orig_mod is not net and copied.linear.weight is not net.linear.weight
    with torch.no_grad():
        copied.linear.weight.zero_()
    assert torch.equal(copied(x), copied._orig_mod(x)) and not torch.equal(copied(x), compiled(x))
    again = pickle.loads(pickle.dumps(compiled))
    assert type(again).__name__ == "OptimizedModule" and torch.equal(again(x), net(x))
    assert b"tracehost" not in pickle.dumps(compiled)
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is type(compiled) and torch.equal(loaded(x), net(x))


def test_who_asks_for_torchs_own_class_is_told_so(net):
    from torch._dynamo.eval_frame import OptimizedModule

    compiled = torch.compile(net)
    assert isinstance(compiled, OptimizedModule) and isinstance(compiled, nn.Module)
    assert not isinstance(net, OptimizedModule)
    assert not isinstance(torch.compile(half, disable=True), tracehost.Function)


def test_compiling_in_place_keeps_the_module(net):
    expected = net(x)
    net.compile(dynamic=False)
    assert torch.equal(net(x), expected) and torch.equal(net(x), expected)
    made = net._compiled_call_impl
    assert (made.name, made.tracing_count(), made.stats()["hits"]) == ("Net", 1, 1)
    assert list(net.state_dict()) == ["scale", "linear.weight", "linear.bias"]
    assert pickle.loads(pickle.dumps(net))._compiled_call_impl is None


# -- torch.compile(function) -------------------------------------------------------------------------------


def test_dynamic_says_what_it_says_to_torch():
    for dynamic, traces in ((None, 2), (True, 2), (False, 4)):
        total = torch.compile(lambda x: x.sum() * x.shape[0], dynamic=dynamic)
        assert [total(torch.ones(n)).item() for n in (2, 3, 4, 5)] == [4, 9, 16, 25]
        assert total.tracing_count() == traces, dynamic


def test_what_cannot_be_traced_goes_on_unless_it_must_be_whole():
    def share(x):
        return x / x.sum().numpy().tolist()

    with pytest.warns(tracehost.TraceWarning, match="runs as plain Python"):
        assert torch.equal(torch.compile(share)(x), share(x))
    with pytest.raises(tracehost.ValueReadError, match=r"test_interception_torch\.py:\d+"):
        torch.compile(share, fullgraph=True)(x)


def test_what_is_no_function_stays_as_it_is(capsys):
    async def wait():
        pass

    assert torch.compile(wait) is wait
    assert "torch.compile at test_interception_torch.py:" in capsys.readouterr().err
    made = torch.compile(lambda x: x)
    assert torch.compile(made) is made


def test_what_the_program_has_put_there_stays():
    class Owner:
        kept, changed = 1, 2

    replace.put(Owner, "kept", 3)
    replace.put(Owner, "changed", 4)
    Owner.changed = 5
    replace.undo_all()
    assert (Owner.kept, Owner.changed) == (1, 5)


def test_torchs_own_calls_are_torchs():
    namespace = {"__name__": "torch.nn.something", "torch": torch}
    exec("made = torch.jit.script(torch.nn.Linear(1, 1))", namespace)
    assert isinstance(namespace["made"], torch.jit.ScriptModule)


# -- torch.jit ---------------------------------------------------------------------------------------------


def half(x):
    return (x / 2).reshape(x.shape[0], -1).sum(1)


def test_a_traced_function_has_graph_code_and_file(tmp_path):
    made = torch.jit.trace(half, (torch.ones(2, 3),))
    assert torch.equal(made(torch.ones(4, 5)), half(torch.ones(4, 5)))
    assert "aten::div" in str(made.graph) and "torch.div" in made.code and made.__name__ == "half"
    made.save(tmp_path / "half.pt")
    for shape in ((2, 3), (5, 1), (1, 7)):  # sizes that it has not seen
        loaded = torch.jit.load(tmp_path / "half.pt")
        assert torch.equal(loaded(torch.ones(shape)), half(torch.ones(shape)))
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(torch.ones(3, 3)), half(torch.ones(3, 3)))
    torch.jit.save(made, str(tmp_path / "other.pt"))
    assert tracehost.load(tmp_path / "other.pt")["half"](torch.ones(1, 3)).tolist() == [1.5]
    with pytest.raises(RuntimeError, match="_extra_files can't be saved by tracehost"):
        made.save(tmp_path / "x.pt", _extra_files={"a": "b"})


def test_a_traced_module_is_the_module(net, tmp_path):
    net.eval()
    traced = torch.jit.trace(net, torch.ones(1, 3))
    assert isinstance(traced, nn.Module) and traced.original_name == "Net"
    assert list(traced.state_dict()) == list(net.state_dict()) and len(list(traced.children())) == 1
    assert traced.forward.tracing_count() == 1
    with assert_traces(traced.forward, 0):
        assert torch.equal(traced(torch.ones(1, 3)), net(torch.ones(1, 3)))
    traced.save(str(tmp_path / "net.pt"))
    loaded = torch.jit.load(str(tmp_path / "net.pt"))
    assert torch.equal(loaded(torch.ones(6, 3)), net(torch.ones(6, 3)))
    assert torch.jit.freeze(traced) is traced and torch.jit.optimize_for_inference(traced) is traced
    assert torch.jit.trace(net.forward, torch.ones(1, 3)).original_name == "Net"
    traced.double()
    assert net.scale.dtype == torch.float64
    with pytest.raises(AttributeError, match="no ScriptModule"):
        traced.save_for_lite_interpreter  # noqa: B018
    file = io.BytesIO()
    torch.save(traced, file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is Net


def test_the_file_has_exact_sizes_where_the_body_needs_them(net, tmp_path, capsys):
    def signature(made):
        made.save(tmp_path / "f.pt")
        return str(next(iter(tracehost.load(tmp_path / "f.pt").values())))

    assert signature(torch.jit.trace(net, torch.ones(5, 4, 3))).startswith(
        "Net(x: float32[None, None, 3], "
    )
    rows = torch.jit.trace(lambda x: x * x.reshape(2, 3).sum(0), torch.ones(2, 3))
    assert "(x: float32[2, 3])" in signature(rows)
    assert capsys.readouterr().err == ""


def test_scripting(net, tmp_path, capsys):
    @torch.jit.script
    def loop(x, n: int):
        for _ in range(n):
            if x.sum() > 10:
                x = x / 2
            else:
                x = x * 3
        return x

    with assert_traces(loop._function, 1):
        with pytest.raises(
            RuntimeError, match="loop has no graph to save yet: .* Call it once before"
        ):
            loop.save(tmp_path / "loop.pt")
        plain = loop.__wrapped__
        for value in (0.1, 8.0):
            assert torch.equal(loop(torch.tensor([value]), 4), plain(torch.tensor([value]), 4))
        assert "prim::If" in str(loop.graph)
    scripted = torch.jit.script(net)
    assert torch.equal(scripted(x), net(x)) and "linear" in scripted.code

    class Pair:
        pass

    assert torch.jit.script(Pair) is Pair
    torch.jit.script(half, example_inputs=[(x,)])
    assert capsys.readouterr().err.endswith(
        "example_inputs has no meaning for tracehost, and is left out\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert isinstance(
            torch.jit.script(torch.jit.load(_saved(tmp_path))), torch.jit.ScriptModule
        )


def _saved(folder):
    path = str(folder / "half.pt")
    torch.jit.trace(half, torch.ones(2, 2)).save(path)
    return path


decorated = None


def test_functions_are_pickled_by_name(change):
    change("decorated", torch.jit.script(half))
    half_before = half
    change("half", decorated)
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    change("half", half_before)


def test_a_module_that_is_a_global_is_traced_by_its_name(net):
    class Holder:
        model = net

    apply.replace_in(Holder, read("holder:model,name=it", traces=True))
    assert isinstance(Holder.model, nn.Module) and list(Holder.model.state_dict()) == list(
        net.state_dict()
    )
    assert torch.equal(Holder.model(x), net(x)) and Holder.model.forward.name == "it"
    assert type(pickle.loads(pickle.dumps(Holder.model))) is Net
