"""if on a traced tensor: a `prim::If` with both sides, or a check of the condition.

An `if` is staged if both sides are pure, and if a graph can join what they leave. Else the graph checks the
condition, and has the side alone that the call takes.

    if x.sum() > 0:        staged: a prim::If with mul and neg
        y = x * 2
    else:
        y = -x

    if acc > best:         checked: the call's side is part of the trace, the other one does not run
        torch.save(net)

1. The side that is taken runs first, for real. Before its first instruction that is not pure, the `if` stops to be
   staged (`bindings/src/observe/sides.h`).
2. The other side runs on fake tensors. An instruction that is not pure is rejected.
3. What the sides leave is joined (`join.py`).

Where the condition can't be checked, the other side comes first: what can't be staged is unsupported, and nothing has
run. This is so in a loop's body, in a trace without values, and behind a change that no failed check could undo.

An exception that the side not taken raises becomes part of the graph: raised when that side is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch

from ..._errors import Error, ImpureSide, ValueReadError
from ..._traced.fake_tensors import needs_data
from ..._traced.shown_calls import (
    forget_shown,
    forget_unknown_texts,
    under_way,
    unknown_text_at,
    unknown_texts,
)
from ..._tracehost import (
    BlockState,
    Branches,
    abandoned,
    abandons,
    can_be_checked,
    forgive_rejection,
    has_unknown_sizes,
    numbers_taken,
    observed,
    put_numbers_again,
    repeat_rejection,
    sizes_now,
    traces_reads,
    unobserved,
    without_data,
)
from ..conversion.undefined import ld
from .containers import Containers, Grows, reject_change
from .containers import bodies as loop_bodies
from .identity import blocks, shared
from .join import ELSE, THEN, Join, Outcome, State, Thunk, TypesDiffer, extend, number
from .state import as_number, as_tensor, is_own, kind, take_apart
from .stores import BlockStores
from .where import (
    check_not_caught,
    described,
    is_interrupt,
    is_plain_error,
    is_suppressed,
    line,
    raised_by_statement,
    reject,
    reject_if_caught,
)

NO_REST = -1


def stage(
    cond: torch.Tensor,
    bodies: tuple[Thunk, Thunk],
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: tuple[str, ...],
    what: str,
    sources: tuple[Thunk, ...] = (),
    rest: int = NO_REST,
    dead: tuple[str, ...] = (),
) -> None:
    """An if whose condition is traced. `sources`: the user's code, where `bodies` only call it.

    `rest`: the body that is no side to the user, but what follows a side that leaves. `dead`: of the names, those
    that nothing reads behind the if.
    """
    if can_be_checked(cond):
        bodies[THEN if cond else ELSE]()
        return
    unobserved(_stage, cond, bodies, get_state, set_state, names, what, sources, rest, dead)


def _stage(
    cond: torch.Tensor, bodies: Any, get: Any, put: Any, names: Any, what: str, *more: Any
) -> None:
    where = line()
    cond = as_tensor(cond)
    check_condition(cond, what, where)
    made = _If(cond, bodies, get, put, names, what, where, *more)
    blocks.run(made, made.run)


class _FakeSides(threading.local):
    """Sides that run on fake tensors now, one in the other."""

    under_way = 0
    left_out = 0  # of these, those that the graph can check in place of a join

    def __enter__(self) -> None:
        self.under_way += 1

    def __exit__(self, *_: Any) -> None:
        self.under_way -= 1


fake_sides = _FakeSides()


class _CannotStage(Exception):
    """The side that is not taken, or both together, can't be in the graph."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _If:
    """One if, whose sides are staged."""

    def __init__(
        self,
        cond: torch.Tensor,
        bodies: tuple[Thunk, Thunk],
        get_state: Callable[[], State],
        set_state: Callable[[State], None],
        names: tuple[str, ...],
        what: str,
        where: str,
        sources: tuple[Thunk, ...],
        rest: int,
        dead: tuple[str, ...],
    ) -> None:
        self.cond, self.bodies, self.names = cond, bodies, names
        self.what, self.where, self.rest, self.dead = what, where, rest, dead
        self.branches = Branches(cond, what, where)
        self.chosen = self.branches.condition  # None: not known
        self.checks = traces_reads() and self.branches.can_be_checked()
        self.start = BlockState(get_state, set_state)
        self.before = self.start.before
        self.get_state, self.set_state = self.start.get, self.start.set
        self.shared = shared(self.before)
        self.containers = Containers(*(sources or bodies))
        self.outcomes: dict[int, Outcome] = {}
        self.began = self.ended = False  # the body of the side that is taken
        self.stored: BlockStores | None = None  # by that one

    def run(self) -> None:
        first = THEN if self.chosen is None or self.chosen is self.checks else ELSE
        try:
            for side in (first, 1 - first):
                real = self.chosen is (side == THEN)
                if not (self._take(side) if real else self._try(side)):
                    return
            self._join()
        except Exception as error:
            if without_data() or self.began != self.ended or not abandons() or is_interrupt(error):
                raise
            self._end_as_python()

    def held(self) -> Iterator[Sequence[Any]]:
        yield self.before
        yield from self.containers.held()
        for outcome in self.outcomes.values():
            yield outcome.state
            yield from (parts.containers for parts in outcome.parts)

    def _end_as_python(self) -> None:
        """The if is unsupported, and the body continues without a trace."""
        if not self.began:
            self.set_state(self.before)
            self.containers.restore()
            observed(self.bodies[THEN if self.chosen else ELSE])
            return
        taken = self.outcomes.get(THEN if self.chosen else ELSE)
        if taken is not None:
            self.set_state(taken.state[: len(self.names)])  # without what a join has added
        if self.stored is not None:
            self.stored.set_again()

    # -- the side that is taken

    def _take(self, side: int) -> bool:
        """Runs for real. False: there is no If, and it has run."""
        self.set_state(_knowing(self.before, self.names, self.cond, side))
        stores = BlockStores()
        try:
            outcome = self._run(side, stores)
        except RecursionError:
            stores.drop(restore=False)
            if self.branches.taken:
                raise
            reject_endless(self.what, self.where)
        except Exception:
            stores.drop(restore=False)
            raise
        if self.branches.taken:
            stores.drop(restore=False)
            return False
        self.outcomes[side] = outcome
        self.set_state(self.before)
        stores.end(real=True)
        self.stored = stores
        changed = [] if loop_bodies.under_way else self.containers.changed()
        if self.checks and (changed or not stores.can_be_joined()):
            self._check(side)
            return False
        if not stores.can_be_joined():
            _reject_store(stores, self.what, self.where)
        self._check_lists()
        return True

    def _reject_impure(self, impure: ImpureSide) -> NoReturn:
        """Unless a side or loop around this one can be left out in its place."""
        if fake_sides.under_way or loop_bodies.under_way:
            try:
                raise impure
            finally:
                del impure  # its traceback has this frame: a cycle would hold what the body dropped
        self.branches.reject(str(impure))
        raise AssertionError("unreachable")

    def _check(self, side: int) -> None:
        """Behind _take(): the graph checks the condition, and has this side alone."""
        outcome = self.outcomes[side]
        if not abandoned():
            forgive_rejection()
            self.branches.take()
        self.set_state(outcome.state[: len(self.names)])  # without what a join has added
        outcome.stores.set_again()

    # -- the side that is not taken, and both where no side is known

    def _try(self, side: int) -> bool:
        """Runs on fake tensors. False: there is no If, and the other side has run."""
        stores = BlockStores()
        try:
            self._run_fake(side, stores)
            return True
        except _CannotStage as failed:
            error = failed.error
        try:
            return self._without(side, error)  # no exception is the context of what this raises
        finally:
            del error  # its traceback has this frame: a cycle would hold what the body dropped

    def _run_fake(self, side: int, stores: BlockStores) -> None:
        texts, taken = unknown_texts(), numbers_taken()
        self.set_state(_knowing(self.before, self.names, self.cond, side))
        fake_sides.left_out += self.checks
        try:
            with fake_sides:
                outcome = self._run(side, stores)
            self._check_error(outcome.error)
        except BaseException as error:
            self.set_state(self.before)
            stores.drop()
            self._restore(taken)
            forget_unknown_texts(texts)
            if is_interrupt(error):
                raise
            raise _CannotStage(error) from None
        finally:
            fake_sides.left_out -= self.checks
        self.outcomes[side] = outcome
        self.set_state(self.before)
        stores.end(real=False)
        if self.checks and (not stores.can_be_joined() or self.containers.has_changed()):
            self._restore(taken)
            raise _CannotStage(ImpureSide("changes what no graph joins"))
        if not stores.can_be_joined():
            _reject_store(stores, self.what, self.where)
        self._check_lists()

    def _check_error(self, error: Exception | None) -> None:
        """An exception that no graph can make again is the body's own, where a check costs nothing."""
        if error is None or not self.checks:
            return
        if is_suppressed() or (self.branches.comes_first and not is_plain_error(error)):
            raise ImpureSide(f"raises {type(error).__name__} at {line()}")

    def _restore(self, taken: int) -> None:
        """Containers and objects of the body's own are as they were before."""
        changed = [] if loop_bodies.under_way else self.containers.changed()
        for snapshot in changed:
            if not snapshot.can_be_restored():
                reject_change(snapshot, f"a branch of the {self.what}")
        for snapshot in changed:
            snapshot.restore()
        put_numbers_again(taken)

    def _without(self, side: int, error: BaseException) -> bool:
        """The side can't be staged. Where its condition can be checked, it is no part of the graph."""
        if self.checks:
            self._check(1 - side)
            return False
        if isinstance(error, RecursionError):
            reject_endless(self.what, self.where)
        try:
            if isinstance(error, ImpureSide):
                self._reject_impure(error)
            raise error
        finally:
            del error  # as in _try()

    # -- both

    def _check_lists(self) -> None:
        grows = self.containers.growing() if loop_bodies.under_way else None
        if grows is not None:
            try:
                raise grows  # in a loop: it can make a list of the graph of it
            finally:
                grows = None  # as `impure`
        self.containers.check(f"a branch of the {self.what}")

    def _run(self, side: int, stores: BlockStores) -> Outcome:
        outcome = Outcome(stores)
        real = self.chosen is (side == THEN)
        shown, texts = len(under_way()), unknown_texts()

        def run() -> list[torch.Tensor]:
            self.began |= real
            try:
                observed(self.bodies[side])
            except (Error, Grows, RecursionError):
                raise
            except Exception as error:
                if not real and not is_interrupt(error):  # numbers have their texts in the block
                    outcome.described = described(error)
                raise
            self.ended = real
            if self.branches.taken:
                return []
            outcome.state = self.get_state()
            outcome.parts = [*map(take_apart, outcome.state), *stores.take()]
            return [tensor for parts in outcome.parts for tensor in parts.tensors()]

        try:
            held = self.containers.reached
            first = self.branches.run_side(side, run, self.checks, self.rest == side, held)
            if self.branches.impure and not real:  # the side has caught it
                raise ImpureSide(self.branches.impure)
        except (Error, Grows, RecursionError):
            forget_shown(shown)
            raise
        except Exception as error:
            forget_shown(shown)
            if is_interrupt(error):
                raise
            if real and not self.branches.taken and not abandoned():
                if self.checks:  # the body may catch it: then the trace goes on with this side
                    self.branches.take()
                else:
                    reject_if_caught(error, f"a branch at {line()}")
            if real:
                raise
            if _wants_data(error):
                raise
            if is_of_a_text(error):
                raise ImpureSide(f"gives the text of a number to C code at {line()}") from None
            if self.checks and (depends_on_values(error) or is_suppressed()):
                raise ImpureSide(f"raises {type(error).__name__} at {line()}") from None
            check_runs_without_data(error)
            check_not_caught(error, f"a branch at {line()}")
            outcome.error = error
            forget_unknown_texts(texts)
            self.branches.raise_(side, *(outcome.described or described(error)))
            return outcome
        if not self.branches.taken:
            number(outcome.parts, first)
        if not real and unknown_texts() > texts:
            raise ImpureSide(f"makes the text of a number at {unknown_text_at()}")
        return outcome

    def _join(self) -> None:
        then, other = self.outcomes[THEN], self.outcomes[ELSE]
        if then.error is not None and other.error is not None:
            raise then.error
        actual = other if self.chosen is False or then.error is not None else then
        count = len(self.names)
        stored = extend(self.branches, count, self.outcomes)
        names = self.names + tuple(store.path for store in stored)
        lazy = self.dead if self.checks else names
        strict = self.checks or fake_sides.left_out > 0
        how = lazy, self.dead, strict, self.before, self.containers.knows, self.shared
        join = Join(self.branches, names, self.where, self.what, *how)
        try:
            joined = join.states(then, other, actual)
        except TypesDiffer as error:
            if self.checks:
                self._check(THEN if actual is then else ELSE)
                return
            raise ImpureSide(str(error)) from None
        except Exception as error:
            if is_interrupt(error):
                raise
            if self.checks:
                self._check(THEN if actual is then else ELSE)
                return
            if without_data() or not abandons():
                raise
            joined = actual.state  # unsupported: as if there were no trace
        self.start.read()
        self.set_state(joined[:count])
        for store, value in zip(stored, joined[count:]):
            store.set(ld(value))


