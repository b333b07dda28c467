"""What a fix changes in the source.

Each change is a function from a node of the tree to the node in its place. All changes of one fix are found before the
first is kept, so a fix is written whole or not at all."""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor

from .found import Fix, Line
from .source import CannotWrite, Function, LeftAlone, Source, last_name

_Replace = Callable[[cst.CSTNode], cst.CSTNode]


class _Change(NamedTuple):
    source: Source
    node: cst.CSTNode
    replace: _Replace


class Left(NamedTuple):
    """A fix that is not written."""

    fix: Fix
    why: str
    is_of_file: bool  # for its file, whatever the fix


class Edits:
    """The changes of all fixes.

    Args:
        started: when the run began, in nanoseconds since the epoch.
    """

    def __init__(self, started: int | None = None) -> None:
        self._started = time.time_ns() if started is None else started
        self._sources: dict[str, Source | CannotWrite] = {}
        self._changes: dict[Source, dict[cst.CSTNode, list[_Replace]]] = {}
        self._lines: dict[Source, dict[int, list[Fix]]] = {}
        self._imports: dict[Source, set[str]] = {}
        self.left: list[Left] = []
        self._needs: list[tuple[Source, str]] = []

    def add(self, fix: Fix) -> None:
        self._needs = []
        try:
            changes = [*self._of_decorator(fix), *self._of_calls(fix), *self._of_body(fix)]
            if not changes:
                raise CannotWrite("")
        except CannotWrite as error:
            self.left.append(Left(fix, str(error), isinstance(error, LeftAlone)))
            return
        for source, node, replace in changes:
            self._changes.setdefault(source, defaultdict(list))[node].append(replace)
            lines = self._lines.setdefault(source, defaultdict(list))
            lines[source.position(node).start.line].append(fix)
        for source, module in self._needs:
            self._imports.setdefault(source, set()).add(module)

    def texts(self) -> dict[Source, str]:
        """Of each file that changes."""
        made = {}
        for source, changes in self._changes.items():
            module = source.module.visit(_Apply(changes))
            assert isinstance(module, cst.Module)
            for needed in sorted(self._imports.get(source, ())):
                context = CodemodContext()
                AddImportsVisitor.add_needed_import(context, needed)
                module = AddImportsVisitor(context).transform_module(module)
            if module.code != source.text:
                ast.parse(module.code)
                made[source] = module.code
        return made

    def fixes_of(self, source: Source) -> dict[int, list[Fix]]:
        """By the lines that they change."""
        return self._lines[source]

    def _source(self, file: str) -> Source:
        if file not in self._sources:
            try:
                self._sources[file] = Source(file, self._started)
            except CannotWrite as error:
                self._sources[file] = error
        known = self._sources[file]
        if isinstance(known, CannotWrite):
            raise known
        return known

    def _function(self, fix: Fix) -> tuple[Source, Function]:
        source = self._source(fix.definition.file)
        return source, source.function_at(fix.definition.line)

    def _of_decorator(self, fix: Fix) -> list[_Change]:
        if not fix.options:
            return []
        source, function = self._function(fix)
        # Calls of one body may have other options: the run warned of those without.
        makers = [
            one
            for one in source.makers(function)
            if fix.options.keys() <= {"limit"} or not _GENERAL & _options_of(one)
        ]
        if not makers:
            raise CannotWrite(f"no tracehost.function is applied to it in {source.shown}")
        options = {name: self._expression(source, text) for name, text in fix.options.items()}
        return [_Change(source, one, _with_options(one, options)) for one in makers]

    def _of_calls(self, fix: Fix) -> list[_Change]:
        if not fix.passes:
            return []
        source, function = self._function(fix)
        names = source.aliases(function)
        changes = []
        for place in fix.calls:
            for call in self._calls(place, names):
                for path, text in fix.passes.items():
                    there = self._source(place.file)
                    node = _argument(call, _parameters(source, function, call), path, place)
                    _check_dropped(node, text, place)
                    made = self._expression(there, text)
                    changes.append(_Change(there, node, _with_value(made, path)))
        return changes

    def _calls(self, place: Line, names: set[str]) -> list[cst.Call]:
        source = self._source(place.file)
        found = [one for one in source.calls(place.line) if last_name(one.func) in names]
        if not found:
            raise CannotWrite(f"{source.shown}:{place.line} calls it by another name")
        return found

    def _of_body(self, fix: Fix) -> list[_Change]:
        if not fix.begins:
            return []
        source, function = self._function(fix)
        if not isinstance(function.body, cst.IndentedBlock):
            raise CannotWrite("its body is one line")
        return [_Change(source, function.body, _with_first(fix.begins))]

    def _expression(self, source: Source, text: str) -> cst.BaseExpression:
        """With the names that the file has for torch and tracehost."""
        spelled = {}
        for name, meant in (("torch", "torch"), ("TensorSpec", "tracehost.TensorSpec")):
            if name in text:
                spelled[name] = source.names.spelled(meant) or meant
                if not source.names.spelled(meant):
                    self._needs.append((source, meant.split(".")[0]))
        made = cst.parse_expression(text).visit(_Spell(spelled))
        assert isinstance(made, cst.BaseExpression)
        return made


