"""Random programs that change their surroundings between calls: each call gives what eager gives, and calls before which
nothing changed are hits.

    cd tests && tracehost -m sweep.surroundings --count 2000 [--seed 1]
    cd tests && tracehost -m sweep.surroundings --opcodes     each opcode's guards switched off in turn
    cd tests && tracehost -m sweep.surroundings --effects     the same for what calls of C code read and store

A program that differs is printed; the exit status is 1. With --opcodes and --effects 19 of 20 must be missed: some program
then differs.
"""

import argparse
import collections
import contextlib
import math
import random
import sys
import textwrap
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import tracehost
from tracehost import _tracehost

QUIET_HITS = 0.9
MISSED_BY_NONE = 0.05
# What matters in a side of a staged `if` alone, of which these programs have none: tests/python/staging/test_impure_calls.py.
OF_SIDES = {"BEFORE_WITH"}

WORLD = """
import abc, collections, contextvars, functools, heapq, itertools, math, operator, pickle, queue, torch, types
import xml.etree.ElementTree
SCALE, TABLE = 2.0, {"a": 2.0, "b": 3.0}

class Base:
    kind = 2.0
    def act(self, v): return v * self.kind

class Thing(Base):
    __slots__ = ("slot",)
    __match_args__ = ("scale", "name")
    def __init__(self):
        self.slot, self.scale, self.name, self.flag, self.none = 2.0, 3.0, "ab", True, None
        self.items, self.pair, self.table = [1.0, 2.0, 3.0], (1.0, 2.0), {"a": 1.0, "b": 2.0}
        self.kinds, self.recent = {1.0, 2.0}, collections.deque([1.0, 2.0], 3)
        self.order = collections.OrderedDict(a=1.0, b=2.0)
        self.weight, self.other, self.h, self.log = torch.ones(2), torch.ones(2), None, []
        self.gone, self.lists, self.unlisted = 1, [[1.0], [], []], [[], [], [1.0]]
        self.table["gone"] = 1.0
        self.rows, self.named, self.texts = 0, {"v": 2.0, "k": 3.0}, {"a": "b"}
        self.generator, self.line = torch.Generator(), queue.SimpleQueue()
        for i in range(20): self.line.put(float(i))
    def base(self, v): return super().act(v)
    @property
    def twice(self): return self.scale * 2
    def __len__(self): return len(self.items)
    def __getitem__(self, i): return self.items[i]
    def __call__(self, v): return v + self.scale

def counted(v, k=2.0): return v * k
def enclosed():
    factor = 2.0
    def use(v): return v * factor
    def change(f):
        nonlocal factor
        factor = f
    def class_of_cell():
        class Some:
            held = factor
        return Some
    return use, change, class_of_cell
use, change_factor, class_of_cell = enclosed()
GONE = UNNAMED = NAMED = 1
def keeping():
    kept = None
    def keep(t):
        nonlocal kept
        kept = t
    def forget(t):
        nonlocal kept
        kept = t
        del kept
    def drop():
        nonlocal kept
        del kept
    def get():
        try: return kept
        except NameError: return "nothing"
    return keep, forget, drop, get
keep, forget, drop, kept = keeping()
other = types.ModuleType("other")
exec("SCALE = 2.0\\ndef scale(names=globals): return names()['SCALE']", other.__dict__)
def each(): yield from w.items
def class_of(n):
    class Some:
        held = n
        scaled = SCALE * n
    return Some
w, v = Thing(), Thing()
class Abstract(abc.ABC): pass
isinstance(w, Abstract)  # the answer is cached
class AbstractToo(abc.ABC): pass
class Left: side = 2.0
class Right: side = 3.0
class Heir(Left): pass
heir, space = Heir(), types.SimpleNamespace(a=1.0)
held = {"a": 2.0, "b": 3.0}
held_get, held_item, held_len = held.get, held.__getitem__, functools.partial(len, held)
variable = contextvars.ContextVar("variable", default=2.0)
cached = functools.lru_cache(None)(abs)
scale_of, named_get = functools.partial(getattr, w, "scale"), operator.methodcaller("get", "a", 1.0)
"""

