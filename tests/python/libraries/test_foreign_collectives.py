"""Functional collectives in a body: recorded, run by each rank as often as in eager."""

import subprocess
import sys
import textwrap

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import tracehost
from tracehost.testing import assert_traces

TWO_RANKS = textwrap.dedent(
    """
    import os, sys, torch, torch.distributed as dist, tracehost
    import torch.distributed._functional_collectives as collectives

    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    group = dist.group.WORLD

    def all_reduce(x):
        return collectives.all_reduce(x * 2, "sum", group) + 1

    def gather(x):
        return collectives.all_gather_tensor(x, 0, group).sin()

    def scatter(x):
        return collectives.reduce_scatter_tensor(x, "sum", 0, group)

    def exchange(x):
        return collectives.all_to_all_single(x, None, None, group)

    def broadcast(x):
        return collectives.broadcast(x, 1, group)

    def several(x):
        first, second = collectives.all_reduce_coalesced([x, x * 3], "max", group)
        return first + second

    def unused(x):
        collectives.all_reduce(x, "sum", group)
        return x * 2

    for body in (all_reduce, gather, scatter, exchange, broadcast, several, unused):
        f = tracehost.function(body)
        for i in range(3):
            x = torch.arange(4.0) + 10 * rank + i
            want = body(x) + 0
            got = f(x)
            assert type(got) is torch.Tensor, (body, type(got))
            assert torch.equal(got, want), (body.__name__, got, want)
        assert f.tracing_count() == 1
    print("all equal", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # PyTorch's threads of the group outlive it, and abort if they drop a tensor while Python ends.
    # https://github.com/pytorch/pytorch/pull/179291
    os._exit(0)
    """
)


def test_each_collective_gives_what_it_gives_in_eager(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(TWO_RANKS)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        output, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0, output
        assert "all equal" in output


@pytest.fixture
def one_rank(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_a_graph_of_a_collective_is_not_run_again_to_validate_it(one_rank):
    @tracehost.function
    def f(x):
        return collectives.all_reduce(x, "sum", one_rank) * 2

    f(torch.ones(3))
    assert (f.stats()["validated"], f.stats()["unvalidated"]) == (0, 1)
    graph = str(f.get_concrete_function(torch.ones(3)).graph)
    assert graph.count("_c10d_functional::all_reduce") == 1
    assert graph.count("_c10d_functional::wait_tensor") == 1


def test_a_collective_in_a_branch_that_is_staged(one_rank):
    @tracehost.function
    def f(x):
        if x.sum() > 0:
            x = collectives.all_reduce(x * 3, "sum", one_rank)
        return x + 1

    with assert_traces(f, 1):
        for x in (torch.ones(3), -torch.ones(3)):
            assert torch.equal(f(x), x * 3 + 1 if x[0] > 0 else x + 1)


def test_a_group_that_is_no_name_is_rejected(one_rank):
    @tracehost.function
    def f(x):
        return torch.ops._c10d_functional.all_reduce(x, "sum", one_rank)

    line = f.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(tracehost.TraceError) as error:
        f(torch.ones(3))
    assert str(error.value) == (
        f"_c10d_functional::all_reduce at test_foreign_collectives.py:{line} is not recorded in a graph: of "
        "its argument 'group_name' there is no constant. Do it outside of the function."
    )
