"""torch.compile(model=None, *, fullgraph, dynamic, ...) as a decorator that makes Functions."""

from __future__ import annotations

import functools
import inspect
from types import FrameType
from typing import Any

from .decorators import caller, is_of, place, tell_meaningless
from .functions import decorated, make

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
        tell_meaningless("torch.compile", where, meaningless)
        if model is None:
            return lambda function: compiled(function, given, where)
        return compiled(model, given, where)

    return compile


def compiled(model: Any, options: dict[str, Any], where: str = "?") -> Any:
    import torch

    # torch's rule: the second size of a dimension makes it any; fullgraph: what can't be is an error.
    ours = {
        "reduce_retracing": options.get("dynamic") is not False,
        "goes_on": not options.get("fullgraph"),
        "name": options.get("name"),
    }
    of_call = getattr(model, "__name__", "") == "_call_impl"
    if of_call and isinstance(getattr(model, "__self__", None), torch.nn.Module):
        from .modules import Call

        model = Call(model.__self__)  # module.compile()
        ours["name"] = ours["name"] or type(model.module).__name__
    if not isinstance(model, torch.nn.Module):
        return decorated(model, "torch.compile", where, **ours)
    from .modules import OptimizedModule

    return (
        model
        if isinstance(model, OptimizedModule)
        else OptimizedModule(model, make(model, **ours), options)
    )


def _is_torchs_own(frame: FrameType) -> bool:
    if not is_of(frame, "torch"):
        return False
    name = frame.f_globals.get("__name__")
    # module.compile() is the user's call, and so is what torch.load makes.
    is_users = name == "torch.nn.modules.module" and frame.f_code.co_name == "compile"
    return not is_users and name != "torch.serialization"
