"""C code that looks into containers in a container, an iterator, or a result of Python code: what it finds there is
compared. The body may have made the outer one."""

import itertools

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.ones(2)

# Each reads the rows, which are lists of floats in a list `n`.
READS = [
    # In a container that the body makes.
    "len(json.dumps({'a': n[0], 'b': n[1]}))",
    "len(str([n[0], n[1]]))",
    "len(f'{(n[0], n[1])}')",
    "len('%s' % [n[1]])",
    "len('{}'.format([n[1]]))",
    "[n[0], n[1]] == [[1.0, 2.0], [3.0, 4.0]]",
    "(n[0], n[1]) < (n[1], n[0])",
    "[3.0, 4.0] in [n[0], n[1]]",
    "n[1] in [[1.0, 2.0], [3.0, 4.0]]",
    "[n[0], n[1]].count([11.0, 2.0])",
    "max([n[0], n[1]])[1]",
    "max(n[0], n[1])[1]",
    "sorted([n[0], n[1]])[0][1]",
    "sum([r[1] for r in heapq.nsmallest(1, [n[0], n[1]])])",
    "len(sum([n[0], n[1]], []))",
    "len(sum({'a': n[0], 'b': n[1]}.values(), []))",
    "len(list(itertools.chain.from_iterable([n[0], n[1]])))",
    "numpy.array([n[1], n[1]]).sum()",
    "torch.tensor([n[1], n[1]]).sum()",
    "operator.eq([n[1]], [[3.0, 4.0]])",
    "len({**{'a': n[1]}}['a']) + len(json.dumps({'a': n[1]}))",
    # By C code that takes the elements of n itself.
    "len(sum(n, []))",
    "sum(map(sum, n))",
    "sum(itertools.starmap(lambda *row: sum(row), n))",
    "len(list(itertools.accumulate(n))[-1])",
    "len(functools.reduce(operator.add, n))",
    "sum(k * len(list(v)) for k, v in itertools.groupby(n, key=len))",
    "len(list(filter(None, [r[2:] for r in n])))",
    "len(set(map(tuple, n)))",
    "sum(dict(r[:2] for r in n).values())",
    "max(n)[1]",
    "max(iter(n))[1]",
    "max(itertools.chain(n, n))[1]",
    "sorted(reversed(n))[0][1]",
    "len(str(dict(enumerate(n))))",
    # Given by Python code.
    "max(r for r in n)[1]",
    "len(sum((r for r in n), []))",
    "len(list(itertools.chain.from_iterable(r for r in n)))",
    "sum(1 for _ in itertools.chain.from_iterable(r for r in n))",
    "len([*itertools.chain.from_iterable(r for r in n)])",
    "len(sum(map(lambda i: n[i], [0, 1]), []))",
    "sorted([0, 1], key=lambda i: n[i])[0]",
    "max([0, 1], key=lambda i: n[i])",
    "min(0, 1, key=n.__getitem__)",
    "max({'a': n[0], 'b': n[1]}.items(), key=lambda item: item[1])[1][0]",
    "functools.reduce(lambda a, i: max(a, n[i]), [0, 1], [])[0]",
]

CHANGES = ["n[1].append(7.0)", "n[0][0] = 11.0", "n[1][0] = 20.0", "n[0].pop()", "n[1].pop()"]
IMPORTS = "import functools, heapq, itertools, json, numpy, operator, torch\n"


def world(read, changes):
    names = {}
    exec(
        f"{IMPORTS}n = [[1.0, 2.0], [3.0, 4.0]]\ndef body(x):\n    return x * float({read})", names
    )
    for change in changes:
        exec(change, names)
    return names


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("read", READS)
def test_a_change_in_an_inner_list_is_seen(read, autograph):
    names = world(read, [])
    f = tracehost.function(names["body"], autograph=autograph)
    for change in ["", *CHANGES]:
        exec(change, names)
        try:
            right = names["body"](X)
        except (IndexError, ValueError):
            continue
        assert torch.equal(f(X), right), change
        before = f.tracing_count()
        assert torch.equal(f(X), right), change
        assert f.tracing_count() == before


