"""The narrowest input_signature that takes all of some calls (docs/guides/input-signature.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from .records import Node, Record, Request, Tensor

NUMBERS = ("int", "float")


@dataclass
class Declared:
    text: str = ""  # `[tracehost.TensorSpec([32, None], torch.float32)]`
    numbers: set[str] = field(default_factory=set)  # paths of numbers that it makes tensors


class _Impossible(Exception):
    """There is no such signature."""


class _Place(NamedTuple):
    """A node of one call."""

    call: Request
    at: int

    @property
    def node(self) -> Node:
        return self.call.nodes[self.at]

    @property
    def tensor(self) -> Tensor:
        return self.call.tensors[self.node.tensor]


_Places = list[_Place]  # the nodes of all calls at one place


def declare(records: list[Record], number_type: Callable[[str, bool], str]) -> Declared | None:
    """Sizes that differed are None, Python numbers that differed are 0-dim tensors.

    None where there is no such signature: a Python value that is no default, another dtype, a size or a number that
    the body needs as a Python number, a call too large to keep.

    Args:
        number_type: of the path of a number and whether it is a float: the dtype that it has as a tensor; empty: it
            can be none.
    """
    requests = [record.request for record in records]
    calls = [request for request in requests if request is not None]
    if not calls or len(calls) < len(requests):
        return None
    try:
        return _Declarer(records, calls, number_type).run()
    except _Impossible:
        return None


def _require(possible: bool) -> None:
    if not possible:
        raise _Impossible


class _Declarer:
    def __init__(
        self, records: list[Record], calls: list[Request], number_type: Callable[[str, bool], str]
    ) -> None:
        self._calls, self._number_type, self._result = calls, number_type, Declared()
        self._specialized = {(s.path, s.dimension) for r in records for s in r.specialized}

    def run(self) -> Declared:
        first = self._calls[0]
        specs: list[str] = []
        omitted = False  # from then on, all have to keep their defaults
        starts = [_Place(call, 0) for call in self._calls]
        for position, name in enumerate(first.names):
            kind = first.kinds[position] if first.kinds else "positional"
            if kind == "rest":
                items = _children(starts)
                _require(not (omitted and items))
                specs += [self._joined(item) for item in items]
            elif kind == "keyword":
                _require(_is_default(starts, position))
            elif kind == "named":
                _require(not _children(starts))
            elif not (position == 0 and name == "self"):
                spec = None if omitted else self._attempt(starts)
                if spec is None:
                    _require(_is_default(starts, position))
                    omitted = True
                else:
                    specs.append(spec)
            starts = [_Place(place.call, place.node.end) for place in starts]
        _require(bool(specs))
        self._result.text = f"[{', '.join(specs)}]"
        return self._result

    def _attempt(self, places: _Places) -> str | None:
        numbers = set(self._result.numbers)
        try:
            return self._joined(places)
        except _Impossible:
            self._result.numbers = numbers
            return None

    def _joined(self, places: _Places) -> str:
        kinds = {place.node.kind for place in places}
        if kinds <= {"tensor", *NUMBERS}:
            return self._tensor(places) if "tensor" in kinds else self._number(places)
        return self._container(places)

    def _container(self, places: _Places) -> str:
        _require(len({(place.node.kind, place.node.text) for place in places}) == 1)
        node, items = places[0].node, _children(places)
        if (node.kind, node.text) == ("dict", "dict"):
            pairs = zip(items[::2], items[1::2], strict=True)
            texts = [f"{_key(key)}: {self._joined(value)}" for key, value in pairs]
            return "{" + ", ".join(texts) + "}"
        texts = [self._joined(item) for item in items]
        if (node.kind, node.text) == ("list", "list"):
            return f"[{', '.join(texts)}]"
        _require((node.kind, node.text) == ("tuple", "tuple"))
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def _tensor(self, places: _Places) -> str:
        tensors = [place.tensor for place in places if place.node.kind == "tensor"]
        numbers = [place.node for place in places if place.node.kind != "tensor"]
        (dtype,) = {tensor.dtype for tensor in tensors} if _equal(tensors) else ("",)
        _require(bool(dtype))
        path = places[0].node.path
        if numbers:
            reals = any(node.kind == "float" for node in numbers)
            _require(dtype.startswith(("float", "bfloat")) if reals else dtype != "bool")
            _require(bool(self._number_type(path, reals)))
            self._result.numbers.add(path)
        return _spec(self._sizes(tensors, bool(numbers), path), dtype)

    def _number(self, places: _Places) -> str:
        nodes = [place.node for place in places]
        _require(len({node.text for node in nodes}) > 1)  # a tensor for one value gains nothing
        dtype = self._number_type(nodes[0].path, any(node.kind == "float" for node in nodes))
        _require(bool(dtype))
        self._result.numbers.add(nodes[0].path)
        return _spec("[]", dtype)

    def _sizes(self, tensors: list[Tensor], numbers: bool, path: str) -> str:
        sizes = [tensor.sizes for tensor in tensors]
        if len(set(map(len, sizes))) > 1 or (numbers and sizes[0]):
            _require(not any(known == path for known, _ in self._specialized))
            return "None"
        texts = []
        for dimension, column in enumerate(zip(*sizes, strict=True)):
            same = len(set(column)) == 1
            _require(same or (path, dimension) not in self._specialized)
            texts.append(str(column[0]) if same else "None")
        return f"[{', '.join(texts)}]"


def _equal(tensors: list[Tensor]) -> bool:
    return len({tensor.dtype for tensor in tensors}) == 1


def _children(places: _Places) -> list[_Places]:
    result: list[_Places] = []
    for place in places:
        at, count = place.at + 1, 0
        while at < place.node.end:
            if count == len(result):
                _require(place is places[0])  # else it has more than those before
                result.append([])
            result[count].append(_Place(place.call, at))
            count, at = count + 1, place.call.nodes[at].end
        _require(count == len(result))
    return result


def _is_default(places: _Places, position: int) -> bool:
    defaults = places[0].call.defaults
    default = defaults[position] if position < len(defaults) else ""
    return bool(default) and all(
        place.node.end == place.at + 1 and place.node.text == default for place in places
    )


def _key(places: _Places) -> str:
    """A dict's key as a literal; a long one is cut, and then has no closing quote."""
    node = places[0].node
    string = (
        node.kind == "atom"
        and len(node.text) > 1
        and node.text[0] in "'\""
        and node.text[-1] == node.text[0]
    )
    _require(string or node.kind in ("int", "bool"))
    _require(len({(place.node.kind, place.node.text) for place in places}) == 1)
    return node.text


def _spec(sizes: str, dtype: str) -> str:
    return f"tracehost.TensorSpec({sizes}, torch.{dtype})"
