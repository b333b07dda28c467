"""`tracehost run --frozen`: a call may trace what the lock has, and nothing else.

Each trace of a call asks Gate.check() before it begins (bindings/src/call/gate.h); hits ask nothing. Traces come as they
would without a lock: none is made ahead, since only a call has the objects that a signature names.

A Function object may trace a signature as often as the lock says. A signature of the lock with dynamic dimensions has
room for others: `reduce_retracing` traces the first size as it is, and each later trace makes a dimension dynamic.
With d dynamic dimensions these are at most d + 1 traces.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable

from . import DEFAULT, Lock, LockError, Signatures, at_commas, name_of, read, stable

_MOST_LINES = 20
_TENSOR = re.compile(r"\[((?:\d+|None)(?:, (?:\d+|None))*)\]")
_ARGUMENT = re.compile(r"(?P<name>\w+)(?=: |=)")
_MODES = re.compile(
    r"(?P<arguments>\(.*?(?:\)|\.\.\.))"
    r"(?: with (?P<modes>(?:inference|grad|autocast|dispatch|default|deterministic) .*))?"
)


def path_of(value: str) -> str:
    """The file that a value of TRACEHOST_FROZEN names."""
    return os.path.abspath(DEFAULT if value in ("-", "1", "true") else os.path.expanduser(value))


def close(value: str) -> Callable[..., str | None]:
    """The check() by which the lock decides what calls may trace, in this process and its children.

    Raises:
        ValueError: the file cannot be read, or is no lock.
    """
    global _gate
    path = path_of(value)
    try:
        _gate = Gate(os.path.basename(path), read(path))
    except OSError as error:
        raise ValueError(
            f"TRACEHOST_FROZEN: cannot open '{path}': {error.strerror}; write it with 'tracehost lock SCRIPT'"
        ) from None
    except LockError as error:
        raise ValueError(f"TRACEHOST_FROZEN: {error}") from None
    os.environ["TRACEHOST_FROZEN"] = path  # children may be in another folder
    os.register_at_fork(after_in_child=_gate.forget)
    return _gate.check


def is_closed() -> bool:
    return _gate is not None


def forbidden() -> list[str]:
    """The messages of calls that may not trace, each once."""
    return list(_gate.forbidden) if _gate else []


def listed(found: list[str]) -> str:
    """`tracehost: 2 calls are not locked (--frozen)` and a line for each."""
    calls = "1 call is" if len(found) == 1 else f"{len(found)} calls are"
    rest = [f"and {len(found) - _MOST_LINES} more"] if len(found) > _MOST_LINES else []
    lines = [f"tracehost: {calls} not locked (--frozen)", *found[:_MOST_LINES], *rest]
    return "\n".join(lines) + "\n"


def shown_as_traceback(message: str) -> bool:
    """Whether the program has ended by this error."""
    error = getattr(sys, "last_value", None)
    return type(error).__name__ == "TraceError" and str(error) == message


class Gate:
    """A lock, and what was traced of it. Safe from any thread."""

    def __init__(self, file: str, lock: Lock) -> None:
        self._file, self._lock = file, lock
        self.forbidden: dict[str, None] = {}
        self.forget()

    def forget(self) -> None:
        """In a child of a fork: its Functions have the parent's graphs, and count their own traces."""
        self._guard = threading.Lock()
        self._traced: Counter[tuple[int, str]] = Counter()
        self._widened: Counter[tuple[int, str]] = Counter()

    def check(
        self,
        object: int,
        qualified: str,
        name: str,
        file: str,
        function: str,
        call: str,
        lock: str,
        differs: Callable[[], str],
    ) -> str | None:
        """Count a trace that is to begin; a text says why it may not.

        Args:
            object: the Function object's number. qualified, name, file: see name_of().
            function: for messages, `step (train.py:6)`. call: the line of the call.
            lock: the call's signature.
            differs: what differs from the nearest graph.
        """
        signature = stable(lock)
        known = self._lock.get(name_of(qualified, name, file), {})
        with self._guard:
            if self._takes(object, known, signature):
                return None
        if not known:
            why = f"{function} is not in {self._file}"
            fix = "Run 'tracehost lock --update' to add it."
        elif signature in known:
            allowed = known[signature]
            why = (
                f"{function} is traced again for {signature}, and the lock allows {_times(allowed)}"
            )
            more = differs()
            why += f": {more}" if more else ""
            fix = "Keep it the same, or run 'tracehost lock --update' to allow one more."
        elif wider := [w for w in known if _dynamic_dimensions(w, signature)]:
            why = (
                f"{function} is traced for {signature}, where the lock has one trace for {wider[0]}"
            )
            more = differs()
            why += f": {more}" if more else ""
            fix = f"Keep these sizes dynamic, or run 'tracehost lock' to write {self._file} again."
        else:
            why = f"{function} is not locked for this call: {_difference(signature, known)}"
            fix = f"Pass what is locked, or run 'tracehost lock' to write {self._file} again."
        message = f"{call}: {why}. {fix}"
        self.forbidden[message] = None
        return message

    def _takes(self, object: int, known: Signatures, signature: str) -> bool:
        if self._traced[object, signature] < known.get(signature, 0):
            self._traced[object, signature] += 1
            return True
        for wider, traces in known.items():
            dynamic = _dynamic_dimensions(wider, signature)
            if dynamic and self._widened[object, wider] < (dynamic + 1) * traces:
                self._widened[object, wider] += 1
                return True
        return False


