"""The syntax tree of a function object, with the file's own lines and columns."""

from __future__ import annotations

import ast
import copy
import dis
import inspect
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from ..._bytecode import loaded
from .scopes import parameters_of


class NoSource(Exception):
    """Why a function's source can't be had."""


class Edited(NoSource):
    """Its file says something else than the code that runs."""

    def __init__(self, code: CodeType) -> None:
        super().__init__(f"{code.co_filename} has changed since it was imported")


def tree_of(
    function: FunctionType,
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, str]:
    """A fresh tree of the function and the text that it was parsed from."""
    code = function.__code__
    lines = _lines(code, function.__globals__)
    if code.co_name == "<lambda>":
        return _lambda(code, lines)
    if code.co_name.startswith("<"):
        raise NoSource(f"{code.co_name} is not the code of a function")
    text = _block(code, lines)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NoSource(f"its source can't be parsed: {error}") from None
    node: Any = tree.body[0]
    if isinstance(node, ast.If):
        node = node.body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise NoSource(f"{code.co_filename}:{code.co_firstlineno} does not hold its definition")
    if node.name != code.co_name:
        raise Edited(code)
    _mangle(node, code)
    return node, text


def is_code_of(made: CodeType, code: CodeType) -> bool:
    """Whether `code` does what its file says. `made`: the code that its tree gives today."""
    if any("@" in n for n in _all_names(code)):  # pytest has rewritten its asserts
        return made.co_varnames[: len(_taken(code))] == tuple(_taken(code))
    return _essence(made) == _essence(code)


def imports_of(code: CodeType) -> set[str]:
    """What the module of `code` imports, as far as it matters: the compiler calls `name.attribute()` of an import
    by other instructions. And `super`, if the module mentions that name outside of functions."""
    found, others = set(), set()
    for one in (code, *codes_below(code)):
        before: Any = None
        for instruction in dis.get_instructions(one):
            operation = instruction.opname
            if operation == "LOAD_GLOBAL" and instruction.argval == "super":
                found.add("super")
            elif operation == "LOAD_SUPER_ATTR":
                others.add("super")
            if operation in ("LOAD_ATTR", "LOAD_METHOD"):
                method = operation == "LOAD_METHOD" or "NULL" in instruction.argrepr
                (others if method else found).add(before)
                before = None
            elif operation != "EXTENDED_ARG":
                before = loaded(instruction)
    return {n for n in found - others if isinstance(n, str) and n.isidentifier()}


# From Python 3.14 on a function in a class has CO_METHOD.
_OF_PLACE = inspect.CO_NESTED | getattr(inspect, "CO_METHOD", 0)


def _essence(code: CodeType) -> tuple[Any, ...]:
    """All of a code object but its name and place."""
    return (
        code.co_code,
        code.co_exceptiontable,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        code.co_flags & ~_OF_PLACE,
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        [_constant(value, code) for value in code.co_consts],
    )


def _constant(value: Any, code: CodeType) -> Any:
    if isinstance(value, CodeType):
        return value.co_name, _essence(value)
    if value == code.co_qualname and "__qualname__" in code.co_names:  # a class body's
        return True
    return type(value), sorted(map(repr, value)) if type(value) is frozenset else repr(value)


def _lines(code: CodeType, module: dict[str, Any]) -> list[str]:
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, module)
    if not lines:
        raise NoSource(f"it has no source that could be read ({code.co_filename})")
    if code.co_firstlineno > len(lines):
        raise Edited(code)
    return lines


def codes_below(code: CodeType) -> Iterator[CodeType]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from codes_below(value)


def _block(code: CodeType, lines: list[str]) -> str:
    """The lines of the definition, at its line, below `if 1:` if it is indented: so places stay."""
    start = code.co_firstlineno - 1
    text = "".join(inspect.getblock(lines[start:]))
    return "\n" * (start - 1) + "if 1:\n" + text if text[0].isspace() else "\n" * start + text


