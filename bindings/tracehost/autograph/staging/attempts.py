"""A staged loop: its body is staged again and again, until all is known of what it carries."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from ..._errors import Error, ImpureSide, StagingError, ValueReadError
from ..._traced.shown_calls import forget_unknown_texts, unknown_text_at, unknown_texts
from ..._tracehost import (
    Loop,
    Met,
    abandons,
    forgive_rejection,
    is_rejected,
    may_check,
    numbers_taken,
    observed,
    put_numbers_again,
    raise_error,
    tensor_attributes_set,
    traces_reads,
    unobserved,
    without_data,
)
from .branches import (
    check_runs_without_data,
    depends_on_values,
    fake_sides,
    has_read_a_value,
    is_of_a_text,
)
from .carried import Carrying, Peel, Retry
from .containers import Grows, bodies, reject_change
from .identity import blocks
from .join import State
from .lists import StagedList
from .state import poison, take_apart
from .stores import BlockStores
from .where import check_not_caught, described, is_interrupt, line, reject, reject_if_caught

_ATTEMPTS = 8


# iterations, the first condition, iterations at most; of the first two one is None
Bounds = tuple[torch.Tensor | None, torch.Tensor | None, int]


class Unroll(Exception):
    """The body does what a loop of the graph can't: its results have shapes that depend on values, it changes
    containers, it stores to objects, a side of an `if` in it is not pure.

    Python runs the loop, and the graph checks each condition.
    """


class ImpureBody(ImpureSide):
    """The same of a loop's body outside of such sides."""


def _impure(loop: Loop) -> ImpureSide:
    return (ImpureSide if loop.in_side else ImpureBody)(loop.impure)


class Outcome(enum.Enum):
    """How an attempt to stage a loop ended."""

    STAGED = enum.auto()
    PLAIN = enum.auto()  # the loop is unsupported, and the function continues without a trace
    UNROLL = enum.auto()  # Python runs the loop, and the graph checks each condition
    PEEL = enum.auto()  # the first iteration is to be run before the loop