def _dynamic_dimensions(wider: str, signature: str) -> int:
    """How many `wider` has, if it is the signature but for sizes that are dynamic there; else 0."""
    if "None" not in wider or wider == signature:
        return 0
    pattern, end, count = "", 0, 0
    for tensor in _TENSOR.finditer(wider):
        sizes = tensor[1].split(", ")
        count += sizes.count("None")
        pattern += re.escape(wider[end : tensor.start()])
        pattern += r"\[" + ", ".join(r"(?:\d+|None)" if s == "None" else s for s in sizes) + r"\]"
        end = tensor.end()
    return count if re.fullmatch(pattern + re.escape(wider[end:]), signature) else 0


def _difference(signature: str, known: Signatures) -> str:
    """`x: float32[8, 4] is not locked, the lock has float32[8, 3]`, by the nearest signatures."""
    here = _parts(signature)
    by_names: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for other in known:
        there = _parts(other)
        names = tuple(name for name in here | there if here.get(name) != there.get(name))
        by_names.setdefault(names, []).append(there)
    names = min(by_names, key=len)
    texts = []
    for name in names:
        has = list(dict.fromkeys(_value(there, name) for there in by_names[names]))
        if len(has) > 3:
            has[3:] = [f"{len(has) - 3} more"]
        had = " or ".join(filter(None, (", ".join(has[:-1]), has[-1])))
        texts.append(f"{_shown(name, here)} is not locked, the lock has {had}")
    return "; ".join(texts[:3]) if texts else f"{signature} is not locked"


def _shown(name: str, here: dict[str, str]) -> str:
    return name + here.get(name, " without a value")


def _value(there: dict[str, str], name: str) -> str:
    return there.get(name, "none").removeprefix(": ").removeprefix("=")


def _parts(signature: str) -> dict[str, str]:
    """The arguments, `: float32[8]` or `=2` by name, and the modes by the name ''."""
    found = _MODES.fullmatch(signature)
    arguments, modes = (found["arguments"], found["modes"]) if found else (signature, None)
    result: dict[str, str] = {"": modes or "the usual modes"}
    name = ""
    for part in at_commas(arguments[1:-1], ", "):
        argument = _ARGUMENT.match(part)
        if argument:
            name = argument["name"]
            result[name] = part[argument.end() :]
        elif name:  # `float32[8], requires_grad`
            result[name] += f", {part}"
    return result


def _times(count: int) -> str:
    return "1 trace" if count == 1 else f"{count} traces"


_gate: Gate | None = None
