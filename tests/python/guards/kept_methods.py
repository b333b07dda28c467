"""Public functions and methods of the standard library, kept before the body calls them: what is called, with what, and how its
object changes between two calls. A table that test_kept_methods.py runs.
"""

import collections
import copy
import functools
import itertools
import json
import operator
import pickle
import re
import types
import weakref
from dataclasses import dataclass


class Thing:
    """An object with an attribute for each kind of read."""

    def __init__(self):
        self.scale = 2.0
        self.name = "ab"
        self.table = {"a": 1.0, "b": 2.0}
        self.rows = [3.0, 1.0, 2.0]

    def get(self, name):
        return getattr(self, name)

    def __eq__(self, other):
        return isinstance(other, Thing) and self.scale == other.scale

    def __hash__(self):
        return 7


@dataclass(frozen=True)
class Case:
    """`made` makes the object `o`; `call` is what the body calls, of `o`; `changes` come between two calls."""

    name: str
    made: str
    function: str
    arguments: str
    changes: tuple[str, ...]

    def __str__(self):
        return self.name


def parted(call):
    """What is called, and with what: the last parentheses hold the arguments."""
    depth = 0
    for i in range(len(call) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(call[i], 0)
        if depth == 0:
            return call[:i], call[i + 1 : -1]
    raise ValueError(call)


def cases(of, made, changes, *calls):
    """One for each call `method(arguments)` of an object."""
    return [
        Case(f"{of}.{call}", made, "o." + parted(call)[0], parted(call)[1], changes)
        for call in calls
    ]


def given(of, made, changes, *calls):
    """One for each call `function(o, arguments)`."""
    return [Case(f"{of}: {call}", made, *parted(call), changes) for call in calls]


DICT = ("o['a'] = 7.0", "o['c'] = 9.0", "o.pop('b', 0)", "o.clear()", "o['b'] = 4.0")
LIST = ("o[0] = 7.0", "o.append(9.0)", "o.pop()", "o[:] = [5.0, 2.0, 8.0]")
SET = ("o.add(7.0)", "o.discard(1.0)", "o.add(2.0)", "o.clear()", "o.add(3.0)")

OF_DICTS = (
    "get('a')", "get('c', 3.0)", "keys()", "values()", "items()", "copy()", "__getitem__('b')", "__contains__('c')", "__len__()",
    "__iter__()", "__repr__()", "__eq__({'a': 1.0, 'b': 2.0})", "__or__({'z': 1.0})", "__reversed__()", "pop('b', 5.0)",
    "popitem()", "setdefault('c', 4.0)", "update({'d': 1.0})", "__setitem__('a', 3.0)", "__delitem__('a')", "clear()",
    "__ior__({'e': 2.0})", "__sizeof__()", "__getattribute__('get')",
)  # fmt: skip
OF_LISTS = (
    "count(1.0)", "index(2.0)", "copy()", "__getitem__(0)", "__getitem__(slice(1))", "__contains__(7.0)", "__len__()", "__iter__()",
    "__add__([1.0])", "__mul__(2)", "__repr__()", "__eq__([1.0, 2.0])", "__lt__([2.0])", "append(4.0)", "extend([4.0])",
    "insert(0, 4.0)", "pop()", "pop(0)", "remove(2.0)", "reverse()", "sort()", "clear()", "__setitem__(0, 3.0)", "__delitem__(0)",
    "__iadd__([1.0])", "__imul__(2)", "__reversed__()",
)  # fmt: skip
OF_SETS = (
    "__contains__(7.0)", "__len__()", "__iter__()", "copy()", "difference({1.0})", "intersection({1.0, 7.0})", "union({9.0})",
    "symmetric_difference({1.0})", "isdisjoint({7.0})", "issubset({1.0, 2.0})", "issuperset({7.0})", "__eq__({1.0, 2.0})",
    "__and__({7.0})", "__or__({7.0})", "__sub__({1.0})", "__xor__({1.0})", "__le__({1.0, 2.0})", "add(4.0)", "discard(2.0)",
    "pop()", "remove(2.0)", "clear()", "update({4.0})", "difference_update({1.0})", "intersection_update({1.0, 7.0})",
    "symmetric_difference_update({1.0})", "__ior__({8.0})", "__iand__({1.0})", "__isub__({1.0})", "__ixor__({5.0})",
)  # fmt: skip
OF_DEQUES = (
    "append(4.0)", "appendleft(4.0)", "clear()", "copy()", "count(1.0)", "extend([4.0])", "extendleft([4.0])", "index(2.0)",
    "insert(1, 4.0)", "pop()", "popleft()", "remove(2.0)", "reverse()", "rotate(1)", "__len__()", "__getitem__(0)",
    "__contains__(7.0)", "__iter__()", "__repr__()", "__reversed__()", "__setitem__(0, 3.0)", "__delitem__(0)", "__iadd__([1.0])",
)  # fmt: skip

CASES = [
    *cases("dict", "{'a': 1.0, 'b': 2.0}", DICT, *OF_DICTS),
    *cases("defaultdict", "collections.defaultdict(float, a=1.0, b=2.0)", DICT, *OF_DICTS, "__missing__('q')"),
    *cases("OrderedDict", "collections.OrderedDict(a=1.0, b=2.0)", (*DICT, "o.move_to_end('b', last=False)"), *OF_DICTS,
           "move_to_end('a')", "popitem(False)"),
    *cases("Counter", "collections.Counter(a=1, b=2)", DICT, *OF_DICTS, "most_common(1)", "elements()", "total()",
           "subtract({'a': 1})", "update('aab')", "__add__(collections.Counter(a=3))", "__missing__('q')"),
    *cases("list", "[1.0, 2.0]", LIST, *OF_LISTS),
    *cases("set", "{1.0, 2.0}", SET, *OF_SETS),
    *cases("deque", "collections.deque([1.0, 2.0])", LIST[:3], *OF_DEQUES),
    *cases("deque(maxlen)", "collections.deque([1.0, 2.0], 2)", LIST[:3], *OF_DEQUES),
    *cases("mappingproxy", "types.MappingProxyType(HELD)", ("HELD['a'] = 7.0", "HELD['c'] = 9.0", "HELD.pop('b', 0)"), "get('a')",
           "keys()", "values()", "items()", "copy()", "__getitem__('a')", "__contains__('c')", "__len__()", "__iter__()"),
    *cases("ChainMap", "collections.ChainMap(HELD, {'z': 1.0})", ("HELD['a'] = 7.0", "HELD['c'] = 9.0", "o['z'] = 4.0"),
           "get('a')", "keys()", "values()", "__getitem__('z')", "__contains__('c')", "__len__()", "new_child()"),
    *cases("object", "Thing()", ("o.scale = 5.0", "o.extra = 1.0", "del o.extra", "o.name = 'abc'"),
           "__getattribute__('scale')", "get('scale')", "__eq__(Thing())", "__dir__()", "__reduce_ex__(2)", "__setattr__('k', 3.0)",
           "__delattr__('scale')"),
    *given("operator", "{'a': 1.0, 'b': 2.0}", DICT, "operator.getitem(o, 'a')", "operator.contains(o, 'c')", "operator.truth(o)",
           "operator.not_(o)", "operator.length_hint(o)", "operator.eq(o, {'a': 1.0, 'b': 2.0})", "operator.ne(o, {'a': 1.0})",
           "operator.setitem(o, 'a', 3.0)", "operator.delitem(o, 'a')", "operator.or_(o, {'z': 1.0})", "operator.ior(o, {'z': 1.0})",
           "operator.itemgetter('a')(o)", "operator.methodcaller('get', 'a')(o)", "operator.methodcaller('update', z=1.0)(o)",
           "operator.methodcaller('pop', 'a', 2.0)(o)"),
    *given("operator", "[1.0, 2.0]", LIST, "operator.add(o, [1.0])", "operator.concat(o, [1.0])", "operator.mul(o, 2)",
           "operator.countOf(o, 1.0)", "operator.indexOf(o, 2.0)", "operator.lt(o, [2.0])", "operator.le(o, [2.0])",
           "operator.gt(o, [2.0])", "operator.ge(o, [2.0])", "operator.iadd(o, [1.0])", "operator.iconcat(o, [1.0])",
           "operator.imul(o, 2)", "operator.itemgetter(0, 1)(o)", "operator.is_(o, None)", "operator.methodcaller('append', 3.0)(o)"),
    *given("operator", "{1.0, 2.0}", SET, "operator.and_(o, {7.0})", "operator.sub(o, {1.0})", "operator.xor(o, {1.0})",
           "operator.iand(o, {1.0})", "operator.isub(o, {1.0})", "operator.ixor(o, {5.0})"),
    *given("operator", "Thing()", ("o.scale = 5.0", "o.table['a'] = 8.0", "o.rows.append(1.0)"), "operator.attrgetter('scale')(o)",
           "operator.attrgetter('scale', 'table')(o)", "operator.methodcaller('get', 'scale')(o)",
           "operator.methodcaller('__getattribute__', 'scale')(o)"),
    *given("builtins", "Thing()", ("o.scale = 5.0", "o.extra = 1.0", "del o.extra"), "getattr(o, 'scale')", "getattr(o, 'extra', 4.0)",
           "hasattr(o, 'extra')", "setattr(o, 'k', 3.0)", "vars(o)", "dir(o)", "copy.copy(o)", "copy.deepcopy(o)", "pickle.dumps(o)",
           "object.__getattribute__(o, 'scale')", "object.__setattr__(o, 'k', 3.0)", "operator.attrgetter('scale')(o)"),
    *given("builtins", "{'a': 1.0, 'b': 2.0}", DICT, "len(o)", "bool(o)", "list(o)", "tuple(o)", "dict(o)", "sorted(o)", "str(o)",
           "repr(o)", "set(o)", "iter(o)", "max(o, default='')", "min(o, default='')", "any(o)", "all(o)", "enumerate(o)", "zip(o, [1])",
           "json.dumps(o)", "pickle.dumps(o)", "copy.copy(o)", "copy.deepcopy(o)", "dict.get(o, 'a')", "dict.fromkeys(o)",
           "collections.Counter(o)", "collections.OrderedDict(o)", "eval('a if 1 else 0', dict(a=1.0) | o)", "format(o)", "ascii(o)",
           "map(o.get, ['a', 'c'])", "map(o.__getitem__, list(o))", "filter(o.get, ['a', 'c'])", "functools.reduce(operator.or_, [o, {'z': 2.0}])", "'{a}'.format_map(collections.defaultdict(int, o))",
           "json.JSONEncoder().encode(o)", "json.JSONEncoder().iterencode(o)"),
    *given("builtins", "[1.0, 2.0]", LIST, "len(o)", "sum(o)", "list(o)", "sorted(o)", "reversed(o)", "tuple(o)", "max(o)", "min(o)",
           "map(abs, o)", "filter(None, o)", "json.dumps(o)", "pickle.dumps(o)", "copy.copy(o)", "copy.deepcopy(o)",
           "functools.reduce(operator.add, o)", "list.count(o, 1.0)", "list.append(o, 4.0)", "enumerate(o)", "zip(o, o)", "iter(o)"),
    *given("itertools", "[1.0, 2.0]", LIST, "itertools.accumulate(o)", "itertools.chain(o, [1.0])", "itertools.chain.from_iterable([o])",
           "itertools.combinations(o, 2)", "itertools.combinations_with_replacement(o, 2)", "itertools.compress(o, [1, 1, 1])",
           "itertools.dropwhile(bool, o)", "itertools.filterfalse(None, o)", "itertools.groupby(o)", "itertools.islice(o, 2)",
           "itertools.pairwise(o)", "itertools.permutations(o)", "itertools.product(o, [1.0])", "itertools.starmap(pow, [(2.0, 2.0)])",
           "itertools.takewhile(bool, o)", "itertools.tee(o)", "itertools.zip_longest(o, [1.0])", "itertools.repeat(o, 2)"),
    *cases("re.Pattern", "re.compile('a')", ("o = re.compile('b')", "o = re.compile('(a)(c)?')"), "match('abc')", "search('cba')",
           "findall('aba')", "sub('x', 'aba')", "split('cacb')", "fullmatch('a')", "subn('x', 'aba')"),
    *given("re", "['a']", ("o[0] = 'b'", "o[0] = 'c'"), "re.findall(o[0], 'abba')", "re.sub(o[0], 'x', 'abba')",
           "re.compile(o[0]).search('abba')", "re.escape(o[0])", "re.split(o[0], 'abba')", "re.match(o[0], 'abba')"),
    *given("weakref", "Thing()", ("o.scale = 5.0", "o.rows.append(1.0)"), "weakref.ref(o)().get('scale')", "weakref.getweakrefcount(o)",
           "weakref.proxy(o).scale.__mul__(2.0)"),
    *cases("WeakValueDictionary", "weakref.WeakValueDictionary(a=THING)", ("o['b'] = OTHER", "o['a'] = OTHER", "o.pop('b', None)",
           "OTHER.scale = 9.0"), "get('a')", "__contains__('b')", "__len__()", "values()", "keys()", "items()", "copy()",
           "__getitem__('a')", "pop('b', None)", "setdefault('c', OTHER)", "update(d=OTHER)"),
    *cases("WeakKeyDictionary", "weakref.WeakKeyDictionary({THING: 1.0})", ("o[OTHER] = 2.0", "OTHER.scale = 9.0", "o[THING] = 3.0",
           "o.pop(OTHER, None)"), "get(THING)", "__contains__(OTHER)", "__len__()", "values()", "__getitem__(THING)", "pop(OTHER, None)"),
    *cases("WeakSet", "weakref.WeakSet([THING])", ("OTHER.scale = 9.0", "o.add(OTHER)", "o.discard(THING)"), "__contains__(OTHER)",
           "__len__()", "copy()", "add(OTHER)", "discard(THING)"),
    *cases("partialmethod object", "types.SimpleNamespace(a=1.0, rows=[1.0])", ("o.a = 3.0", "o.rows.append(2.0)", "o.b = 1.0"),
           "__repr__()", "__eq__(types.SimpleNamespace(a=1.0, rows=[1.0]))", "__getattribute__('a')", "__dir__()", "__reduce__()"),
    *cases("json.JSONEncoder", "json.JSONEncoder()", ("o.indent = 2", "o.sort_keys = True"), "encode({'b': 1, 'a': [2]})"),
    *cases("json.JSONDecoder", "json.JSONDecoder()", ("o.strict = False",), "decode('[1, 2]')", "raw_decode('[1, 2]')"),
    *cases("lru_cache", "functools.lru_cache(None)(pow)", ("o(2.0, 3.0)", "o.cache_clear()", "o(4.0, 1.0)"), "cache_info()",
           "cache_parameters()", "__call__(2.0, 2.0)", "cache_clear()"),
    *cases("partial", "functools.partial(HELD.get, 'a')", ("HELD['a'] = 7.0", "HELD.clear()", "HELD['a'] = 3.0"), "__call__()"),
    *cases("partial", "functools.partial(getattr, THING, 'scale')", ("THING.scale = 7.0", "THING.scale = 9.0"), "__call__()"),
    *cases("partial", "functools.partial(setattr, THING, 'scale')", ("THING.scale = 7.0", "THING.scale = 9.0"), "__call__(3.0)"),
    *cases("partial", "functools.partial(THING.get)", ("THING.scale = 7.0", "THING.scale = 9.0"), "__call__('scale')"),
    *cases("partial", "functools.partial(functools.partial(HELD.get), 'a')", ("HELD['a'] = 7.0", "HELD.clear()"), "__call__()"),
    *cases("partial", "functools.partial(dict, HELD)", ("HELD['a'] = 7.0", "HELD.clear()"), "__call__(z=1.0)"),
    *cases("partial", "functools.partial(sorted, key=HELD.get)", ("HELD['a'] = 7.0", "HELD['b'] = 9.0"), "__call__(['a', 'b'])"),
    *cases("partial", "functools.partial(map, HELD.get)", ("HELD['a'] = 7.0", "HELD['b'] = 9.0"), "__call__(['a', 'b'])"),
    *cases("str", "'{0.scale} {1[a]}'", ("THING.scale = 7.0", "HELD['a'] = 12.0"), "format(THING, HELD)"),
    *cases("str", "'{a}'", ("HELD['a'] = 12.5", "HELD['a'] = 125.0"), "format_map(HELD)", "format(**HELD)", "__mod__(HELD)"),
    *cases("str", "'-'", ("TEXTS.append('c')", "TEXTS[0] = 'zz'"), "join(TEXTS)", "join(map(str, TEXTS))"),
    *given("map", "[THING, OTHER]", ("THING.scale = 7.0", "OTHER.scale = 9.0", "OTHER.name = 'q'"),
           "map(getattr, o, ['scale', 'scale'])", "map(operator.attrgetter('scale'), o)",
           "map(operator.methodcaller('get', 'scale'), o)", "map(functools.partial(getattr, THING), ['scale', 'name'])",
           "sorted(o, key=operator.attrgetter('scale'))[0].scale.__mul__(2.0)", "map(vars, o)", "map(Thing.get, o, ['scale', 'name'])",
           "map(THING.__getattribute__, ['scale'])", "list(map(setattr, o, ['k', 'k'], [1.0, 2.0]))",
           "functools.reduce(getattr, ['table', 'get'], THING)('a')", "max(o, key=operator.attrgetter('scale')).scale.__mul__(2.0)"),
    *given("map", "[HELD, {'a': 4.0}]", ("HELD['a'] = 7.0", "HELD['c'] = 9.0"), "map(operator.itemgetter('a'), o)",
           "map(dict.get, o, ['a', 'c'])", "map(operator.methodcaller('get', 'c'), o)", "map(len, o)", "map(dict, o)",
           "list(map(operator.methodcaller('update', q=1.0), o))", "map(functools.partial(operator.getitem, HELD), ['a'])",
           "map(HELD.setdefault, ['q'], [2.0])", "list(map(HELD.pop, ['b'], [1.0]))", "list(map(TEXTS.append, ['c']))",
           "list(itertools.starmap(HELD.__setitem__, [('a', 3.0)]))", "collections.deque(map(TEXTS.append, 'ab'), maxlen=0)",
           "sum(map(len, TEXTS))", "any(map(HELD.get, ['c', 'q']))", "min('ab', key=HELD.get)", "filter(HELD.__contains__, 'abc')",
           "list(filter(HELD.pop, []))", "itertools.takewhile(HELD.get, 'ab')", "itertools.groupby('ab', HELD.get)",
           "itertools.filterfalse(HELD.get, 'ab')", "functools.reduce(dict.get, ['a'], HELD)"),
]  # fmt: skip


# How the function is kept: the lines that keep it, and the call.
WAYS = {
    "called": ("", "{function}({arguments})"),
    "variable": ("kept = {function}", "kept({arguments})"),
    "attribute": ("holder.kept = {function}", "holder.kept({arguments})"),
    "partial": ("kept = functools.partial({function})", "kept({arguments})"),
    "list": ("table = [{function}]", "table[0]({arguments})"),
}


def weigh(result, depth=0):
    """What a result is, as plain values."""
    if result is None or isinstance(result, (bool, int, float, str, bytes)):
        return result
    if isinstance(result, (re.Match, re.Pattern)):
        return [result.span(), result.group()] if isinstance(result, re.Match) else result.pattern
    if isinstance(result, Thing):
        return ["thing", getattr(result, "scale", None)]
    if isinstance(result, dict):
        return [[weigh(k, depth + 1), weigh(v, depth + 1)] for k, v in result.items()]
    if isinstance(result, (set, frozenset)):
        return sorted(map(str, result))
    if depth < 5 and hasattr(result, "__iter__"):
        return [weigh(one, depth + 1) for one in result]
    return "something"


def world():
    """The names that a program sees."""
    names = {
        m.__name__: m
        for m in (
            collections,
            copy,
            functools,
            itertools,
            json,
            operator,
            pickle,
            re,
            types,
            weakref,
        )
    }
    names |= {
        "Thing": Thing,
        "THING": Thing(),
        "OTHER": Thing(),
        "HELD": {"a": 1.0, "b": 2.0},
        "TEXTS": ["a", "b"],
    }
    names |= {"weigh": weigh, "holder": types.SimpleNamespace()}
    names["OTHER"].scale = 3.0
    return names
