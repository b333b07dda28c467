"""CUDA graphs: settled calls on a CUDA device are captured, and give what eager gives."""

import gc
import threading

import pytest
import torch
import torch.nn.functional as F
import tracehost
from cuda_graphs import NEEDED, chain, function
from cuda_graphs import served_by as runs_by
from torch import nn

pytestmark = NEEDED

CALLS = 20


def floats(*sizes, count=CALLS):
    return [torch.randn(*sizes, device="cuda") for _ in range(count)]


def plain_chain():
    return chain, (), "a CUDA graph (12 ops)"


def perceptron():
    layers = [nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(8, 4), nn.Softmax(-1)).cuda().requires_grad_(False)
    return model, model.parameters(), "a CUDA graph (8 ops)"


def batch_norm():
    """It writes to buffers at each call."""
    norm = nn.BatchNorm1d(4).cuda().requires_grad_(False)
    return lambda x: chain(norm(x)), norm.buffers(), "a CUDA graph (14 ops)"


def counter():
    total = torch.zeros(3, 4, device="cuda")

    def body(x):
        total.add_(chain(x))
        return total * 2

    return body, [total], "a CUDA graph (14 ops)"


def written_argument():
    def body(x):
        y = chain(x)
        x.mul_(0.5)
        return y

    return body, (), "a CUDA graph (13 ops)"


def views():
    def body(x):
        y = chain(x)
        return x, x[1], y, y[0], y.t(), y

    return body, (), "a CUDA graph (12 ops)"


def dropout():
    return lambda x: F.dropout(chain(x), 0.5), (), "a CUDA graph (13 ops)"


@pytest.mark.parametrize(
    "make", [plain_chain, perceptron, batch_norm, counter, written_argument, views, dropout]
)
def test_twenty_calls_give_what_eager_gives(make):
    torch.manual_seed(3)
    eager, eager_state, _ = make()
    torch.manual_seed(3)
    body, state, served_by = make()
    f = function(body)
    inputs = floats(3, 4)
    torch.manual_seed(5)
    expected = [(x := y.clone(), eager(x)) for y in inputs]
    torch.manual_seed(5)
    found = [(x := y.clone(), f(x)) for y in inputs]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for one, other in zip(state, eager_state, strict=True):
        assert torch.equal(one, other)
    assert runs_by(f) == served_by


def test_they_are_asked_for_by_name(monkeypatch):
    """On a device the default is the interpreter, until captures have run on a GPU."""
    monkeypatch.delenv("TRACEHOST_OPTIMIZE", raising=False)
    f = tracehost.function(chain)
    for x in floats(3, 4, count=6):
        f(x)
    assert runs_by(f) == 'the interpreter: optimize="exact" asks for CUDA graphs'
    assert tracehost.events(f, graphs=True) == [] and f.stats()["captured"] == 0
    monkeypatch.setenv("TRACEHOST_OPTIMIZE", "exact")
    g = tracehost.function(chain)
    for x in floats(3, 4, count=6):
        g(x)
    assert runs_by(g) == "a CUDA graph (12 ops)"


def test_a_hit_is_one_launch():
    standin = pytest.importorskip("standin", reason="only the simulated runtime counts launches")
    f = function(chain)
    for x in floats(3, 4, count=8):
        f(x)
    x = torch.ones(3, 4, device="cuda")
    standin.reset()
    f(x)
    assert standin.count("graph_launch") == 1
    assert standin.count("sync") == standin.count("malloc") == 0


def test_views_of_the_result_share_its_memory():
    f = function(views()[0])
    for x in floats(3, 4):
        same, row, y, first, turned, again = f(x)
        assert same is x
        assert row._base is x or row.data_ptr() == x[1].data_ptr()
        assert again is y
        y.fill_(7)
        assert first.eq(7).all() and turned.eq(7).all()
    assert runs_by(f) == "a CUDA graph (12 ops)"


def test_parameters_may_move():
    linear = nn.Linear(4, 4).cuda().requires_grad_(False)
    f = function(lambda x: chain(linear(x)))
    kept = []
    for i in range(40):
        if i % 10 == 9:
            kept.append(linear.weight.data)
            linear.weight.data = linear.weight.data.clone() + i
        x = torch.randn(3, 4, device="cuda")
        assert torch.equal(f(x), chain(linear(x))), i
    assert runs_by(f) == "a CUDA graph (13 ops)"


def test_parameters_that_always_move():
    linear = nn.Linear(4, 4).cuda().requires_grad_(False)
    f = function(lambda x: chain(linear(x)))
    kept = []
    for i in range(CALLS):
        kept.append(linear.weight.data)
        linear.weight.data = linear.weight.data.clone() + i
        x = torch.randn(3, 4, device="cuda")
        assert torch.equal(f(x), chain(linear(x))), i
    assert runs_by(f) == "a CUDA graph (13 ops)"
    assert f.stats()["captured"] == 1  # the weight is copied at each call


