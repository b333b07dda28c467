"""What torch.jit.trace and torch.jit.script give in place of TorchScript's own.

It is saved as an archive, which torch.jit.load reads, too: its `forward` is the graph of the first signature, with as
many sizes left open as the body allows.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from typing import Any

from .functions import make
from .modules import Replacement


class _Graphs:
    """What either has of its graphs. `_function`: the Function."""

    graph = property(lambda self: _first_graph(self._function, "graph").graph)
    inlined_graph = graph
    code = property(lambda self: _first_graph(self._function, "code").code)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        import tracehost

        made = self._function
        if _extra_files:
            raise RuntimeError(
                f"{made.name}: _extra_files can't be saved by tracehost. Write them to files of their own, or leave "
                "out --intercept torch.jit.*"
            )
        name = made.name if made.name.isidentifier() else "function"
        tracehost.save(os.fspath(f), {name: [_general_graph(made)]})

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.pt")
            self.save(path, _extra_files)
            with open(path, "rb") as file:
                return file.read()


class ScriptedModule(_Graphs, Replacement):
    """What torch.jit.trace and torch.jit.script give for a module."""

    _function = property(lambda self: self.forward)

    @property
    def original_name(self) -> str:
        return type(self._module).__name__

    def _hint(self) -> str:
        return "; it is tracehost's, by --intercept torch.jit.*, and no ScriptModule"


class ScriptedFunction(_Graphs):
    """What torch.jit.trace and torch.jit.script give for a function."""

    def __init__(self, func: Any, function: Any) -> None:
        functools.update_wrapper(self, func, updated=())
        self._function = function
        self._of = func

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._function, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> Any:
        """By name, as a function, where it is found by that name."""
        path = getattr(self._of, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self._of, "__module__", ""))
        for part in path.split("."):
            found = getattr(found, part, None)
        return path if found is self else (ScriptedFunction, (self._of, self._function))


def _first_graph(made: Any, wanted: str) -> Any:
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


def _general_graph(made: Any) -> Any:
    """The graph of the first signature with all sizes open that the body leaves open: who loads the file by
    torch.jit.load gets no check of sizes, and no second graph."""
    from torch.utils import _pytree
    from tracehost import TensorSpec

    first = _first_graph(made, "graph to save")
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
        opened = list(leaves)
        for i, d in open_sizes:
            spec, shape = opened[i], list(opened[i].shape)
            shape[d] = None
            opened[i] = TensorSpec(shape, spec.dtype, device=spec.device, name=spec.name)
        args, kwargs = _pytree.tree_unflatten(opened, tree)
        try:
            return saved.get_concrete_function(*args, **kwargs)
        except Exception:  # it needs one of them
            return None

    found = request(sizes)
    if found is None and len(sizes) > 1:
        alone = [size for size in sizes if request([size]) is not None]
        if alone:
            found = request(alone) or request(alone[:1])
    return found or first
