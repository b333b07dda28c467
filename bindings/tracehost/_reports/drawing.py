"""A graph as a picture, by Graphviz where it is installed, else as text."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from .. import _tracehost
from .._concrete import ConcreteFunction
from .._function import every_function, place_of
from .html import cut, first_lines

MOST_FUNCTIONS = 10  # with a drawing on a page
MOST_NODES = 300  # a larger graph takes dot minutes, and nobody can read it
_SECONDS = 20

# Readable on white and on black.
_STYLE = (
    'bgcolor="transparent" color="#777777" fontcolor="#777777" fontname="sans-serif" fontsize=10\n'
    'node [shape=box style=rounded color="#777777" fontcolor="#777777" fontname="sans-serif" fontsize=10 height=0.3]\n'
    'edge [color="#777777" arrowsize=0.6]\n'
)


def of_functions(rows: list[dict[str, Any]]) -> dict[int, str]:
    """The latest live graph of each of the first Functions as SVG, by site; empty without Graphviz.

    Methods have none: each instance has graphs of its own.
    """
    if shutil.which("dot") is None:
        return {}
    by_place: dict[object, Any] = {}
    for function in every_function():
        by_place.setdefault(place_of(function), function)
    made: dict[int, str] = {}
    for row in rows[:MOST_FUNCTIONS]:
        place = row["definition"]
        function = by_place.get((place["file"], place["line"])) if place else None
        graphs = _tracehost.concrete_functions(function, ConcreteFunction) if function else []
        picture = Drawing(graphs[-1].graph, row["function"])._repr_svg_() if graphs else None
        if picture:
            made[row["site"]] = picture
    return made


class Drawing:
    """A graph, as a notebook shows it: a picture if `dot` is there and up to it, and always its text."""

    def __init__(self, graph: Any, title: str) -> None:
        self._graph, self._title = graph, title

    def __repr__(self) -> str:
        return "\n".join([self._title, *first_lines(str(self._graph))])

    def _repr_svg_(self) -> str | None:
        dot = shutil.which("dot")
        if dot is None or _size(self._graph) > MOST_NODES:
            return None
        try:
            done = subprocess.run(
                [dot, "-Tsvg"],
                input=self.dot(),
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError, UnicodeError):
            return None
        start = done.stdout.find("<svg")
        return done.stdout[start:] if start >= 0 else None

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [f"digraph {{ label={_quoted(self._title)} labelloc=t", _STYLE]
        makers: dict[str, str] = {}
        edges: list[str] = []  # at the end: an edge inside a frame would pull its nodes into it
        for number, value in enumerate(self._graph.inputs()):
            makers[value.debugName()] = f"in{number}"
            label = f"{value.debugName()}\\n{value.type()}"
            lines.append(f"in{number} [shape=ellipse label={_quoted(label)}]")
        _block(self._graph, "n", makers, lines, edges)
        for number, value in enumerate(self._graph.outputs()):
            lines.append(f'out{number} [shape=ellipse label="output"]')
            _edge(makers, value, f"out{number}", edges)
        return "\n".join([*lines, *dict.fromkeys(edges), "}"])


def _size(block: Any) -> int:
    return sum(1 + sum(_size(inner) for inner in node.blocks()) for node in block.nodes())


def _block(
    block: Any, prefix: str, makers: dict[str, str], lines: list[str], edges: list[str]
) -> None:
    for number, node in enumerate(block.nodes()):
        name = f"{prefix}_{number}"
        if node.kind() == "prim::Constant":  # shown with the op that takes it
            continue
        lines.append(f"{name} [label={_quoted(_label(node))}]")
        for value in node.inputs():
            _edge(makers, value, name, edges)
        for value in node.outputs():
            makers[value.debugName()] = name
        for index, inner in enumerate(node.blocks()):
            is_branch = node.kind() == "prim::If"
            which = ("then", "else")[index] if is_branch else "body"
            lines.append(f"subgraph cluster_{name}_{index} {{ label={_quoted(which)}")
            for value in inner.inputs():
                makers[value.debugName()] = name
            _block(inner, f"{name}_{index}", makers, lines, edges)
            lines.append("}")
            for value in inner.outputs():  # of a loop: back to its beginning
                _edge(
                    makers, value, name, edges, "" if is_branch else "style=dashed constraint=false"
                )


def _edge(makers: dict[str, str], value: Any, to: str, edges: list[str], look: str = "") -> None:
    maker = makers.get(value.debugName())
    if maker is not None and maker != to:
        edges.append(f"{maker} -> {to} [{look}]")


def _label(node: Any) -> str:
    kind = node.kind().removeprefix("aten::")
    constants = [v.toIValue() for v in node.inputs() if v.node().kind() == "prim::Constant"]
    shown = [cut(str(c), 40) for c in constants if c is not None and not _is_endless(c)]
    return f"{kind} ({', '.join(shown)})" if shown else kind


def _is_endless(constant: Any) -> bool:
    """What a slice or a loop without an end has for one."""
    return isinstance(constant, int) and constant == 2**63 - 1


def _quoted(text: str) -> str:
    return '"' + cut(text.replace("\\n", "\n"), 120).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'  # fmt: skip