def test_each_replay_draws_again_and_a_seed_repeats_it():
    f = function(dropout()[0])
    x = torch.ones(20, 20, device="cuda")
    for _ in range(6):
        f(x)
    torch.manual_seed(1)
    first, second = f(x), f(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(f(x), first)
    assert torch.equal(F.dropout(chain(x), 0.5), second)


def waits(x):
    return chain(x).nonzero()


def branches(x):
    return chain(x) if x.sum() > 0 else x


def copies(x):
    return chain(x).cpu()


NOT_CAPTURED = {
    waits: "the interpreter: aten::nonzero waits for the device at test_cuda_graphs.py:",
    branches: "the interpreter: aten::Bool waits for the device at test_cuda_graphs.py:",
    copies: "the interpreter: aten::",
}


@pytest.mark.parametrize("body", NOT_CAPTURED, ids=lambda body: body.__name__)
def test_what_is_not_captured_has_a_reason(body):
    f = function(body)
    for x in floats(3, 4):
        assert torch.equal(f(x), body(x))
    assert runs_by(f).startswith(NOT_CAPTURED[body]), runs_by(f)


def test_a_call_in_a_capture_of_the_callers():
    f = function(chain)
    for x in floats(3, 4, count=8):
        f(x)
    x = torch.ones(3, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x)
    assert runs_by(f) == "the interpreter: the caller captures"
    x.fill_(3)
    graph.replay()
    assert torch.equal(y, chain(x))
    f(x)
    assert runs_by(f) == "a CUDA graph (12 ops)"


def test_memory_comes_back():
    gc.collect()
    before = torch.cuda.memory_allocated()
    f = function(chain)
    for _ in range(8):
        f(torch.ones(1 << 16, device="cuda"))
    assert runs_by(f) == "a CUDA graph (12 ops)"
    assert torch.cuda.memory_allocated() > before
    del f
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_threads_share_a_capture():
    f = function(chain)
    for x in floats(3, 4, count=8):
        f(x)
    wrong = []

    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(CALLS):
                x = torch.randn(3, 4, device="cuda")
                if not torch.equal(f(x), chain(x)):
                    wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert runs_by(f) == "a CUDA graph (12 ops)"


def test_a_capture_that_fails_leaves_the_generator_usable():
    """A mask as an index waits for the device. Only the capture finds that out."""
    f = function(lambda x, mask: dropout()[0](x)[mask])
    for x in floats(3, 4, count=8):
        torch.manual_seed(2)
        found = f(x, x > 0)
        torch.manual_seed(2)
        assert torch.equal(found, dropout()[0](x)[x > 0])
    assert runs_by(f).startswith("the interpreter: its capture failed: "), runs_by(f)
    assert "at test_cuda_graphs.py:" in runs_by(f)


def test_a_cache_is_written_in_inference_mode():
    cache, eager = torch.zeros(8, 4, device="cuda"), torch.zeros(8, 4, device="cuda")

    @function
    def f(x, i):
        cache.index_copy_(0, i, chain(x))
        return cache.sum(0)

    with torch.inference_mode():
        for k in range(8):
            x = torch.full((1, 4), float(k), device="cuda")
            eager[k] = chain(x)
            assert torch.equal(f(x, torch.tensor([k], device="cuda")), eager.sum(0))
    assert torch.equal(cache, eager)
    assert runs_by(f) == "a CUDA graph (14 ops)"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one GPU")
def test_the_second_device():
    f = function(chain)
    for _ in range(8):
        x = torch.randn(3, 4, device="cuda:1")
        assert torch.equal(f(x), chain(x))
    assert runs_by(f) == "a CUDA graph (12 ops)"


def test_gradients_that_are_kept_are_not_overwritten():
    w = torch.ones(3, device="cuda", requires_grad=True)

    @function
    def f(x):
        w.grad = None
        loss = (chain(w) * x).sum()
        loss.backward()
        return w.grad, w.detach(), w.detach()[1:]

    kept = []
    for k in range(8):
        x = torch.full((3,), float(k), device="cuda")
        grad, same, part = f(x)
        assert grad is w.grad
        assert same.data_ptr() == w.data_ptr() and not same.requires_grad
        assert part.data_ptr() == w[1:].data_ptr() and not part.requires_grad
        kept.append(grad)
    assert runs_by(f).startswith("a CUDA graph ("), runs_by(f)
    for k, grad in enumerate(kept):
        torch.testing.assert_close(grad, kept[1] * k)


def test_threads_that_capture_and_use_memory():
    f = function(chain)
    wrong = []

    def work(first):
        stream = torch.cuda.Stream()
        for i in range(60):
            with torch.cuda.stream(stream if i % 3 else torch.cuda.default_stream()):
                x = torch.randn(1 + (i + first) % 5, 4, device="cuda")
                kept = [torch.empty(1 + (7 * i + j) % 97, device="cuda") for j in range(5)]
                if not torch.equal(f(x), chain(x)):
                    wrong.append((first, i, len(kept)))

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert "failed" not in str([one.runs_by for one in f.specializations()])


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, capturable=True),
    "plain adam": lambda p: torch.optim.Adam(p, lr=0.1),
}


def training(optimizer_of, decorate):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)).cuda()
    optimizer = optimizer_of(model.parameters())

    @decorate
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    torch.manual_seed(1)
    inputs = floats(5, 4)
    losses = [step(x).item() for x in inputs]
    return step, losses, list(model.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_gives_what_eager_gives(name):
    _, expected, eager = training(OPTIMIZERS[name], lambda step: step)
    f, losses, parameters = training(OPTIMIZERS[name], function)
    assert losses == expected
    for one, other in zip(parameters, eager, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one.grad, other.grad)
    if name == "plain adam":
        assert "an optimizer needs capturable=True" in runs_by(f), runs_by(f)
    else:
        assert runs_by(f).startswith("a CUDA graph ("), runs_by(f)
