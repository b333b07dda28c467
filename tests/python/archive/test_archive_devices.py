"""Archives of graphs on two devices: what was on the CUDA device goes elsewhere, what was on the CPU stays."""

import pytest
import torch
import tracehost

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")


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
