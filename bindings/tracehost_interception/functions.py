"""What a function becomes: a tracehost.Function that never ends a program which does not know of it."""

from __future__ import annotations

from typing import Any

from .messages import say


def function_of(found: Any, shown: str, **options: Any) -> Any:
    """The Function, which is a module if `found` is one. What can't be traced stays as it is.

    Args:
        shown: `found` as a message names it, with who asked for it.
        options: as those of `make`.
    """
    try:
        import torch

        made = make(found, **options)
        if not isinstance(found, torch.nn.Module):
            return made
        from .modules import Replacement

        return Replacement(found, made)
    except Exception as error:
        say(f"{shown} stays as it is: {error}")
        return found


def note_target(made: Any, text: str) -> None:
    """Warnings of retraces then write a fix as an option of this `--trace MODULE:NAME`."""
    import tracehost
    from tracehost._reports.words.remedies import traced

    code = getattr(getattr(made, "python_function", None), "__code__", None)
    if isinstance(made, tracehost.Function) and code is not None:
        traced[code.co_filename, code.co_firstlineno] = text


def make(found: Any, continues: bool = True, **options: Any) -> Any:
    """A Function of any callable. `continues`: an unsupported body continues without a graph, with a
    TraceWarning."""
    import tracehost
    from tracehost._function import CONTINUES

    if isinstance(found, tracehost.Function):
        return found
    return tracehost.function(found, **{CONTINUES: continues}, **options)
