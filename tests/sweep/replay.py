"""Runs a random program under eager and as a Function, call by call, and compares."""

import importlib.util
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tracehost
from torch.utils._pytree import tree_leaves

from sweep.sameness import alias_pattern, difference

# By the inputs that they have; the last ones have other strides. With tapes without gradients, until one serves.
OPTIMIZES = os.environ.get("TRACEHOST_OPTIMIZE") == "exact"
CALLS = (0, 0, 0, 1, 1, 0, 1, 2) if OPTIMIZES else (0, 1, 2)
CAPTURES = ("W", "P", "N")
numbers = itertools.count()


@dataclass
class Replay:
    """`state`: equal, `rejected`, invalid (eager raises in its first call) or different."""

    state: str
    text: str = ""


def load(file: Path):
    """A module of its own each time: two of them share no tensor."""
    name = f"{file.stem}_{next(numbers)}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def replay(source: str, file: Path) -> Replay:
    file.write_text(source)
    eager, ours = load(file), load(file)
    traced = tracehost.function(ours.f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, call in enumerate(CALLS):
            expected = run(eager, eager.f, call)
            got = run(ours, traced, call)
            if "error" in expected and number == 0:
                return Replay("invalid", told(expected["error"]))
            if isinstance(got.get("error"), tracehost.Error):
                return Replay("rejected", told(got["error"]))
            if call == CALLS[-1] and "error" in expected and "error" not in got:
                break  # other strides: an op whose result nothing uses is not in the graph, nor what it raises
            found = outcome_difference(expected, got)
            if found:
                return Replay(
                    "different", f"call {call} ({traced.tracing_count()} traces): {found}"
                )
            if "error" in expected:
                break
    return Replay("equal")


def run(module, f: Callable, call: int) -> dict:
    inputs = module.inputs(call)
    captures = [getattr(module, n) for n in CAPTURES]
    torch.manual_seed(7)
    out: dict = {}
    try:
        with torch.set_grad_enabled(not OPTIMIZES):
            out["result"] = f(*inputs, 2, 0.5)
    except Exception as error:
        return {"error": error}
    finally:
        torch.set_grad_enabled(True)
    out["generator"] = torch.random.get_rng_state()
    out["inputs"], out["captures"] = inputs, captures
    if hasattr(module, "S"):  # what the sides of an `if` store
        out["state"] = [*vars(module.S).values(), module.P.grad]
    # A branch or loop that is staged gives a view of what it does not change.
    pattern = alias_pattern([*inputs, *captures], out["result"])
    out["aliases"] = [p.replace(" is ", " shares memory with ") for p in pattern]
    try:
        out["gradients"] = gradients(out["result"], [*inputs, *captures])
    except Exception as error:
        out["gradients"] = type(error).__name__
    return out


def gradients(result: object, leaves: list) -> list:
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf]
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not leaves:
        return []
    weights = [
        torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape).to(t.dtype)
        for t in outputs
    ]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def outcome_difference(eager: dict, ours: dict) -> str | None:
    a, b = eager.get("error"), ours.get("error")
    if type(a) is not type(b):
        return f"eager raises {a and told(a)}, ours {b and told(b)}"
    if a is not None:
        return None
    names = ["result", "inputs", "captures", "state", "gradients", "aliases"]
    if isinstance(eager["gradients"], str):
        # In-place writes that nothing shows the result of are not in a graph: it may have gradients
        # where eager finds a saved tensor changed.
        names.remove("gradients")
    for name in names:
        found = difference(eager.get(name), ours.get(name), name)
        if found:
            return found
    if not torch.equal(eager["generator"], ours["generator"]):
        return "the generator is not where eager leaves it"
    return None


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
