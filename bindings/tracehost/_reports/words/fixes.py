"""The fixes of all Functions as data, for `tracehost fix`, which writes them into the source.

Each definition is a dict: `name`, `file`, `line`, `place` ("train.py:12") and `fixes`, a list of dicts:

    text, saves, counted, together    as a warning says it
    options       of the decorator: {"reduce_retracing": "True"}
    passes        expressions by the path of the argument that they contain: {"lr": "torch.tensor(lr)"}
    begins        the first line of the body: "k = int(k)"
    calls         the file and line of each recorded call

`options` and `passes` are empty where a fix changes anything else, or the results.
"""

from __future__ import annotations

import json
from typing import Any

from ... import _tracehost
from .causes import causes_of
from .choice import Choice, Fix
from .records import Account, account
from .remedies import Remedies


def all_fixes() -> str:
    """As JSON."""
    known = [account(row["account"]) for row in _tracehost.rows(2)]
    made = [of_account(one) for one in known if one.definition]
    return json.dumps([one for one in made if one["fixes"]])


def of_account(known: Account) -> dict[str, Any]:
    place = known.definition
    assert place is not None
    calls = {(one.call.file, one.call.line) for one in known.records if one.call}
    fixes = [_fix(one, sorted(calls)) for one in _compatible(known)]
    return {
        "name": known.name,
        "file": place.file,
        "line": place.line,
        "place": place.text,
        "fixes": fixes,
    }


def _compatible(known: Account) -> list[Fix]:
    """A declared signature is shown where it saves most. It replaces reduce_retracing and what else it covers."""
    found = causes_of(known.window)
    shown = Choice(found, Remedies(found, known).found(), known).shown()
    declared = next((set(one.remedy.covers) for one in shown if one.remedy.kind == "declare"), None)
    if declared is None:
        return shown
    return [
        one
        for one in shown
        if one.remedy.kind == "declare"
        or not (one.remedy.kind == "reduce" or declared.issuperset(one.remedy.covers))
    ]


def _fix(fix: Fix, calls: list[tuple[str, int]]) -> dict[str, Any]:
    remedy = fix.remedy
    return {
        "text": remedy.text,
        "saves": fix.saves,
        "counted": fix.counted,
        "together": fix.together,
        "options": remedy.options,
        "passes": remedy.passes,
        "begins": remedy.begins,
        "calls": calls,
    }
