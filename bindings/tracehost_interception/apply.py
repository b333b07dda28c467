"""What targets name in a module is found, and replaced."""

from __future__ import annotations

from typing import Any

from . import replace
from .decorators import routed
from .functions import function_of, note_target
from .messages import did_you_mean, say
from .targets import Target


def replace_in(module: Any, targets: list[Target], final: bool = True) -> None:
    """Replace what the targets name. `final`: what is not there now will not come any more."""
    for target in targets:
        owner, name, found = find(module, target.path)
        if owner is None:
            if final:
                report_absent(module, target, name)
            continue
        if replace.is_ours(owner, name):
            target.met = True
            continue
        made = _made(target, found)
        if made is not found:
            replace.put(owner, name, made)


def find(module: Any, path: str) -> tuple[Any, str, Any]:
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


def _made(target: Target, found: Any) -> Any:
    """What takes the place of `found`: itself, if it is no function."""
    if found is None and target.module == "__main__":  # `step = None`, and later the function
        target.met = False
        return found
    target.met = True
    if not callable(found) and not isinstance(found, (staticmethod, classmethod)):
        what = "property" if isinstance(found, property) else type(found).__name__
        article = "an" if what[0].lower() in "aeiou" else "a"
        say(f"{target.text}: {target.path} is no function (it is {article} {what})")
        return found
    if target.traces:
        made = function_of(found, f"{target.text}: it", **target.options)
        note_target(made, target.text)
        return made
    return routed(target, found)


def report_absent(module: Any, target: Target, name: str) -> None:
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
