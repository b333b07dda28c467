"""What a function becomes: a tracehost.Function that never ends a program which does not know of it."""

from __future__ import annotations

from typing import Any

from .messages import say
from .targets import Target


def traced(target: Target, found: Any) -> Any:
    """For --trace: the Function of what the target names; None: it stays as it is."""
    try:
        return stand_in(found, make(found, **target.options))
    except Exception as error:
        say(f"{target.text}: it stays as it is: {error}")
        return None


def decorated(found: Any, what: str, where: str, **options: Any) -> Any:
    """For a decorator: the Function; what can't be traced stays as it is."""
    try:
        return stand_in(found, make(found, **options))
    except Exception as error:
        say(f"{what} at {where}: what it decorates stays as it is: {error}")
        return found


def make(found: Any, goes_on: bool = True, **options: Any) -> Any:
    """A Function of any callable. `goes_on`: an unsupported body continues without a graph, with a
    TraceWarning."""
    import tracehost
    from tracehost._function import GOES_ON

    if isinstance(found, tracehost.Function):
        return found
    return tracehost.function(found, **{GOES_ON: goes_on}, **options)


def stand_in(found: Any, made: Any) -> Any:
    """The Function; for a module what is the module, too."""
    import torch

    if not isinstance(found, torch.nn.Module):
        return made
    from .modules import StandIn

    return StandIn(found, made)
