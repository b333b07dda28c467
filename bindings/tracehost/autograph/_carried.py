"""What a staged loop carries from one iteration to the next, over its attempts to find the dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from .._errors import Error
from .._tracehost import (
    Loop,
    TensorSpec,
    abandoned,
    raise_error,
    sizes_now,
    without_data,
)
from ._branches import check_runs_without_data
from ._containers import Containers, Grows, bodies
from ._join import State
from ._lists import StagedList
from ._options import LoopOptions
from ._state import (
    Parts,
    as_number,
    common_dtype,
    dtype_of,
    is_marked,
    is_number,
    is_tensor,
    kind,
    mark,
    poison,
    promoted,
    same,
    take_apart,
)
from ._stores import BlockStores
from ._undefined import RETURN_VALUE, is_undefined
from ._where import check_not_caught, described, line, refuse, refuse_if_caught

_ATTEMPTS = 8

GetState = Callable[[], State]
SetState = Callable[[State], None]
# iterations, the first condition, iterations at most; of the first two one is None
Bounds = tuple[torch.Tensor | None, torch.Tensor | None, int]


class _Retry(Exception):
    """The body has to be staged again with what was learned."""


class _Carried:
    """One carried tensor."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self, variable: int, leaf: int, dtype: torch.dtype, number: bool) -> None:
        self.variable, self.leaf, self.dtype = variable, leaf, dtype
        self.number = number  # a Python number to the user


