"""What a hit asks of a CUDA device: kernels, copies, waits and memory are eager's, all of it on the caller's stream."""

import gc

import pytest
import torch
import torch.nn.functional as F
import tracehost
from torch import nn

standin = pytest.importorskip("standin", reason="only the simulated runtime counts")
if not torch.cuda.is_available():  # a folder of that name may be importable all the same
    pytest.skip("only the simulated runtime counts", allow_module_level=True)

COUNTED = ("kernel", "sync", "malloc", "free", "memcpy", "memset")
PROGRAMS = {}


def program(make):
    """`make()` gives a body and the arguments of its i-th call."""
    PROGRAMS[make.__name__] = make
    return make


def of(name, body, *more):
    """A body of one 4x4 tensor, and of tensors that `more` give."""

    def make():
        return body, lambda i: (torch.full((4, 4), 1 + i / 8, device="cuda"), *(m() for m in more))

    PROGRAMS[name] = make


def matrix():
    return torch.arange(16.0, device="cuda").reshape(4, 4)


def mask():
    return torch.eye(4, device="cuda") > 0


def rows():
    return torch.tensor([0, 2, 2, 1], device="cuda")


# ---- Ops that only launch
of("pointwise", lambda x: torch.relu(x * 2 + 1))
of("broadcast", lambda x, y: x[:, None] + y, matrix)
of("product", lambda x, y: x @ y, matrix)
of("batched_product", lambda x: torch.bmm(x[None], x[None]))
of("einsum", lambda x, y: torch.einsum("ij,jk->ik", x, y), matrix)
of("sum", lambda x: x.sum())
of("mean_of_rows", lambda x: x.mean(1, keepdim=True))
of("variance", lambda x: x.var(0))
of("norm", lambda x: x.norm())
of("softmax", lambda x: torch.softmax(x, -1))
of("log_softmax_loss", lambda x, i: F.cross_entropy(x, i), rows)
of("sort", lambda x: x.sort(0))
of("topk", lambda x: x.topk(2))
of("cumsum", lambda x: x.cumsum(0))
of("argmax", lambda x: x.argmax(1))
of("where", lambda x, m: torch.where(m, x, -x), mask)
of("masked_fill", lambda x, m: x.masked_fill(m, 0), mask)
of("clamp", lambda x: x.clamp(0, 1))
of("concatenation", lambda x, y: torch.cat([x, y, x]), matrix)
of("stack_and_split", lambda x: torch.stack([x, x]).split(1))
of("views_alone", lambda x: (x.t(), x[1], x.reshape(2, 8)))
of("index_by_rows", lambda x, i: x[i], rows)
of("gather", lambda x, i: x.gather(0, i[None]), rows)
of("scatter_add", lambda x, i: torch.zeros_like(x).scatter_add(0, i[None], x), rows)
of("index_add", lambda x, i: x.index_add(0, i, x), rows)
of("index_put", lambda x, i: x.index_put((i,), x[0]), rows)
of("embedding", lambda x, i: F.embedding(i, x), rows)
of("cast", lambda x: x.half().float())
of("padding", lambda x: F.pad(x, (1, 1)))
of("convolution", lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]))
of("pooling", lambda x: F.max_pool2d(x[None], 2))
of("interpolation", lambda x: F.interpolate(x[None, None], scale_factor=2))
of(
    "attention",
    lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
)
of("layer_norm", lambda x: F.layer_norm(x, (4,)))
of("factories", lambda x: x + torch.ones(4, device="cuda") + torch.arange(4, device="cuda"))
of("number_of_the_host", lambda x: x * torch.tensor(2.0))
of("full_like", lambda x: torch.full_like(x, 3))
of("clone_and_contiguous", lambda x: x.t().contiguous())
of("dropout", lambda x: F.dropout(x, 0.5))
of("random", lambda x: x + torch.rand_like(x))
of("normal", lambda x: x + torch.randn(4, 4, device="cuda"))
of("in_place", lambda x: x.mul_(2).add_(1))
of("into_a_slice", lambda x: x[0].copy_(x[1]))
of("foreach", lambda x, y: torch._foreach_add([x, y], 1.0), matrix)
of("autocast", lambda x, y: autocast_product(x, y), matrix)
of("another_device", lambda x: x.to("cuda:1") * 2)
of("loop_of_the_host", lambda x: counted_loop(x))


def autocast_product(x, y):
    with torch.autocast("cuda", dtype=torch.float16):
        return x @ y


def counted_loop(x):
    for _ in range(3):
        x = x * 1.5
    return x


