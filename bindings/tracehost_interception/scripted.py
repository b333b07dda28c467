"""What torch.jit.trace and torch.jit.script give in place of TorchScript's own."""

from __future__ import annotations

import functools
import sys
from typing import Any

from . import graph_files
from .modules import StandIn


class _Graphs:
    """What either has of its graphs. `_function`: the Function."""

    graph = property(lambda self: graph_files.first_graph(self._function, "graph").graph)
    inlined_graph = graph
    code = property(lambda self: graph_files.first_graph(self._function, "code").code)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        graph_files.save(self._function, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        return graph_files.save_to_buffer(self._function, _extra_files)


class ScriptedModule(_Graphs, StandIn):
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