class StagedLoop:
    """One loop, over its attempts."""

    def __init__(
        self,
        names: tuple[str, ...],
        options: LoopOptions,
        what: str,
        get_state: GetState,
        set_state: SetState,
        containers: Containers,
    ) -> None:
        self.names, self.what, self.where = names, what, line()
        self.options = options
        self.get_state, self.set_state, self.containers = get_state, set_state, containers
        self.first = before = get_state()
        self.before = list(before)
        self.missing: dict[int, Parts] = {}  # results that `return` gives in the body: of this form
        self.wider: dict[tuple[int, int], torch.dtype] = {}
        # of numbers that the body makes tensors: dtype and device
        self.tensors: dict[tuple[int, int], tuple[torch.dtype, torch.device]] = {}
        self.local: set[int] = set()  # variables that only the body assigns

    # -- before the body

    def prepare(self) -> list[torch.Tensor]:
        """The carried tensors before the first iteration."""
        for v, parts in self.missing.items():
            self.before[v] = parts.put([_zeros(x) for x in parts.leaves])
        self.parts = [take_apart(v) for v in self.before]
        self.carried: list[_Carried] = []
        initial = []
        for v, parts in enumerate(self.parts):
            for i, leaf in enumerate(parts.leaves):
                if not is_tensor(leaf) and not is_number(leaf):
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
        shape = (self.options.shape_invariants or {}).get(self.names[c.variable])
        if isinstance(shape, TensorSpec):
            shape = shape.shape
        if shape is None:
            return [False] * t.dim()
        if len(shape) != t.dim() or any(s not in (None, n) for s, n in zip(shape, sizes_now(t))):
            refuse(
                f"the shape invariant {list(shape)} of '{self.names[c.variable]}' does not fit its value before "
                f"the {self.what} at {self.where}, {kind(t)}"
            )
        return [s is None for s in shape]

    def state(self, tensors: list[torch.Tensor]) -> State:
        """The variables, with these tensors in the carried places."""
        leaves = [list(p.leaves) for p in self.parts]
        for c, t in zip(self.carried, tensors):
            leaves[c.variable][c.leaf] = as_number(t) if c.number else t
        return tuple(
            old if not any(c.variable == v for c in self.carried) else p.put(leaves[v])
            for v, (old, p) in enumerate(zip(self.before, self.parts))
        )

    # -- after the body

    def next(self, state: State, varying: list[list[bool]]) -> list[torch.Tensor]:
        """The carried tensors for the iteration after."""
        after = [take_apart(v) for v in state]
        for v, name in enumerate(self.names):
            self._check_variable(v, name, state[v], after[v])
        result = []
        for c, open_, before in zip(self.carried, varying, self._inputs):
            leaf = after[c.variable].leaves[c.leaf] if c.variable not in self.local else before
            result.append(self._check_leaf(c, open_, before, leaf))
        return result

    def _check_variable(self, v: int, name: str, now: Any, parts: Parts) -> None:
        before = self.before[v]
        if is_undefined(before):
            if not is_undefined(now):
                if name == RETURN_VALUE and all(is_tensor(x) or is_number(x) for x in parts.leaves):
                    self.missing[v] = parts
                    raise _Retry
                self.local.add(v)
            return
        if is_undefined(now):
            refuse(
                f"'{name}' is deleted, or not assigned on each path, in the body of the {self.what} at "
                f"{self.where} over a tensor; give it a value at the end of each iteration."
            )
        if parts.spec != self.parts[v].spec:
            self._refuse_change(name, before, now, "its structure changes")
        for x, y in zip(self.parts[v].leaves, parts.leaves):
            fits = is_tensor(x) or is_number(x)
            if not (fits and (is_tensor(y) or is_number(y))) and not same(x, y):
                self._refuse_change(name, x, y, "it is no tensor or number")

    def _check_leaf(self, c: _Carried, open_: list[bool], before: torch.Tensor, now: Any) -> Any:
        name = self.names[c.variable]
        if is_number(now):
            if c.number:
                dtype = torch.promote_types(c.dtype, dtype_of(now))
            else:
                dtype = common_dtype(before, now) or c.dtype
            if dtype != c.dtype:
                self.wider[c.variable, c.leaf] = dtype
                raise _Retry
            now = promoted(now, c.dtype, before.device)
        if c.number and not is_marked(now):  # `s = 0.0`, then `s = s + x`
            self.tensors[c.variable, c.leaf] = now.dtype, now.device
            raise _Retry
        if now.dtype != c.dtype:
            wider = torch.promote_types(c.dtype, now.dtype)
            if c.number and wider != c.dtype:
                self.wider[c.variable, c.leaf] = wider
                raise _Retry
            if not c.number and not is_marked(now):
                self._refuse_change(name, before, now, "its dtype changes")
            now = now.to(c.dtype)
        if now.dim() != before.dim():
            self._refuse_change(name, before, now, "its number of dimensions changes")
        if now.device != before.device:
            self._refuse_change(name, before, now, f"it moves from {before.device} to {now.device}")
        old, new = sizes_now(before), sizes_now(now)
        closed = [d for d, o in enumerate(open_) if not o and new[d] != old[d]]
        if closed:
            shape = [None if d in closed or o else s for d, (s, o) in enumerate(zip(old, open_))]
            refuse(
                f"the shape of '{name}' changes in the {self.what} at {self.where} over a tensor, from "
                f"{old} to {new}. If that is meant, {self._remedy(c, shape)}"
            )
        return now

    def _remedy(self, c: _Carried, shape: list[int | None]) -> str:
        if self.what == "while_loop":
            each = ["None"] * len(self.names)
            each[c.variable] = str(shape)
            return f"pass shape_invariants=[{', '.join(each)}]"
        name = self.names[c.variable]
        return (
            "write as the first line of its body: "
            f"tracehost.autograph.set_loop_options(shape_invariants=[({name}, {shape})])"
        )

    def _refuse_change(self, name: str, before: Any, now: Any, why: str) -> None:
        shown = "the value returned" if name == RETURN_VALUE else f"'{name}'"
        refuse(
            f"{shown} can't be carried from one iteration of the {self.what} at {self.where} to the next: {why}, "
            f"from {kind(before)} to {kind(now)}. The condition or the iterable is a tensor, so one body has to "
            f"do for all iterations.{_cure(before, now)}"
        )

    def _refuse_store(self, stores: BlockStores) -> NoReturn:
        refuse(
            f"the body of the {self.what} at {self.where} stores {stores.first()}, in code that it calls, and a graph can't "
            "repeat that for each iteration. Return the value, assign it to a variable in the body, and store it "
            "behind the loop."
        )

    # -- the whole

    def run(self, bounds: Bounds, iteration: Callable[[torch.Tensor], torch.Tensor | None]) -> bool:
        """False: the loop was refused, and the function goes on without a trace. Python has to run it."""
        converted: list[Grows] = []
        for _ in range(_ATTEMPTS):
            initial = self.prepare()
            varying = self.varying(initial)
            loop = Loop(*bounds, initial)

            def body(
                index: torch.Tensor, tensors: list[torch.Tensor], varying: Any = varying
            ) -> Any:
                self._inputs = tensors
                self.set_state(self.state(tensors))
                try:
                    condition = iteration(index)
                except (Error, RecursionError, Grows, _Retry):
                    raise
                except Exception as error:  # of an iteration that may not be
                    check_runs_without_data(error)
                    check_not_caught(error, f"the body of the {self.what} at {self.where}")
                    raise_error(*described(error))
                    return None, tensors
                return condition, self.next(self.get_state(), varying)

            grows = None
            stores = BlockStores()
            try:
                with bodies:
                    loop.body(varying, body)
                grows = self.containers.growing()
                if grows is None:
                    self.set_state(tuple(self.before))
                    stores.end(real=False)
                    if stores.found:
                        self._refuse_store(stores)
                    self.containers.check(f"the body of a {self.what} over a tensor")
                    self.set_state(self._after(self.state(self._results(loop))))
                    return True
            except _Retry:
                grows = self.containers.growing()
            except Grows as found:  # of a loop or branch inside
                grows = found
            except Exception:
                if not abandoned() or without_data():
                    raise
                self.set_state(self.first)
                for made in converted:
                    made.cell.cell_contents = list(made.items)
                return False
            self.set_state(tuple(self.before))
            stores.drop()
            loop.discard()
            if grows is not None and without_data():
                raise grows  # the loop around needs it, too
            if grows is not None:
                grows.cell.cell_contents = StagedList(grows)
                converted.append(grows)
        refuse(f"no dtype was found for the variables of the {self.what} at {self.where}")

    def _results(self, loop: Loop) -> list[torch.Tensor]:
        try:
            return loop.finish()
        except Exception as error:
            refuse_if_caught(error, f"the {self.what} at {self.where}")
            raise

    def _after(self, state: State) -> State:
        return tuple(
            poison(
                name,
                f"'{name}' is assigned only inside of the {self.what} at {self.where}, which may have no "
                "iteration; give it a value before it.",
            )
            if v in self.local
            else value
            for v, (name, value) in enumerate(zip(self.names, state))
        )


def _cure(before: Any, now: Any) -> str:
    if before is None and is_tensor(now):
        return f" Give it {kind(now)} before the loop."
    if is_tensor(before) and is_tensor(now) and before.dtype != now.dtype:
        return f" Convert it to {now.dtype} before the loop, or back at the end of the body."
    return ""


def _zeros(leaf: Any) -> Any:
    """What no path shows: until then, a result that is not there yet."""
    if is_number(leaf):
        return type(leaf)(0)
    zeros = torch.zeros(sizes_now(leaf), dtype=leaf.dtype, device=leaf.device)
    return mark(zeros) if is_marked(leaf) else zeros