class StagedLoop(Carrying):
    """One loop, over its attempts. `unrolls`: it may end with Unroll."""

    unrolls = False

    def run(
        self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> Outcome:
        """No exception is left that would be the context of an error in the code that runs next."""
        try:
            return Outcome.STAGED if self._attempted(bounds, iteration) else Outcome.PLAIN
        except Unroll:
            return Outcome.UNROLL
        except Peel:
            return Outcome.PEEL

    def _attempted(
        self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> bool:
        """False: the loop is unsupported, and the function continues without a trace. Python has to run it."""
        try:
            return bool(unobserved(blocks.run, self, self._run, bounds, iteration))
        except (Grows, Peel, Unroll):
            raise
        except Exception as error:
            if without_data() or not abandons() or is_interrupt(error):
                raise
            self.set_state(self.first)
            self.containers.restore()
            return False

    def _run(
        self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> bool:
        converted: list[tuple[Grows, Any]] = []  # with the list that was there
        taken, texts = numbers_taken(), unknown_texts()
        attributes = tensor_attributes_set()
        for _ in range(self._attempts()):
            initial = self.prepare()
            varying = self.varying(initial)
            loop = Loop(*bounds, initial)
            met = Met()

            def body(
                index: torch.Tensor, tensors: list[torch.Tensor], varying: Any = varying
            ) -> Any:
                self._inputs = tensors
                self.set_state(self._in_body(self.state(tensors)))
                try:
                    condition = observed(iteration, index)
                except (StagingError, ValueReadError):
                    if self.unrolls:
                        raise Unroll from None
                    raise
                except (Error, RecursionError, Grows, Retry, Peel, Unroll):
                    raise
                except Exception as error:  # of an iteration that may not be
                    if is_interrupt(error):
                        raise
                    gives_up = depends_on_values(error) or is_rejected() or has_read_a_value()
                    if self.unrolls and gives_up:
                        raise Unroll from None
                    if is_of_a_text(error):
                        raise ImpureBody(
                            f"gives the text of a number to C code at {line()}"
                        ) from None
                    check_runs_without_data(error)
                    check_not_caught(error, f"the body of the {self.what} at {self.where}")
                    forget_unknown_texts(texts)
                    raise_error(*described(error))
                    return None, tensors
                if tensor_attributes_set() > attributes:
                    raise ImpureBody("sets an attribute of a tensor")
                if unknown_texts() > texts:
                    raise ImpureBody(f"makes the text of a number at {unknown_text_at()}")
                if bodies.growing is not None:
                    raise bodies.growing
                if self.unrolls and is_rejected():
                    raise Unroll
                try:
                    return condition, self.next(self.get_state(), varying)
                except StagingError:
                    if self.unrolls and self.changes_kind:
                        raise Unroll from None
                    raise

            grows, peel = None, False
            ended: Unroll | ImpureSide | None = None
            stores = BlockStores()
            try:
                try:
                    with bodies:
                        loop.body(varying, body, self.containers.reached)
                except ValueReadError:
                    if self.unrolls:
                        raise Unroll from None
                    raise
                if loop.impure:  # the body has caught it
                    raise _impure(loop)
                grows = self.containers.growing()
                if grows is None:
                    self._check_used()
                    self.set_state(tuple(self.before))
                    stores.end(real=False)
                    if self.unrolls and (stores.found or self.containers.has_changed()):
                        raise Unroll
                    if stores.found:
                        self.errors.store(stores)
                    self.containers.check(f"the body of a {self.what} over a tensor")
                    self.set_state(self._after(self.state(self._results(loop))))
                    self.start.read()
                    return True
            except (Retry, Peel) as found:
                peel = type(found) is Peel
                grows = self.containers.growing()
            except Grows as found:  # of a loop or branch inside
                grows = found.with_traceback(None)  # which has this frame, and `converted`
            except (Unroll, ImpureSide) as found:
                ended = _impure(loop) if loop.impure else found
            except Exception as error:
                if without_data() or not abandons() or is_interrupt(error):
                    raise
                self.set_state(self.first)
                stores.drop()
                for made, _ in converted:
                    made.cell.cell_contents = list(made.items)
                self.containers.restore()
                return False
            if ended is not None:
                bodies.growing = None
            self.set_state(tuple(self.before))
            stores.drop()
            loop.discard()
            met.leave_out()
            forget_unknown_texts(texts)
            if ended is not None:
                try:
                    self._undo(converted, taken)
                    if isinstance(ended, ImpureSide) and not self.unrolls:
                        self._reject_impure(ended)
                finally:
                    ended = None  # its traceback has this frame: a cycle would hold what the body dropped
                forgive_rejection()
                raise Unroll
            if grows is not None and bodies.under_way:
                try:
                    raise grows  # the loop around needs it, too
                finally:
                    grows = None  # as `ended`
            bodies.growing = None
            self.containers.undo()  # the next attempt begins as this one did
            if grows is not None:
                converted.append((grows, grows.cell.cell_contents))
                grows.cell.cell_contents = StagedList(grows)
            elif peel:
                self.set_state(self.first)
                raise Peel
        if self.unrolls:
            forgive_rejection()
            self._undo(converted, taken)
            raise Unroll
        reject(f"no dtype was found for the variables of the {self.what} at {self.where}")

    def _reject_impure(self, impure: ImpureSide) -> NoReturn:
        """Unless a loop or side around this one can be left out in its place."""
        if bodies.under_way or fake_sides.under_way:
            try:
                raise impure
            finally:
                del impure  # as `ended` in _run()
        who = "the body of" if isinstance(impure, ImpureBody) else "a side of an if in"
        reject(
            f"{who} the {self.what} at {self.where} {impure}, and the loop is part of the graph, "
            "which can't do that. Do it behind the loop, or write the loop over Python values."
        )

    def _undo(self, converted: list[tuple[Grows, Any]], taken: int) -> None:
        """All is as it was before the first attempt. `taken`: numbers_taken() then."""
        self.set_state(self.first)
        for made, before in converted:
            made.cell.cell_contents = before
        if left := self.containers.undo():
            reject_change(left[0], f"the body of the {self.what}")
        put_numbers_again(taken)

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
                if self.unrolls and v in self.conditional:
                    raise Unroll

    def _results(self, loop: Loop) -> list[torch.Tensor]:
        try:
            return loop.finish()
        except Exception as error:
            reject_if_caught(error, f"the {self.what} at {self.where}")
            raise

    def _after(self, state: State) -> State:
        return tuple(
            poison(name, self.local[v]) if v in self.local else value
            for v, (name, value) in enumerate(zip(self.names, state))
        )
