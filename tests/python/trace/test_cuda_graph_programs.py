"""CUDA graphs in programs as users write them: each gives what eager gives on the CPU."""

import functools
import gc
import sys

import pytest
import torch
import torch.nn.functional as F
import tracehost
from cuda_graphs import NEEDED, chain, function
from torch import nn

pytestmark = NEEDED

CALLS = 24
# The kernels of the simulated device are the CPU's.
same = functools.partial(
    torch.testing.assert_close, **({"rtol": 0, "atol": 0} if "standin" in sys.modules else {})
)


def on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, (list, tuple)):
        return [on_cpu(one) for one in value]
    return value


# Each program gets a device and a decorator, and returns what it saw.


def parameters_that_move(device, decorate):
    """A state dict is assigned, data is replaced, the module moves to the CPU and back."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).to(device)
    f = decorate(lambda x: chain(net(x)))
    seen = []
    with torch.no_grad():
        for i in range(CALLS * 2):
            if i == 9:
                net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}, assign=True)
            if i == 17:
                net[0].weight.data = torch.full((4, 4), 0.25, device=device)
            if i == 30:
                net.to("cpu").to(device)
            if i == 36:
                net[2].bias.mul_(3)
            churn = [torch.full((n + 1,), 9.0, device=device) for n in range(i % 5)]
            seen.append((f(torch.full((2, 4), i / 8, device=device)), churn))
    return seen


def a_state_that_is_bound_again(device, decorate):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = torch.zeros(3, 4, device=device)

        def forward(self, x):
            self.h = torch.tanh(self.h * 0.5 + chain(x))
            return self.h.sum(0)

    cell = Cell()
    f = decorate(cell.forward)
    return [(f(torch.full((3, 4), i / 8, device=device)), cell.h) for i in range(CALLS)]


def results_that_are_kept_and_written(device, decorate):
    f = decorate(lambda x: (chain(x), x * 2))
    kept = []
    for i in range(CALLS):
        y, z = f(torch.full((3, 4), i / 8, device=device))
        y.mul_(2)
        z.add_(y)
        kept.append((y, z))
        if i % 7 == 6:
            kept[i - 3][0].zero_()
    return kept


def inputs_that_alias(device, decorate):
    def body(x, y, z):
        x.add_(1)
        return chain(x) + y, y, z.t(), x[0]

    f = decorate(body)
    seen = []
    for i in range(CALLS):
        base = torch.arange(24.0, device=device).reshape(6, 4)
        x, y = base[:3].clone() if i % 3 else base[:3], base[2:5]
        out = f(x, y, y if i % 2 else base[3:])
        out[1].mul_(2)
        out[3].add_(i)
        seen.append((out, x, base))
    return seen


def a_write_that_autograd_sees(device, decorate):
    def body(x):
        y = chain(x)
        x.mul_(0.5)
        return y

    f = decorate(body)
    seen = []
    for i in range(CALLS):
        w = torch.ones(3, device=device, requires_grad=True)
        x = torch.full((3,), i + 1.0, device=device)
        saved = w * x  # needs x for w's gradient
        f(x)
        try:
            saved.sum().backward()
            seen.append("no error")
        except RuntimeError as error:
            seen.append("modified by an inplace operation" in str(error))
        seen.append((x, x._version))
    return seen


def layouts(device, decorate):
    """Contiguous, transposed, repeated, strided, aligned elsewhere, empty, of no dimension."""
    f = decorate(lambda x: (chain(x), x))
    forms = [
        lambda x: x,
        lambda x: x.t(),
        lambda x: x[:1].expand(4, 4),
        lambda x: x[::2, ::2],
        lambda x: x.reshape(-1)[1:13],
        lambda x: x[:0],
        lambda x: x[1, 2],
    ]
    seen = []
    for i in range(CALLS * 3):
        x = torch.arange(16.0, device=device).reshape(4, 4) + i
        y, same_one = f(forms[i % len(forms)](x))
        seen.append((y, y.stride(), same_one, same_one.stride()))
    return seen


def a_decode_step_with_a_cache(device, decorate):
    torch.manual_seed(0)
    weights = torch.randn(3, 8, 8).to(device)
    keys, values = torch.zeros(32, 8, device=device), torch.zeros(32, 8, device=device)

    def step(x, position):
        q, k, v = (x @ w for w in weights)
        keys.index_copy_(0, position, k)
        values.index_copy_(0, position, v)
        mask = torch.arange(32, device=device) <= position
        scores = (q @ keys.t() / 8**0.5).masked_fill(~mask, float("-inf"))
        return F.gelu(torch.softmax(scores, -1) @ values) + x

    f = decorate(step)
    with torch.inference_mode():
        x, seen = torch.ones(1, 8, device=device), []
        for i in range(CALLS):
            x = f(x, torch.tensor([i], device=device))
            seen.append(x)
    return [*seen, keys, values]


def two_functions_and_one_model(device, decorate):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    @decorate
    def train(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @decorate
    @torch.no_grad()
    def evaluate(x):
        return chain(net(x))

    seen = []
    for i in range(CALLS):
        x = torch.arange(20.0, device=device).reshape(5, 4) / (i + 1)
        net.train()
        seen.append(train(x))
        net.eval()
        seen.append(evaluate(x))
        if i % 6 == 5:
            seen.append([p.grad for p in net.parameters()])
    return seen


def gradients_that_accumulate(device, decorate):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)

    @decorate
    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    seen = []
    for i in range(CALLS):
        if i % 4 == 0:
            net.zero_grad(set_to_none=i % 8 == 0)
        seen.append(step(torch.full((2, 4), i / 8, device=device)))
        if i % 3 == 2:
            for p in net.parameters():
                p.grad.clamp_(-0.1, 0.1)
        seen.append([p.grad for p in net.parameters()])
    return on_cpu(seen)


PROGRAMS = [
    parameters_that_move,
    a_state_that_is_bound_again,
    results_that_are_kept_and_written,
    inputs_that_alias,
    a_write_that_autograd_sees,
    layouts,
    a_decode_step_with_a_cache,
    two_functions_and_one_model,
    gradients_that_accumulate,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_what_eager_gives(program):
    torch.manual_seed(0)
    expected = on_cpu(program("cpu", lambda body: body))
    made = []

    def decorate(body):
        made.append(function(body))
        return made[-1]

    torch.manual_seed(0)
    same(on_cpu(program("cuda", decorate)), expected)
    served_by = [one.runs_by for f in made for one in f.specializations()]
    assert all(f.stats()["captured"] for f in made), served_by


def test_device_memory_of_many_calls_does_not_grow():
    f = function(chain)
    for _ in range(8):
        f(torch.ones(1 << 12, device="cuda"))
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        f(torch.ones(1 << 12, device="cuda"))
    assert torch.cuda.memory_allocated() == before


def test_graphs_of_a_function_share_memory():
    """A chain keeps two intermediate results: eight captures of one size each have them together."""
    torch.cuda.empty_cache()
    f = function(lambda x: chain(x).sum())
    count = 1 << 20
    for i in range(4):
        for _ in range(6):
            f(torch.ones(count - i, device="cuda"))
    assert f.stats()["captured"] == 4
    inputs, intermediate = 4 * 4 * count, 4 * count
    assert inputs <= f.stats()["device_bytes"] < inputs + 9 * intermediate
    del f
    gc.collect()


def test_a_capture_that_fails_returns_its_memory():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    f = function(lambda x, mask: chain(x.repeat(1 << 16))[mask])
    for _ in range(6):
        x = torch.ones(16, device="cuda")
        f(x, x.repeat(1 << 16) > 0)
    assert "its capture failed" in f.specializations()[0].runs_by
    del f
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + (8 << 20)


def test_each_capture_is_an_event():
    f = function(chain)
    kept = []
    for i in range(8):
        kept.append(torch.ones(3 + i // 4, device="cuda"))
        f(kept[-1])
    events = [
        e for e in tracehost.events(f, graphs=True) if e.kind in ("capture", "no_capture", "drop")
    ]
    assert [(e.kind, e.signature, e.ops) for e in events] == [
        ("capture", "(x: float32[3], cuda:0)", 12),
        ("capture", "(x: float32[4], cuda:0)", 12),
    ]
    assert sum(e.bytes for e in events) == f.stats()["device_bytes"] > 0
    f.clear()
    gc.collect()
    drops = [e for e in tracehost.events(f, graphs=True) if e.kind == "drop"]
    assert [e.text for e in drops] == ["nothing uses it any more"] * 2
    assert f.stats()["device_bytes"] == 0 and f.stats()["dropped"] == 2
    small = function(lambda x: x + 1)
    small(kept[0])
    small(kept[0])
    (event,) = [e for e in tracehost.events(small, graphs=True) if e.kind == "no_capture"]
    assert event.text == "it launches 1 ops, and a CUDA graph pays from 8 on"
    assert "CUDA graphs: 0 captured, 1 not captured, 0 dropped, 0.0 MiB" in small.report()
    assert "CUDA graphs: " in tracehost.report()
