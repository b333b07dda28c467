"""Which fixes are shown, each with what it saves on the recorded calls.

Each fix is tried alone, and all are tried together: a batch's images and its labels may have to be padded both before
the first trace is saved. Changes to the calls are shown with reduce_retracing, or with padding where that does not
help. A declared signature is shown in place of padding where it saves more than each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .causes import Cause, counted
from .numbers import varies_as_number
from .records import Account
from .remedies import Remedy
from .replay import saved_by_declaring, saved_by_reducing


@dataclass(frozen=True)
class Fix:
    """A remedy that is shown."""

    remedy: Remedy
    saves: int
    counted: int  # traces
    together: bool = False  # it saves them with the other fixes alone

    @property
    def claim(self) -> str:
        """`would save 4 of 5 traces`"""
        others = "with the other fixes, " if self.together else ""
        return f"{others}would save {self.saves} of {counted(self.counted, 'trace')}"


class Choice:
    def __init__(self, causes: list[Cause], remedies: list[Remedy], account: Account) -> None:
        self._causes, self._account = causes, account
        self._plan = self._planned(remedies)
        self._alone = [self._saves([remedy]) for remedy in self._plan]
        effective = [one for one, saves in zip(self._plan, self._alone, strict=True) if saves]
        self._together = self._saves(self._plan)
        self._more_together = self._together > self._saves(effective)
        self._declared, self._declares = self._declarable(remedies)

    def shown(self) -> list[Fix]:
        """In order."""
        result: list[Fix] = []
        for remedy, saves in zip(self._plan, self._alone, strict=True):
            if self._declared and remedy.kind == "pad":
                continue
            if saves:
                result.append(Fix(remedy, saves, self._counted))
            elif self._more_together and not (self._declared and self._declares >= self._together):
                result.append(Fix(remedy, self._together, self._counted, together=True))
        if self._declared:
            after_reduce = bool(result) and result[0].remedy.kind == "reduce"
            result.insert(int(after_reduce), Fix(self._declared, self._declares, self._counted))
        return result

    def _planned(self, remedies: list[Remedy]) -> list[Remedy]:
        changes = [one for one in remedies if one.kind == "change"]
        reduce = [one for one in remedies if one.kind == "reduce"]
        reducing = [one for one in remedies if one.kind in ("reduce", "change")]
        saves = self._saves(changes)
        # It changes no results, so it goes before padding where it saves as much as the changes.
        if self._saves(reducing) > saves or (saves and reduce and self._saves(reduce) >= saves):
            return reducing
        return [one for one in remedies if one.kind in ("pad", "change")]

    def _declarable(self, remedies: list[Remedy]) -> tuple[Remedy | None, int]:
        """The declared signature, if it saves more than each of the others."""
        remedy = next((one for one in remedies if one.kind == "declare"), None)
        if remedy is None or remedy.declared is None:
            return None, 0
        saves = saved_by_declaring(self._account.records, self._counted, remedy.declared)
        others = [
            alone for one, alone in zip(self._plan, self._alone, strict=True) if one.kind != "pad"
        ]
        return (remedy, saves) if saves > max(others, default=0) else (None, 0)

    @property
    def _counted(self) -> int:
        return len(self._account.window)

    def _saves(self, remedies: list[Remedy]) -> int:
        covered = {index for remedy in remedies for index in remedy.covers}
        if any(remedy.kind == "reduce" for remedy in remedies):
            numbers = [self._causes[i] for i in covered if varies_as_number(self._causes[i])]
            tensors = frozenset(path for cause in numbers for path in cause.paths)
            return saved_by_reducing(self._account.records, self._counted, tensors)
        return saved(self._causes, covered, self._account)


def saved(causes: list[Cause], covered: set[int], account: Account) -> int:
    """How many traces of the window would have been hits with all causes in `covered` kept from happening: those that
    differ from their nearest graph in nothing else."""
    count = 0
    for number, record in enumerate(account.window):
        mine = [i for i, cause in enumerate(causes) if number in cause.traces]
        differing = [i for i in mine if causes[i].differs]
        served = any(
            causes[i].kind == "evicted" or record.seen
            for i in mine
            if not causes[i].differs and i in covered
        )
        count += served or (bool(differing) and record.complete and covered.issuperset(differing))
    return count
