"""The text of a RetraceWarning: what happened and its cost, a `why` line for each cause, and for each a `fix` line that
was tried on the recorded calls, else a `see` line. `or` begins a fix in place of the one above it.

    5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
      why   argument 'lr' took 5 values (0.1, 0.2, 0.3, 0.4, 0.5), from train.py:40
      fix   pass torch.tensor(lr) for 'lr': a tensor's value is not part of the signature   would save 4 of 5 traces
"""

from __future__ import annotations

from typing import Any

from .advice import advice
from .causes import Cause, causes_of, counted, key, quoted, sentence
from .changes import root
from .choice import Choice
from .records import Account, account, place
from .remedies import Remedies, option, power_of_two

MOST_CAUSES = 3  # of a warning
MOST_IN_SUMMARY = 6
_MOST_SITES = 1024

as_errors = False  # --retrace-warn error: a cause that no warning has named is an error, too

# By definition: the causes that its warnings have named.
_named: dict[object, set[tuple[object, ...]]] = {}


def reset() -> None:
    _named.clear()


def has_warned(known: Account) -> bool:
    return (known.definition or known.name) in _named


def worded(due: dict[str, Any]) -> tuple[str, bool] | None:
    """The text of a warning that is due, and whether it is shown. None: there is nothing to say.

    Args:
        due: host/report/warning.h, as a dict.
    """
    known = account(due["account"], 0 if due["kind"] == "eviction" else due["traces"])
    site = known.definition or known.name
    named = _named.setdefault(site, set())
    if len(_named) > _MOST_SITES:
        del _named[next(iter(_named))]
    skipped = set() if due["kind"] == "first" else set(named)
    try:
        details = causes_and_fixes(known, skipped)
    except Exception as error:  # a warning's text ends no call
        details = f"\n  see   tracehost.events(): the causes can't be said: {type(error).__name__}: {error}"
    named.update(map(key, causes_of(known.window)))
    if due["kind"] == "eviction":
        return _eviction(known, due["evicted"]) + details + _limit(known), True
    if due["kind"] == "news" and not details:
        return None
    shown = due["kind"] != "news" or as_errors
    head = (
        f"{due['traces']} out of the last {due['calls']} calls to {known.name} ({known.place}) "
        f"triggered retracing: {duration(known.ms)} so far"
    )
    if details or due["kind"] == "first":
        return f"{head}.{details}", shown
    first = place(due["first_call"])
    where = f" at {first.text}" if first else ""
    return f"{head}. The first warning{where} has the causes and fixes.", shown


def causes_and_fixes(
    known: Account, named: set[tuple[object, ...]], most: int = MOST_CAUSES
) -> str:
    """All but the first line of a warning, each line behind a newline. `named`: causes that are left out."""
    found = causes_of(known.window)
    remedies = Remedies(found, known)
    said = [cause for cause in found if key(cause) not in named]
    shown = said[:most]
    lines = []
    for cause in shown:
        lines.append(f"  why   {sentence(cause, known)}{_unread(cause, remedies)}")
        lines += [f"  why   {one}" for one in remedies.specialized(cause)]
    if len(shown) < len(said):
        lines.append(f"        and {counted(len(said) - len(shown), 'more cause')}")
    wanted = {found.index(cause) for cause in shown}
    answered: set[int] = set()
    reduces = False
    for fix in Choice(found, remedies.found(), known).shown():
        if wanted.intersection(fix.remedy.covers):
            word = "or " if reduces and fix.remedy.kind == "declare" else "fix"
            lines.append(f"  {word}   {fix.remedy.text}   {fix.claim}")
            reduces |= fix.remedy.kind == "reduce"
            answered.update(fix.remedy.covers)
    lines += [f"  see   {advice(found[index], known)}" for index in sorted(wanted - answered)]
    return "".join(f"\n{line}" for line in lines)


def _unread(cause: Cause, remedies: Remedies) -> str:
    return f"; the body never reads {quoted(root(cause.path))}" if remedies.is_unread(cause) else ""


def _eviction(known: Account, evicted: str) -> str:
    shown = evicted if len(evicted) <= 100 else evicted[:97] + "..."
    return (
        f"{known.name} ({known.place}) has had more signatures than limit={known.limit} keeps, "
        f"{duration(known.ms)} of traces so far: {shown} was evicted."
    )


def _limit(known: Account) -> str:
    text = option(known, "limit", str(power_of_two(known.limit + 1)))
    return f"\n  see   {text}, if all of them are called again"


def duration(ms: float) -> str:
    """`41 ms`, `0.4 ms`, `12.3 s`"""
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"