# Statements of a body, which compute `n` or change `x`; and what may be done between calls that they depend on.
READS = [
    ("n = w.scale", ["w.scale += 1", "del w.scale; w.scale = 7.0"]),
    ("n = w.slot", ["w.slot += 1"]),
    ("n = w.kind", ["w.kind = 5.0", "Base.kind += 1", "Thing.kind = 4.0"]),
    ("n = w.twice", ["w.scale += 1"]),
    ("n = w.act(2.0)", ["Base.kind += 1", "Base.act = lambda self, v: v * 7"]),
    ("n = w(2.0)", ["w.scale += 1"]),
    ("n = len(w) + 1", ["w.items.append(4.0)", "w.items = [1.0]"]),
    ("n = w[1]", ["w.items[1] += 1", "w.items = [1.0, 9.0]"]),
    ("n = SCALE", ["SCALE += 1"]),
    ("n = TABLE['a']", ["TABLE['a'] += 1", "TABLE = {'a': 9.0}"]),
    ("n = use(2.0)", ["change_factor(3.0)"]),
    ("n = counted(2.0)", ["counted.__defaults__ = (5.0,)", "counted = lambda v: v * 9"]),
    ("n = getattr(w, 'missing', 2.0)", ["w.missing = 5.0", "Base.missing = 6.0"]),
    ("n = 3.0 if hasattr(w, 'missing') else 2.0", ["w.missing = 5.0"]),
    ("n = w.items[0] + w.items[-1]", ["w.items[0] += 1", "w.items.append(9.0)"]),
    ("n = sum(w.items[1:])", ["w.items[2] += 1", "w.items.append(9.0)"]),
    ("n = sum(w.items)", ["w.items[2] += 1", "w.items.append(9.0)", "w.items.reverse()"]),
    ("n = 1.0\nfor i in w.items: n = n * 2 + i", ["w.items.reverse()", "w.items.pop()"]),
    ("a, b = w.pair; n = a - b", ["w.pair = (4.0, 2.0)"]),
    ("a, *b = w.items; n = a - sum(b)", ["w.items.insert(0, 5.0)"]),
    ("n = [*w.items, 4.0][1]", ["w.items[1] += 1", "w.items.insert(0, 5.0)"]),
    ("n = {**w.table, 'c': 1.0}['b']", ["w.table['b'] += 1"]),
    ("n = counted(**{'v': 1.0, 'k': w.scale})", ["w.scale += 1"]),
    ("n = counted(*w.pair)", ["w.pair = (4.0, 2.0)"]),
    ("n = counted(v=w.scale, k=2.0)", ["w.scale += 1"]),
    ("n = max(w.items, default=1.0)", ["w.items.append(9.0)", "w.items.clear()"]),
    ("n = len(f'{w.pair!r}')", ["w.pair = (1.0, 2.0, 3.0)"]),
    ("n = w.base(2.0)", ["Base.act = lambda self, v: v * 7"]),
    ("n = len({*w.kinds, 9.0})", ["w.kinds.add(5.0)"]),
    ("n = 2.0 if 1.0 in w.kinds else 3.0", ["w.kinds.discard(1.0)", "w.kinds.add(7.0)"]),
    ("n = 2.0 if 'a' in w.table else 3.0", ["w.table.pop('a', None)", "w.table['a'] = 0.0"]),
    ("n = 2.0 if 9.0 in w.items else 3.0", ["w.items.append(9.0)"]),
    ("n = w.table.get('c', 2.0)", ["w.table['c'] = 5.0"]),
    (
        "n = sum(k * u for k, u in enumerate(w.order.values()))",
        ["w.order.move_to_end('a')", "w.order['a'] += 1"],
    ),
    ("n = sum(w.table.values())", ["w.table['a'] = 9.0", "w.table['z'] = 9.0"]),
    ("n = w.recent[-1]", ["w.recent.append(5.0)"]),
    ("n = 2.0 if w.flag else 3.0", ["w.flag = not w.flag", "w.flag = []"]),
    ("n = 2.0 if w.items else 3.0", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = 2.0 if (not w.items) is True else 3.0", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = len((w.items and w.pair) or ())", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = len(w.items or (1, 2, 3, 4))", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = 1.0\nwhile w.items and n < 3: n += 1", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = 1.0\nwhile not w.items and n < 3: n += 1", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = sum(each())", ["w.items.append(5.0)", "w.items[0] += 1"]),
    ("n = counted(**w.named)", ["w.named['k'] = 5.0", "w.named = {'v': 3.0}"]),
    ("n = class_of(2.0).scaled", ["SCALE += 1"]),
    ("keep(x * 3)", ["keep(None)"]),
    ("forget(x * 3)", ["keep(1)"]),
    ("del w.gone", ["w.gone = 1"]),
    ("del w.table['gone']", ["w.table['gone'] = 1.0"]),
    ("global GONE\ndel GONE", ["GONE = 1"]),
    ("drop()", ["keep(1)"]),
    ("exec('NAMED = len(TABLE)', globals())", ["NAMED = 9"]),
    ("exec('del UNNAMED', globals())", ["UNNAMED = 1"]),
    ("n = class_of_cell().held", ["change_factor(3.0)"]),
    ("n = len(w.items and (1, 2))", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = 0\nwhile w.lists[n]: n += 1", ["w.lists[1].append(1.0)", "w.lists[1].clear()"]),
    (
        "n = 0\nwhile not w.unlisted[n]: n += 1",
        ["w.unlisted[1].append(1.0)", "w.unlisted[1].clear()"],
    ),
    ("del w.items[:1]", ["w.items.append(5.0)", "w.items = [1.0, 2.0, 3.0]"]),
    ("if 'b' in w.order: del w.order['b']", ["w.order['b'] = 1.0"]),
    ("n = 2.0 if not w.items else 3.0", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = 2.0 if w.none is None else 3.0", ["w.none = 1"]),
    ("n = 2.0 if w.weight is w.other else 3.0", ["w.other = w.weight", "w.weight = torch.ones(2)"]),
    ("n = 2.0 if w.pair == (1.0, 2.0) else 3.0", ["w.pair = (1.0, 5.0)"]),
    ("n = len(w.items + [1.0])", ["w.items.append(1.0)"]),
    ("n = len(f'{w.name}{w.pair}')", ["w.name += 'c'", "w.pair = (1.0, 2.0, 3.0)"]),
    ("n = len('{0.name}'.format(w))", ["w.name += 'c'"]),
    ("n = len(w.name) * 2", ["w.name += 'c'"]),
    ("match w:\n    case Thing(scale=3.0): n = 2.0\n    case _: n = 4.0", ["w.scale += 1"]),
    (
        "match w:\n    case Thing(3.0, name): n = len(name)\n    case _: n = 4.0",
        ["w.scale += 1", "w.name += 'c'"],
    ),
    (
        "match w.table:\n    case {'a': a}: n = a\n    case _: n = 4.0",
        ["w.table['a'] = 7.0", "w.table.pop('a', None)"],
    ),
    (
        "match w.items:\n    case [a, b]: n = a\n    case [a, *_]: n = a + 1\n    case _: n = 4.0",
        ["w.items.pop()"],
    ),
    ("import math\nn = math.tau", ["math.tau = 7.0"]),
    ("from math import e\nn = e", ["math.e = 7.0"]),
    ("x = x * w.weight", ["w.weight = w.weight + 1", "w.weight.add_(1)"]),
    ("n = w.weight.shape[0]", ["w.weight = torch.ones(2)", "w.weight = torch.ones(1)"]),
    (
        "n = 2.0 if w.weight.requires_grad else 3.0",
        ["w.weight = torch.ones(2, requires_grad=True)"],
    ),
    ("n = 1.0 if w.h is None else 2.0\nw.h = x * 1", ["w.h = None"]),
    ("w.table['t'] = x + 1", ["w.table.pop('t', None)"]),
    ("w.rows = len(w.items)", ["w.rows = 9", "w.items.append(1.0)"]),
    ("w.log.append(x + 1)", ["w.log = []"]),
    ("w.table.pop('b', None)", ["w.table['b'] = 1.0"]),
    ("w.none = None", ["w.none = 3"]),
    ("v.h = x * 2\nx = x + v.h", ["v.h = None"]),
    ("global LAST\nLAST = x + 1", ["LAST = 0"]),
    ("n = 2.0 if bool(w.items) is True else 3.0", ["w.items.clear()", "w.items.append(1.0)"]),
    ("n = len(vars(v))", ["v.fresh = 1"]),
    ("n = other.scale()", ["other.SCALE += 1"]),
    ("n = 2.0 if isinstance(w, Abstract) else 3.0", ["Abstract.register(Thing)"]),
    ("n = 2.0 if issubclass(Thing, AbstractToo) else 3.0", ["AbstractToo.register(Thing)"]),
    ("n = len(Base.__subclasses__())", ["class More(Base): pass"]),
    ("n = w.generator.initial_seed() % 97", ["w.generator.manual_seed(9)"]),
    ("n = w.line.get_nowait()", ["w.line.put(9.0)"]),
    ("setattr(w, 'h', x * 5)", ["w.h = None"]),
    ("dict.__setitem__(w.table, 't', x * 7)", ["w.table.pop('t', None)"]),
    ("heapq.heapify(w.items)", ["w.items = [3.0, 2.0, 1.0]"]),
    ("w.order.move_to_end('b')", ["w.order.move_to_end('a')"]),
    ("w.kinds.discard(9.0)", ["w.kinds.add(9.0)"]),
    ("w.unlisted[0].clear()", ["w.unlisted[0].append(1.0)"]),
    ("w.items[:1] = [1.0]", ["w.items = [5.0, 2.0, 3.0]"]),
    ("operator.setitem(w.table, 'o', 5.0)", ["w.table['o'] = 1.0"]),
    ("n = len(xml.etree.ElementTree.Element('e', w.texts).keys())", ["w.texts['c'] = 'd'"]),
    ("n = len(','.join(w.texts))", ["w.texts['c'] = 'd'"]),
    ("n = sorted(w.lists)[-1][0]", ["w.lists[0][0] += 1"]),
    ("n = len({w.pair, (1.0, 2.0)})", ["w.pair = (4.0, 2.0)"]),
    ("n = len({w.pair: 1, (1.0, 2.0): 2})", ["w.pair = (4.0, 2.0)"]),
    ("n = len({p for p in (w.pair, (1.0, 2.0))})", ["w.pair = (4.0, 2.0)"]),
    ("n = len({p: 1 for p in (w.pair, (1.0, 2.0))})", ["w.pair = (4.0, 2.0)"]),
    (
        "n = 1.0\nfor i in itertools.chain.from_iterable(r for r in w.lists): n += 1",
        ["w.lists[0].append(1.0)"],
    ),
    ("n = len(sum((r for r in w.lists), [])) + 1", ["w.lists[0].append(1.0)"]),
    ("n = len(sum(map(lambda i: w.lists[i], [0, 1]), [])) + 1", ["w.lists[0].append(1.0)"]),
    ("n = held_get('c', 2.0)", ["held['c'] = 5.0", "held.pop('c', None)"]),
    ("n = held_item('a')", ["held['a'] += 1"]),
    ("n = held_len()", ["held['c'] = 5.0", "held.pop('c', None)"]),
    ("n = scale_of()", ["w.scale += 1"]),
    ("n = named_get(held)", ["held['a'] += 1"]),
    ("n = sum(map(getattr, [w, v], ['scale', 'slot']))", ["w.scale += 1", "v.slot += 1"]),
    ("n = sum(map(held_get, ['a', 'b']))", ["held['b'] += 1"]),
    ("n = len(repr(space))", ["space.a = 100.0", "space.b = 1"]),
    (
        "n = 2.0 if isinstance(heir, Left) else 3.0",
        ["Heir.__bases__ = (Right,)", "Heir.__bases__ = (Left,)"],
    ),
    ("n = len(pickle.dumps([space]))", ["space.a = 100.0", "space.b = 'text'"]),
    ("n = 1 + cached.cache_info().currsize", ["cached(SCALE)", "cached.cache_clear()"]),
    (
        "n = 2.0 if torch.is_warn_always_enabled() else 3.0",
        ["torch.set_warn_always(True)", "torch.set_warn_always(False)"],
    ),
    ("n = variable.get()", ["variable.set(variable.get() + 1)"]),
    ("n = heir.side", ["Heir.__bases__ = (Right,)", "Heir.__bases__ = (Left,)"]),
]
UNRELATED = ["w.unused = 1", "unused = 2", "w.extra = {}", "Thing.unused = 3", "v.scale += 1"]


@dataclass
class Program:
    """A body, and what is done before each call; "": nothing."""

    body: str
    changes: list[str] = field(default_factory=list)

    def text(self) -> str:
        steps = "\n".join(
            f"before call {i}: {change or '-'}" for i, change in enumerate(self.changes)
        )
        return f"{self.body}\n{steps}"


def program(number: int, seed: int) -> Program:
    rng = random.Random(f"{seed}.{number}")
    chosen = rng.sample(READS, rng.randint(1, 3))
    lines = ["def body(x):"]
    for code, _ in chosen:
        lines.append(textwrap.indent(code, "    "))
        if "n = " in code:
            lines.append("    x = x * n")
    lines.append("    return x * 2")
    made = Program("\n".join(lines), [""])
    related = [change for _, changes in chosen for change in changes]
    for _ in range(9):
        made.changes.append(
            rng.choice(["", "", rng.choice(related), rng.choice(related), rng.choice(UNRELATED)])
        )
    return made


def shown(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, dict):
        return type(value).__name__, [(k, shown(u)) for k, u in value.items()]
    if isinstance(value, list | tuple | collections.deque):
        return type(value).__name__, [shown(u) for u in value]
    return type(value).__name__, value if isinstance(
        value, int | float | str | set | None
    ) else None


def state(world: dict) -> object:
    things = [{name: shown(value) for name, value in world[name].__dict__.items()} for name in "wv"]
    kept = shown(world["kept"]()), "GONE" in world, "UNNAMED" in world, world.get("NAMED")
    return things, shown(world.get("LAST")), shown(world["TABLE"]), kept


class Run:
    """One program, eagerly and traced, each in a world of its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.quiet = self.hits = 0

    def world(self) -> dict:
        made: dict = types.ModuleType("world").__dict__
        exec(compile(WORLD + self.program.body, "<program>", "exec"), made)
        return made

    def difference(self) -> str:
        """Empty: no difference. An error of tracehost is no difference."""
        tau, e = math.tau, math.e
        ours, theirs = self.world(), self.world()
        f = tracehost.function(ours["body"], autograph=False)
        changed = True
        try:
            for call, change in enumerate(self.program.changes):
                for world in (ours, theirs):
                    with contextlib.suppress(
                        LookupError, AttributeError, RuntimeError
                    ):  # nothing is there
                        exec(change, world)
                before = f.tracing_count()
                changed = changed or change != ""
                expected, found = self.call(theirs["body"]), self.call(f)
                if isinstance(found, tracehost.Error):
                    return ""
                if shown(expected) != shown(found) or state(ours) != state(theirs):
                    return (
                        f"call {call}: {found} {state(ours)}\nin eager: {expected} {state(theirs)}"
                    )
                if not changed:
                    self.quiet += 1
                    self.hits += f.tracing_count() == before
                changed = False
        finally:
            math.tau, math.e = tau, e
        return ""

    @staticmethod
    def call(f: object) -> object:
        try:
            return f(torch.ones(2))
        except Exception as error:
            return error if isinstance(error, tracehost.Error) else (type(error).__name__,)


def run(count: int, seed: int, stop: bool) -> tuple[int, int, int]:
    """Programs that differ, quiet calls, those that were hits. `stop`: at the first that differs."""
    different = quiet = hits = 0
    for number in range(count):
        one = Run(program(number, seed))
        if difference := one.difference():
            different += 1
            if stop:
                break
            print(f"program {number} differs\n{one.program.text()}\n{difference}\n")
        quiet, hits = quiet + one.quiet, hits + one.hits
    return different, quiet, hits


def switched_off(
    what: str, names: list[str], switch: Callable[[str, bool], bool], count: int, seed: int
) -> int:
    """Takes one guard away after another. The exit status: 1 if too many are missed by no program."""
    kept = []
    for name in names:
        switch(name, False)
        different, _, _ = run(count, seed, stop=True)
        switch(name, True)
        if not different:
            kept.append(name)
    print(f"{len(names) - len(kept)} of {len(names)} {what} are missed by a program", *kept)
    return int(len(kept) > MISSED_BY_NONE * len(names))


def main() -> int:
    parser = argparse.ArgumentParser(prog="sweep.surroundings")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--opcodes", action="store_true")
    parser.add_argument("--effects", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.opcodes:
        names = [name for name in _tracehost.observed_opcodes() if name not in OF_SIDES]
        return switched_off("opcodes", names, _tracehost.switch_opcode, options.count, options.seed)
    if options.effects:
        names = _tracehost.effects_of_c_code()
        return switched_off("effects", names, _tracehost.switch_effect, options.count, options.seed)
    different, quiet, hits = run(options.count, options.seed, stop=False)
    print(
        f"{options.count} programs: {different} different; {hits} of {quiet} quiet calls were hits"
    )
    return int(different > 0 or hits < QUIET_HITS * quiet)


if __name__ == "__main__":
    sys.exit(main())
