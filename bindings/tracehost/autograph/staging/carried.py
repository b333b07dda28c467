"""What a staged loop carries from one iteration to the next: dtypes and sizes that its body determines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch

from ..._arguments.tensor_spec import fits
from ..._arguments.trees import LEAF
from ..._tracehost import (
    BlockState,
    TensorSpec,
    has_dynamic_sizes,
    row_count,
    sizes_now,
    unobserved,
)
from ..conversion.undefined import RETURN_VALUE, Undefined, is_undefined
from .containers import Containers
from .identity import Key, is_rebound, kept, keys_of, shared, spans
from .join import State
from .loop_errors import LoopErrors
from .options import LoopOptions
from .state import (
    Parts,
    Poison,
    as_number,
    common_dtype,
    dtype_of,
    have_one_type,
    is_marked,
    is_number,
    is_tensor,
    promoted,
    same,
    take_apart,
    zeros_like,
)
from .where import line, reject

GetState = Callable[[], State]
SetState = Callable[[State], None]


class Retry(Exception):
    """The body has to be staged again with what was learned."""


class Peel(Exception):
    """The first iteration differs from those after it: it has to be run before the loop."""


class _Unassigned(Undefined):
    """A variable that the body assigns, before it has. A read is noted."""

    __slots__ = ("loop",)

    def __init__(self, name: str, loop: Carrying) -> None:
        super().__init__(name)
        self.loop = loop

    def read(self) -> Any:
        self.loop.read_early.add(self.name)
        return super().read()


class _Carried:
    """One carried tensor."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self, variable: int, leaf: int, dtype: torch.dtype, number: bool) -> None:
        self.variable, self.leaf, self.dtype = variable, leaf, dtype
        self.number = number  # a Python number to the user


