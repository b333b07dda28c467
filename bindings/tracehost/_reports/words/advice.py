"""Where to look and what to think of, where no fix is known to help."""

from __future__ import annotations

import re

from .causes import Cause, quoted
from .changes import written
from .numbers import are_numbers
from .records import Account

# What has a graph of its own, each time that it changes, and what to do instead.
_OWN_GRAPHS = {
    "rank": ("number of dimensions", "reshape or unsqueeze it"),
    "structure": (
        "length or set of keys",
        "pass the same, or one stacked tensor with reduce_retracing=True",
    ),
    "value": ("value", "pass few, or apply tracehost.function once for each"),
    "type": ("type", "pass one"),
    "layout": ("layout that the body reads", "pass one, for example by contiguous()"),
}


def advice(cause: Cause, account: Account) -> str:
    """A `see` line."""
    if not cause.differs:
        return _of_event(cause, account)
    if cause.kind == "condition":
        return f"{cause.path}: a comparison of sizes; each of its outcomes needs a graph of its own"
    if cause.kind == "read" and ":" not in cause.where:  # read behind the body
        return f"the lists and dicts that {account.name} ({account.place}) fills or returns: keep tensors in them, not numbers"
    if cause.kind == "read":
        return (
            f"{cause.where}: Python needs the number itself there; keep the computation in tensors "
            "(an index of a tensor in place of a list, torch.where in place of if)"
        )
    path = quoted(cause.path)
    if cause.kind == "guard":
        return _of_guard(cause)
    if cause.kind == "object":
        return f"{path}{cause.place}: each object needs a graph of its own; pass the same one"
    if cause.kind == "capture":
        return f"{path}{cause.place}: keep its shape, dtype and device, and change its values by copy_()"
    if cause.kind == "type" and "None" in cause.values:
        return f"{path}{cause.place}: None and a tensor are two graphs; pass a tensor always, or make two Functions"
    if cause.kind in _OWN_GRAPHS:
        each, instead = _OWN_GRAPHS[cause.kind]
        return f"{path}{cause.place}: each {each} needs a graph of its own; {instead}"
    return f"what sets {path}{cause.place}"


def _of_event(cause: Cause, account: Account) -> str:
    if cause.kind == "again":
        return (
            f"{account.place}: apply the decorator once, above the loop; the calls differ in their "
            "arguments too"
        )
    if cause.kind == "once":
        return _of_once(cause.values[0])
    if cause.kind == "evicted":
        return "how many signatures are live, in tracehost.report()"
    if cause.kind == "unnamed":
        return f"the __eq__ of the arguments{cause.place}"
    if cause.kind == "cleared":
        return f"the calls of clear(); the calls{cause.place} differ in their arguments too"
    return f"the arguments{cause.place}: keep their objects alive between the calls"


def _of_once(reason: str) -> str:
    found = re.search(r" at (\S+:\d+)", reason)
    where = found[1] if found else "the cause above"
    if "calls print()" in reason:
        return (
            f"{where}: write tracehost.print() in place of print(); each run of the graph calls it"
        )
    return f"{where}: do that once before the first call, or outside of the function"


def _of_guard(cause: Cause) -> str:
    path = quoted(cause.path)
    if cause.path.endswith(".training") or ".training (" in cause.path:
        return f"what switches {path}: each mode needs a graph of its own; group the calls by mode"
    name, _, other = cause.path.partition(" is ")
    if other:
        return f"what sets {quoted(name)}: one tensor under two names needs a graph of its own; clone() it from the start"
    if written(cause.path):
        return f"what sets {path}: each value needs a graph of its own; set it once, before the first call"
    instead = "pass a tensor with that number" if are_numbers(cause.values) else "keep it as it is"
    return f"what changes {path}: each value needs a graph of its own; {instead}"
