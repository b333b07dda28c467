"""torch.jit.trace and torch.jit.script as decorators that make Functions, which are saved as archives.

An archive is what torch.jit.load reads, too: its `forward` is the graph of the first signature, with as many
sizes left open as the body allows.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from .decorators import caller, is_of, place, tell_meaningless
from .functions import make
from .messages import say

# Those that something here goes by.
_OF_TRACE = ("func", "example_inputs", "example_kwarg_inputs")


def trace_for(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def trace(*args: Any, **kwargs: Any) -> Any:
        import torch

        frame = caller()
        if is_of(frame, "torch"):
            return original(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        if isinstance(given["func"], (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            return original(*args, **kwargs)
        where = place(frame)
        tell_meaningless("torch.jit.trace", where, [n for n in given if n not in _OF_TRACE])
        examples = given.get("example_inputs")
        named = given.get("example_kwarg_inputs") or {}
        if examples is None:
            examples = ()
        elif isinstance(examples, (torch.Tensor, dict)):
            examples = (examples,)
        made = _scripted(given["func"])
        made(*examples, **named)  # the trace
        return made

    _accept_ours()
    return trace


def script_for(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def script(*args: Any, **kwargs: Any) -> Any:
        import torch

        frame = caller()
        given = signature.bind(*args, **kwargs).arguments
        obj = given["obj"]
        already = isinstance(obj, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
        # A class is TorchScript's: here it is Python's, as it is.
        if is_of(frame, "torch") or already or not callable(obj):
            return original(*args, **kwargs)
        if isinstance(obj, type):
            return obj
        tell_meaningless("torch.jit.script", place(frame), [n for n in given if n != "obj"])
        return _scripted(obj)

    _accept_ours()
    return script


def _scripted(func: Any) -> Any:
    import torch

    from .modules import ScriptedFunction, ScriptedModule

    owner = getattr(func, "__self__", None)
    if isinstance(owner, torch.nn.Module) and func.__name__ == "forward":
        func = owner
    if isinstance(func, (ScriptedFunction, ScriptedModule)):
        return func
    made = make(func, reduce_retracing=True)
    if isinstance(func, torch.nn.Module):
        return ScriptedModule(func, made)
    return ScriptedFunction(func, made)


def _accept_ours() -> None:
    """torch.jit.freeze and optimize_for_inference of what is none of TorchScript's."""
    import torch

    from . import replace

    for name in ("freeze", "optimize_for_inference"):
        before = getattr(torch.jit, name)
        if hasattr(before, "_tracehost"):
            continue
        accepting = _accepting(name, before)
        replace.put(torch.jit, name, accepting)


def _accepting(name: str, before: Any) -> Any:
    @functools.wraps(before)
    def accepting(mod: Any, *args: Any, **kwargs: Any) -> Any:
        from .modules import ScriptedModule

        if not isinstance(mod, ScriptedModule):
            return before(mod, *args, **kwargs)
        say(f"torch.jit.{name} at {place(caller())}: gives back what tracehost has traced as it is")
        return mod

    accepting._tracehost = True  # type: ignore[attr-defined]
    return accepting


# -- graphs and files --------------------------------------------------------------------------------------


def first_graph(made: Any, wanted: str) -> Any:
    """The ConcreteFunction of the first signature."""
    from tracehost._archive import live

    concretes, stale = live(made)
    if concretes:
        return concretes[0]
    name = made.name
    if stale:
        raise RuntimeError(
            f"{name} has no {wanted}: {stale} is another value now than when it was traced. Call it again"
        )
    if made.stats()["eager"]:
        raise RuntimeError(
            f"{name} has no {wanted}: it could not be traced, and runs as plain Python; the TraceWarning "
            "says why. Without --intercept torch.jit.* it is PyTorch's own"
        )
    raise RuntimeError(
        f"{name} has no {wanted} yet: tracehost makes one for the arguments of a call. Call it once before"
    )


def save(made: Any, file: Any, extra_files: Any) -> None:
    import tracehost

    if extra_files:
        raise RuntimeError(
            f"{made.name}: _extra_files can't be saved by tracehost. Write them to files of their own, or leave "
            "out --intercept torch.jit.*"
        )
    concrete = general_graph(made)
    name = made.name if made.name.isidentifier() else "function"
    tracehost.save(os.fspath(file), {name: [concrete]})


def save_to_buffer(made: Any, extra_files: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.pt")
        save(made, path, extra_files)
        with open(path, "rb") as file:
            return file.read()


def general_graph(made: Any) -> Any:
    """The graph of the first signature with all sizes open that the body leaves open: who loads the file by
    torch.jit.load gets no check of sizes, and no second graph."""
    from torch.utils import _pytree
    from tracehost import TensorSpec

    first = first_graph(made, "graph to save")
    # One of its own: the sizes that are tried are no calls of the program's.
    saved = make(made.python_function, name=f"{made.name}.save")
    leaves, tree = _pytree.tree_flatten(
        first.structured_input_signature, is_leaf=lambda x: isinstance(x, TensorSpec)
    )
    sizes = [
        (i, d)
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, TensorSpec) and leaf.shape is not None
        for d in range(len(leaf.shape))
    ]

    def request(open_sizes: list[tuple[int, int]]) -> Any:
        opened = [
            _opened(leaf, {d for j, d in open_sizes if j == i}) for i, leaf in enumerate(leaves)
        ]
        args, kwargs = _pytree.tree_unflatten(opened, tree)
        try:
            with _quiet():
                return saved.get_concrete_function(*args, **kwargs)
        except Exception:  # it needs one of them
            return None

    found = request(sizes)
    if found is None and len(sizes) > 1:
        alone = [size for size in sizes if request([size]) is not None]
        found = request(alone) if alone else None
        if found is None and alone:
            found = request(alone[:1])
    return found or first


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Sizes that do not fit are tried, and torch's fake tensors log what they raise."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _opened(leaf: Any, dimensions: set[int]) -> Any:
    from tracehost import TensorSpec

    if not dimensions:
        return leaf
    shape = [None if d in dimensions else size for d, size in enumerate(leaf.shape)]
    return TensorSpec(shape, leaf.dtype, device=leaf.device, name=leaf.name)
