"""At the end of the program: what never came to be, and why."""

from __future__ import annotations

import sys

from . import main_program
from .apply import find, report_absent
from .messages import did_you_mean, say
from .targets import Target


def report_if_unmet(target: Target, main: str) -> None:
    if target.met:
        return
    if target.module == "__main__":
        owner, name, _ = find(sys.modules["__main__"], target.path)
        if owner is None and name != target.root:
            return report_absent(sys.modules["__main__"], target, name)
        say(f"{target.text}: {target.path} never came to be in the program{_why_not_main(main)}")
    elif target.module in (main, f"{main}.__main__"):
        say(
            f"{target.text}: {target.module} ran as the program itself; write __main__:{target.path}"
        )
    elif target.module == _script_name():
        main_module = sys.modules["__main__"]
        owner, name, _ = find(main_module, target.path)
        if owner is None and name == target.root:
            itself = f"__main__, which has no '{name}'{did_you_mean(name, dir(main_module), '__main__:')}"
        else:
            itself = f"__main__:{target.path}"
        say(
            f"{target.text}: no module '{target.module}' was imported; the program itself is {itself}"
        )
    elif target.module not in sys.modules or target.module == "torch":
        say(
            f"{target.text}: no module '{target.module}' was imported{did_you_mean(target.module, _own())}"
        )


def _script_name() -> str:
    script = sys.argv[0] if sys.argv else ""
    return script.rpartition("/")[2].removesuffix(".py") if script.endswith(".py") else ""


def _own() -> list[str]:
    return [name for name in sys.modules if not name.startswith(("_", "tracehost_interception"))]


def _why_not_main(main: str) -> str:
    if main or main_program.was_run:
        return ""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    kind = f"'{file}'" if file else "standard input"
    return (
        f"; in {kind} functions can't be traced: only in a script named *.py, with -m and with -c"
    )
