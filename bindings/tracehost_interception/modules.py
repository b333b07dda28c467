"""What stands for an nn.Module that is traced: it is the module in all but its call."""

from __future__ import annotations

import copy
import functools
import operator
import sys
from typing import Any

import torch

from . import torch_jit


class StandIn(torch.nn.Module):
    """Parameters, buffers, submodules, attributes and mode are the module's own, not copies."""

    _own = frozenset({"forward"})
    _shared = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")

    def __init__(self, module: torch.nn.Module, function: Any) -> None:
        vars(self)["_module"] = module
        super().__init__()
        vars(self)["forward"] = function
        self._join()

    def _join(self) -> None:
        vars(self).update({name: vars(self._module)[name] for name in self._shared})

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._module.training

    @training.setter
    def training(self, value: bool) -> None:
        if "forward" in vars(self):  # not what nn.Module.__init__ begins with
            self._module.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_module":  # before __init__
            raise AttributeError(name)
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise AttributeError(
                f"'{type(self._module).__name__}' object has no attribute '{name}'{self._hint()}"
            ) from None

    def _hint(self) -> str:
        return ""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._own or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._module, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *super().__dir__()})

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._module)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self._module[index]  # type: ignore[index]

    def _again(self, module: torch.nn.Module) -> Any:
        """One like this, of another module."""
        made = copy.deepcopy(self.forward, {id(self._module): module})
        return type(self)(module, made)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._again(copy.deepcopy(self._module, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A file has the module itself: who loads it need not know of tracehost."""
        return operator.itemgetter(0), ((self._module,),)


class OptimizedModule(StandIn):
    """What torch.compile(module) gives. As torch's own it has the module as `_orig_mod`, and so in the names
    of its state_dict."""

    _shared = ()

    def __init__(self, module: torch.nn.Module, function: Any, options: dict[str, Any]) -> None:
        super().__init__(module, function)
        vars(self)["_options"] = options
        self._modules["_orig_mod"] = module

    @property
    def __class__(self) -> Any:
        """For isinstance: where torch's own class is loaded, who asks means that."""
        theirs = sys.modules.get("torch._dynamo.eval_frame")
        return getattr(theirs, "OptimizedModule", type(self))

    def __getattr__(self, name: str) -> Any:
        return self._modules[name] if name == "_orig_mod" else super().__getattr__(name)

    def _again(self, module: torch.nn.Module) -> Any:
        from .torch_compile import compiled

        return compiled(module, self._options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return functools.partial(torch.compile, **self._options), (self._module,)


class ScriptedModule(StandIn):
    """What torch.jit.trace and torch.jit.script give for a module."""

    graph = property(lambda self: torch_jit.first_graph(self.forward, "graph").graph)
    inlined_graph = graph
    code = property(lambda self: torch_jit.first_graph(self.forward, "code").code)

    @property
    def original_name(self) -> str:
        return type(self._module).__name__

    def _hint(self) -> str:
        return "; it is tracehost's, by --intercept torch.jit.*, and no ScriptModule"

    def save(self, f: Any, _extra_files: Any = None) -> None:
        torch_jit.save(self.forward, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        return torch_jit.save_to_buffer(self.forward, _extra_files)


class ScriptedFunction:
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

    graph = property(lambda self: torch_jit.first_graph(self._function, "graph").graph)
    inlined_graph = graph
    code = property(lambda self: torch_jit.first_graph(self._function, "code").code)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        torch_jit.save(self._function, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        return torch_jit.save_to_buffer(self._function, _extra_files)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> Any:
        """By name, as a function, where it is found by that name."""
        path = getattr(self._of, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self._of, "__module__", ""))
        for part in path.split("."):
            found = getattr(found, part, None)
        return path if found is self else (ScriptedFunction, (self._of, self._function))


class Call:
    """module.compile(): the module's call with its hooks, by the parameters of its forward."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        functools.update_wrapper(self, module.forward, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module._call_impl(*args, **kwargs)
