"""What a body does with a Python number, and whether it can do the same with a 0-dim tensor."""

from __future__ import annotations

import ast
import enum

import torch

from .source import Definition, parsed


class Use(enum.IntEnum):
    """From the one that asks least of the number to the one that asks most."""

    ARITHMETIC = 0  # operators and ops: a tensor does as well
    COUNT = 1  # a size, or the number of turns of a loop: int() of a tensor does
    VALUE = 2  # a key, a text, a call that is not known: Python's own number is needed


_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)
_IDENTITIES = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_TEXTS_AND_LISTS = (ast.List, ast.Tuple, ast.Dict, ast.JoinedStr)
# Functions of Python that give a number of the graph (docs/rules/value-reads.md).
_NUMBERS = {"int", "float", "abs", "min", "max", "bool"}
_MATH = frozenset(
    ("sqrt", "exp", "log", "pow", "sin", "cos", "tan", "radians", "floor", "ceil", "trunc")
)
# Functions of Python of which the result is no tensor, though an argument is one.
_NO_TENSORS = _NUMBERS | {"len", "str", "repr", "isinstance", "range", "hash", "id", "print"}
# Functions and methods that keep an object, or ask who it is.
_IDENTIFYING = {"id", "hash", "append", "add", "get", "setdefault", "index", "insert", "pop"}
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


