"""What a body does with a Python number, and whether it can do the same with a 0-dim tensor."""

from __future__ import annotations

import ast
import enum

from .source import Definition, parsed


class Use(enum.IntEnum):
    """From the one that asks least of the number to the one that asks most."""

    ARITHMETIC = 0  # operators and ops: a tensor does as well
    COUNT = 1  # a size, or the number of turns of a loop: int() of a tensor does
    VALUE = 2  # a key, a text, a call that is not known: Python's own number is needed


_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)
# Functions of Python that give a number of the graph (docs/rules/value-reads.md).
_NUMBERS = {"int", "float", "abs", "min", "max", "bool"}
_MATH = frozenset(
    ("sqrt", "exp", "log", "pow", "sin", "cos", "tan", "radians", "floor", "ceil", "trunc")
)
# Modules of functions that take Python's own numbers only.
_PYTHONS = {"math", "np", "numpy", "json", "os", "random", "time", "str", "logging"}
# Arguments of ops that are sizes or counts.
_COUNTS = frozenset(
    ("topk", "kthvalue", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange")
    + ("linspace", "eye", "view", "reshape", "repeat", "expand", "narrow", "tile", "unfold")
    + ("new_zeros", "new_ones", "new_empty", "new_full", "tril", "triu", "diag")
)
# Ops of which a number decides how many parts or dimensions there are, or which dimension is meant: each value is a
# graph of its own.
_STRUCTURES = frozenset(
    ("chunk", "split", "unbind", "flatten", "unflatten", "permute", "transpose", "squeeze")
    + ("unsqueeze", "movedim", "flip", "sum", "mean", "std", "var", "prod", "max", "min", "amax")
    + ("amin", "argmax", "argmin", "softmax", "log_softmax", "logsumexp", "cumsum", "cumprod")
    + ("sort", "argsort", "any", "all", "median", "mode", "cat", "stack", "gather", "size", "roll")
)


def use_of(definition: Definition | None, path: str) -> Use:
    """The one that asks most, of all places where the body reads the number at the path."""
    if definition is None:
        return Use.VALUE
    wanted = parsed(path)
    root = next((n.id for n in ast.walk(wanted) if isinstance(n, ast.Name)), "") if wanted else ""
    if not root or root in definition.stored or isinstance(definition.node, ast.AsyncFunctionDef):
        return Use.VALUE
    loads = definition.loads(path)
    if not loads or not _is_all(definition, root, path):
        return Use.VALUE
    use = max(_use(definition, load) for load in loads)
    return use if definition.is_converted or use == Use.ARITHMETIC else Use.VALUE


def _is_all(definition: Definition, root: str, path: str) -> bool:
    """Whether the body reads the root by paths alone: an object that is passed on may be read anywhere."""
    if path == root:
        return True
    for node in definition.nodes:
        if isinstance(node, ast.Name) and node.id == root:
            parent = definition.parents.get(node)
            if not isinstance(parent, ast.Attribute | ast.Subscript) or parent.value is not node:
                return False
            called = definition.parents.get(parent)
            if isinstance(called, ast.Call) and called.func is parent and root != "self":
                return False
    return True


def _use(definition: Definition, node: ast.AST, depth: int = 0) -> Use:
    parent = definition.parents.get(node)
    if depth > 40 or parent is None:
        return Use.VALUE
    if isinstance(parent, _ARITHMETIC):
        others = [one for one in ast.iter_child_nodes(parent) if one is not node]
        if any(
            isinstance(one, ast.List | ast.Tuple | ast.JoinedStr | ast.Is | ast.In)
            for one in others
        ):
            return Use.VALUE
        if any(isinstance(one, ast.IsNot | ast.NotIn) for one in others):
            return Use.VALUE
        return _use(definition, parent, depth + 1)
    if isinstance(parent, ast.keyword):
        if parent.arg in ("dim", "axis", "dims"):
            return Use.VALUE
        return _of_argument(definition, definition.parents[parent], node, depth)
    if isinstance(parent, ast.Call) and node is not parent.func:
        return _of_argument(definition, parent, node, depth)
    if isinstance(parent, ast.Tuple | ast.List):  # of sizes: x.view((n, -1))
        around = definition.parents.get(parent)
        if isinstance(around, ast.Call) and _name(around) in _COUNTS:
            return Use.COUNT
        return _of_slice(definition, parent, depth)
    if isinstance(parent, ast.Slice | ast.Subscript):
        return _of_slice(definition, node, depth)
    if isinstance(parent, ast.If | ast.While | ast.Assert):
        return Use.ARITHMETIC if definition.is_converted else Use.VALUE
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        return _of_variable(definition, parent, depth)
    if isinstance(parent, ast.AugAssign) and isinstance(parent.target, ast.Name):
        return Use.ARITHMETIC
    is_result = isinstance(parent, ast.Return | ast.Attribute | ast.Lambda)
    if is_result and isinstance(node, ast.BinOp) and _has_tensor(definition, node):
        return Use.ARITHMETIC  # of a tensor; the number alone would come back as another thing
    return Use.VALUE


def _has_tensor(definition: Definition, node: ast.AST) -> bool:
    """Whether an expression has more in it than numbers and the names of numbers: a call, another parameter."""
    return any(isinstance(one, ast.Call) for one in ast.walk(node)) or (
        len({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & definition.parameters)
        > 1
        or bool({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & definition.stored)
        or sum(isinstance(one, ast.Name | ast.Attribute) for one in ast.walk(node)) > 1
    )


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _of_argument(definition: Definition, call: ast.AST, node: ast.AST, depth: int) -> Use:
    if not isinstance(call, ast.Call):
        return Use.VALUE
    name = _name(call)
    if isinstance(call.func, ast.Name):
        if name == "range":
            loop = definition.parents.get(call)
            return Use.COUNT if isinstance(loop, ast.For) and loop.iter is call else Use.VALUE
        if name == "print":
            return Use.ARITHMETIC
        is_number = name in _NUMBERS and definition.is_converted
        return _use(definition, call, depth + 1) if is_number else Use.VALUE
    if not isinstance(call.func, ast.Attribute) or (name in _STRUCTURES and node in call.args):
        return Use.VALUE
    owner = call.func.value
    if isinstance(owner, ast.Name) and owner.id in _PYTHONS:
        supported = owner.id == "math" and name in _MATH and definition.is_converted
        return _use(definition, call, depth + 1) if supported else Use.VALUE
    if isinstance(owner, ast.Constant | ast.JoinedStr):
        return Use.VALUE  # "{}".format(n)
    known = name in _COUNTS or _is_torch(owner) or _is_tensor(definition, owner)
    return (Use.COUNT if name in _COUNTS else Use.ARITHMETIC) if known else Use.VALUE


def _is_torch(owner: ast.AST) -> bool:
    """`torch`, `torch.nn.functional`, `F`"""
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in ("torch", "F")


def _is_tensor(definition: Definition, owner: ast.AST) -> bool:
    """Whether methods of it are most likely a tensor's: a parameter, a local, what a call or an operator gives."""
    if isinstance(owner, ast.Name):
        return owner.id in definition.parameters | definition.stored and owner.id != "self"
    return isinstance(owner, ast.Call | ast.BinOp | ast.Subscript)


def _of_slice(definition: Definition, node: ast.AST, depth: int) -> Use:
    """`x[:n]`, `x[n]`, `TABLE[n]`: of a tensor it is a size, of a list Python's own number."""
    for parent in definition.above(node):
        if isinstance(parent, ast.Subscript):
            is_key = parent.slice is not node and not any(
                one is node for one in ast.walk(parent.slice)
            )
            if is_key or not _is_tensor(definition, parent.value):
                return Use.VALUE
            return Use.COUNT
        if not isinstance(parent, ast.Slice | ast.Tuple):
            break
    return Use.VALUE


def _of_variable(definition: Definition, parent: ast.AST, depth: int) -> Use:
    """Of a local variable that the number, or what is computed with it, is assigned to."""
    targets = (
        parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
    )
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return Use.VALUE
    loads = [
        one
        for one in definition.nodes
        if isinstance(one, ast.Name) and one.id == targets[0].id and isinstance(one.ctx, ast.Load)
    ]
    value = getattr(parent, "value", None)
    if value is not None and _has_tensor(definition, value):
        return Use.ARITHMETIC  # a tensor from here on
    return max((_use(definition, one, depth + 10) for one in loads), default=Use.ARITHMETIC)


def needs_size(definition: Definition | None, path: str) -> bool:
    """Whether the body reads a size of the tensor for something that needs Python's own number."""
    if definition is None:
        return False
    text = {ast.dump(one) for one in [parsed(path)] if one is not None}
    for node in definition.nodes:
        size = None
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "shape"
            and ast.dump(node.value) in text
        ):
            size = definition.parents.get(node)
            size = size if isinstance(size, ast.Subscript) else node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("size", "numel") and ast.dump(node.func.value) in text:
                size = node
        elif isinstance(node, ast.Call) and _name(node) == "len" and len(node.args) == 1:
            size = node if ast.dump(node.args[0]) in text else None
        if size is not None and _is_key(definition, size):
            return True
    return False


def _is_key(definition: Definition, node: ast.AST) -> bool:
    """Whether it decides about Python: a text, the key of a table, the turns of a comprehension."""
    for parent in definition.above(node):
        if isinstance(parent, ast.FormattedValue | ast.comprehension):
            return True
        if isinstance(parent, ast.Subscript) and node is not parent.value:
            return not _is_tensor(definition, parent.value)
        if isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in (
                "int",
                "str",
                "float",
                "hash",
            )
        if not isinstance(parent, _ARITHMETIC | ast.Tuple):
            return False
        node = parent
    return False
