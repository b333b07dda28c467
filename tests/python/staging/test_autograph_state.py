"""What operators are given for staging: a block can be run, undone by its state, and run again."""

import types

import pytest
import torch
from autograph_support import outcome
from control_flow_programs import PROGRAMS
from test_control_flow_programs import equal, run
from tracehost.autograph.conversion.undefined import Undefined
from tracehost.autograph.run import operators as ag
from tracehost.autograph.run.calls import convert_callable

# In place, outside of their state: what a block does there can't be undone by it.
NOT_UNDONE = {
    "inplace_in_branch",
    "inplace_on_input",
    "item_of_tensor_in_branch",
    "list_appended_in_branch",
}


class Rehearsal:
    """Stands in for staging: runs the other branch first, undoes it, and runs the one that counts."""

    def __init__(self):
        self.seen = []

    @staticmethod
    def is_staged(value):
        return isinstance(value, torch.Tensor)

    def stage(self, cond, bodies, get_state, set_state, names, what, sources, rest, dead):
        self.seen.append(names)
        before = get_state()
        assert len(before) == len(names)
        taken, other = bodies if cond else bodies[::-1]
        try:
            other()
        except Exception:  # of the path not taken
            pass
        set_state(before)
        again = get_state()
        for a, b in zip(before, again):
            assert a is b or (type(a) is Undefined and type(b) is Undefined), names
        taken()

    def staged_while(
        self, first, test, body, get_state, set_state, names, options, what, sources, used, peels
    ):
        while test():
            self._step(body, get_state, set_state, names)
        return True

    def _step(self, body, get_state, set_state, names):
        before = get_state()
        body()
        set_state(before)
        body()
        assert len(get_state()) == len(names)

    def for_stmt(self, iterable, extra_test, body, get_state, set_state, names, used, options):
        for item in iterable:
            self._step(lambda item=item: body(item), get_state, set_state, names)
            if extra_test is not None and not extra_test():
                break

    def for_rest(self, rest, extra_test, body, get_state, set_state, names, used):
        for item in rest:
            if not extra_test():
                break
            self._step(lambda item=item: body(item), get_state, set_state, names)

    if_exp = staticmethod(lambda cond, then, orelse: (then(), orelse())[0 if cond else 1])
    and_ = staticmethod(lambda left, right: left and right())
    or_ = staticmethod(lambda left, right: left or right())
    and_test, or_test = and_, or_
    Subscripted = staticmethod(lambda value: value)
    not_ = staticmethod(lambda value: not value)

    @staticmethod
    def assert_stmt(cond, message, message_of):
        if not cond:
            raise AssertionError(*[] if message is None else [message_of(message)])


@pytest.fixture
def rehearsal(monkeypatch):
    made = Rehearsal()
    monkeypatch.setattr(ag, "is_staged", made.is_staged)
    for name in ("branches", "conditions", "loops"):
        monkeypatch.setattr(ag, name, made)
    monkeypatch.setattr(ag, "Subscripted", made.Subscripted)
    return made


STATE_ONLY = [
    p
    for p in PROGRAMS
    if p.name not in NOT_UNDONE and "in_loop" not in p.name and "append" not in p.name
]


@pytest.mark.parametrize("p", STATE_ONLY, ids=lambda p: p.name)
def test_blocks_can_be_undone(p, rehearsal):
    made = convert_callable(p.function)
    for inputs in p.inputs:
        try:
            expected = run(p.function, inputs, False)
        except Exception:
            assert outcome(made, inputs)[0][0] == "raised"
            continue
        result = run(made, inputs, False)
        equal(expected[0], result[0])


def names_of(f, rehearsal, *args):
    convert_callable(f)(*args)
    return rehearsal.seen


YES = torch.tensor(True)


def test_names_are_as_written(rehearsal):
    def f(c, o, d, k):
        if c:
            o.x, d["k"], d[k], d[-1] = 1, 2, 3, 4
            y = 1
            o.inner.z += 1
            del d["gone"]

    o = types.SimpleNamespace(x=0, inner=types.SimpleNamespace(z=0))
    (names,) = names_of(f, rehearsal, YES, o, {"gone": 1}, "key")
    assert set(names) == {"y", "o.x", "d['k']", "d[k]", "d[-1]", "o.inner.z", "d['gone']"}


def test_what_belongs_to_a_variable_of_the_block_is_not_state(rehearsal):
    def f(c):
        if c:
            o = types.SimpleNamespace()
            o.x = 1

    assert names_of(f, rehearsal, YES) == [("o",)]


def test_key_of_a_tensor_is_not_written_back(rehearsal):
    def f(c, t):
        if c:
            t[0] = t[0] + 1
        return t

    made = convert_callable(f)
    assert made(torch.tensor(False), torch.zeros(2)).tolist() == [
        1.0,
        0.0,
    ]  # the store of the rehearsal


def test_unassigned_is_unassigned_again(rehearsal):
    def f(c, d):
        if c:
            x = d["k"] = 1
            del d["old"]
        return x

    d = {"old": 5}
    made = convert_callable(f)
    with pytest.raises(UnboundLocalError, match="local variable 'x'"):
        made(torch.tensor(False), d)
    assert d == {"old": 5}


def test_state_holds_undefined_by_name():
    seen = []

    def f(c):
        if c:
            x = 1

    def if_stmt(cond, body, orelse, get_state, set_state, names, *sides):
        seen.append(get_state())

    operators = types.SimpleNamespace(**{**vars(ag), "if_stmt": if_stmt})
    made = convert_callable(f)
    bound = types.FunctionType(
        made.__code__, made.__globals__, closure=(types.CellType(operators),)
    )
    bound(1)
    ((value,),) = seen
    assert type(value) is Undefined and value.name == "x"


def test_global_that_was_missing_is_missing_again(rehearsal):
    def f(c):
        global MISSING_GLOBAL
        if c:
            MISSING_GLOBAL = 1
        return "MISSING_GLOBAL" in globals()

    assert convert_callable(f)(torch.tensor(False)) is False


def test_loop_options_are_told():
    from tracehost import autograph

    seen = []

    def f(x, n):
        y = x
        while n > 0:
            autograph.set_loop_options(
                shape_invariants=[(x, [None]), (y, None)], maximum_iterations=3
            )
            x, y, n = y, x, n - 1
        for _ in [1, n]:
            autograph.set_loop_options({"x": [2]})
            if n:
                break
        return x

    def watch(name):
        def loop(*args):
            seen.append(args[-1])
            return getattr(ag, name)(*args)

        return loop

    operators = {"while_stmt": watch("while_stmt"), "for_stmt": watch("for_stmt")}
    operators = types.SimpleNamespace(**{**vars(ag), **operators})
    made = convert_callable(f)
    cells = [
        types.CellType(operators) if n == "ag__" else c
        for n, c in zip(made.__code__.co_freevars, made.__closure__)
    ]
    bound = types.FunctionType(made.__code__, made.__globals__, closure=tuple(cells))
    assert bound(1, 2) == f(1, 2)
    assert seen[0] == autograph.LoopOptions({"x": [None], "y": None}, 3)
    assert seen[1] == autograph.LoopOptions({"x": [2]}, None)
