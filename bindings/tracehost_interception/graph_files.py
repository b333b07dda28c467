"""Graphs of what torch.jit's decorators gave, and the files that they are saved as.

A file is an archive, which torch.jit.load reads, too: its `forward` is the graph of the first signature, with as
many sizes left open as the body allows.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .functions import make


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


def _opened(leaf: Any, dimensions: set[int]) -> Any:
    from tracehost import TensorSpec

    if not dimensions:
        return leaf
    shape = [None if d in dimensions else size for d, size in enumerate(leaf.shape)]
    return TensorSpec(shape, leaf.dtype, device=leaf.device, name=leaf.name)
