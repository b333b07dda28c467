"""What the branches of a staged if leave, made one: per variable and leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..._tracehost import BlockStore, Branches
from ..conversion.undefined import RETURN_VALUE, SUBJECT, is_undefined
from .identity import is_rebound, kept, keys_of
from .state import (
    MUTABLE,
    Parts,
    Poison,
    as_number,
    common_dtype,
    dtype_of,
    have_one_type,
    is_marked,
    is_number,
    is_tensor,
    kind,
    mark,
    poison,
    promoted,
    same,
    take_apart,
    zeros_like,
)
from .stores import BlockStores

Thunk = Callable[[], Any]
State = tuple[Any, ...]
THEN, ELSE = 0, 1

# What to write instead, where a variable can't be joined.
_ONE_KIND = "Give it one kind, dtype and number of dimensions in both."
_COPY = "Write list(...) or dict(...) of it in both: a graph makes a new one."
_NUMBER = "A graph chooses between tensors and numbers: keep an int or a bool in its place."


class Outcome:
    """What one branch leaves."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self, stores: BlockStores) -> None:
        self.state: State = ()
        self.stores = stores  # beside the state; their parts follow those of the state
        self.parts: list[Parts] = []
        self.error: Exception | None = None
        self.described: tuple[str, str, str, tuple[str, int]] | None = None  # of the error


def number(variables: Iterable[Parts], first: int) -> None:
    """The tensors of these variables are the ones from `first` on."""
    for parts in variables:
        for i, leaf in enumerate(parts.leaves):
            if is_tensor(leaf):
                parts.handles[i] = first
                first += 1


def extend(branches: Branches, variables: int, outcomes: dict[int, Outcome]) -> list[BlockStore]:
    """Makes what either branch stored beside the state a part of both states."""
    stores: dict[Any, BlockStore] = {}
    for outcome in outcomes.values():
        stores |= outcome.stores.found
    for branch, outcome in outcomes.items():
        if outcome.error is not None:
            continue  # what comes after has the other one's
        taken, outcome.parts = outcome.parts[variables:], outcome.parts[:variables]
        for key, store in stores.items():
            place = outcome.stores.place(key)
            if place is not None:
                outcome.parts.append(taken[place])
                outcome.state += (outcome.stores.found[key].now,)
            else:
                first = branches.run(
                    branch, lambda store=store, outcome=outcome: _left(store, outcome)
                )
                number(outcome.parts[-1:], first)
                outcome.state += (store.before,)
    return list(stores.values())


def _left(store: BlockStore, outcome: Outcome) -> list[torch.Tensor]:
    """A branch leaves the slot as it was."""
    outcome.parts.append(take_apart(store.before))
    return outcome.parts[-1].tensors()


class CannotJoin(Exception):
    """A variable differs between the sides in a way that no graph has."""


class TypesDiffer(Exception):
    """The sides leave numbers of two types, and a condition can be checked in place of a join."""


