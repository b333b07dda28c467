"""Changes of a syntax tree: each is a function from a node of the tree to the node in its place."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from .source import CannotWrite, last_name

Replace = Callable[[cst.CSTNode], cst.CSTNode]


class Apply(cst.CSTTransformer):
    def __init__(self, changes: dict[cst.CSTNode, list[Replace]]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
        updated = super().on_leave(original_node, updated_node)
        for replace in self._changes.get(original_node, ()):
            updated = replace(updated)
        return updated


class Spell(cst.CSTTransformer):
    """Replaces `torch` in `torch.float32`, and `tracehost.TensorSpec`."""

    def __init__(self, spelled: dict[str, str]) -> None:
        super().__init__()
        self._spelled = spelled

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        return self._of(updated_node.with_changes(value=self._of(updated_node.value)))

    def _of(self, node: cst.BaseExpression) -> cst.BaseExpression:
        for name, spelled in self._spelled.items():
            if node.deep_equals(cst.parse_expression(name)):
                return cst.parse_expression(spelled)
        return node


class _Put(cst.CSTTransformer):
    """Replaces an argument that is the path by the user's expression."""

    def __init__(self, path: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self._path, self._value = cst.parse_expression(path), value

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        if original_node.value.deep_equals(self._path):
            return updated_node.with_changes(value=self._value)
        return updated_node


def with_value(made: cst.BaseExpression, path: str) -> Replace:
    def replace(node: cst.CSTNode) -> cst.CSTNode:
        value = node.value  # type: ignore[attr-defined]
        is_written = isinstance(made, cst.Call) and isinstance(value, cst.Call)
        if is_written and value.func.deep_equals(made.func):
            return node
        return node.with_changes(value=made.visit(_Put(path, value)))

    return replace


def with_first(statement: str) -> Replace:
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


def with_options(node: cst.Call | cst.Decorator, options: dict[str, cst.BaseExpression]) -> Replace:
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


def options_of(node: cst.Call | cst.Decorator) -> set[str]:
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
