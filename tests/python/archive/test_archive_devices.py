"""Archives of graphs on two devices: what was on the CUDA device goes elsewhere, what was on the CPU stays."""

import gc

import pytest
import torch
import tracehost
from cuda_graphs import chain

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
captures = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15),
    reason="CUDA graphs need torch 2.15",
)


def saved(tmp_path):
    weights = torch.tensor([1.0, 2.0, 3.0], device="cuda:0")
    offset = torch.tensor(0.5)

    @tracehost.function
    def score(x):
        return (x.to(weights.device) * weights).cpu() + offset

    score(torch.ones(3))
    tracehost.save(tmp_path / "score.pt", {"score": score})
    return tmp_path / "score.pt"


@pytest.mark.parametrize("device", ["cpu", "cuda:0", None])
def test_an_input_on_the_cpu_stays_there(tmp_path, device):
    loaded = tracehost.load(saved(tmp_path), device=device)
    result = loaded["score"](torch.full((3,), 2.0))
    assert result.device.type == "cpu"
    assert result.tolist() == [2.5, 4.5, 6.5]


@pytest.mark.parametrize("device", ["cpu", "cuda:0", None])
def test_a_batch_norm_reads_a_flag_of_cudnn(tmp_path, device):
    norm = torch.nn.BatchNorm1d(3).cuda().eval().requires_grad_(False)
    norm.running_mean.fill_(2)
    f = tracehost.function(norm.forward)
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    expected = f(x).cpu()
    tracehost.save(tmp_path / "norm.pt", {"f": f})
    loaded = tracehost.load(tmp_path / "norm.pt", device=device)["f"]
    assert torch.equal(loaded(x.to(device or "cuda")).cpu(), expected)
    torch.testing.assert_close(torch.jit.load(tmp_path / "norm.pt").f(x).cpu(), expected)


def pools():
    """Of captures: torch's own pool for ordinary tensors is (0, 0)."""
    segments = torch.cuda.memory_snapshot()
    return {tuple(one["segment_pool_id"]) for one in segments} - {(0, 0)}


@captures
def test_graphs_of_a_function_share_memory(tmp_path):
    """Each loaded function has memory for its captures, and frees it with the archive."""
    first, second = tracehost.function(chain), tracehost.function(lambda x: chain(x) * 2)
    inputs = [torch.full(size, 2.0, device="cuda") for size in [(3,), (2, 2)]]
    for x in inputs:
        first(x)
        second(x)
    tracehost.save(tmp_path / "chains.pt", {"first": first, "second": second})
    del first, second
    gc.collect()
    torch.cuda.empty_cache()
    before, known = torch.cuda.memory_allocated(), pools()
    loaded = tracehost.load(tmp_path / "chains.pt", optimize="exact")
    for name, more in (("first", 1), ("second", 2)):
        for x in inputs * 6:
            assert torch.equal(loaded[name](x), chain(x) * more)
        assert len(pools() - known) == more
    del loaded
    gc.collect()
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), pools()) == (before, known)