class Join:
    """Makes one state of two."""

    def __init__(
        self,
        branches: Branches,
        names: tuple[str, ...],
        where: str,
        what: str,
        lazy: tuple[str, ...],
        dead: tuple[str, ...],
        strict: bool,
        before: State,
        knows: Callable[[Any], bool],
        shared: set[int],
    ) -> None:
        """`lazy`: names of variables that are an error only where they are used, if they can't be joined.

        `dead`: of these, those that nothing reads.
        `strict`: the graph may check a condition in place of a join: this one, or one around it.
        `before`: the variables' values then. `knows`: whether a container was there before the if.
        `shared`: containers that something else holds, too.
        """
        self._before, self._knows, self._shared = before, knows, shared
        self._branches, self._names, self._where, self._what = branches, names, where, what
        self._lazy, self._dead, self._strict = lazy, dead, strict

    def states(self, then: Outcome, other: Outcome, actual: Outcome) -> State:
        """Raises CannotJoin for a variable that is not lazy."""
        if then.error is not None or other.error is not None:
            return self._one_sided(actual, THEN if actual is then else ELSE)
        self._keys = keys_of(then.parts), keys_of(other.parts)
        plans = [self._plan(v, then, other) for v in range(len(self._names))]
        for plan, value in zip(plans, actual.state):
            if isinstance(plan, _Value) and type(plan.value) is Poison and plan.value is not value:
                plan.value.actual = value
        self._promote(THEN, then, plans)
        self._promote(ELSE, other, plans)
        made: dict[Any, Any] = {}
        keys = keys_of(actual.parts)
        for v, (a, b) in enumerate(zip(then.parts, other.parts)):
            made |= {keys[v][i]: x for i, x in kept(a.containers, b.containers).items()}
        state = []
        for v, plan in enumerate(plans):
            if isinstance(plan, _Value):
                state.append(plan.value)
            else:
                leaves = self._joined(v, plan, then, other, actual)
                state.append(actual.parts[v].put(leaves, keys[v], made))
        return tuple(state)

    def _one_sided(self, left: Outcome, branch: int) -> State:
        """The other branch raises: what comes after has this one's values."""
        state, made = [], {}
        for v, keys in enumerate(all_keys := keys_of(left.parts)):
            for key, container in zip(keys, left.parts[v].containers):
                if key is not None and self._knows(container):
                    made[key] = container
        for parts, keys in zip(left.parts, all_keys):
            leaves = list(parts.leaves)
            for i, handle in parts.handles.items():
                handles = (handle, None) if branch == THEN else (None, handle)
                result = self._branches.join(*handles, leaves[i])
                leaves[i] = as_number(result) if is_marked(leaves[i]) else result
            state.append(parts.put(leaves, keys, made))
        return tuple(state)

    def _plan(self, v: int, then: Outcome, other: Outcome) -> Any:
        """An object: the variable's value after the If. A list: dtype of each leaf to join, or None."""
        name, a, b = self._names[v], then.state[v], other.state[v]
        if same(a, b):
            return _Value(a)
        for poisoned in (a, b):  # it has a value, but none that a graph knows
            if type(poisoned) is Poison:
                return self._poison(name, poisoned.message)
        if is_undefined(a) and is_undefined(b):
            return _Value(a if isinstance(a, type(b)) else b)
        if is_undefined(a) or is_undefined(b):
            if name == RETURN_VALUE:
                return self._placeholder(v, then, other)
            return self._poison(
                name,
                f"'{name}' is assigned in only one branch of the {self._what} at {self._where}, whose "
                "condition is a tensor; give it a value in both, or before it.",
            )
        if name == RETURN_VALUE and (a is None or b is None):
            return self._poison(
                name,
                f"the value returned is {kind(a)} on one path and {kind(b)} on another, by a condition that is a "
                f"tensor ({self._where}). End each path with a return of the same kind: a graph can't return a "
                "tensor or None.",
            )
        parts, others = then.parts[v], other.parts[v]
        if parts.spec != others.spec:
            return self._differs(name, f"it is {_sized(a)} in one and {_sized(b)} in the other")
        if why := self._differ_in_identity(v, parts, others):
            return self._differs(name, why, _COPY)
        dtypes = []
        for x, y in zip(parts.leaves, others.leaves):
            try:
                dtype = self._leaf(x, y)
            except TypesDiffer as error:
                if name not in self._dead and not name.startswith(SUBJECT):
                    raise
                dtype = str(error)
            if isinstance(dtype, str):
                joins = all(is_tensor(z) or is_number(z) for z in (x, y))
                return self._differs(name, dtype, _ONE_KIND if joins else _NUMBER)
            dtypes.append(dtype)
        return dtypes

    def _differ_in_identity(self, v: int, then: Parts, other: Parts) -> str:
        """Whether the sides leave other lists, or one list in other places, than the graph can."""
        if self._keys[THEN][v] != self._keys[ELSE][v]:
            return "one list or dict is in several places in one and not in the other"
        same_ones = kept(then.containers, other.containers)

        def before() -> Sequence[Any]:
            return take_apart(self._before[v]).containers if v < len(self._before) else ()

        for parts in (then, other):
            changed = [x for i, x in enumerate(parts.containers) if i not in same_ones]
            if is_rebound(before, changed, self._knows, self._shared):
                return "it is a list or dict from before the block in one and another in the other"
        return ""

    def _differs(self, name: str, why: str, cure: str = _ONE_KIND) -> Any:
        shown = "the value returned" if name == RETURN_VALUE else f"'{name}'"
        message = (
            f"{shown} differs between the branches of the {self._what} at {self._where}, whose condition is a "
            f"tensor: {why}. {cure}"
        )
        return self._poison(name, message)

    def _poison(self, name: str, message: str) -> Any:
        if name not in self._lazy and not name.startswith(SUBJECT):
            raise CannotJoin(message)
        return _Value(poison(name, message))

    def _leaf(self, x: Any, y: Any) -> Any:
        """The dtype of the joined tensor; None: nothing to join; a text: why not."""
        if same(x, y):
            return None
        both = f"it is {kind(x)} in one and {kind(y)} in the other"
        if not all(is_tensor(z) or is_number(z) for z in (x, y)):
            return both
        dtype = common_dtype(x, y)
        if self._strict and dtype is not None and _differ_in_type(x, y):
            raise TypesDiffer(f"leaves a number of another type than the other side: {both}")
        if dtype is None or not have_one_type(x, y):
            return f"{both} (dtypes differ)"
        a, b = (z.dim() if is_tensor(z) else 0 for z in (x, y))
        if a != b:
            return f"{both} (numbers of dimensions differ)"
        if is_tensor(x) and is_tensor(y) and x.device != y.device:
            return f"it is on {x.device} in one and on {y.device} in the other"
        return dtype

    def _placeholder(self, v: int, then: Outcome, other: Outcome) -> Any:
        """A result that one path has not yet: zeros, which only paths without a return would show."""
        given, missing, branch = (
            (other, then, THEN) if is_undefined(then.state[v]) else (then, other, ELSE)
        )
        parts = given.parts[v]

        def make_zeros() -> list[torch.Tensor]:
            leaves = [zeros_like(leaf) if is_tensor(leaf) else leaf for leaf in parts.leaves]
            missing.parts[v] = Parts(leaves, parts.spec, _others(parts.containers))
            return missing.parts[v].tensors()

        first = self._branches.run(branch, make_zeros)
        number([missing.parts[v]], first)
        return [leaf.dtype if is_tensor(leaf) else None for leaf in parts.leaves]

    def _promote(self, branch: int, outcome: Outcome, plans: list[Any]) -> None:
        """Puts tensors in place of the numbers that are to be joined."""
        wanted = [
            (v, i, dtype)
            for v, plan in enumerate(plans)
            if isinstance(plan, list)
            for i, dtype in enumerate(plan)
            if dtype is not None and _needs(outcome.parts[v].leaves[i], dtype)
        ]
        if not wanted:
            return
        made: list[torch.Tensor] = []

        def make() -> list[torch.Tensor]:
            for v, i, dtype in wanted:
                leaf = outcome.parts[v].leaves[i]
                made.append(mark(leaf.to(dtype)) if is_tensor(leaf) else promoted(leaf, dtype))
            return made

        first = self._branches.run(branch, make)
        for n, (v, i, _) in enumerate(wanted):
            outcome.parts[v].leaves[i] = made[n]
            outcome.parts[v].handles[i] = first + n

    def _joined(
        self, v: int, plan: list[Any], then: Outcome, other: Outcome, actual: Outcome
    ) -> list[Any]:
        leaves = list(actual.parts[v].leaves)
        for i, dtype in enumerate(plan):
            if dtype is None:
                continue
            x, y = then.parts[v].leaves[i], other.parts[v].leaves[i]
            handles = then.parts[v].handles[i], other.parts[v].handles[i]
            result = self._branches.join(*handles, leaves[i])
            leaves[i] = as_number(result) if is_marked(x) and is_marked(y) else result
        return leaves


class _Value:
    def __init__(self, value: Any) -> None:
        self.value = value


def _sized(value: Any) -> str:
    """`a list of length 2`"""
    sized = isinstance(value, (tuple, *MUTABLE)) and not hasattr(value, "_fields")
    return f"{kind(value)} of length {len(value)}" if sized else kind(value)


def _others(containers: Sequence[Any]) -> list[Any]:
    """Stand for new containers: those of one object for one."""
    others: dict[int, Any] = {}
    return [others.setdefault(id(x), []) if type(x) in MUTABLE else x for x in containers]


def _needs(leaf: Any, dtype: torch.dtype) -> bool:
    return not is_tensor(leaf) or leaf.dtype != dtype


def _differ_in_type(x: Any, y: Any) -> bool:
    """Whether both are numbers to the user: a bool, an int and a float are three things to Python."""
    if not all(is_number(z) or is_marked(z) for z in (x, y)):
        return False
    a, b = (dtype_of(z) if is_number(z) else z.dtype for z in (x, y))
    return a != b
