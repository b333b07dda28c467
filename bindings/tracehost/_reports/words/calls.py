"""What calls of a Function write for an argument, so that a fix names the caller's expression and line."""

from __future__ import annotations

import ast
import functools
import linecache

from .causes import MOST_CALLS, quoted
from .records import Account, Place
from .source import parsed

_LONGEST = 60  # characters of an expression that is shown
_PRIMARY = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.List | ast.Tuple | ast.Dict


def passes(account: Account, path: str, pattern: str) -> str:
    """`pass torch.tensor(0.1 * i) for 'lr' at train.py:40`

    Args:
        path: of the argument: `lr`, `batch['x']`.
        pattern: what is passed instead: `torch.tensor({0})`.
    """
    places = _places(account)
    shown = places[:MOST_CALLS]
    more = ", and so on" if len(places) > MOST_CALLS else ""
    if "{0}" not in pattern:
        return f"pass {pattern} for {quoted(path)}{_at([one.text for one in shown])}{more}"
    found: dict[str, list[str]] = {}  # places by what is written there
    for place in shown:
        expression, line = _written(account, place, path)
        found.setdefault(expression, []).append(_moved(place, line))
    if not found or "" in found:
        name = _steps(path)[0]
        where = f" ({name} is what {shown[0].text} passes)" if shown and name else ""
        return f"pass {pattern.format(path)} for {quoted(path)}{where}"
    texts = [_made(pattern, path, one) + _at(lines) for one, lines in found.items()]
    return ", and ".join(texts) + more


def _made(pattern: str, path: str, expression: str) -> str:
    if pattern.count("{0}") > 1 and path.isidentifier() and not expression.isidentifier():
        made = f"{pattern.format(path)} with {path} = {expression}"
    else:
        needs_parentheses = pattern.startswith("{0}.") and not isinstance(
            parsed(expression), _PRIMARY
        )
        made = pattern.format(f"({expression})" if needs_parentheses else expression)
    return f"pass {made} for {quoted(path)}"


def _at(places: list[str]) -> str:
    return f" at {' and '.join(places)}" if places else ""


def _places(account: Account) -> list[Place]:
    """Of the calls that were traced, those with most traces first."""
    counts: dict[Place, int] = {}
    for record in account.window:
        if record.call:
            counts[record.call] = counts.get(record.call, 0) + 1
    return sorted(counts, key=lambda place: -counts[place])


def _moved(place: Place, line: int) -> str:
    """The text of the place on another line of the same file: an argument may stand on a line of its own."""
    return place.text.replace(f":{place.line}", f":{line}", 1)


def _written(account: Account, place: Place, path: str) -> tuple[str, int]:
    """The expression at the call for the path, and its line; empty: not known, or too long."""
    text = "".join(linecache.getlines(place.file))
    module = _Module.of(text)
    names = module.names(account, place.file)
    calls = [one for one in module.calls if _covers(one, place.line) and _last(one.func) in names]
    found = {_of_call(account, call, path, text) for call in calls}
    made, line = found.pop() if len(found) == 1 else ("", place.line)
    return ("", place.line) if "\n" in made or len(made) > _LONGEST else (made, line)


class _Module:
    """The calls of a file."""

    def __init__(self, text: str) -> None:
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            nodes = []
        self.calls = [one for one in nodes if isinstance(one, ast.Call)]
        self._assigned = [one for one in nodes if isinstance(one, ast.Assign)]

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def of(text: str) -> _Module:
        return _Module(text)

    def names(self, account: Account, file: str) -> set[str]:
        """The Function's name, and those that are assigned `tracehost.function(body)`."""
        own = account.name.rpartition(".")[2]
        names = {own}
        for node in self._assigned:
            made = node.value
            if isinstance(made, ast.Call) and _last(made.func) == "function" and made.args:
                body, at = made.args[0], account.definition
                is_lambda = isinstance(body, ast.Lambda) and at is not None
                if _last(body) == own or (is_lambda and (at.file, at.line) == (file, body.lineno)):
                    names |= {_last(target) for target in node.targets}
        return names - {""}


def _covers(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _of_call(account: Account, call: ast.Call, path: str, text: str) -> tuple[str, int]:
    """The text of what the call passes for the path, and its line; empty: not known."""
    unknown = ("", call.lineno)
    root, steps = _steps(path)
    value = _passed(account, call, root)
    if value is None:
        return unknown
    rest = path.removeprefix(root)
    for key, behind in steps:
        part = _part(value, key)
        if part is None:
            break
        value, rest = part, behind
    if rest and not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
        return unknown
    written = ast.get_source_segment(text, value)
    return (written + rest, value.lineno) if written else unknown


def _passed(account: Account, call: ast.Call, name: str) -> ast.expr | None:
    for one in call.keywords:
        if one.arg == name:
            return one.value
    names = _positional(account, call)
    if name not in names or names.index(name) >= len(call.args):
        return None
    before = call.args[: names.index(name) + 1]
    return None if any(isinstance(one, ast.Starred) for one in before) else before[-1]


def _positional(account: Account, call: ast.Call) -> list[str]:
    """The parameters that the call's positional arguments are for."""
    request = next((one.request for one in account.records if one.request), None)
    if request is None:
        return []
    kinds = request.kinds or ["positional"] * len(request.names)
    names = [n for n, k in zip(request.names, kinds, strict=True) if k == "positional"]
    if not isinstance(call.func, ast.Attribute):
        return names
    owner = account.name.rpartition(".")[0].rpartition(".")[2]
    if owner and _last(call.func.value) == owner:
        return []  # `Net.step(net, x)`
    return names[1:] if names[:1] == ["self"] else names


def _steps(path: str) -> tuple[str, list[tuple[object, str]]]:
    """`batch`, and for each step of `batch['x'].y` its key and the text behind it; the key of an attribute is None."""
    node, steps = parsed(path), []
    while isinstance(node, ast.Attribute | ast.Subscript):
        item = node.slice if isinstance(node, ast.Subscript) else None
        key = item.value if isinstance(item, ast.Constant) else None
        steps.insert(0, (key, path[node.end_col_offset or 0 :]))
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), steps


def _part(value: ast.expr, key: object) -> ast.expr | None:
    """Of a literal."""
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key), None)
    if isinstance(value, ast.Tuple | ast.List) and isinstance(key, int):
        is_plain = not any(isinstance(one, ast.Starred) for one in value.elts)
        return value.elts[key] if is_plain and key < len(value.elts) else None
    return None


def _last(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))