class Carrying:
    """What one loop carries, as far as the attempts to stage it have found."""

    def __init__(
        self,
        names: tuple[str, ...],
        options: LoopOptions,
        what: str,
        get_state: GetState,
        set_state: SetState,
        sources: tuple[Callable[..., Any], ...],
        used: tuple[str, ...] = (),
        can_peel: bool = False,
    ) -> None:
        """`sources`: the user's code. `used`: variables that are read behind it. `can_peel`: it surely has an iteration."""
        self.names, self.what, self.where = names, what, line()
        self.errors = LoopErrors(names, what, self.where)
        self.options, self.used, self.can_peel = options, used, can_peel
        self.start = BlockState(get_state, set_state)
        self.get_state, self.set_state = self.start.get, self.start.set
        self.first = self.start.before
        self.shared = unobserved(shared, self.first)
        self.containers = unobserved(Containers, *sources)
        self.before = list(self.first)
        self.missing: dict[int, Parts] = {}  # results that `return` gives in the body: of this form
        self.wider: dict[tuple[int, int], torch.dtype] = {}
        # of numbers that the body makes tensors: dtype and device
        self.tensors: dict[tuple[int, int], tuple[torch.dtype, torch.device]] = {}
        # variables that only the body assigns, and why none has a value behind the loop
        self.local: dict[int, str] = {}
        self.conditional: set[int] = set()  # of these, those that an iteration may leave unassigned
        self.read_early: set[str] = set()  # of these, what it reads before
        self.resized: set[tuple[int, int]] = set()  # sizes differ from iteration to iteration
        self.kept: dict[Key, bool] = {}  # containers: whether each iteration leaves the same object
        self.changes_kind = False  # a variable is no tensor or number, and changes, or has no value

    def held(self) -> Iterator[Sequence[Any]]:
        """As Holder.held() (`identity.py`)."""
        yield self.first
        yield self.before
        yield from self.containers.held()
        yield from (parts.containers for parts in self.parts)

    # -- before the body

    def prepare(self) -> list[torch.Tensor]:
        """The carried tensors before the first iteration."""
        for v, parts in self.missing.items():
            self.before[v] = parts.put([_zeros(x) for x in parts.leaves])
        self.parts = [take_apart(v) for v in self.before]
        self.carried: list[_Carried] = []
        initial = []
        for v, parts in enumerate(self.parts):
            in_kept = {
                leaf
                for i, span in enumerate(spans(parts.spec))
                if self.kept.get((v, i))
                for leaf in span
            }
            for i, leaf in enumerate(parts.leaves):
                if i in in_kept or not _is_carried(self.names[v], leaf):
                    continue
                number = is_number(leaf) or is_marked(leaf)
                dtype = self.wider.get((v, i)) or (
                    dtype_of(leaf) if is_number(leaf) else leaf.dtype
                )
                device = None
                if (v, i) in self.tensors:
                    number, (dtype, device) = False, self.tensors[v, i]
                self.carried.append(_Carried(v, i, dtype, number))
                leaf = promoted(leaf, dtype, device) if is_number(leaf) else leaf.to(device)
                initial.append(leaf if leaf.dtype == dtype else leaf.to(dtype))
        return initial

    def varying(self, initial: list[torch.Tensor]) -> list[list[bool]]:
        return [self._open(c, t) for c, t in zip(self.carried, initial)]

    def _open(self, c: _Carried, t: torch.Tensor) -> list[bool]:
        shape = self._invariant(c)
        if shape is None:
            return [self._is_resized(c)] * t.dim()
        if not fits(sizes_now(t), shape):
            self.errors.invariant(self.names[c.variable], list(shape), t)
        return [s is None or self._is_resized(c) for s in shape]

    def _is_resized(self, c: _Carried) -> bool:
        return (c.variable, c.leaf) in self.resized

    def _invariant(self, c: _Carried) -> Any:
        """The shape that the user declares for it, or None."""
        shape = (self.options.shape_invariants or {}).get(self.names[c.variable])
        return shape.shape if isinstance(shape, TensorSpec) else shape

    def state(self, tensors: list[torch.Tensor]) -> State:
        """The variables, with these tensors in the carried places."""
        leaves = [list(p.leaves) for p in self.parts]
        for c, t in zip(self.carried, tensors):
            leaves[c.variable][c.leaf] = as_number(t) if c.number else t
        keys = keys_of(self.parts)
        made = {
            keys[v][i]: self.parts[v].containers[i] for (v, i), kept in self.kept.items() if kept
        }
        return tuple(
            old
            if not any(c.variable == v for c in self.carried)
            else p.put(leaves[v], keys[v], made)
            for v, (old, p) in enumerate(zip(self.before, self.parts))
        )

    def _in_body(self, state: State) -> State:
        return tuple(_Unassigned(x.name, self) if type(x) is Undefined else x for x in state)

    # -- after the body

    def next(self, state: State, varying: list[list[bool]]) -> list[torch.Tensor]:
        """The carried tensors for the iteration after."""
        after = [take_apart(v) for v in state]
        self._find_kept(after)
        known = [Parts([], LEAF) if is_undefined(x) else y for x, y in zip(self.before, after)]
        keys = keys_of(known)
        for v, name in enumerate(self.names):
            self._check_variable(v, name, state[v], after[v])
            if not is_undefined(self.before[v]):
                self._check_identity(v, name, state[v], after[v], keys)
        result, known = [], len(self.resized)
        for c, open_, before in zip(self.carried, varying, self._inputs):
            leaf = after[c.variable].leaves[c.leaf] if c.variable not in self.local else before
            result.append(self._check_leaf(c, open_, before, leaf))
        if len(self.resized) > known:
            raise Retry
        return result

    def _find_kept(self, after: list[Parts]) -> None:
        """A list or dict that an iteration leaves as the same object: behind the loop it is that one."""
        known = dict(self.kept)
        for v, (before, now) in enumerate(zip(self.parts, after)):
            same_ones = kept(before.containers, now.containers)
            for at in {*((v, i) for i in same_ones), *(key for key in known if key[0] == v)}:
                self.kept[at] = at[1] in same_ones and known.get(at, True)
        if any(is_kept != known.get(at, False) for at, is_kept in self.kept.items()):
            raise Retry

    def _check_identity(self, v: int, name: str, now: Any, parts: Parts, keys: Any) -> None:
        """Behind the loop a variable's lists and dicts are new ones, but for those that are kept."""
        why = ""
        if keys[v] != keys_of(self.parts)[v]:
            why = "one list or dict is in several places after one iteration and not after another"
        changed = [x for i, x in enumerate(parts.containers) if not self.kept.get((v, i))]
        before = self.parts[v].containers
        if is_rebound(lambda: before, changed, self.containers.knows, self.shared):
            why = "it becomes a list or dict that was there before the loop"
        if why:
            self.changes_kind = True
            self._reject_change(name, self.before[v], now, why)
        if any(id(x) in self.shared for i, x in enumerate(before) if not self.kept.get((v, i))):
            self._peel()
            if name in self.used or "." in name or "[" in name:
                self.changes_kind = True
                why = "without an iteration it is a list or dict that something else holds, too"
                self._reject_change(name, self.before[v], now, why)

    def _check_variable(self, v: int, name: str, now: Any, parts: Parts) -> None:
        before = self.before[v]
        if is_undefined(before):
            if type(now) is Poison and now is not before:
                self.local[v] = now.message
                self.conditional.add(v)
            elif not is_undefined(now):
                self._check_new(v, name, parts)
            return
        if is_undefined(now):
            self._peel()
            self.changes_kind = True
            if type(now) is Poison:
                reject(now.message)
            self.errors.not_assigned(name)
        if parts.spec != self.parts[v].spec:
            self.changes_kind = True
            self._reject_change(name, before, now, "its structure changes")
        for x, y in zip(self.parts[v].leaves, parts.leaves):
            fits = _is_carried(name, x)
            if not (fits and (is_tensor(y) or is_number(y))) and not same(x, y):
                self.changes_kind = True
                self._reject_change(name, x, y, "it is no tensor or number")

    def _check_new(self, v: int, name: str, parts: Parts) -> None:
        """Checks a variable that the body assigns first."""
        if name == RETURN_VALUE and all(is_tensor(x) or is_number(x) for x in parts.leaves):
            self.missing[v] = parts
            raise Retry
        if name == RETURN_VALUE:  # a text, say: iterations that do not return have none
            self.conditional.add(v)
        self.local[v] = self.errors.only_inside(name)
        if name in self.read_early:
            self._peel()
            self.errors.read_before(name)

    def _peel(self) -> None:
        if self.can_peel:
            raise Peel

    def _reject_change(self, name: str, before: Any, now: Any, why: str) -> NoReturn:
        self._peel()
        self.errors.change(name, before, now, why)

    def _check_leaf(self, c: _Carried, open_: list[bool], before: torch.Tensor, now: Any) -> Any:
        name = self.names[c.variable]
        first = self.parts[c.variable].leaves[c.leaf]
        if c.number and not have_one_type(first, now):
            self.changes_kind = True
            self._reject_change(name, first, now, "its type changes")
        if is_number(now):
            if c.number:
                dtype = torch.promote_types(c.dtype, dtype_of(now))
                if dtype_of(now) != c.dtype:
                    self._peel()  # without an iteration the number has its first type
            else:
                dtype = common_dtype(before, now) or c.dtype
            if dtype != c.dtype:
                self.wider[c.variable, c.leaf] = dtype
                raise Retry
            now = promoted(now, c.dtype, before.device)
        if c.number and not is_marked(now):  # `s = 0.0`, then `s = s + x`
            self._peel()  # without an iteration it is the number
            self.tensors[c.variable, c.leaf] = now.dtype, now.device
            raise Retry
        if now.dtype != c.dtype:
            if c.number:
                self._peel()
            wider = torch.promote_types(c.dtype, now.dtype)
            if c.number and wider != c.dtype:
                self.wider[c.variable, c.leaf] = wider
                raise Retry
            if not c.number and not is_marked(now):
                self._reject_change(name, before, now, "its dtype changes")
            now = now.to(c.dtype)
        if now.dim() != before.dim():
            self._reject_change(name, before, now, "its number of dimensions changes")
        if now.device != before.device:
            self._reject_change(name, before, now, f"it moves from {before.device} to {now.device}")
        self._check_sizes(c, open_, before, now)
        return now

    def _check_sizes(
        self, c: _Carried, open_: list[bool], before: torch.Tensor, now: torch.Tensor
    ) -> None:
        """A size that changes is found here: later iterations have another one."""
        old, new = sizes_now(before), sizes_now(now)
        closed = [d for d, o in enumerate(open_) if not o and new[d] != old[d]]
        declared = (
            self._invariant(c) is not None or self.what == "while_loop" or has_dynamic_sizes()
        )
        if closed and declared:
            shape = [None if d in closed or o else s for d, (s, o) in enumerate(zip(old, open_))]
            self.errors.shape(c.variable, old, new, shape)
        if closed or (not any(open_) and _may_resize(now) and not _may_resize(before)):
            self.resized.add((c.variable, c.leaf))


def _is_carried(name: str, leaf: Any) -> bool:
    """A module takes no other tensor for its parameter: `net.weight -= step` changes it in place."""
    if is_tensor(leaf):
        return "." not in name or not isinstance(leaf, torch.nn.Parameter)
    return is_number(leaf)


def _may_resize(t: torch.Tensor) -> bool:
    """Whether the sizes that it has here are none that the graph may rely on."""
    return t.dim() > 0 and not has_dynamic_sizes() and row_count(t) is not None


def _zeros(leaf: Any) -> Any:
    """What no path shows: until then, a result that is not there yet."""
    return type(leaf)(0) if is_number(leaf) else zeros_like(leaf)