# ---- Ops that wait
of("nonzero", lambda x: x.nonzero())
of("masked_select", lambda x, m: x.masked_select(m), mask)
of("mask_as_index", lambda x, m: x[m], mask)
of("unique", lambda x: x.unique())
of("to_the_host", lambda x: x.sum().cpu())
of("a_value", lambda x: x * x.max().item())


@program
def a_branch():
    def body(x):
        return x * 2 if x.sum() > 0 else x - 1

    return body, lambda i: (torch.full((4, 4), 1.0 + i, device="cuda"),)


@program
def a_loop():
    def body(x):
        while x.sum() < 100:
            x = x * 2
        return x

    return body, lambda i: (torch.full((4, 4), 1.0, device="cuda"),)


# ---- Modules, state, training
@program
def perceptron():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda().requires_grad_(False)
    return net, lambda i: (torch.full((4, 4), i / 8, device="cuda"),)


@program
def batch_norm():
    net = nn.BatchNorm1d(4).cuda().requires_grad_(False)
    return net, lambda i: (torch.full((4, 4), i / 8, device="cuda"),)


@program
def a_state_in_place():
    total = torch.zeros(4, 4, device="cuda")
    return lambda x: total.add_(x) * 2, lambda i: (torch.ones(4, 4, device="cuda"),)


@program
def pinned_memory():
    pinned = torch.ones(4, 4).pin_memory()
    return (
        lambda x: x + pinned.to("cuda", non_blocking=True),
        lambda i: (torch.ones(4, 4, device="cuda"),),
    )


@program
def gradients():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).cuda()

    def body(x):
        net.zero_grad()
        net(x).sum().backward()

    return body, lambda i: (torch.full((4, 4), i / 8, device="cuda"),)


def training(optimizer_of):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
    optimizer = optimizer_of(net.parameters())

    def body(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return body, lambda i: (torch.full((4, 4), i / 8, device="cuda"),)


@program
def training_by_sgd():
    return training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))


@program
def training_by_adam():
    return training(lambda p: torch.optim.Adam(p, lr=0.1))


@program
def training_by_adam_capturable():
    return training(lambda p: torch.optim.Adam(p, lr=0.1, capturable=True))


@program
def gradients_outside():
    net = nn.Linear(4, 4).cuda()
    return net, lambda i: (torch.full((4, 4), i / 8, device="cuda"),)


# Kernels of a program that belong to another device than the caller's stream.
ELSEWHERE = {"another_device": 1}


def counted(call):
    torch.cuda.synchronize()
    standin.reset()
    result = call()
    counts = standin.counts()
    return {name: counts.get(name, 0) for name in COUNTED}, counts.get("gil_sync", 0), result


def steady(call, arguments):
    """The counts of a call when memory is allocated and the graph is made."""
    for i in range(6):
        call(*arguments(i))
    given = arguments(6)
    return counted(lambda: call(*given))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hit_asks_what_eager_asks(name):
    body, arguments = PROGRAMS[name]()
    eager, _, _ = steady(body, arguments)
    body, arguments = PROGRAMS[name]()
    f = tracehost.function(body)
    hit, with_gil, _ = steady(f, arguments)
    assert f.stats()["hits"] > 0
    assert hit == eager
    assert with_gil == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cuda_graph_waits_no_more_than_eager(name):
    body, arguments = PROGRAMS[name]()
    eager, _, _ = steady(body, arguments)
    body, arguments = PROGRAMS[name]()
    f = tracehost.function(body, optimize="exact")
    hit, with_gil, _ = steady(f, arguments)
    assert (hit["sync"], hit["malloc"], with_gil) == (eager["sync"], 0, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_run_on_the_caller_s_stream(name):
    body, arguments = PROGRAMS[name]()
    side = torch.cuda.Stream()
    for optimize in ("off", "exact"):
        f = tracehost.function(body, optimize=optimize)
        with torch.cuda.stream(side):
            for i in range(6):
                f(*arguments(i))
            given = arguments(6)
            counts, _, _ = counted(lambda: f(*given))
            assert counts["kernel"] == standin.on_stream(side) + ELSEWHERE.get(name, 0)
        torch.cuda.synchronize()


@pytest.mark.parametrize("optimize", ["off", "exact"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_free_again(name, optimize):
    def run():
        body, arguments = PROGRAMS[name]()
        f = tracehost.function(body, optimize=optimize)
        for i in range(7):
            f(*arguments(i))
        torch.cuda.synchronize()

    run()  # what torch keeps, such as workspaces
    gc.collect()
    before = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)
    run()
    gc.collect()
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == before