class _Apply(cst.CSTTransformer):
    def __init__(self, changes: dict[cst.CSTNode, list[_Replace]]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
        updated = super().on_leave(original_node, updated_node)
        for replace in self._changes.get(original_node, ()):
            updated = replace(updated)
        return updated


class _Spell(cst.CSTTransformer):
    """Replaces `torch` in `torch.float32`, and `TensorSpec` in `TensorSpec(...)`."""

    def __init__(self, spelled: dict[str, str]) -> None:
        super().__init__()
        self._spelled = spelled

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(value=self._of(updated_node.value, "torch"))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        return updated_node.with_changes(func=self._of(updated_node.func, "TensorSpec"))

    def _of(self, node: cst.BaseExpression, name: str) -> cst.BaseExpression:
        is_it = isinstance(node, cst.Name) and node.value == name and name in self._spelled
        return cst.parse_expression(self._spelled[name]) if is_it else node


class _Put(cst.CSTTransformer):
    """Replaces an argument that is the path by the user's expression."""

    def __init__(self, path: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self._path, self._value = cst.parse_expression(path), value

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        if original_node.value.deep_equals(self._path):
            return updated_node.with_changes(value=self._value)
        return updated_node


def _with_value(made: cst.BaseExpression, path: str) -> _Replace:
    def replace(node: cst.CSTNode) -> cst.CSTNode:
        value = node.value  # type: ignore[attr-defined]
        is_written = isinstance(made, cst.Call) and isinstance(value, cst.Call)
        if is_written and value.func.deep_equals(made.func):
            return node
        return node.with_changes(value=made.visit(_Put(path, value)))

    return replace


def _with_first(statement: str) -> _Replace:
    def replace(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.IndentedBlock)
        made = cst.parse_statement(statement)
        body = list(node.body)
        has_text = cst.Module(body[:1]).get_docstring() is not None
        if any(one.deep_equals(made) for one in body[: 1 + has_text]):
            return node
        body.insert(has_text, made)
        return node.with_changes(body=body)

    return replace


def _with_options(
    node: cst.Call | cst.Decorator, options: dict[str, cst.BaseExpression]
) -> _Replace:
    call = node.decorator if isinstance(node, cst.Decorator) else node
    if isinstance(call, cst.Call) and any(one.star == "**" for one in call.args):
        raise CannotWrite("its options are in a dict")

    def replace(node: cst.CSTNode) -> cst.CSTNode:
        if isinstance(node, cst.Decorator):
            call = node.decorator
            call = call if isinstance(call, cst.Call) else cst.Call(call)
            return node.with_changes(decorator=_call_with(call, options))
        assert isinstance(node, cst.Call)
        return _call_with(node, options)

    return replace


_GENERAL = {"input_signature", "reduce_retracing"}


def _options_of(node: cst.Call | cst.Decorator) -> set[str]:
    """Those that are set. `reduce_retracing=False` is the default."""
    call = node.decorator if isinstance(node, cst.Decorator) else node
    args = call.args if isinstance(call, cst.Call) else ()
    named = [one for one in args if one.keyword and last_name(one.value) not in ("None", "False")]
    return {one.keyword.value for one in named}


def _call_with(call: cst.Call, options: dict[str, cst.BaseExpression]) -> cst.Call:
    args = list(call.args)
    for name, value in options.items():
        index = next((i for i, one in enumerate(args) if one.keyword and one.keyword.value == name), None)  # fmt: skip
        if index is not None:
            args[index] = args[index].with_changes(value=value)
            continue
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        made = cst.Arg(value, keyword=cst.Name(name), equal=equal)
        if args and isinstance(args[-1].comma, cst.Comma):  # the comma before `)`
            made = made.with_changes(comma=args[-1].comma)
            space = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            args[-1] = args[-1].with_changes(comma=space)
        args.append(made)
    return call.with_changes(args=args)


def _parameters(source: Source, function: Function, call: cst.Call) -> list[str]:
    """The names that the positional arguments of the call have."""
    of = function.params
    names = [one.name.value for one in (*of.posonly_params, *of.params)]
    owner = source.class_of(function)
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    is_static = any(last_name(one.decorator) == "staticmethod" for one in decorators)
    if owner and not is_static and isinstance(call.func, cst.Attribute):
        names = names[last_name(call.func.value) != owner :]
    return names


def _argument(call: cst.Call, parameters: list[str], path: str, place: Line) -> cst.CSTNode:
    """The Arg, or the element of a literal, that has the value at the path."""
    steps: list[object] = []
    node = ast.parse(path, mode="eval").body
    while not isinstance(node, ast.Name):
        is_item = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        if not is_item:
            raise CannotWrite(f"{path} is kept in an object")
        steps.insert(0, node.slice.value)
        node = node.value
    found: cst.CSTNode = _passed(call, parameters, node.id, place)
    for step in steps:
        found = _element(found.value, step, path)  # type: ignore[attr-defined]
    return found


def _passed(call: cst.Call, parameters: list[str], name: str, place: Line) -> cst.Arg:
    for one in call.args:
        if one.keyword is not None and one.keyword.value == name:
            return one
    if any(one.star for one in call.args):
        raise CannotWrite(f"line {place.line} passes its arguments by a star")
    positional = [one for one in call.args if one.keyword is None]
    if name not in parameters or parameters.index(name) >= len(positional):
        raise CannotWrite(f"line {place.line} passes no argument {name!r}")
    return positional[parameters.index(name)]


def _element(value: cst.BaseExpression, step: object, path: str) -> cst.CSTNode:
    if isinstance(value, cst.Dict):
        for one in value.elements:
            key = one.key if isinstance(one, cst.DictElement) else None
            if isinstance(key, cst.SimpleString) and key.evaluated_value == step:
                return one
    if isinstance(value, cst.Tuple | cst.List) and isinstance(step, int):
        elements = value.elements
        if all(isinstance(one, cst.Element) for one in elements) and step < len(elements):
            return elements[step]
    raise CannotWrite(f"{path} is not written in the call")


_EFFECTS = (cst.Call, cst.Await, cst.Yield, cst.NamedExpr)


def _check_dropped(node: cst.CSTNode, text: str, place: Line) -> None:
    """An argument that is no longer passed is not computed either."""
    if text != "None":
        return
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, _EFFECTS):
            raise CannotWrite(f"line {place.line} calls code for this argument")
        stack += one.children
