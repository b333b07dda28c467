"""What a converted function keeps of the original, what is left alone and why, what is said about it."""

import ast
import functools
import gc
import inspect
import json
import linecache
import os
import textwrap
import traceback
import types
import warnings
import weakref

import pytest
import torch
import tracehost
from autograph_support import same
from tracehost import autograph
from tracehost.autograph.conversion import compile as compiler
from tracehost.autograph.conversion.source import codes_below
from tracehost.autograph.run.calls import convert_callable
from tracehost.autograph.run.traceback import clean_traceback


def made(source, name="f", **values):
    """A function from text, with a source that can be read."""
    source = textwrap.dedent(source)
    file = f"<test {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"__name__": "made", **values}
    exec(compile(source, file, "exec"), space)
    return space[name]


def branch(x, k=[1, 2], *, flag=True) -> int:
    """Its text."""
    if x:
        return k[0]
    return k[1] if flag else 0


branch.mark = 5


def test_attributes_are_kept():
    converted = convert_callable(branch)
    assert converted is not branch
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "mark"):
        assert getattr(converted, name) is getattr(branch, name)
    assert converted.__kwdefaults__ == {"flag": True}
    assert converted.__annotations__ == branch.__annotations__
    assert inspect.signature(converted) == inspect.signature(branch)
    assert converted.__code__.co_filename == branch.__code__.co_filename
    assert converted.__code__.co_qualname == "branch"
    assert converted.__globals__ is branch.__globals__


def test_closure_cells_are_the_original_s():
    count = 0

    def f(x):
        nonlocal count
        if x:
            count += 1
        return count

    converted = convert_callable(f)
    assert converted(1) == 1 and f(1) == 2 and converted(0) == 2 and count == 2
    assert f.__closure__[0] in converted.__closure__


def test_converted_once_by_code():
    def make(k):
        def f(x):
            return k if x else -k

        return f

    one, two = convert_callable(make(1)), convert_callable(make(2))
    assert one.__code__ is two.__code__
    assert (one(1), two(1)) == (1, 2)
    assert convert_callable(one) is one


def test_nothing_stays_alive():
    f = made("def f(x):\n    if x:\n        return (lambda: x)()\n    return 0\n")
    converted = convert_callable(f)
    gone = weakref.ref(f.__code__), weakref.ref(converted.__code__)
    before = len(compiler._conversions), len(compiler._originals)
    del f, converted
    gc.collect()
    assert [r() for r in gone] == [None, None]
    assert len(compiler._conversions) < before[0] and len(compiler._originals) < before[1]


def test_all_code_knows_its_original():
    def f(x):
        def inner(y):
            while y > 0:
                y -= 1
            return y

        g, h = lambda t: t and x, lambda t: t or 2
        if x:
            return inner(x), g(1), h(0)

    converted = convert_callable(f)
    originals = {
        compiler.original_code(c) for c in [converted.__code__, *codes_below(converted.__code__)]
    }
    assert originals == {f.__code__, *codes_below(f.__code__)}
    assert compiler.original_code(f.__code__) is None
    for code in codes_below(converted.__code__):
        assert not code.co_name.startswith("ag__") and "ag__" not in code.co_qualname


def test_lambdas_on_one_line():
    pair = [lambda x: x and 1, lambda x: x or 2]
    for f in pair:
        same(f, (0,), (1,), (5,))
    nested = lambda x: lambda y: x if y else -x
    assert convert_callable(nested)(3)(0) == -3
    inner = nested(4)
    assert convert_callable(inner)(1) == 4
    assert "x and" not in autograph.to_code(pair[1])


def test_shown_code():
    def f(x):
        if x > 0 and x < 5:
            x = x + 1
        return x

    code = autograph.to_code(f)
    assert code.startswith("def f(x):")
    assert "ag__.if_stmt(ag__.and_test(x > 0, lambda: ag__.ld(x) < 5)" in code.replace(
        "ag__.ld(x) > 0", "x > 0"
    )
    assert autograph.to_code(functools.partial(f, 1)) == code
    with pytest.raises(TypeError, match="takes a Python function"):
        autograph.to_code(len)
    with pytest.raises(ValueError, match="is not converted: it is a generator"):
        autograph.to_code(made("def f():\n    yield 1\n"))


def reason(f):
    assert convert_callable(f) is f
    return compiler.unconverted(f.__code__)


def test_why_a_function_is_left():
    async def coroutine(x):
        return x

    def generator(x):
        yield x

    def frame(x):
        return locals()

    @autograph.do_not_convert
    def marked(x):
        return x or 1

    space = {}
    exec("def f(x):\n    if x: return 1\n", space)
    assert "async" in reason(coroutine)
    assert "generator" in reason(generator)
    assert "reads its own variables with locals()" in reason(frame)
    assert "do_not_convert" in reason(marked)
    assert "no source" in reason(space["f"])
    assert "library code: tracehost.autograph.convert('textwrap')" in reason(textwrap.dedent)
    assert "library code" in reason(torch.nn.functional.relu)


