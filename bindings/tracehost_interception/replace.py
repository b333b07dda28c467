"""One thing in place of another in a module or class: found, put there, taken back."""

from __future__ import annotations

import sys
from typing import Any

from .messages import did_you_mean, say
from .targets import Target

# What was put where: (owner, name, put there, what was there; None: nothing of its own).
_replaced: list[tuple[Any, str, Any, Any]] = []


def replace_in(module: Any, targets: list[Target], final: bool = True) -> None:
    """Replace what the targets name. `final`: what is not there now will not come any more."""
    for target in targets:
        owner, name, found = _find(module, target.path)
        if owner is None:
            if final:
                _tell_absent(module, target, name)
            continue
        if _is_ours(owner, name):
            target.met = True
            continue
        made = _made(target, owner, name, found)
        if made is None or made is found:
            continue
        put(owner, name, made)


def _is_ours(owner: Any, name: str) -> bool:
    there = vars(owner).get(name)
    return any(o is owner and n == name and made is there for o, n, made, _ in _replaced)


def put(owner: Any, name: str, made: Any) -> None:
    _replaced.append((owner, name, made, vars(owner).get(name)))
    setattr(owner, name, made)


def _find(module: Any, path: str) -> tuple[Any, str, Any]:
    """Who has it, by which name, and what; (None, the first name that is missing, None)."""
    owner: Any = module
    *way, name = path.split(".")
    for part in way:
        try:
            owner = getattr(owner, part)
        except AttributeError:
            return None, part, None
    try:
        found = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    except (AttributeError, TypeError):
        return None, name, None
    return owner, name, found


def _made(target: Target, owner: Any, name: str, found: Any) -> Any:
    if found is None and target.module == "__main__":  # `step = None`, and later the function
        target.met = False
        return None
    target.met = True
    if not callable(found) and not isinstance(found, (staticmethod, classmethod)):
        what = "a property" if isinstance(found, property) else f"{type(found).__name__}"
        say(f"{target.text}: {target.path} is no function (it is {_article(what)})")
        return None
    if target.traces:
        from .functions import traced

        return traced(target, found)
    from .decorators import routed

    return routed(target, owner, found)


def _article(what: str) -> str:
    if what.startswith("a "):
        return what
    return f"{'an' if what[:1].lower() in 'aeiou' else 'a'} {what}"


def _tell_absent(module: Any, target: Target, name: str) -> None:
    target.met = True
    owner: Any = module
    for part in target.path.split("."):
        if part == name:
            break
        owner = getattr(owner, part)
    where = getattr(module, "__file__", None) or "built in"
    whose = target.path.rpartition("." + name)[0]
    shown = f"{target.module}:{whose}" if whose else target.module
    say(f"{target.text}: {shown} has no '{name}' ({where}){did_you_mean(name, dir(owner))}")


def tell_if_unmet(target: Target, main: str) -> None:
    """At the end: what never came to be."""
    if target.met:
        return
    if target.module == "__main__":
        owner, name, _ = _find(sys.modules["__main__"], target.path)
        if owner is None and name != target.root:
            return _tell_absent(sys.modules["__main__"], target, name)
        say(f"{target.text}: {target.path} never came to be in the program{_why_not_main(main)}")
    elif target.module == main or (target.module == f"{main}.__main__"):
        say(
            f"{target.text}: {target.module} ran as the program itself; write __main__:{target.path}"
        )
    elif target.module == _script_name():
        say(
            f"{target.text}: no module '{target.module}' was imported; the program itself is __main__:{target.path}"
        )
    elif target.module not in sys.modules or target.module == "torch":
        say(
            f"{target.text}: no module '{target.module}' was imported{did_you_mean(target.module, _own())}"
        )


def _script_name() -> str:
    return (
        sys.argv[0].rpartition("/")[2].removesuffix(".py")
        if sys.argv and sys.argv[0].endswith(".py")
        else ""
    )


def _own() -> list[str]:
    return [name for name in sys.modules if not name.startswith(("_", "tracehost_interception"))]


def _why_not_main(main: str) -> str:
    from . import main_program

    main_file = str(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    seen = main or main_program.was_run
    if seen:
        return ""
    kind = f"'{main_file}'" if main_file else "standard input"
    return (
        f"; in {kind} functions can't be traced: only in a script named *.py, with -m and with -c"
    )


def undo_all() -> None:
    """Put back what was there, where ours still is."""
    while _replaced:
        owner, name, put, before = _replaced.pop()
        if vars(owner).get(name) is not put:
            continue
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