# Whole files' trees, for lambdas: their code says where they are, not where their statement begins.
_files: dict[str, tuple[list[str], dict[int, list[ast.Lambda]]]] = {}
_MOST_FILES = 32


def _lambda(code: CodeType, lines: list[str]) -> tuple[ast.Lambda, str]:
    cached = _files.get(code.co_filename)
    if cached is None or cached[0] is not lines:
        found: dict[int, list[ast.Lambda]] = {}
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError as error:
            raise NoSource(f"its file can't be parsed: {error}") from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda):
                found.setdefault(node.lineno, []).append(node)
        while len(_files) >= _MOST_FILES:
            _files.pop(next(iter(_files)), None)
        cached = _files[code.co_filename] = lines, found
    fitting = [n for n in cached[1].get(code.co_firstlineno, ()) if _same_arguments(n, code)]
    if len(fitting) > 1:
        fitting = _by_position(code, fitting)
    if not fitting:
        raise Edited(code)
    if len(fitting) > 1:
        raise NoSource("several lambdas on its line take the same arguments")
    node = copy.deepcopy(fitting[0])
    text = "".join(lines[node.lineno - 1 : node.end_lineno])
    _mangle(node, code)
    return node, text


def _by_position(code: CodeType, candidates: list[ast.Lambda]) -> list[ast.Lambda]:
    """The innermost lambda whose body holds all of the code's positions."""
    places = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column is not None and end_column > 0
    ]
    if not places:
        return candidates
    first, last = min(p[:2] for p in places), max(p[2:] for p in places)
    holding = [
        n
        for n in candidates
        if (n.body.lineno, n.body.col_offset) <= first
        and last <= (n.body.end_lineno or 0, n.body.end_col_offset or 0)
    ]
    return sorted(holding, key=lambda n: (n.lineno, n.col_offset))[-1:]


def _taken(code: CodeType) -> list[str]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[:count])


def _same_arguments(node: Any, code: CodeType) -> bool:
    prefix = _private_prefix(code)
    return [_mangled(a.arg, prefix) for a in parameters_of(node.args)] == _taken(code)


def class_around(code: CodeType) -> str | None:
    """The class whose body the function is written in, at any depth of functions between."""
    parts = code.co_qualname.split(".")[:-1]
    while len(parts) >= 2 and parts[-1] == "<locals>":
        del parts[-2:]
    return parts[-1] if parts and parts[-1] != "<locals>" else None


def _private_prefix(code: CodeType) -> str:
    owner = (class_around(code) or "").lstrip("_")
    return f"_{owner}" if owner else ""


def _mangled(text: str, prefix: str) -> str:
    private = text.startswith("__") and not text.endswith("__") and "." not in text
    return prefix + text if private else text


def _mangle(node: Any, code: CodeType) -> None:
    """Write private names as the class's compiler did: the tree is compiled outside of its class."""
    prefix = _private_prefix(code)
    if prefix and any(n.startswith(prefix + "__") for n in _all_names(code)):
        _Mangler(prefix).visit(node)


def _all_names(code: CodeType) -> Iterator[str]:
    for one in (code, *codes_below(code)):
        yield from one.co_names
        yield from one.co_varnames
        yield from one.co_cellvars
        yield from one.co_freevars


class _Mangler(ast.NodeTransformer):
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class within mangles its own body; its bases and decorators are ours."""
        node.name = _mangled(node.name, self.prefix)
        for part in [*node.bases, *node.keywords, *node.decorator_list]:
            self.visit(part)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for part in ("id", "attr", "arg", "name", "asname", "rest"):
            value = getattr(node, part, None)
            if isinstance(value, str) and not isinstance(node, ast.keyword):  # f(__x=1) stays
                setattr(node, part, _mangled(value, self.prefix))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [_mangled(n, self.prefix) for n in node.names]
        return super().generic_visit(node)