def checked(cond: torch.Tensor) -> int:
    """The branch that is taken; the graph checks that it is."""
    if abandoned():
        return THEN if cond else ELSE
    return THEN if bool(as_number(cond.reshape(()))) else ELSE


def _reject_store(stores: BlockStores, what: str, where: str) -> NoReturn:
    reject(
        f"a branch of the {what} at {where} stores {stores.first()}, in code that it calls, and a graph does not "
        "know whether that branch is taken. Return the value and store it behind the block, or choose by a Python "
        "value."
    )


def reject_endless(what: str, where: str) -> NoReturn:
    reject(
        f"the function calls itself without end in the {what} at {where}: its condition is a tensor, so both "
        "branches are in the graph. Write the recursion as a loop, or recur on a Python value."
    )


def check_condition(cond: torch.Tensor, what: str, where: str) -> None:
    if math.prod(sizes_now(cond)) != 1:
        reject(
            f"the condition of the {what} at {where} is {kind(cond)}: it must be one value. Write "
            ".any() or .all(), or torch.where for a choice by element."
        )


def _knowing(state: State, names: tuple[str, ...], cond: torch.Tensor, branch: int) -> State:
    """In a branch of `if flag` or `if not flag`, the generated flag is known."""
    negated = cond.__dict__.get("_tracehost_not")
    flag, then = (cond, True) if negated is None else (negated, False)
    value = then if branch == THEN else not then
    return tuple(value if is_own(n) and v is flag else v for n, v in zip(names, state))


