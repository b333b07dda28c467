"""What generated code calls, as `ag__`. A Python value: the plain statement. A traced one: staging's.

Everything here runs once a trace, in place of the user's statement, so that an exception has the type and
text of the plain statement's.
"""

# ruff: noqa: F401 (generated code has the names that are imported, too)

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ..conversion.undefined import Undefined, is_undefined, ld, ldf, ldu
from ..staging import branches, conditions, loops
from ..staging.conditions import and_, and_test, if_exp, not_, not_value, nothing, or_, or_test
from ..staging.iterables import is_staged, truth_of
from ..staging.loops import MOST_PEELED
from ..staging.options import NO_OPTIONS, LoopOptions, loop_options
from ..staging.state import is_read, is_tensor
from .asking import asked
from .calls import call, call_over
from .membership import contains, lacks
from .places import get_attribute, get_item, set_attribute, set_item
from .shown import call_raised, call_shown, in_text, message_of, shown
from .subscripts import Subscripted

Body = Callable[[], Any]
GetState = Callable[[], tuple[Any, ...]]
SetState = Callable[[tuple[Any, ...]], None]
Names = tuple[str, ...]


no_state = tuple
set_no_state = nothing


def if_stmt(
    cond: Any,
    body: Body,
    orelse: Body,
    get_state: GetState,
    set_state: SetState,
    names: Names,
    rest: int = branches.NO_REST,
    dead: Names = (),
) -> None:
    """`rest`: which body is what follows an early exit. `dead`: names that nothing behind it reads."""
    cond = truth_of(cond)
    if is_staged(cond):
        sides = rest, dead
        branches.stage(cond, (body, orelse), get_state, set_state, names, "if", (), *sides)
    elif cond:
        body()
    else:
        orelse()


def while_stmt(
    test: Body,
    body: Body,
    get_state: GetState,
    set_state: SetState,
    names: Names,
    used: Names,
    options: LoopOptions | None,
) -> None:
    """The condition may become a traced value after some iterations: those before are Python's."""
    options = options or NO_OPTIONS
    peeled = 0
    while True:
        cond = truth_of(test())
        if is_staged(cond):
            state = get_state, set_state, names, options, "while", (test, body), used
            if loops.staged_while(cond, test, body, *state, peels=peeled < MOST_PEELED):
                return
            peeled += 1
            continue
        if not cond:
            return
        body()


def for_stmt(
    iterable: Any,
    extra_test: Body | None,
    body: Callable[[Any], Any],
    get_state: GetState,
    set_state: SetState,
    names: Names,
    used: Names,
    options: LoopOptions | None,
) -> None:
    """`used`: of the names, those that are read behind the loop."""
    options = options or NO_OPTIONS
    if is_staged(iterable):
        state = get_state, set_state, names, used, options
        loops.for_stmt(iterable, extra_test, body, *state)
        return
    if extra_test is None:
        for item in iterable:
            body(item)
        return
    rest = iter(iterable)
    for item in rest:
        body(item)
        another = extra_test()
        if is_staged(another):
            items = _remaining(iterable, rest, options)
            loops.for_rest(items, extra_test, body, get_state, set_state, names, used)
            return
        if not another:
            return


def _remaining(iterable: Any, rest: Iterable[Any], options: LoopOptions) -> list[Any]:
    if isinstance(options.maximum_iterations, int):
        return list(itertools.islice(rest, options.maximum_iterations))
    if isinstance(iterable, (itertools.count, itertools.cycle)):
        raise TypeError(
            f"a loop over {iterable!r}, which has no end, is left by break or return on a tensor condition. "
            "Write it as `while True:` with a counter, or bound it by "
            "tracehost.autograph.set_loop_options(maximum_iterations=...) first in its body"
        )
    return list(rest)


def subscripted(value: Any) -> Any:
    """What stands in place of `x` in `x[key]`."""
    return Subscripted(value) if is_staged(value) and is_tensor(value) else value


def _is_bool(left: Any, right: Any) -> bool:
    """Whether a traced bool is asked whether it is True or False."""
    return type(right) is bool and is_read(left) and left.__class__ is bool


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": lambda left, right: left == right if _is_bool(left, right) else left is right,
    "is not": lambda left, right: left != right if _is_bool(left, right) else left is not right,
    "in": contains,
    "not in": lacks,
}


def compare(
    left: Any, sign: str, right: Any, *more: Any, variables: conditions.Variables | None = None
) -> Any:
    """A chained comparison: `more` alternates signs and thunks, each run at most once."""
    result = _COMPARISONS[sign](left, right)
    if not more:
        return result

    def rest() -> Any:
        return compare(right, more[0], more[1](), *more[2:], variables=variables)

    return and_(result, rest, variables)


def assert_stmt(cond: Any, message: Body | None) -> None:
    cond = truth_of(cond)
    if is_staged(cond):
        conditions.assert_stmt(cond, message, message_of)
    elif not cond:
        raise AssertionError if message is None else AssertionError(message_of(message))


def return_value(value: Any) -> Any:
    """The end of a function whose returns stand in blocks. No path has set `value` if none of them has one."""
    return None if type(value) is Undefined else ld(value)