# ---- C code that calls C code with the elements, and keys that are tuples ------------------------

# Each with a change of what it reads.
CALLS = [
    ("sum(map(table.get, ['a', 'b']))", "table['a'] = 5.0"),
    ("sum(map(table.__getitem__, ['a']))", "table['a'] = 5.0"),
    ("len(list(filter(table.__contains__, ['a', 'z'])))", "table['z'] = 5.0"),
    ("sum(itertools.starmap(table.get, [('a', 0), ('z', 4)]))", "table['z'] = 5.0"),
    ("sum(map(operator.getitem, [table, table], ['a', 'b']))", "table['b'] = 5.0"),
    ("sum(map(operator.attrgetter('value'), things))", "things[0].value = 7.0"),
    ("sum(map(operator.attrgetter('value'), iter(things)))", "things[0].value = 7.0"),
    (
        "sum(map(operator.attrgetter('inner.value'), {0: things[1]}.values()))",
        "things[1].inner.value = 7.0",
    ),
    ("max((t for t in things), key=operator.attrgetter('value')).value", "things[0].value = 7.0"),
    ("(lambda keys: keys.sort(key=table.get) or len(keys[0]))(['a', 'bb'])", "table['bb'] = -1.0"),
    ("functools.reduce(getattr, ['inner', 'value'], things[0])", "things[0].inner.value = 7.0"),
    ("{(1, 2): 3.0, (2, 1): 5.0}[things[0].shape]", "things[0].shape = (2, 1)"),
    (
        "(things[0].shape in {(1, 2)}) + ({(1, 2): 2.0}.get(things[0].shape) or 0)",
        "things[0].shape = (2, 1)",
    ),
    ("len({things[0].shape, (1, 2)})", "things[0].shape = (2, 1)"),
    ("len({things[0].shape: 1, (1, 2): 2})", "things[0].shape = (2, 1)"),
    (
        "len({t.shape: 1 for t in things}) * len({t.shape for t in things})",
        "things[0].shape = (2, 1)",
    ),
]
OBJECTS = """
from types import SimpleNamespace as Made
table = {'a': 1.0, 'b': 2.0, 'bb': 3.0}
things = [Made(value=float(i), inner=Made(value=i + 3.0), shape=(1, 2)) for i in range(2)]
"""


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(("read", "change"), CALLS)
def test_what_c_code_calls_reads(read, change, autograph):
    names = world(read, [OBJECTS])
    f = tracehost.function(names["body"], autograph=autograph)
    with assert_traces(f, 2):
        for step in ("", change):
            exec(step, names)
            for _ in range(2):
                assert torch.equal(f(X), names["body"](X))


TABLES = {"rows": {"a": [1.0], "b": [2.0]}, "unread": [0]}


def rows():
    yield from TABLES["rows"].values()


def test_elements_that_nobody_looks_into_are_not_compared():
    @tracehost.function
    def body(x):
        given = list(rows())
        kept = [TABLES["unread"], *map(lambda row: row, given)]
        return x * len(given) * len(kept)

    with assert_traces(body, 1):
        for n in range(3):
            assert torch.equal(body(X), X * 6)
            TABLES["unread"].append(n)
            TABLES["rows"]["a"].append(n)


def test_a_container_that_holds_itself():
    inner = [1.0]
    loop = [inner]
    loop.append(loop)

    @tracehost.function
    def body(x):
        return x * len(str([loop]))

    with assert_traces(body, 3):
        for _ in range(3):
            assert torch.equal(body(X), X * len(str([loop])))
            inner.append(2.0)


def test_a_large_list_of_rows():
    rows_of_numbers = [[float(i)] for i in range(3000)]

    @tracehost.function
    def body(x):
        return x * sum(itertools.chain.from_iterable(rows_of_numbers[:]))

    with assert_traces(body, 2):
        assert torch.equal(body(X), X * sum(range(3000)))
        rows_of_numbers[2999][0] = 0.0
        assert torch.equal(body(X), X * (sum(range(3000)) - 2999))