def test_code_that_was_never_called_from_converted_code():
    class Holder:
        @property
        def value(self):
            return 1 if self else 2

    assert "properties" in compiler.unconverted(Holder.value.fget.__code__)
    assert "library code" in compiler.unconverted(json.dumps.__code__)


def test_changed_source_is_not_used():
    f = made("def f(x):\n    if x:\n        return total\n")
    file = f.__code__.co_filename
    linecache.cache[file] = (1, None, ["def f(x):\n", "    return other\n"], file)
    assert "has changed since it was imported" in reason(f)


EDITED = {
    "another number": ("    return x * 2\n", "    return x * 7\n"),
    "another operator": ("    return x * 2\n", "    return x + 2\n"),
    "another order": ("    y = x\n    return y - x\n", "    y = x\n    return x - y\n"),
    "another text": ("    return len('abc') * x\n", "    return len('abcd') * x\n"),
    "another lambda": ("    return (lambda y: y * 2)(x)\n", "    return (lambda y: y * 3)(x)\n"),
    "one statement more": ("    return x * 2\n", "    x = x + 1\n    return x * 2\n"),
}


@pytest.mark.parametrize("before, after", EDITED.values(), ids=EDITED)
def test_a_file_that_is_edited_while_the_program_runs_is_not_used(before, after, tmp_path):
    file = tmp_path / "edited_module.py"
    head = "def helper(x):\n    if x.sum() > 0:\n        x = x + 1\n"
    file.write_text(head + before)
    space = {"__name__": "edited_module"}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text(head + after)
    helper = space["helper"]
    f = tracehost.function(lambda x: helper(x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for sign in (1, -1, 1, -1):
            x = torch.ones(2) * sign
            assert torch.equal(f(x), helper(x))
    assert f.tracing_count() == 2, "the graph checks the condition"
    (warned,) = (str(w.message) for w in caught if w.category is tracehost.TraceWarning)
    assert "calls helper (edited_module.py:1) at test_autograph_functions.py:" in warned
    assert "whose file has changed since it was imported" in warned


def test_comments_and_lines_around_may_change(tmp_path):
    file = tmp_path / "commented_module.py"
    file.write_text("def helper(x):\n    return x if x.sum() > 0 else -x\n\n\nOTHER = 1\n")
    space = {"__name__": "commented_module"}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("def helper(x):\n    # the sign\n    return x if x.sum() > 0 else -x\n")
    assert convert_callable(space["helper"]) is not space["helper"]


def test_what_is_compiled_by_itself_is_what_its_module_has():
    """A module's imports, private names, closures and class bodies have instructions of their own."""

    class Private:
        __slots__ = ("__value",)

        def method(self, x):
            class Inner:
                name = "method"

                def __call__(self):
                    return os.path.join("a", textwrap.dedent(x)), json.dumps(x)

            self.__value = Inner()()
            return super().__repr__() and self.__value

    def closure(x):
        return Private, torch.ones(x), functools.reduce(lambda a, b: a + b, [x]), closure

    for function in (Private.method, closure, same, made):
        assert convert_callable(function) is not function


def test_what_stays_inside_a_converted_function():
    f = made(
        """\
        def f(xs):
            def generator():
                for x in xs:
                    if x:
                        yield x
            kept = [x for x in xs if x > 1]
            match xs:
                case [y, *_] if y > 3:
                    kept.append(y)
            if kept:
                return kept
            return list(generator())
        """
    )
    same(f, ([0, 1],), ([4, 5],), ([],))
    code = f.__code__
    assert "generator" in compiler.unconverted(code, 4)
    assert "comprehension" in compiler.unconverted(code, 6)
    assert compiler.unconverted(code, 8) is None
    assert compiler.unconverted(code, 10) is None
    inner = next(c for c in codes_below(code) if c.co_name == "generator")
    assert "generator" in compiler.unconverted(inner, 4)


def test_a_lambda_that_yields_stays():
    f = made("def f(xs):\n    return list((lambda: [(yield 1), (yield 2) if xs else 3])())\n")
    same(f, ([1],), ([],))


def test_library_code_on_request():
    from email import utils

    assert convert_callable(utils.quote) is utils.quote
    try:
        assert autograph.convert("email") == "email"
        assert convert_callable(utils.quote) is not utils.quote
        same(utils.parseaddr, ("A B <a@b>",), ("",))
    finally:
        from tracehost.autograph.conversion import policy

        policy._packages.discard("email")
        compiler._forget()
    with pytest.raises(TypeError, match="a package or its name"):
        autograph.convert(5)


def test_do_not_convert():
    class Marked:
        @autograph.do_not_convert
        def method(self, x):
            return x and 1

        @staticmethod
        @autograph.do_not_convert()
        def static(x):
            return x or 1

        def __call__(self, x):
            return x or 2

    thing = Marked()
    assert convert_callable(thing.method) == thing.method
    assert convert_callable(Marked.static) is Marked.static
    wrapped = autograph.do_not_convert(thing)
    assert convert_callable(wrapped) is wrapped and wrapped(0) == 2
    assert autograph.do_not_convert(int) is int
    with pytest.raises(TypeError, match="takes a callable"):
        autograph.do_not_convert(5)

    def outer(x):
        @autograph.do_not_convert
        def inner(y):
            return [c for c in (y and 1,)]

        return inner(x)

    same(outer, (0,), (3,))


def test_library_decorators_around_the_user_s_functions():
    @torch.no_grad()
    def f(x):
        return x and torch.is_grad_enabled()

    @torch.no_grad()
    @autograph.do_not_convert
    def left(x):
        return x or 1

    @autograph.do_not_convert
    @torch.no_grad()
    def left_too(x):
        return x or 1

    converted = convert_callable(f)
    assert converted is not f and converted(1) is False and converted.__code__ is f.__code__
    assert any(
        "ag__" in getattr(c.cell_contents, "__code__", f.__code__).co_freevars
        for c in converted.__closure__
        if isinstance(c.cell_contents, types.FunctionType)
    )
    assert f.__wrapped__ in [c.cell_contents for c in f.__closure__]
    for g in (left, left_too):
        assert convert_callable(g) is g and g(0) == 1


def test_nonlocal_of_a_function_between():
    def f(x):
        out = []
        if x:

            def middle(y):
                found = None

                def inner():
                    nonlocal found
                    if y > 1:
                        found = y

                for _ in range(2):
                    inner()
                return found

            out.append(middle(x))
        return out

    same(f, (0,), (1,), (2,))


def test_after_the_fact():
    def f(x):
        return x and 1

    assert convert_callable(f) is not f
    autograph.do_not_convert(f)
    assert convert_callable(f) is f


def test_what_is_called_as_it_is():
    module = torch.nn.Linear(2, 2)
    for f in (len.__call__, torch.exp, module, dict, str, "a".join, torch.Tensor.add, print):
        assert convert_callable(f) is f or convert_callable(f) == f
    assert convert_callable(5) == 5


def test_callable_kinds():
    class Kind:
        def __call__(self, x):
            return x and 1

        def method(self, x):
            return x and 2

        @classmethod
        def of_class(cls, x):
            return cls, x or 3

    kind = Kind()
    assert convert_callable(kind)(5) == 1
    assert isinstance(convert_callable(kind.method), types.MethodType)
    assert convert_callable(kind.method)(5) == 2
    assert convert_callable(Kind.of_class)(0) == (Kind, 3)
    part = convert_callable(functools.partial(kind.method, 5))
    assert part() == 2 and part.func is not kind.method


def fails(x):
    for i in range(3):
        if x > i:
            with_index(i)
            raise AssertionError("not reached")


def with_index(i):
    while True:
        return [][i] if i == 0 and not [] else None


def test_traceback_reads_as_python_s():
    def shown(f):
        try:
            f(1)
        except IndexError as error:
            clean_traceback(error)
            text = "".join(traceback.format_exception(error))
            return text.split("in shown\n", 1)[1].split("\n", 2)[2]

    plain, converted = shown(fails), shown(convert_callable(fails))
    lines = lambda text: [line for line in text.splitlines() if "^" not in line]
    assert lines(plain) == lines(converted)
    assert "operators.py" not in converted


def test_chained_errors_are_cleaned_too():
    def f(x):
        try:
            if x:
                raise KeyError(x)
        except KeyError as e:
            if x:
                raise ValueError(x) from e

    with pytest.raises(ValueError) as caught:
        convert_callable(f)(1)
    clean_traceback(caught.value)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert not any("autograph/run/operators" in file for file in files)


def long_function(count):
    lines = ["def f(x, n):", "    y = x"]
    for i in range(count):
        lines += [
            f"    a{i} = y * {i}",
            f"    if a{i} > {i} and n < {i}:",
            f"        y = y + a{i}",
            f"        if n == {i}: return a{i}",
            "    for i in range(n):",
            f"        if i > {i}: break",
            "        y += i",
        ]
    return made("\n".join([*lines, "    return y", ""]))


def nodes_of(f):
    return sum(1 for _ in ast.walk(compiler.converted_tree(f)[0]))


def test_size_is_linear():
    """Twice the length, about twice the code: also for a row of early exits."""
    sizes = [nodes_of(long_function(count)) for count in (50, 100, 200)]
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 2.3 * first
    same(long_function(100), (1, 3), (5, 60))


def test_many_exits_run():
    lines = [f"    if x == {i}: return {i * 2}" for i in range(400)]
    f = made("\n".join(["def f(x):", *lines, "    return -1", ""]))
    converted = same(f, (0,), (30,), (399,), (1000,))
    assert compiler.original_code(converted.__code__) is f.__code__


def test_deep_nesting_converts():
    lines = ["def f(x):"] + ["    " * i + f"if x > {i}:" for i in range(1, 60)]
    f = made("\n".join([*lines, "    " * 60 + "return x", "    return 0", ""]))
    same(f, (0,), (30,), (100,))


def test_equal_code_in_two_files_is_not_the_same():
    one, two = (made("def f(x):\n    return x if x else 1\n") for _ in range(2))
    assert convert_callable(one).__code__.co_filename != convert_callable(two).__code__.co_filename