def _wants_data(error: Exception) -> bool:
    """Whether a branch failed as it has no data, in a trace that may check the condition instead."""
    if abandoned() or not traces_reads():
        return False
    return type(error) is ValueReadError or depends_on_values(error) or has_read_a_value()


def has_read_a_value() -> bool:
    """Whether the body needed a value that is not there: torch's argument parser replaces that error."""
    try:
        repeat_rejection()
    except ValueReadError:
        return True
    except Error:
        pass
    return False


def is_of_a_text(error: Exception) -> bool:
    """Whether C code can't read the text of a number, which has none in a side that does not run."""
    return not raised_by_statement(error) and "<traced " in str(error)


def depends_on_values(error: Exception) -> bool:
    """Whether what is run without data fails as a shape depends on values."""
    return needs_data(error) is not None or _may_be_of_its_sizes(error)


def _may_be_of_its_sizes(error: Exception) -> bool:
    """Whether C code has raised it, and may have done so for a size that a later call has otherwise."""
    return has_unknown_sizes() and not raised_by_statement(error)


def check_runs_without_data(error: Exception) -> None:
    """What an op says that needs values is no exception of the user's program."""
    what = needs_data(error)
    if what is not None:
        reject(
            f"{what} at {line()} gives results whose shape depends on values, in a branch or loop that is "
            "staged without running it. Use torch.where or masks that keep the shape, or move it out of the "
            "block."
        )
    if _may_be_of_its_sizes(error):
        reject(
            f"{type(error).__name__} ({error}) at {line()} may be raised for a size that depends on values, in a "
            "branch or loop that is staged without running it. Use torch.where or masks that keep the shape, or "
            "move it out of the block."
        )
