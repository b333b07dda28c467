"""The host against the venv's python3: standard output, standard error and exit status, row by row."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import HOST, HOST_PYTHON, OF_TORCHRUN, PYTHON, TORCHRUN
from parity import OF_BOTH, ROWS, Row
from parity.run import run


def executables(row: Row) -> dict:
    """tracehost-python hands everything to CPython: it is asked what depends on an executable's name."""
    found = {"python3": PYTHON, "tracehost": HOST}
    if row in OF_BOTH and not row.slow:
        found["tracehost-python"] = HOST_PYTHON
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_python(row, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        runs = {
            name: pool.submit(run, row, exe, tmp_path / name / "w")
            for name, exe in executables(row).items()
        }
    results = {name: done.result() for name, done in runs.items()}
    expected = results.pop("python3")
    if row.status is not None:
        wanted = row.status if row.status >= 0 else signal.Signals(-row.status).name
        assert expected[0] == row.status, f"the row is wrong about python3: {wanted}"
    for name, result in results.items():
        assert result == expected, name


def test_the_table_is_long_enough():
    assert len(ROWS) >= 500
    assert len({row.name for row in ROWS}) == len(ROWS), "two rows have one name"


# What PyTorch starts. Each process imports it: python3 is not asked.

LOADERS = """import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.arange(4.0))
    for context in "fork", "spawn", "forkserver":
        options = {"num_workers": 1, "multiprocessing_context": context}
        print(context, [batch.tolist() for batch, in DataLoader(data, batch_size=2, **options)])
"""


def test_data_loaders_with_each_start_method(run_host, tmp_path):
    (tmp_path / "s.py").write_text(LOADERS)
    done = run_host("s.py")
    batches = "[[0.0, 1.0], [2.0, 3.0]]\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"fork {batches}spawn {batches}forkserver {batches}"


RANKS = """import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2) * (dist.get_rank() + 1)
dist.all_reduce(x)
with open(f"rank{dist.get_rank()}", "w") as f:
    f.write(f"{x.tolist()} {sys.argv[1:]} {os.path.basename(sys.executable)}")
dist.destroy_process_group()
"""


def test_torchrun_with_two_ranks(run_host, tmp_path):
    (tmp_path / "s.py").write_text(RANKS)
    done = run_host(*TORCHRUN, "s.py", "--report", "x", env=OF_TORCHRUN)
    assert done.returncode == 0, done.stderr
    for rank in "rank0", "rank1":
        assert (tmp_path / rank).read_text() == "[3.0, 3.0] ['--report', 'x'] tracehost-python"
