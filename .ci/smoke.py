"""The shortest proof that a build works: trace once, hit, retrace, agree with eager, stage, reject, keep gradients."""

import pathlib

import torch
import tracehost


@tracehost.function
def step(x, w, scale):
    return ((x @ w) * scale).relu().sum()


@tracehost.function
def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def main() -> None:
    torch.manual_seed(0)
    w = torch.randn(3, 2, requires_grad=True)
    for rows, scale, traces in [(4, 2.0, 1), (4, 2.0, 1), (5, 2.0, 2), (4, 3.0, 3), (4, 2.0, 3)]:
        x = torch.randn(rows, 3)
        result = step(x, w, scale)
        expected = step.python_function(x, w, scale)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
        assert step.tracing_count() == traces, (step.tracing_count(), traces)
        (gradient,) = torch.autograd.grad(result, w)
        (wanted,) = torch.autograd.grad(expected, w)
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=0)

    for n, steps in ((6, 8), (1, 0), (27, 111)):
        assert int(collatz(torch.tensor(n))) == steps, n
    assert collatz.tracing_count() == 1

    @tracehost.function(autograph=False, value_reads="error")
    def reads(x):
        return x + 1 if x.sum() > 0 else x

    try:
        reads(torch.ones(2))
    except tracehost.ValueReadError:
        pass
    else:
        raise AssertionError("a value was read without an error")
    # A file that another version of torch may have written.
    data = pathlib.Path(__file__).parents[1] / "tests" / "python" / "data"
    known = torch.load(data / "format2.pt", weights_only=True)
    archive = tracehost.load(data / "format2.thz")
    for name, (kind, wanted) in known["expected"].items():
        result = archive[name](known["x"].clone())
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        for got, one in zip(results, wanted, strict=True):
            assert got.dtype == one.dtype and got.layout == one.layout, kind
            torch.testing.assert_close(got.detach(), one, equal_nan=True)
    print(f"smoke: tracehost {tracehost.__version__} on torch {torch.__version__} works")


if __name__ == "__main__":
    main()