class Uses:
    """What one body does with its numbers and sizes.

    Args:
        tensors: paths of the tensors among the arguments.
    """

    def __init__(self, definition: Definition, tensors: set[str]) -> None:
        self._body = definition
        self._tensors = {ast.dump(node) for node in map(parsed, tensors) if node is not None}
        self._locals: dict[str, bool] = {}

    def of_number(self, path: str) -> Use:
        """The one that asks most, of all places where the body reads the number at the path."""
        root = next(
            (n.id for n in ast.walk(parsed(path) or ast.Pass()) if isinstance(n, ast.Name)), ""
        )
        if not root or root in self._body.stored or not self._is_read_by_paths(root, path):
            return Use.VALUE
        use = max(map(self._use, self._body.loads(path)), default=Use.VALUE)
        return use if self._body.is_converted or use == Use.ARITHMETIC else Use.VALUE

    def needs_size(self, path: str) -> bool:
        """Whether a size of the tensor becomes a text, a key, or Python's own number."""
        tensor = ast.dump(parsed(path) or ast.Pass())
        return any(
            ast.dump(one) == tensor and self._is_key(size)
            for one in self._body.nodes
            for size in self._size_of(one)
        )

    def needs_identity(self, name: str) -> bool:
        """Whether the object is a key or is kept: then another of its class does not do."""
        for node in self._body.loads(name):
            parent = self._body.parents[node]
            if isinstance(parent, ast.Subscript) and parent.slice is node:
                return True
            if isinstance(parent, ast.Dict | ast.Set):
                return True
            if isinstance(parent, ast.Assign) and not isinstance(parent.targets[0], ast.Name):
                return True
            if isinstance(parent, ast.Call) and _name(parent) in _IDENTIFYING:
                return True
        return False

    def _is_read_by_paths(self, root: str, path: str) -> bool:
        """An object that is passed on may be read anywhere."""
        for node in self._body.loads(root):
            parent = self._body.parents[node]
            if path != root and not isinstance(parent, ast.Attribute | ast.Subscript):
                return False
        return True

    def _use(self, node: ast.AST, depth: int = 0) -> Use:
        parent = self._body.parents[node]
        if depth > 20:
            return Use.VALUE
        is_test = isinstance(parent, ast.IfExp) and parent.test is node
        if is_test or isinstance(parent, ast.If | ast.While | ast.Assert):
            return Use.ARITHMETIC if self._body.is_converted else Use.VALUE
        is_part = isinstance(parent, _ARITHMETIC) and not isinstance(parent, ast.BinOp)
        if not is_part and isinstance(node, ast.expr) and self._is_tensor(node):
            return Use.ARITHMETIC  # what was computed with the number
        if isinstance(parent, _ARITHMETIC):
            parts = list(ast.iter_child_nodes(parent))
            if any(
                isinstance(one, _IDENTITIES + _TEXTS_AND_LISTS) or _is_text(one) for one in parts
            ):
                return Use.VALUE
            return self._use(parent, depth + 1)
        if isinstance(parent, ast.keyword):
            call = self._body.parents[parent]
            of_dimension = parent.arg in ("dim", "axis", "dims")
            return Use.VALUE if of_dimension else self._of_argument(call, "", depth)
        if isinstance(parent, ast.Call):
            return self._of_argument(parent, _name(parent), depth)
        if isinstance(parent, ast.Tuple | ast.List):  # of sizes: x.view((n, -1)), x[:, n]
            around = self._body.parents[parent]
            is_size = isinstance(around, ast.Call) and _name(around) in _COUNTS
            return Use.COUNT if is_size else self._of_index(parent)
        if isinstance(parent, ast.Slice | ast.Subscript):
            return self._of_index(node)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            return self._of_variable(parent.targets[0], depth)
        if isinstance(parent, ast.AugAssign) and self._is_tensor(parent.target):
            return Use.ARITHMETIC
        return Use.VALUE

    def _of_argument(self, call: ast.AST, positional: str, depth: int) -> Use:
        """Of an argument of a call. `positional`: the name of what is called; empty: it is passed by name."""
        if not isinstance(call, ast.Call):
            return Use.VALUE
        name = _name(call)
        if isinstance(call.func, ast.Name):
            if name == "range":
                loop = self._body.parents[call]
                is_loop = isinstance(loop, ast.For) and loop.iter is call
                return Use.COUNT if is_loop else Use.VALUE
            is_number = name in _NUMBERS and self._body.is_converted
            return self._use(call, depth + 1) if is_number else Use.VALUE
        if not isinstance(call.func, ast.Attribute) or positional in _STRUCTURES:
            return Use.VALUE
        owner = call.func.value
        if isinstance(owner, ast.Name) and owner.id == "math":
            is_number = name in _MATH and self._body.is_converted
            return self._use(call, depth + 1) if is_number else Use.VALUE
        if not (_is_torch(owner) or self._is_tensor(owner) or _is_in_place(name)):
            return Use.VALUE
        return Use.COUNT if name in _COUNTS else Use.ARITHMETIC

    def _of_index(self, node: ast.AST) -> Use:
        """`x[:n]`, `x[n]`, `TABLE[n]`: of a tensor it is a size, of a list Python's own number."""
        for parent in self._body.above(node):
            if isinstance(parent, ast.Subscript):
                return Use.COUNT if self._is_tensor(parent.value) else Use.VALUE
            if not isinstance(parent, ast.Slice | ast.Tuple):
                break
        return Use.VALUE

    def _of_variable(self, target: ast.expr, depth: int) -> Use:
        """Of a local variable that is the number, or what is computed with it."""
        if not isinstance(target, ast.Name):
            return Use.VALUE
        loads = self._body.loads(target.id)
        return max((self._use(one, depth + 5) for one in loads), default=Use.ARITHMETIC)

    def _is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is most likely a tensor: it is computed with one."""
        if ast.dump(node) in self._tensors:
            return True
        if isinstance(node, ast.Name):
            return self._is_tensor_variable(node.id)
        if isinstance(node, ast.BinOp):
            return self._is_tensor(node.left) or self._is_tensor(node.right)
        if isinstance(node, ast.Compare):
            return any(map(self._is_tensor, [node.left, *node.comparators]))
        if isinstance(node, ast.UnaryOp):
            return self._is_tensor(node.operand)
        if isinstance(node, ast.IfExp):
            return self._is_tensor(node.body) and self._is_tensor(node.orelse)
        if isinstance(node, ast.Subscript):
            is_size = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            return not is_size and self._is_tensor(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in ("T", "mT", "data", "real", "grad") and self._is_tensor(node.value)
        if not isinstance(node, ast.Call) or _name(node) in _NO_TENSORS | {"size", "numel", "item"}:
            return False
        if isinstance(node.func, ast.Attribute) and (
            _is_torch(node.func.value)
            or self._is_tensor(node.func.value)
            or _is_in_place(node.func.attr)
        ):
            return True
        return any(map(self._is_tensor, node.args))

    def _is_tensor_variable(self, name: str) -> bool:
        if name not in self._locals:
            self._locals[name] = False  # of itself it is none
            values = [
                one.value
                for one in self._body.nodes
                if isinstance(one, ast.Assign) and any(name in _names(t) for t in one.targets)
            ]
            self._locals[name] = any(map(self._is_tensor, values))
        return self._locals[name]

    def _size_of(self, tensor: ast.AST) -> list[ast.AST]:
        """`x.shape[0]`, `x.shape`, `x.size(0)`, `len(x)` around `x`"""
        parent = self._body.parents.get(tensor)
        if isinstance(parent, ast.Call) and _name(parent) == "len":
            return [parent]
        if not isinstance(parent, ast.Attribute) or parent.attr not in ("shape", "size", "numel"):
            return []
        around = self._body.parents[parent]
        return [around if isinstance(around, ast.Call | ast.Subscript) else parent]

    def _is_key(self, node: ast.AST) -> bool:
        for parent in self._body.above(node):
            if isinstance(parent, ast.FormattedValue | ast.comprehension):
                return True
            if isinstance(parent, ast.Subscript) and node is not parent.value:
                return not self._is_tensor(parent.value)
            if isinstance(parent, ast.Call):
                return isinstance(parent.func, ast.Name) and parent.func.id in _NO_TENSORS - {
                    "range"
                }
            if not isinstance(parent, (*_ARITHMETIC, ast.Tuple)):
                return False
            node = parent
        return False


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _names(target: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_in_place(method: str) -> bool:
    """`mul_`: of a tensor, also of one that is no argument."""
    return method.endswith("_") and not method.startswith("_") and hasattr(torch.Tensor, method)


def _is_torch(owner: ast.AST) -> bool:
    """`torch`, `torch.nn.functional`, `F`"""
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in ("torch", "F")
