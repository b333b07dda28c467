"""Calls: the hot one against eager's and torch.jit.trace's, what more arguments and signatures cost,
and what a trace costs."""

from __future__ import annotations

import random
import time
import warnings

import torch
import tracehost
from harness import Report, best, call_loop, sequence_loop, slope

SIZES = (2, 4, 8, 16, 24, 34)


def body(x, y):
    return x * y + 1


class Holder(torch.nn.Module):
    """A module with many buffers."""

    def __init__(self, tensors):
        super().__init__()
        for i, tensor in enumerate(tensors):
            self.register_buffer(f"w{i}", tensor)


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(8, 8), torch.rand(8, 8)


def compiled(source: str, **names):
    """A function from source: a signature of n parameters can't be written otherwise."""
    names["__name__"] = __name__
    exec(source, names)
    return names["made"]


def warm(function, *args):
    """Traces and runs it; the same object again."""
    for _ in range(3):
        function(*args)
    return function


def jit_traced(function, args: tuple):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that torch.jit.trace is deprecated
        return torch.jit.trace(function, args, check_trace=False)


def hot(report: Report, n: int, repeats: int) -> None:
    x, y = pair()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that torch.jit.trace is deprecated
        jit = torch.jit.trace(body, (x, y), check_trace=False)
    rivals = {
        "eager": body,
        "jit": warm(jit, x, y),
        "tracehost": warm(tracehost.function(body), x, y),
    }
    ns = best({name: call_loop(f, (x, y)) for name, f in rivals.items()}, n, repeats)
    report.add("x*y+1 on 8x8: eager", ns["eager"], "ns")
    report.add("x*y+1 on 8x8: torch.jit.trace", ns["jit"], "ns")
    report.add("x*y+1 on 8x8: tracehost.function", ns["tracehost"], "ns")
    report.add("hot call / eager", ns["tracehost"] / ns["eager"], "x", 0.30)
    report.add("hot call / torch.jit.trace", ns["tracehost"] / ns["jit"], "x", 0.25)


def flat(report: Report, n: int, repeats: int) -> float:
    """The body uses two of its arguments, so the graph's work is the same; what the interpreter does
    with an unused input is included."""
    rivals = {}
    for size in SIZES:
        names = ", ".join(f"a{i}" for i in range(size))
        made = compiled(f"def made({names}): return a0 * a1 + 1")
        args = tuple(torch.rand(8, 8) for _ in range(size))
        rivals[f"ours{size}"] = call_loop(warm(tracehost.function(made), *args), args)
        rivals[f"jit{size}"] = call_loop(warm(jit_traced(made, args), *args), args)
    ns = best(rivals, n, repeats)
    found = slope({size: ns[f"ours{size}"] for size in SIZES})
    jit = slope({size: ns[f"jit{size}"] for size in SIZES})
    report.add("a further flat tensor", found, "ns", 50, f"torch.jit.trace: {jit:.0f} ns")
    return found


def nested(report: Report, n: int, repeats: int) -> None:
    def made(tree):
        return tree["a"][0] * tree["a"][1] + 1

    rivals = {}
    for size in SIZES:
        args = ({"a": [torch.rand(8, 8) for _ in range(size)]},)
        rivals[size] = call_loop(warm(tracehost.function(made), *args), args)
    report.add("a further leaf in a nested list", slope(best(rivals, n, repeats)), "ns", 50)


def captures(report: Report, n: int, repeats: int, flat_ns: float) -> None:
    """A capture must be used to be one. So the same graph is called with its tensors passed and with
    its tensors captured; the difference, and what a passed one costs, is what a captured one costs."""

    passed, captured = {}, {}
    for size in SIZES:
        tensors = [torch.rand(1) for _ in range(size)]
        names = [f"w{i}" for i in range(size)]
        by_name = f"def made({', '.join(names)}): return torch.cat([{', '.join(names)}])"
        by_path = f"def made(): return torch.cat([{', '.join('holder.' + name for name in names)}])"
        of_arguments = tracehost.function(compiled(by_name, torch=torch))
        of_captures = tracehost.function(compiled(by_path, torch=torch, holder=Holder(tensors)))
        passed[size] = call_loop(warm(of_arguments, *tensors), tuple(tensors))
        captured[size] = call_loop(warm(of_captures), ())
    both = {f"p{size}": run for size, run in passed.items()}
    both |= {f"c{size}": run for size, run in captured.items()}
    ns = best(both, n, repeats)
    difference = slope({size: ns[f"c{size}"] - ns[f"p{size}"] for size in SIZES})
    report.add("a further capture (of one module)", flat_ns + difference, "ns", 40)


def signatures(report: Report, n: int, repeats: int) -> None:
    """The same calls, once to a Function for each signature, once to one Function for all."""
    arguments = [(torch.rand(64 + i), torch.rand(64 + i)) for i in range(64)]
    apart = [warm(tracehost.function(body), *args) for args in arguments]
    two, all_of_them = tracehost.function(body), tracehost.function(body)
    for args in arguments[:2]:
        warm(two, *args)
    for args in arguments:
        warm(all_of_them, *args)
    order = random.Random(0).choices(range(64), k=1024)
    ns = best(
        {
            "one": sequence_loop([(apart[0], arguments[0])] * 2),
            "two": sequence_loop([(two, arguments[0]), (two, arguments[1])]),
            "apart": sequence_loop([(apart[i], arguments[i]) for i in order]),
            "random": sequence_loop([(all_of_them, arguments[i]) for i in order]),
        },
        n,
        repeats,
    )
    note = f"{ns['random'] / ns['apart']:.2f} x 64 Functions of one signature each"
    report.add("two alternating signatures / one", ns["two"] / ns["one"], "x", 1.3)
    report.add("64 signatures at random / one", ns["random"] / ns["one"], "x", 2.6, note)
    assert all_of_them.stats()["traces"] == all_of_them.stats()["live"] == 64


def many_ops():
    lines = ["    x = x * y + 1"] * 75
    return compiled("def made(x, y):\n" + "\n".join(lines) + "\n    return x")


def retrace(report: Report, repeats: int) -> None:
    """The first call of an empty cache, body run included, against torch.jit.trace, which runs it too."""
    args = pair()
    made = many_ops()
    function = tracehost.function(made)

    def ours() -> None:
        function(*args)

    def theirs() -> None:
        torch.jit.trace(made, args, check_trace=False)

    times = {ours: float("inf"), theirs: float("inf")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            for run in times:
                function.clear()
                start = time.thread_time_ns()
                run()
                times[run] = min(times[run], time.thread_time_ns() - start)
    report.add("a trace of 150 ops", times[ours] / 1e6, "ms")
    report.add("torch.jit.trace(check_trace=False) of the same", times[theirs] / 1e6, "ms")
    report.add("trace / torch.jit.trace", times[ours] / times[theirs], "x", 1.5)


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter(
        "ignore", tracehost.RetraceWarning
    )  # one function is decorated many times here
    with torch.no_grad():
        hot(report, 5000, repeats)
        flat_ns = flat(report, 2000, repeats)
        nested(report, 2000, repeats)
        captures(report, 2000, repeats, flat_ns)
        signatures(report, 4000, repeats)
        retrace(report, repeats)
