"""torch.compile(model=None, *, fullgraph, dynamic, ...) as a decorator that makes Functions."""

from __future__ import annotations

import functools
import inspect
import sys
from types import FrameType
from typing import Any

import torch

from .call_site import caller, is_of, place
from .functions import function_of, make
from .messages import report_meaningless
from .modules import Replacement

# The rest has no meaning for a trace.
_MEANT = ("fullgraph", "dynamic", "name", "disable")


def compile_for(original: Any) -> Any:
    signature = inspect.signature(original)

    # By its name and module it is torch's, so that it is pickled by that name.
    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        frame = caller()
        if _is_torchs_own(frame):
            return original(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments  # raises as torch's
        if given.get("disable"):
            return original(*args, **kwargs)
        model = given.pop("model", None)
        where = place(frame)
        meaningless = [n for n, v in given.items() if n not in _MEANT and v not in (None, False)]
        report_meaningless("torch.compile", where, meaningless)
        if model is None:
            return lambda function: compiled(function, given, where)
        return compiled(model, given, where)

    return compile


def compiled(model: Any, options: dict[str, Any], where: str = "?") -> Any:
    # torch's rule: the second size of a dimension makes it any; fullgraph: what can't be is an error.
    ours = {
        "reduce_retracing": options.get("dynamic") is not False,
        "continues": not options.get("fullgraph"),
        "name": options.get("name"),
    }
    of_call = getattr(model, "__name__", "") == "_call_impl"
    if of_call and isinstance(getattr(model, "__self__", None), torch.nn.Module):
        model = Call(model.__self__)  # module.compile()
        ours["name"] = ours["name"] or type(model.module).__name__
    if not isinstance(model, torch.nn.Module):
        return function_of(model, f"torch.compile at {where}: what it decorates", **ours)
    if isinstance(model, OptimizedModule):
        return model
    return OptimizedModule(model, make(model, **ours), options)


class OptimizedModule(Replacement):
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
        return compiled(module, self._options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return functools.partial(torch.compile, **self._options), (self._module,)


class Call:
    """module.compile(): the module's call with its hooks, by the parameters of its forward."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        functools.update_wrapper(self, module.forward, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module._call_impl(*args, **kwargs)


def _is_torchs_own(frame: FrameType) -> bool:
    if not is_of(frame, "torch"):
        return False
    name = frame.f_globals.get("__name__")
    # module.compile() is the user's call, and so is what torch.load makes.
    is_users = name == "torch.nn.modules.module" and frame.f_code.co_name == "compile"
    return not is_users and name != "torch.serialization"
