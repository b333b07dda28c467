"""Programs of two processes: collectives in a body, DistributedDataParallel and FSDP around one."""

import subprocess
import sys
import textwrap

import pytest
from conftest import OF_TORCHRUN, TORCHRUN, clean_environment

START = """
import os, sys, warnings, torch, torch.distributed as dist, tracehost
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
"""
# A thread of gloo may still hold tensors when Python is finalized, and torch then aborts the process (in eager too).
# So each rank leaves without finalization: how Python ends is not what these tests are about.
END = """
dist.barrier()
dist.destroy_process_group()
print("equal", flush=True)
os._exit(0)
"""


def run_ranks(tmp_path, program):
    """Two processes run `program`, which has `rank`; both have to end with "equal"."""
    script = tmp_path / "ranks.py"
    store = f'dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=rank, world_size=2)'
    start = START.replace('dist.init_process_group("gloo")', store)
    script.write_text(start + textwrap.dedent(program) + END)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=clean_environment(**OF_TORCHRUN, RANK=str(rank), WORLD_SIZE="2"),
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n--\n".join(outputs)
    for output in outputs:
        assert output.endswith("equal\n"), output


def test_each_collective_writes_what_it_writes_in_eager(tmp_path):
    run_ranks(
        tmp_path,
        """
        def all_reduce(x):
            y = x * 2
            dist.all_reduce(y)
            return y + 1

        def average(x):
            dist.all_reduce(x, dist.ReduceOp.MAX)
            x.add_(1)
            dist.all_reduce(x[:2])

        def asynchronous(x):
            y = x * 2
            work = dist.all_reduce(y, async_op=True)
            z = x + 1
            work.wait()
            return y * z, work.is_completed()

        def broadcast(x):
            y = x + 0
            dist.broadcast(y, 1)
            return y

        def all_gather(x):
            parts = [torch.zeros_like(x) for _ in range(2)]
            dist.all_gather(parts, x)
            return parts[0] - parts[1]

        def all_gather_number(x):
            parts = [torch.zeros(()) for _ in range(2)]
            dist.all_gather(parts, x.sum())
            return parts

        def all_gather_into(x):
            joined = x.new_zeros(8)
            dist.all_gather_into_tensor(joined, x)
            return joined

        def reduce_scatter(x):
            part = x.new_zeros(2)
            dist.reduce_scatter_tensor(part, x * 3)
            return part

        def exchange(x):
            y = torch.zeros_like(x)
            dist.all_to_all_single(y, x)
            return y

        def uneven(x):
            y = torch.zeros(2 if rank == 0 else 6)
            dist.all_to_all_single(y, x, [1, 1] if rank == 0 else [3, 3], [1, 3])
            return y

        bodies = (all_reduce, average, asynchronous, broadcast, all_gather, all_gather_number,
                  all_gather_into, reduce_scatter, exchange, uneven)
        for body in bodies:
            f = tracehost.function(body)
            for i in range(3):
                x = torch.arange(4.0) + 10 * rank + i
                y = x.clone()
                want, got = body(x), f(y)
                torch.testing.assert_close(got, want, rtol=0, atol=0)
                assert torch.equal(x, y), (body, x, y)
            assert f.tracing_count() == 1, body
            assert f.stats()["unvalidated"] == 1, body
        """,
    )


def test_a_group_of_one_rank_and_a_rank_outside_of_it(tmp_path):
    run_ranks(
        tmp_path,
        """
        alone, both = dist.new_group([1]), dist.new_group([0, 1])

        @tracehost.function
        def f(x):
            y, z = x * 1, x * 2
            dist.all_reduce(y, group=alone)
            dist.all_reduce(z, group=both)
            return y, z

        for i in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y, z = f(torch.ones(2) + i + rank)
            assert y.tolist() == [1.0 + i + rank] * 2
            assert z.tolist() == [2 * (2.0 * i + 3)] * 2
        """,
    )


def test_a_rank_that_traces_while_the_other_one_has_the_graph(tmp_path):
    run_ranks(
        tmp_path,
        """
        @tracehost.function
        def f(x, scale):
            y = x * scale
            dist.all_reduce(y)
            z = y + rank
            dist.broadcast(z, 0)
            return y, z

        for i in range(6):
            y, z = f(torch.ones(2), i * rank)  # a number is part of the signature
            assert y.tolist() == [float(i)] * 2, (i, y)
            assert z.tolist() == [float(i)] * 2, (i, z)
        assert f.tracing_count() == (1 if rank == 0 else 6)
        """,
    )


