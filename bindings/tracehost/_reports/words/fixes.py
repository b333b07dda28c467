"""The fixes of all Functions as data, for `tracehost fix`, which writes them into the source.

Each definition is a dict: `name`, `file`, `line`, `place` ("train.py:12"), `see`, where to look for each cause that a
warning named and no fix keeps from happening, and `fixes`, a list of dicts:

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
from .advice import advice
from .causes import Cause, causes_of
from .choice import Choice, Fix
from .records import Account, account
from .remedies import Remedies
from .warning import has_warned


def all_fixes() -> str:
    """As JSON."""
    known = [account(row["account"]) for row in _tracehost.rows(2)]
    made = [of_account(one) for one in known if one.definition]
    return json.dumps([one for one in made if one["fixes"] or one["see"]])


def of_account(known: Account) -> dict[str, Any]:
    place = known.definition
    assert place is not None
    calls = {(one.call.file, one.call.line) for one in known.records if one.call}
    found = causes_of(known.window)
    chosen = _compatible(known, found)
    answered = {index for one in chosen for index in one.remedy.covers}
    left = [cause for index, cause in enumerate(found) if index not in answered]
    return {
        "name": known.name,
        "file": place.file,
        "line": place.line,
        "place": place.text,
        "fixes": [_fix(one, sorted(calls)) for one in chosen],
        "see": [advice(cause, known) for cause in left] if has_warned(known) else [],
    }


def _compatible(known: Account, found: list[Cause]) -> list[Fix]:
    """A declared signature is shown where it saves most. It replaces reduce_retracing and what else it covers."""
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
