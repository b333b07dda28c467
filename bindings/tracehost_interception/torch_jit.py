"""torch.jit.trace and torch.jit.script as decorators that make Functions, which are saved as archives."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from . import replace
from .call_site import caller, is_of, place
from .functions import make
from .messages import report_meaningless, say
from .scripted import ScriptedFunction, ScriptedModule

# Those that something here goes by.
_OF_TRACE = ("func", "example_inputs", "example_kwarg_inputs")


def trace_for(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def trace(*args: Any, **kwargs: Any) -> Any:
        frame = caller()
        if is_of(frame, "torch"):
            return original(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        if isinstance(given["func"], (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            return original(*args, **kwargs)
        where = place(frame)
        report_meaningless("torch.jit.trace", where, [n for n in given if n not in _OF_TRACE])
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
        frame = caller()
        given = signature.bind(*args, **kwargs).arguments
        obj = given["obj"]
        already = isinstance(obj, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
        # A class is TorchScript's: here it is Python's, as it is.
        if is_of(frame, "torch") or already or not callable(obj):
            return original(*args, **kwargs)
        if isinstance(obj, type):
            return obj
        report_meaningless("torch.jit.script", place(frame), [n for n in given if n != "obj"])
        return _scripted(obj)

    _accept_ours()
    return script


def _scripted(func: Any) -> Any:
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
    for name in ("freeze", "optimize_for_inference"):
        if not replace.is_ours(torch.jit, name):
            replace.put(torch.jit, name, _accepting(name, getattr(torch.jit, name)))


def _accepting(name: str, before: Any) -> Any:
    @functools.wraps(before)
    def accepting(mod: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(mod, ScriptedModule):
            return before(mod, *args, **kwargs)
        say(f"torch.jit.{name} at {place(caller())}: gives back what tracehost has traced as it is")
        return mod

    return accepting
