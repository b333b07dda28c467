"""`t.view(dtype)`, for which TorchScript has no name."""

import pytest
import torch
import tracehost

PROGRAMS = {
    "same size": lambda x: x.view(torch.int32),
    "smaller": lambda x: x.view(torch.int8),
    "larger": lambda x: x.view(torch.float64),
    "by name": lambda x: x.view(dtype=torch.int16),
    "and back": lambda x: x.view(torch.int8).view(torch.float32),
    "of another size": lambda x: x.view(x.shape[0], -1).view(torch.int32) + 1,
    "and a write": lambda x: x.clone().view(torch.int32).add_(1).view(torch.float32),
    "in a branch": lambda x: x.view(torch.int32) if x.sum() > 6 else (x * 2).view(torch.int32),
}


def in_a_loop(x):
    total = torch.zeros(4, dtype=torch.int32)
    for row in x:
        total = total + row.view(torch.int32)
    return total


PROGRAMS["in a loop"] = in_a_loop


@pytest.mark.parametrize("options", [{}, {"reduce_retracing": True}], ids=["exact", "dynamic"])
@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_a_view_of_a_dtype(body, options):
    f = tracehost.function(body, **options)
    for rows in (2, 2, 3, 4, 5, 4):
        x = torch.ones(rows, 4)
        assert torch.equal(f(x), body(x))
    assert f.stats()["hits"] > 0
    assert f.stats()["mismatches"] == 0


def test_it_shares_memory():
    @tracehost.function
    def f(x):
        x.view(torch.int32).zero_()
        return x.view(torch.int32)

    for _ in range(3):
        x = torch.ones(3)
        made = f(x)
        assert torch.equal(x, torch.zeros(3))
        assert made.data_ptr() == x.data_ptr()


def test_sizes_that_do_not_fit_are_eagers_error():
    f = tracehost.function(lambda x: x.view(torch.float64))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must be divisible by 2"):
            f(torch.ones(3))


def test_in_an_archive(tmp_path):
    @tracehost.function
    def f(x):
        return x.view(torch.int32)

    f(torch.ones(3))
    f.save(tmp_path / "f.pt")
    loaded = tracehost.load(tmp_path / "f.pt")[f.name]
    assert torch.equal(loaded(torch.ones(3)), torch.ones(3).view(torch.int32))