def test_gradients_that_the_body_averages(tmp_path):
    run_ranks(
        tmp_path,
        """
        def made():
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

            def step(x):
                optimizer.zero_grad()
                loss = net(x).square().mean()
                loss.backward()
                for p in net.parameters():
                    dist.all_reduce(p.grad)
                    p.grad.div_(2)
                optimizer.step()
                return loss.detach()

            return net, step

        net, step = made()
        other, body = made()
        step = tracehost.function(step)
        for i in range(5):
            torch.manual_seed(10 * i + rank)
            x = torch.randn(6, 3)
            torch.testing.assert_close(step(x), body(x), rtol=0, atol=0)
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert step.tracing_count() <= 2
        """,
    )


def test_a_collective_behind_a_branch_and_in_a_loop(tmp_path):
    run_ranks(
        tmp_path,
        """
        def body(x):
            total = x * 1
            dist.all_reduce(total)
            while total.sum() > 1:
                dist.all_reduce(total)
                total = total / 4
            if total.sum() > 0.6:
                dist.broadcast(total, 1)
            return total

        f = tracehost.function(body)
        for i in range(4):
            x = torch.ones(2) * (i + rank)
            torch.testing.assert_close(f(x), body(x), rtol=0, atol=0)
        assert f.tracing_count() == 1
        """,
    )


