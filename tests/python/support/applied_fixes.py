"""Applies a fix of a RetraceWarning to the text of a program, as a user would who copies it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

FIX = re.compile(
    r"^  (?:fix|or )   (.*?)   (with the other fixes, )?would save (\d+) of (\d+) traces$", re.M
)
# `pass torch.tensor(i) for 'n' at a.py:9`: the caller's expression is in it
_PASS = re.compile(
    r"pass (.+?)(?: with (\w+) = (.+?))? for (['\"])(.+?)\4(?: at (\S+:\d+(?: and \S+:\d+)*?))?(?=,|:| where| \(|$)"
)
_BEGIN = re.compile(r"begin the body with (\w+) = (.+)$")
_KEEP = re.compile(r"^keep (.+) in (['\"])(.+?)\2, and change it by ")
_DECORATOR = re.compile(r"^(?:raise the limit: )?@tracehost\.function\((.*)\)$")


def apply(text: str, warning: str, fixes: list[str]) -> str:
    """The program with the fixes. Raises ValueError if one of them is none that can be copied."""
    program = _Program(text, warning)
    for fix in fixes:
        _apply(program, fix)
    return ast.unparse(ast.fix_missing_locations(program.tree))


def _apply(program: _Program, fix: str) -> None:
    if match := _DECORATOR.match(fix):
        program.add_options(match[1])
    elif match := _KEEP.match(fix):
        program.keep(match[1], match[3])
    elif fix.startswith("apply @tracehost.function once"):
        program.move_out_of_the_loop()
    elif fix.startswith("call no clear()"):
        program.drop(lambda one: ast.unparse(one) == f"{program.name}.clear()")
    elif match := re.match(r"create (['\"])(.+?)\1 once, outside the loop", fix):
        program.create_once(match[2])
    elif "torch.no_grad() around all its calls or around none" in fix:
        program.drop_no_grad()
    elif passed := _PASS.findall(fix):
        for expression, name, value, _, path, places in passed:
            if name:
                expression = _in_place_of(name, f"({value})", expression)
            lines = {int(one) for one in re.findall(r":(\d+)", places)}
            program.replace_argument(path, expression, lines)
        if match := _BEGIN.search(fix):
            program.begin(f"{match[1]} = {match[2]}")
    else:
        raise ValueError(f"what is to be copied of {fix!r}?")


def with_part(value: Any, suffix: str, make: Callable[[Any], Any]) -> Any:
    """`value` with another part at `suffix`: `['lr']`, `[1]`, `.scale`; empty: all of it."""
    if not suffix:
        return make(value)
    node = ast.parse("_" + suffix, mode="eval").body
    way: list[tuple[bool, Any]] = []
    while not isinstance(node, ast.Name):
        is_item = isinstance(node, ast.Subscript)
        way.insert(0, (is_item, ast.literal_eval(node.slice) if is_item else node.attr))
        node = node.value
    return _replaced(value, way, make)


def _replaced(value: Any, way: list[tuple[bool, Any]], make: Callable[[Any], Any]) -> Any:
    if not way:
        return make(value)
    (is_item, name), *rest = way
    part = _replaced(value[name] if is_item else getattr(value, name), rest, make)
    if not is_item:
        setattr(value, name, part)
        return value
    if isinstance(value, tuple):
        return (*value[:name], part, *value[name + 1 :])
    value = value.copy()
    value[name] = part
    return value


class _Program:
    def __init__(self, text: str, warning: str) -> None:
        self.tree = ast.parse(text)
        self.name = (
            re.search(r"calls to (\S+) \(|^(\S+) \(", warning).group(1) or warning.split(" ")[0]
        )
        self.lines = {int(line) for line in re.findall(r"from \S+?:(\d+)", warning)}
        self.lines |= {int(line) for line in re.findall(r" and \S+\.py:(\d+)", warning)}

    def function(self) -> ast.FunctionDef:
        (found,) = [
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.FunctionDef) and one.name == self.name and one.decorator_list
        ]
        return found

    def calls(self, lines: set[int] | None = None) -> list[ast.Call]:
        at_line = [
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.Call)
            and not (lines or self.lines).isdisjoint(range(one.lineno, one.end_lineno + 1))
        ]
        by_name = [one for one in at_line if _called(one) == self.name]
        if by_name:
            return by_name
        (inside,) = [one.args[0] for one in at_line if _called(one) == "out"]
        return [inside]

    def add_options(self, text: str) -> None:
        wanted = ast.parse(f"f({text})", mode="eval").body.keywords
        function = self.function()
        (decorator,) = function.decorator_list
        if not isinstance(decorator, ast.Call):
            decorator = ast.Call(decorator, [], [])
        names = {one.arg for one in wanted}
        decorator.keywords = [one for one in decorator.keywords if one.arg not in names] + wanted
        function.decorator_list = [decorator]

    def replace_argument(self, path: str, expression: str, lines: set[int]) -> None:
        """`lines`: those that the fix names; then the expression is the caller's, and is copied as it is."""
        root = re.split(r"[.\[]", path, maxsplit=1)[0]
        arguments = self.function().args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        names = names[1:] if names[:1] == ["self"] else names
        for call in self.calls(lines):
            position = names.index(root) if root in names else len(call.args)
            holder = [one for one in call.keywords if one.arg == root]
            value = holder[0].value if holder else call.args[position]
            if expression == "None":
                made: ast.expr = ast.Constant(None)
            else:
                body = expression if lines else _in_place_of(path, "part_", expression)
                made = ast.parse(
                    f"with_part({ast.unparse(value)}, {path.removeprefix(root)!r}, lambda part_: {body})",
                    mode="eval",
                ).body
            if holder:
                holder[0].value = made
            else:
                call.args[position] = made

    def begin(self, statement: str) -> None:
        self.function().body[:0] = ast.parse(statement).body

    def keep(self, tensor: str, slot: str) -> None:
        """The first value is a tensor, and later ones are written into it."""
        own = slot.removeprefix("self.") if slot.startswith("self.") else None
        is_first = True
        for body, index, one in list(self._statements()):
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            if not isinstance(one, ast.Assign | ast.AugAssign) or len(targets) != 1:
                continue
            target = targets[0]
            is_own = own and isinstance(target, ast.Attribute) and target.attr == own
            last = slot.rpartition(".")[2]
            of_self = ast.unparse(target) == f"self.{last}" and "." in slot
            if ast.unparse(target) != slot and not is_own and not of_self:
                if not self._creates(one, slot):
                    continue
                self._wrap_item(one, tensor, slot)
                is_first = False
                continue
            text, value = ast.unparse(target), ast.unparse(one.value)
            if isinstance(one, ast.AugAssign):
                value = f"{text} {_operator(one.op)} ({value})"
            if is_first:
                new = f"{text} = {_in_place_of(slot, f'({value})', tensor)}"
            else:
                new = f"{text}.fill_({value})"
            is_first = False
            body[index] = ast.parse(new).body[0]

    @staticmethod
    def _creates(one: ast.stmt, slot: str) -> bool:
        """`FRAMES = {"seen": 0}` for `FRAMES['seen']`"""
        return (
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Dict)
            and slot.startswith(ast.unparse(one.targets[0]) + "[")
        )

    @staticmethod
    def _wrap_item(one: ast.Assign, tensor: str, slot: str) -> None:
        for index, value in enumerate(one.value.values):
            text = _in_place_of(slot, f"({ast.unparse(value)})", tensor)
            one.value.values[index] = ast.parse(text, mode="eval").body

    def move_out_of_the_loop(self) -> None:
        for index, one in enumerate(self.tree.body):
            if isinstance(one, ast.For) and self.function() in one.body:
                function = self.function()
                one.body.remove(function)
                self.tree.body.insert(index, function)
                return
        raise ValueError("no loop has the function")

    def create_once(self, path: str) -> None:
        names = [one.arg for one in self.function().args.args]
        (call,) = self.calls()
        value = call.args[names.index(path)]
        call.args[names.index(path)] = ast.Name("once_", ast.Load())
        for index, one in enumerate(self.tree.body):
            if isinstance(one, ast.For) and any(child is call for child in ast.walk(one)):
                made = ast.Assign([ast.Name("once_", ast.Store())], value)
                self.tree.body.insert(index, made)
                return

    def drop(self, is_it: Callable[[ast.stmt], bool]) -> None:
        for body, _, one in list(self._statements()):
            if is_it(one):
                body.remove(one)

    def drop_no_grad(self) -> None:
        for body, _, one in list(self._statements()):
            if isinstance(one, ast.With) and "no_grad" in ast.unparse(one.items[0]):
                at = body.index(one)
                body[at : at + 1] = one.body

    def _statements(self) -> Iterator[tuple[list[ast.stmt], int, ast.stmt]]:
        """In the order of the text."""
        found = [
            (body, index, one)
            for node in ast.walk(self.tree)
            for body in [getattr(node, "body", None)]
            if isinstance(body, list)
            for index, one in enumerate(body)
        ]
        yield from sorted(found, key=lambda entry: entry[2].lineno)


def _in_place_of(path: str, text: str, expression: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(path)}(?!\w)", lambda _: text, expression)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _operator(operator: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b"))).split()[1]
