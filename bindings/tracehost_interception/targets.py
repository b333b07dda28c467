"""`net:Net.forward,reduce_retracing,limit=8` and `torch.compile` as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .messages import did_you_mean


class Trouble(Exception):
    """What was typed can't be meant: a sentence."""


@dataclass
class Target:
    text: str  # as typed, with the option: `--trace net:forward`
    module: str
    path: str
    traces: bool  # --trace; else it is a decorator
    options: dict[str, Any] = field(default_factory=dict)  # of tracehost.function
    met: bool = False  # it was found, or a message said why not

    @property
    def root(self) -> str:
        return self.path.partition(".")[0]


_TORCH = {
    "torch.compile": "compile",
    "torch.jit.trace": "jit.trace",
    "torch.jit.script": "jit.script",
}


def read(text: str, traces: bool) -> list[Target]:
    """Targets, separated by semicolons or lines. Raises Trouble."""
    one = _trace if traces else _decorator
    parts = [part.strip() for part in text.replace("\n", ";").split(";")]
    return [one(part) for part in parts if part]


def _trace(text: str) -> Target:
    name, *options = (part.strip() for part in text.split(","))
    module, path = _place(
        name, f"--trace {name}", "MODULE:FUNCTION, such as net:Net.forward or __main__:step"
    )
    if module.partition(".")[0] == "torch":
        raise Trouble(f"--trace {name}: that is PyTorch's own; name the function that calls it")
    return Target(f"--trace {name}", module, path, True, dict(_option(o, name) for o in options))


def _decorator(text: str) -> Target:
    shown = f"--intercept {text}"
    module, colon, path = text.partition(":")
    dotted = f"{module}.{path}" if colon else text
    if dotted in _TORCH:
        return Target(f"--intercept {dotted}", "torch", _TORCH[dotted], False)
    if not colon:
        hint = did_you_mean(text, _TORCH) or f"; write PACKAGE:NAME, or {', '.join(_TORCH)}"
        raise Trouble(f"{shown}: there is no such decorator{hint}")
    module, path = _place(text, shown, "PACKAGE:NAME, such as numba:njit")
    return Target(shown, module, path, False)


def _place(text: str, shown: str, form: str) -> tuple[str, str]:
    module, colon, path = text.partition(":")
    if module.endswith(".py"):
        name = module.rpartition("/")[2][:-3]
        raise Trouble(
            f"{shown}: name the module, not the file: {name}:{path}, or __main__:{path} for the program itself"
        )
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise Trouble(f"{shown}: write {form}")
    return module, path


_FLAGS = dict.fromkeys(("true", "on", "yes", "1"), True)
_FLAGS |= dict.fromkeys(("false", "off", "no", "0"), False)


def _flag(text: str) -> bool:
    return _FLAGS[text.lower()]


def _validate(text: str) -> str | int:
    return text if text in ("off", "first") else _count(text)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _reads(text: str) -> str:
    return {name: name for name in ("trace", "error")}[text]


def _optimize(text: str) -> str:
    return {name: name for name in ("exact", "off")}[text]


# Those of tracehost.function that are plain, with what they take.
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "reduce_retracing": (_flag, "true or false"),
    "autograph": (_flag, "true or false"),
    "watch": (_flag, "true or false"),
    "limit": (_count, "a whole number from 1 on"),
    "validate": (_validate, "off, first or a whole number from 1 on"),
    "value_reads": (_reads, "trace or error"),
    "optimize": (_optimize, "exact or off"),
    "name": (str, "a name"),
}


def _option(text: str, target: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if name not in _OPTIONS:
        hint = did_you_mean(name, _OPTIONS) or f"; there are {', '.join(_OPTIONS)}"
        raise Trouble(
            f"--trace {target}: tracehost.function has no option '{name}' that can be given here{hint}"
        )
    convert, takes = _OPTIONS[name]
    try:
        return name, convert(value if equals or convert is not _flag else "true")
    except (KeyError, ValueError):
        raise Trouble(f"--trace {target}: {name} takes {takes}, got '{value}'") from None