REFUSED = {
    "barrier": ("dist.barrier()", "Call it outside of the function."),
    "send": (
        "dist.send(x, 0)",
        "Call it outside of the function, or exchange tensors by all_to_all_single.",
    ),
    "all_gather_object": (
        "dist.all_gather_object([None], 1)",
        "Call it outside of the function, and pass what it gives.",
    ),
    "reduce": ("dist.reduce(x, 0)", "Use all_reduce, or call it outside of the function."),
    "new_group": ("dist.new_group([0])", "Call it outside of the function."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_graph_can_hold_is_rejected_by_name(tmp_path, name):
    call, remedy = REFUSED[name]
    program = textwrap.dedent(
        f"""
        @tracehost.function
        def f(x):
            {call}
            return x

        try:
            f(torch.ones(2))
            raise SystemExit("was not rejected")
        except tracehost.TraceError as error:
            text = str(error)
        line = f.__wrapped__.__code__.co_firstlineno + 2
        want = ("the body calls torch.distributed.{name} at ranks.py:%d, which is not recorded in a graph. "
                "{remedy}" % line)
        assert text == want, (text, want)
        """
    )
    run_ranks(tmp_path, program)


NETS = """
from torch.nn.parallel import DistributedDataParallel

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.norm = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)
        self.last, self.side = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, x, side=False):
        y = self.norm(self.first(x)).tanh()
        return self.side(y) if side else self.last(y)

def batch(i):
    torch.manual_seed(10 * i + rank)
    return torch.randn(6, 3)

def same(net, other):
    for (name, a), (_, b) in zip(net.state_dict().items(), other.state_dict().items(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, msg=lambda m: name + " " + m)
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=0)
"""

TRAINED = (
    NETS
    + """
class Plain(Net):
    pass

def train(net, **options):
    ddp = DistributedDataParallel(net, **options)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    unused = options.get("find_unused_parameters", False)
    for i in range(6):
        optimizer.zero_grad()
        if ACCUMULATE:
            with ddp.no_sync():
                ddp(batch(i + 100)).square().mean().backward()
        ddp(batch(i), side=unused and i % 2 == 1).square().mean().backward()
        optimizer.step()
    ends = [torch.empty_like(net.first.weight) for _ in range(2)]
    dist.all_gather(ends, net.first.weight.detach())
    assert torch.equal(*ends)
    return net

net = Net()
net.forward = tracehost.function(net.forward)
same(train(net, **OPTIONS), train(Plain(), **OPTIONS))
assert net.forward.tracing_count() == TRACES, net.forward.tracing_count()
"""
)
WAYS = {
    "static": ("dict(static_graph=True, find_unused_parameters=False)", False, 1),
    "unused": ("dict(find_unused_parameters=True)", False, 2),
    "no_sync": ("dict(find_unused_parameters=True)", True, 2),
    "views": ("dict(find_unused_parameters=True, gradient_as_bucket_view=True)", True, 2),
    "buffers": ("dict(find_unused_parameters=True, broadcast_buffers=False)", False, 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_module_inside_of_ddp_is_a_function(tmp_path, way):
    options, accumulate, traces = WAYS[way]
    known = f"OPTIONS, ACCUMULATE, TRACES = {options}, {accumulate}, {traces}\n"
    run_ranks(tmp_path, known + TRAINED)


def test_the_module_inside_of_ddp_under_torchrun(run_host, tmp_path):
    known = "OPTIONS, ACCUMULATE, TRACES = dict(find_unused_parameters=True), True, 2\n"
    (tmp_path / "s.py").write_text(START + known + TRAINED + END)
    done = run_host(*TORCHRUN, "s.py", env=OF_TORCHRUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal") == 2


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "step"])
def test_ddp_in_a_body_is_rejected(tmp_path, backward):
    program = """
        net = Net()
        ddp = DistributedDataParallel(net, find_unused_parameters=True)

        @tracehost.function
        def f(x):
            loss = ddp(x).square().mean()
            if BACKWARD:
                loss.backward()
            return loss

        try:
            f(batch(0))
            raise SystemExit("was not rejected")
        except tracehost.TraceError as error:
            text = str(error)
        line = f.__wrapped__.__code__.co_firstlineno + 2
        assert text == (
            "the body calls a module in DistributedDataParallel at ranks.py:%d; a graph would not report the call "
            "to it, and each rank would train alone. Make the function of the module inside, before it is "
            "wrapped (net.forward = tracehost.function(net.forward)), and leave backward() outside." % line
        ), text
        assert f.tracing_count() == 0
    """
    run_ranks(tmp_path, NETS + textwrap.dedent(program).replace("BACKWARD", str(backward)))


def test_a_backward_of_what_ddp_has_computed(tmp_path):
    program = """
        def train(net, step):
            ddp = DistributedDataParallel(net)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for i in range(4):
                optimizer.zero_grad()
                step(ddp(batch(i)))
                optimizer.step()
            return net

        def step(y):
            y.square().mean().backward()

        def net():
            made = Net()
            del made.side
            return made

        f = tracehost.function(step)
        same(train(net(), f), train(net(), step))
    """
    run_ranks(tmp_path, NETS + textwrap.dedent(program))


SHARDED = (
    NETS
    + """
from collections import OrderedDict
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cpu", (2,))

def sharded(net):
    fully_shard(net.first, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net

def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(5):
        optimizer.zero_grad()
        net(batch(i)).square().mean().backward()
        optimizer.step()
    return net

def full(net):
    return [p.full_tensor().detach() for p in net.parameters()]

def block():
    torch.manual_seed(1)
    first, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
    return torch.nn.Sequential(OrderedDict(first=first, between=torch.nn.Tanh(), last=last))
"""
)


def test_forwards_of_modules_that_fsdp_shards(tmp_path):
    program = """
        torch.manual_seed(0)
        net, plain = block(), block()
        for module in net:
            module.forward = tracehost.function(module.forward)
        got, want = full(train(sharded(net))), full(train(sharded(plain)))
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert [module.forward.tracing_count() for module in net] == [1, 1, 1]
    """
    run_ranks(tmp_path, SHARDED + textwrap.dedent(program))


def test_fsdp_in_a_body_is_rejected(tmp_path):
    program = """
        net = sharded(block())

        @tracehost.function
        def f(x):
            return net(x).sum()

        try:
            f(batch(0))
            raise SystemExit("was not rejected")
        except tracehost.TraceError as error:
            text = str(error)
        line = f.__wrapped__.__code__.co_firstlineno + 2
        assert text == (
            "the body calls a module of FSDP at ranks.py:%d, whose parameters are gathered by hooks that are "
            "not recorded in a graph. Make the function of the module's forward, before it is sharded "
            "(net.forward = tracehost.function(net.forward)), and leave backward() outside." % line
        ), text
    """
    run_ranks(tmp_path, SHARDED + textwrap.dedent(program))


def test_a_check_behind_a_collective_is_rejected(tmp_path):
    program = """
        @tracehost.function
        def f(x):
            dist.all_reduce(x)
            return {True: x * 2, False: x}[bool(x.sum() > 3)]

        try:
            f(torch.ones(2))
            raise SystemExit("was not rejected")
        except tracehost.Error as error:
            text = str(error)
        assert "_c10d_functional::all_reduce_ at ranks.py" in text, text
    """
    run_ranks(tmp_path, program)
