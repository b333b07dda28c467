"""Tapes learn here which kernels the program gives ATen's ops by torch.library.

torch.library keeps all registrations in one set, as `aten/mul.Tensor/CPU`. The set's class is ours from
the import on: each change of it is noted, with the GIL held, so that no tape has to look.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch.library

from .. import _tracehost

_OF_THE_CPU = frozenset(
    {
        "CPU",
        "Autograd",
        "AutogradCPU",
        "ADInplaceOrView",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
    }
)


class _Registrations(set[str]):
    def add(self, registration: str) -> None:
        super().add(registration)
        self.note()

    def __isub__(self, others: AbstractSet[Any]) -> _Registrations:
        self.difference_update(others)
        self.note()
        return self

    def note(self) -> None:
        keys = [one.rpartition("/")[2] for one in self if one.startswith("aten/")]
        _tracehost.note_kernels(any(key in _OF_THE_CPU for key in keys))


def _watch() -> None:
    registered = getattr(torch.library, "_impls", None)
    if type(registered) is set:  # else a torch that keeps no such set
        noted = _Registrations(registered)
        torch.library._impls = noted
        noted.note()


_watch()
