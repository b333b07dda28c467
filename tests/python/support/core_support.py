"""Compares a Function with its body: results, arguments afterwards, gradients, the generator."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import tracehost


def rebuild(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """`value` with new containers of the same types, and leaf(...) of what they hold."""
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, tuple):
        items = [rebuild(v, leaf) for v in value]
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    if isinstance(value, list):
        return type(value)(rebuild(v, leaf) for v in value)
    if isinstance(value, dict):
        return type(value)((k, rebuild(v, leaf)) for k, v in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value)]
        return dataclasses.replace(value, **{n: rebuild(getattr(value, n), leaf) for n in fields})
    return leaf(value)


def counts(f: Any) -> tuple[int, int, int]:
    """Of a Function: traces, hits, live specializations."""
    stats = f.stats()
    return stats["traces"], stats["hits"], stats["live"]


def tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        return leaf

    rebuild(value, note)
    return found


def fresh(value: Any) -> Any:
    """A copy with tensors of their own; what was one tensor is one tensor again."""
    made: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return made[id(leaf)]

    return rebuild(value, copy)


def assert_same(got: Any, expected: Any, what: str = "the result") -> None:
    """Same types, same Python values, tensors equal to the bit, with their metadata."""
    assert type(got) is type(expected), (what, got, expected)
    if isinstance(expected, torch.Tensor):
        for name in ("dtype", "shape", "device", "layout", "requires_grad"):
            assert getattr(got, name) == getattr(expected, name), (what, name)
        if expected.layout == torch.strided:
            assert got.stride() == expected.stride(), (what, "stride")
        assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(expected)), (what, got, expected)
        if expected.is_floating_point():
            assert torch.equal(got.isnan(), expected.isnan()), what
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), what
        for i, (a, b) in enumerate(zip(got, expected)):
            assert_same(a, b, f"{what}[{i}]")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), what
        for key in expected:
            assert_same(got[key], expected[key], f"{what}[{key!r}]")
    elif dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        for field in dataclasses.fields(expected):
            name = field.name
            assert_same(getattr(got, name), getattr(expected, name), f"{what}.{name}")
    else:
        assert got == expected or (got != got and expected != expected), what


def gradients(result: Any, leaves: Iterable[torch.Tensor]) -> list[torch.Tensor | None]:
    """Of a sum that weighs each element differently."""
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf]
    outputs = [t for t in tensors(result) if t.requires_grad]
    if not leaves or not outputs:
        return []
    with torch.enable_grad():
        total = sum((t * torch.arange(1, t.numel() + 1).view(t.shape)).sum() for t in outputs)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def run(call: Callable[..., Any], args: tuple[Any, ...], extra: Iterable[torch.Tensor]) -> Any:
    torch.manual_seed(11)
    args = fresh(args)
    before = tensors(args)
    result = call(*args)
    state = torch.get_rng_state()
    grads = gradients(result, [*dict.fromkeys(before), *extra])
    return result, args, grads, state


def check(
    body: Callable[..., Any],
    *args: Any,
    calls: int = 3,
    extra: Iterable[torch.Tensor] = (),
    function: Any = None,
    traces: int = 1,
) -> Any:
    """Runs body and Function `calls` times on equal arguments; all that they do must be equal.

    Returns the Function, which has traced `traces` times in all.
    """
    extra = list(extra)
    f = tracehost.function(body) if function is None else function
    for number in range(calls):
        expected, args_after, grads, state = run(body, args, extra)
        got, args_now, grads_now, state_now = run(f, args, extra)
        assert_same(got, expected, f"the result of call {number}")
        assert_same(args_now, args_after, f"the arguments after call {number}")
        assert_same(grads_now, grads, f"the gradients of call {number}")
        assert torch.equal(state_now, state), f"the generator after call {number}"
    assert f.tracing_count() == traces
    return f


def place(body: Callable[..., Any], mark: str = "# here") -> str:
    """`file.py:12`: the line of `body` that ends with the mark."""
    lines, first = inspect.getsourcelines(body)
    numbers = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(mark)]
    assert len(numbers) == 1, f"{len(numbers)} lines end with {mark}"
    return f"{Path(inspect.getsourcefile(body) or '').name}:{numbers[0]}"
