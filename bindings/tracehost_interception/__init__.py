"""Functions traced, and decorators routed to tracehost, without a change of the program.

`tracehost --trace MODULE:NAME --intercept torch.compile script.py`: the binary sets TRACEHOST_TRACE and
TRACEHOST_INTERCEPT, which children inherit, and calls install() between Python's start and the program. From
then on a finder on sys.meta_path waits for the modules that are named; after such a module was imported, the
function in it is replaced. Nothing here imports torch or tracehost before the program's own modules do.

- targets.py: what the user typed;   messages.py: what the user reads
- imports.py: after a module's import;   main_program.py: in the program's own module;   unmet.py: at the end
- apply.py: what a target names is found;   replace.py: put in its place, and back
- functions.py: `--trace`;   decorators.py: `--intercept`, any decorator;   call_site.py: who called it
- torch_compile.py, torch_jit.py: those of torch;   modules.py, scripted.py: what they give, and what its `save` writes
"""

from __future__ import annotations

import atexit
import os

from . import imports, messages, replace, unmet
from .main_program import bound, command_code, script_code
from .targets import Target, Trouble, read

__all__ = ["bound", "command_code", "install", "script_code"]

_COMMANDS = "tracehost_commands"


def install(module: str) -> str | None:
    """Called once by the binary. `module`: what -m runs, "__main__" for a folder or a zip, else "".

    Returns:
        A sentence about what was typed wrong; None: all is well.
    """
    # A command in Python runs no program itself: the kernel that it starts is the first process.
    if module != _COMMANDS:
        os.environ.setdefault(messages.FIRST, str(os.getpid()))
    try:
        targets = read(os.environ.get("TRACEHOST_TRACE", ""), traces=True)
        targets += read(os.environ.get("TRACEHOST_INTERCEPT", ""), traces=False)
    except Trouble as trouble:
        return str(trouble)
    atexit.register(_end, targets, module)
    imports.install(targets, module)
    return None


def _end(targets: list[Target], module: str) -> None:
    replace.undo_all()
    imports.remove()
    if messages.is_first() and module != _COMMANDS:
        for target in targets:
            unmet.report_if_unmet(target, module)
