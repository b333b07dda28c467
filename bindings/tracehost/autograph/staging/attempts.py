"""A staged loop: its body is staged again and again, until all is known of what it carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..._errors import Error, ValueReadError
from ..._tracehost import (
    Loop,
    abandons,
    forgive_rejection,
    may_check,
    raise_error,
    traces_reads,
    without_data,
)
from .branches import check_runs_without_data, depends_on_values, has_read_a_value
from .carried import Carrying, Peel, Retry
from .containers import Grows, bodies, reject_change
from .join import State
from .lists import StagedList
from .state import poison, take_apart
from .stores import BlockStores
from .where import check_not_caught, described, reject, reject_if_caught

_ATTEMPTS = 8


# iterations, the first condition, iterations at most; of the first two one is None
Bounds = tuple[torch.Tensor | None, torch.Tensor | None, int]


class Unroll(Exception):
    """The body gives results whose shape depends on values: each condition is checked instead."""


class StagedLoop(Carrying):
    """One loop, over its attempts. `unrolls`: it may end with Unroll."""

    unrolls = False

    def run(self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]) -> bool:
        """False: the loop is unsupported, and the function continues without a trace. Python has to run it."""
        try:
            return self._run(bounds, iteration)
        except (Grows, Peel, Unroll):
            raise
        except Exception:
            if without_data() or not abandons():
                raise
            self.set_state(self.first)
            self.containers.restore()
            return False

    def _run(
        self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> bool:
        converted: list[tuple[Grows, Any]] = []  # with the list that was there
        for _ in range(self._attempts()):
            initial = self.prepare()
            varying = self.varying(initial)
            loop = Loop(*bounds, initial)

            def body(
                index: torch.Tensor, tensors: list[torch.Tensor], varying: Any = varying
            ) -> Any:
                self._inputs = tensors
                self.set_state(self._in_body(self.state(tensors)))
                try:
                    condition = iteration(index)
                except (Error, RecursionError, Grows, Retry, Peel, Unroll) as error:
                    if self.unrolls and type(error) is ValueReadError:
                        raise Unroll from None
                    raise
                except Exception as error:  # of an iteration that may not be
                    if self.unrolls and (depends_on_values(error) or has_read_a_value()):
                        raise Unroll from None
                    check_runs_without_data(error)
                    check_not_caught(error, f"the body of the {self.what} at {self.where}")
                    raise_error(*described(error))
                    return None, tensors
                return condition, self.next(self.get_state(), varying)

            grows, peel = None, False
            stores = BlockStores()
            try:
                with bodies:
                    loop.body(varying, body)
                grows = self.containers.growing()
                if grows is None:
                    self._check_used()
                    self.set_state(tuple(self.before))
                    stores.end(real=False)
                    if stores.found:
                        self.errors.store(stores)
                    self.containers.check(f"the body of a {self.what} over a tensor")
                    self.set_state(self._after(self.state(self._results(loop))))
                    return True
            except (Retry, Peel) as found:
                peel = type(found) is Peel
                grows = self.containers.growing()
            except Grows as found:  # of a loop or branch inside
                grows = found
            except Unroll:
                forgive_rejection()
                self.set_state(tuple(self.before))
                stores.drop()
                loop.discard()
                self._undo(converted)
                raise
            except Exception:
                if without_data() or not abandons():
                    raise
                self.set_state(self.first)
                for made, _ in converted:
                    made.cell.cell_contents = list(made.items)
                self.containers.restore()
                return False
            self.set_state(tuple(self.before))
            stores.drop()
            loop.discard()
            if grows is not None and without_data():
                raise grows  # the loop around needs it, too
            if grows is not None:
                converted.append((grows, grows.cell.cell_contents))
                grows.cell.cell_contents = StagedList(grows)
            elif peel:
                self.set_state(self.first)
                raise Peel
        reject(f"no dtype was found for the variables of the {self.what} at {self.where}")

    def _undo(self, converted: list[tuple[Grows, Any]]) -> None:
        """All is as it was before the first attempt."""
        self.set_state(self.first)
        for made, before in converted:
            made.cell.cell_contents = before
        for snapshot in self.containers.changed():
            if not snapshot.can_be_restored():
                reject_change(snapshot, f"the body of the {self.what}")
            snapshot.restore()

    def may_unroll(self) -> bool:
        return traces_reads() and may_check() and not without_data()

    def _attempts(self) -> int:
        """Each finds out about one variable at least."""
        return _ATTEMPTS + sum(len(take_apart(value).leaves) for value in self.before)

    def _check_used(self) -> None:
        """What only the body assigns has a value behind the loop if it surely has an iteration."""
        for v in self.local:
            if self.names[v] in self.used or "." in self.names[v] or "[" in self.names[v]:
                self._peel()

    def _results(self, loop: Loop) -> list[torch.Tensor]:
        try:
            return loop.finish()
        except Exception as error:
            reject_if_caught(error, f"the {self.what} at {self.where}")
            raise

    def _after(self, state: State) -> State:
        return tuple(
            poison(name, self.errors.only_inside(name)) if v in self.local else value
            for v, (name, value) in enumerate(zip(self.names, state))
        )
