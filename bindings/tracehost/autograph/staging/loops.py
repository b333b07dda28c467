"""while and for over traced tensors: a `prim::Loop` whose body is staged once, on fake tensors.

What the body assigns is carried from one iteration to the next: tensors, and Python numbers as 0-dim
tensors. A number's dtype is found by staging the body again where it turns out wider (`i = 0`, then
`i = i + 0.5`). A size that changes and a result that `return` gives in the loop are found likewise.

Where the first iteration differs from the others (`state = None` before it), it is run before the loop, if
the loop surely has one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from ..._tracehost import (
    _number_value,
    has_dynamic_sizes,
    may_check,
    traces_reads,
    without_data,
)
from .attempts import Outcome, StagedLoop
from .branches import check_condition, checked, stage
from .carried import GetState, SetState
from .conditions import truth_tensor
from .iterables import Staged, least, staged
from .join import THEN, Thunk
from .options import NO_OPTIONS, LoopOptions
from .state import as_tensor, is_tensor, is_traced, kind
from .where import line, reject, reject_here

MOST_PEELED = 3
_MOST_UNROLLED = 256


def _maximum(options: LoopOptions) -> Any:
    """An int, -1 for any number; or a 0-dim int64 tensor."""
    value = as_tensor(options.maximum_iterations)
    if value is None:
        return -1
    if is_tensor(value):
        fits = value.numel() == 1 and not value.dtype.is_floating_point
        if not fits or value.dtype.is_complex:
            reject(f"maximum_iterations at {line()} must be an integer, not {kind(value)}")
        return torch.clamp(value.reshape(()), min=0).to(torch.int64)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        reject(f"maximum_iterations at {line()} must be an int of at least 0, not {value!r}")
    return value


def staged_while(
    first: torch.Tensor,
    test: Thunk,
    body: Thunk,
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    options: LoopOptions,
    what: str,
    sources: tuple[Callable[..., Any], ...],
    used: tuple[str, ...] = (),
    peels: bool = False,
) -> bool:
    """A while. `first`: what test() has given, which is traced. False: one iteration has run before the loop.

    `sources`: the user's code, which `test` and `body` may only call. `used`: as for_stmt's. `peels`: it may
    return False.
    """
    first = as_tensor(first)
    check_condition(first, what, line())
    peels = peels and _may_ask(options)
    loop = StagedLoop(names, options, what, get_state, set_state, sources, used, peels)

    def iteration(_index: torch.Tensor) -> torch.Tensor | None:
        body()
        return truth_tensor(test(), what)

    maximum = _maximum(options)
    count, most = (maximum, -1) if is_tensor(maximum) else (None, maximum)
    loop.unrolls = what == "while" and most < 0 and count is None and loop.may_unroll()
    outcome = loop.run((count, first, most), iteration)
    if outcome == Outcome.STAGED:
        return True
    if outcome == Outcome.UNROLL:
        _run_checked(first, test, body, loop.where)
        return True
    if outcome == Outcome.PEEL:
        if checked(first) != THEN:
            return True
        body()
        return False
    left = int(maximum)
    while left != 0 and test():
        body()
        left -= 1
    return True


def _may_ask(options: LoopOptions) -> bool:
    """Whether the graph can check that a loop has an iteration, which then runs before it."""
    return options is NO_OPTIONS and traces_reads() and may_check() and not without_data()


def _run_checked(first: torch.Tensor, test: Thunk, body: Thunk, where: str) -> None:
    """As many iterations as this call has: a graph for each such number."""
    another: Any = first
    turns = 0
    while checked(as_tensor(another)) == THEN if is_traced(another) else another:
        if turns == _MOST_UNROLLED and is_traced(another):
            reject_here(
                f"the while at {where} has more than {_MOST_UNROLLED} iterations, and its body can't be a loop of the "
                "graph: each iteration would be in the graph. Move what only Python can do behind the loop, or call "
                "a function of one iteration in a loop of Python's."
            )
        body()
        another = test()
        turns += 1


def for_stmt(
    iterable: Any,
    extra_test: Thunk | None,
    body: Callable[[Any], Any],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    used: tuple[str, ...],
    options: LoopOptions,
) -> None:
    items = staged(iterable)
    count: Any = items.count()
    maximum = _maximum(options)
    if is_tensor(maximum) or maximum >= 0:
        count = least(count, maximum)
    first: torch.Tensor | None = None  # whether to continue after the iterations already run
    done = 0
    while True:
        runs = not (is_tensor(count) or is_tensor(first) or has_dynamic_sizes())
        runs = runs and done < min(count, MOST_PEELED)
        asks = not runs and done < MOST_PEELED and _may_ask(options)
        state = get_state, set_state, (body,), used, runs or asks
        loop = StagedLoop(names, options, "for", *state)
        loop.unrolls = loop.may_unroll() and _has_few(count)
        bounds = (
            (_rest(count, done), first, -1) if is_tensor(count) else (None, first, count - done)
        )
        outcome = loop.run(bounds, _iteration(items, done, extra_test, body))
        if outcome in (Outcome.UNROLL, Outcome.PLAIN):
            _run_plain(items, done, maximum, extra_test, body)
        if outcome != Outcome.PEEL or (asks and not _has_next(count, done, first)):
            return
        body(items.first(done))
        done += 1
        another = True if extra_test is None else extra_test()
        if (not is_tensor(count) and done == count) or not (is_traced(another) or another):
            return
        first = truth_tensor(another, "for")


def _rest(count: torch.Tensor, done: int) -> torch.Tensor:
    return count - done if done else count


def _has_next(count: Any, done: int, first: torch.Tensor | None) -> bool:
    """The graph checks it."""
    if is_tensor(first) and checked(first) != THEN:
        return False
    return checked(count > done) == THEN if is_tensor(count) else done < count


def _has_few(count: Any) -> bool:
    """Whether a graph of all iterations is not too large."""
    if without_data():
        return False
    return (_number_value(count) if is_tensor(count) else count) <= _MOST_UNROLLED


def _iteration(
    items: Staged, done: int, extra_test: Thunk | None, body: Callable[[Any], Any]
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    def iteration(index: torch.Tensor) -> torch.Tensor | None:
        body(items.item(index + done if done else index))
        return None if extra_test is None else truth_tensor(extra_test(), "for")

    return iteration


def _run_plain(
    items: Staged, done: int, maximum: Any, extra_test: Thunk | None, body: Callable[[Any], Any]
) -> None:
    """The loop is no part of the graph: Python runs what is left of it. The graph checks conditions."""
    if done and not _continues(extra_test):
        return
    most = int(maximum) if int(maximum) >= 0 else None
    for item in itertools.islice(items.plain(), done, most):
        body(item)
        if not _continues(extra_test):
            return


def _continues(extra_test: Thunk | None) -> bool:
    another: Any = True if extra_test is None else extra_test()
    return checked(as_tensor(another)) == THEN if is_traced(another) else bool(another)


def for_rest(
    rest: list[Any],
    extra_test: Thunk,
    body: Callable[[Any], Any],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    used: tuple[str, ...],
) -> None:
    """The iterations of a Python iterable after a traced break or return: each one in an if."""
    dead = tuple(name for name in names if name.isidentifier() and name not in used)
    for item in rest:
        another = extra_test()
        if is_traced(another):
            blocks = (lambda item=item: body(item), lambda: None)
            stage(another, blocks, get_state, set_state, names, "if", dead=dead)
        elif another:
            body(item)
        else:
            return
