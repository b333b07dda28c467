"""CUDA graphs where something fails: a step of a capture, the device, memory; and in a child of fork()."""

import functools
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_graphs import NEEDED, chain, function, served_by, settled
from torch import nn

pytestmark = NEEDED

MIB = 1 << 20


FAULT = """
import standin
import torch
import tracehost


@tracehost.function(optimize="exact")
def f(x):
    for _ in range(4):
        x = torch.relu(x * 1.01 + 0.1)
    return x


x = torch.ones(3, device="cuda")
for _ in range(8):
    f(x)
print(f.specializations()[0].runs_by)
standin.fail_after(0)
try:
    f(x)
    f(x)
    torch.cuda.synchronize()
except RuntimeError as error:
    print("illegal memory access" in str(error))
"""


def test_a_fault_of_the_device_is_raised(tmp_path):
    """In a process of its own: a device does not recover from it."""
    pytest.importorskip("standin", reason="only the simulated runtime has such faults")
    program = tmp_path / "fault.py"
    program.write_text(FAULT)
    host = Path(sys.prefix) / "bin" / "tracehost"
    ran = subprocess.run([host, program], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines() == ["a CUDA graph (12 ops)", "True"], ran.stderr


def inference(decorate):
    """It writes to a tensor that it keeps, and draws."""
    total = torch.zeros(3, 4, device="cuda")

    @decorate
    def f(x):
        total.add_(x)
        return F.dropout(chain(x) + total, 0.5)

    return f, lambda: [total]


def training(decorate):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @decorate
    def f(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, lambda: [t.detach() for p in net.parameters() for t in (p, p.grad)]


CAPTURED = {inference: 2, training: 4}  # the call that is captured
STEPS = {  # what fails, how often, how many calls after the capture, and what the function says then
    "begin": ("cudaStreamBeginCapture", 1, 0, "its capture failed: "),
    "op": ("cudaLaunchKernel", 1, 0, "its capture failed: CUDA error: operation not supported at "),
    "end": ("cudaStreamEndCapture", 1, 0, "its capture failed: "),
    "instantiate": ("cudaGraphInstantiate", 1, 0, "its capture failed: "),
    "first replay": ("cudaGraphLaunch", 1, 0, "its first replay failed: "),
    "replay": ("cudaGraphLaunch", 1, 3, "a replay failed: "),
    "memory": ("cudaMalloc", 1, 0, ""),  # the next call tries again
    "memory of the next call as well": (
        "cudaMalloc",
        2,
        0,
        "its capture failed: CUDA out of memory. ",
    ),
}


@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_each_step_leaves_the_call_alone(step, program):
    """Results, writes and draws are eager's, later draws too, and no memory is lost."""
    standin = pytest.importorskip("standin", reason="only the simulated runtime fails on demand")
    call, times, later, why = STEPS[step]

    def run(decorate, fault=lambda: None):
        f, state = program(decorate)
        torch.manual_seed(3)
        seen = []
        for i in range(12):
            if i == CAPTURED[program] + later:
                fault()
            result = f(torch.full((3, 4), i / 4, device="cuda"))
            seen.append([result.cpu(), *(t.cpu() for t in state())])
        return f, [*seen, torch.rand(3, device="cuda").cpu()]

    run(function)  # what torch keeps
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    expected = run(lambda body: body)[1]
    gc.collect()
    torch.cuda.empty_cache()
    try:
        f, found = run(function, functools.partial(standin.fail_call, call, times))
    finally:
        standin.fail_call(call, 0)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    if why:
        assert served_by(f).startswith("the interpreter: " + why), served_by(f)
    else:
        assert served_by(f).startswith("a CUDA graph ("), served_by(f)
    del f
    gc.collect()
    assert torch.cuda.memory_allocated() == before
    g = settled()
    assert served_by(g) == "a CUDA graph (12 ops)"


def test_a_child_of_fork_may_drop_a_function():
    f = settled()
    pid = os.fork()
    if pid == 0:
        try:
            del f
            gc.collect()
            g = function(lambda x: x + 1)
            good = g(torch.ones(2)).tolist() == [2, 2]
        except BaseException:
            good = False
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    x = torch.ones(3, device="cuda")
    assert torch.equal(f(x), chain(x))
    assert served_by(f) == "a CUDA graph (12 ops)"


def test_a_capture_that_has_too_little_memory_leaves_the_call_alone():
    """A plain call keeps two results at a time; a capture keeps those and copies of the arguments."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    count = 4 * MIB  # 16 MiB
    x = torch.ones(count, device="cuda")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 100 * MIB) / total)
    try:
        f = function(chain)
        for i in range(8):
            given = x + i
            assert torch.equal(f(given), chain(given))
        assert served_by(f).startswith(("a CUDA graph", "the interpreter: ")), served_by(f)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    del f, given, x
    gc.collect()
    assert torch.cuda.memory_allocated() == before
