"""What targets name in a module is found, and replaced."""

from __future__ import annotations

from typing import Any

from . import replace
from .decorators import routed
from .functions import traced
from .messages import did_you_mean, say
from .targets import Target


def replace_in(module: Any, targets: list[Target], final: bool = True) -> None:
    """Replace what the targets name. `final`: what is not there now will not come any more."""
    for target in targets:
        owner, name, found = find(module, target.path)
        if owner is None:
            if final:
                tell_absent(module, target, name)
            continue
        if replace.is_ours(owner, name):
            target.met = True
            continue
        made = _made(target, found)
        if made is None or made is found:
            continue
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
    if found is None and target.module == "__main__":  # `step = None`, and later the function
        target.met = False
        return None
    target.met = True
    if not callable(found) and not isinstance(found, (staticmethod, classmethod)):
        what = "a property" if isinstance(found, property) else f"{type(found).__name__}"
        say(f"{target.text}: {target.path} is no function (it is {_article(what)})")
        return None
    if target.traces:
        return traced(target, found)
    return routed(target, found)


def _article(what: str) -> str:
    if what.startswith("a "):
        return what
    return f"{'an' if what[:1].lower() in 'aeiou' else 'a'} {what}"


def tell_absent(module: Any, target: Target, name: str) -> None:
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
