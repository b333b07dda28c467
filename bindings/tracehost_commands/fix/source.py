"""A file of the program: its syntax tree with positions, and what stands where.

The tree is LibCST's, which keeps each space and comment. A file is read as bytes, so its encoding, byte order mark and
line ends are written again as they were."""

from __future__ import annotations

import io
import os
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

Function = cst.FunctionDef | cst.Lambda
_MARKS = (".git", "pyproject.toml", "setup.py")
_PACKAGES = ("site-packages", "dist-packages")


class CannotWrite(Exception):
    """Why a fix is left to the user."""


class LeftAlone(CannotWrite):
    """A file that is not changed in any case."""


class Source:
    """A file as it was when the program ran.

    Args:
        started: when the run began, in nanoseconds since the epoch.

    Raises:
        CannotWrite: it cannot be read, or is none that is changed.
    """

    def __init__(self, file: str, started: int) -> None:
        self.file = file
        self.shown = os.path.relpath(file)
        self._check(started)
        try:
            self.data = Path(file).read_bytes()
            self.encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
            self.text = self.data.decode(self.encoding)
            self._wrapper = MetadataWrapper(cst.parse_module(self.text))
        except (OSError, SyntaxError, ValueError, cst.ParserSyntaxError) as error:
            why = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise CannotWrite(f"{self.shown} cannot be read: {why}") from None
        if self.module.code.encode(self.encoding) != self.data:
            raise CannotWrite(f"{self.shown} has line ends that LibCST does not keep")
        self._positions = self._wrapper.resolve(PositionProvider)
        self._parents = self._wrapper.resolve(ParentNodeProvider)
        self._nodes = list(_walk(self.module))
        self.names = _Names(self._nodes, self.module)

    @property
    def module(self) -> cst.Module:
        return self._wrapper.module

    def position(self, node: cst.CSTNode) -> CodeRange:
        return self._positions[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def calls(self, line: int | None = None) -> list[cst.Call]:
        """Those that the line is a part of."""
        return [
            one
            for one in self._nodes
            if isinstance(one, cst.Call) and (line is None or self._covers(one, line))
        ]

    def function_at(self, line: int) -> Function:
        """The function that begins there, with its decorators."""
        found: list[Function] = [
            one
            for one in self._nodes
            if isinstance(one, cst.FunctionDef) and self._first_line(one) == line
        ]
        if not found:
            made = [call.args[0].value for call in self.calls() if self.makes_function(call)]
            lambdas = [one for one in made if isinstance(one, cst.Lambda)]
            found = [one for one in lambdas if self._first_line(one) == line]
        if len(found) != 1:
            raise CannotWrite(f"{self.shown}:{line} has {len(found) or 'no'} functions")
        return found[0]

    def makes_function(self, node: cst.BaseExpression) -> bool:
        """`tracehost.function(body, ...)`"""
        return (
            isinstance(node, cst.Call)
            and self.names.is_decorator(node.func)
            and bool(node.args)
            and node.args[0].keyword is None
        )

    def makers(self, function: Function) -> list[cst.Call | cst.Decorator]:
        """What applies tracehost.function to it: its decorator, or calls."""
        if isinstance(function, cst.FunctionDef):
            for one in function.decorators:
                call = one.decorator
                if self.names.is_decorator(call.func if isinstance(call, cst.Call) else call):
                    return [one]
            named = [
                one
                for one in self._nodes
                if isinstance(one, cst.FunctionDef) and one.name.value == function.name.value
            ]
            if len(named) > 1:
                return []
        return [
            call
            for call in self.calls()
            if self.makes_function(call) and _is(call.args[0].value, function)
        ]

    def aliases(self, function: Function) -> set[str]:
        """Names that are assigned what tracehost.function made of it."""
        names = {function.name.value} if isinstance(function, cst.FunctionDef) else set()
        for made in self.makers(function):
            assigned = self.parent(made)
            if isinstance(assigned, cst.Assign):
                names |= {last_name(one.target) for one in assigned.targets}
        return names - {""}

    def class_of(self, function: Function) -> str:
        """The name of the class whose method it is; empty: it is none."""
        around = self.parent(function)
        while isinstance(around, cst.IndentedBlock):
            around = self.parent(around)
        return around.name.value if isinstance(around, cst.ClassDef) else ""

    def _first_line(self, node: Function) -> int:
        decorators = node.decorators if isinstance(node, cst.FunctionDef) else ()
        return min(self.position(one).start.line for one in (node, *decorators))

    def _covers(self, node: cst.CSTNode, line: int) -> bool:
        position = self.position(node)
        return position.start.line <= line <= position.end.line

    def _check(self, started: int) -> None:
        real = os.path.realpath(self.file)
        if not self.file.endswith(".py") or not os.path.isfile(real):
            raise LeftAlone(f"{self.shown} is no Python file")
        standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
        for path in (self.file, real):
            if set(_PACKAGES) & set(Path(path).parts) or path.startswith(standard):
                raise LeftAlone(f"{self.shown} belongs to an installed package")
        project = _project(self.file)
        if os.path.commonpath([real, os.path.realpath(project)]) != os.path.realpath(project):
            raise LeftAlone(f"{self.shown} is a link to {real}, which is outside of {project}")
        if not os.access(real, os.W_OK):
            raise LeftAlone(f"{self.shown} is read-only")
        known = os.stat(real)
        if max(known.st_mtime_ns, known.st_ctime_ns) > started:
            raise LeftAlone(f"{self.shown} has changed since the run; run the command again")


class _Names:
    """What a file calls torch and tracehost."""

    def __init__(self, nodes: list[cst.CSTNode], module: cst.Module) -> None:
        everywhere = [one for one in nodes if isinstance(one, cst.Import | cst.ImportFrom)]
        at_the_top = [
            part
            for one in module.body
            if isinstance(one, cst.SimpleStatementLine)
            for part in one.body
            if isinstance(part, cst.Import | cst.ImportFrom)
        ]
        self._anywhere = dict(_imported(everywhere))
        self._everywhere = dict(_imported(at_the_top))

    def is_decorator(self, node: cst.BaseExpression) -> bool:
        """`tracehost.function`, by each of its names."""
        text = _dotted(node)
        owner, _, name = text.rpartition(".")
        if name == "function" and self._anywhere.get(owner) == "tracehost":
            return True
        return self._anywhere.get(text) == "tracehost.function"

    def spelled(self, meant: str) -> str:
        """Of `torch` or `tracehost.TensorSpec`. Empty: it is not imported at the top."""
        found = {what: name for name, what in self._everywhere.items()}
        owner, _, last = meant.rpartition(".")
        if meant in found or not owner:
            return found.get(meant, "")
        return f"{found[owner]}.{last}" if owner in found else ""


def _imported(statements: list[cst.Import | cst.ImportFrom]) -> Iterator[tuple[str, str]]:
    """The name in the file, and what it is: `th`, `tracehost`."""
    for one in statements:
        if isinstance(one.names, cst.ImportStar):
            continue
        start = ""
        if isinstance(one, cst.ImportFrom):
            if one.relative or one.module is None:
                continue
            start = _dotted(one.module) + "."
        for alias in one.names:
            name = _dotted(alias.name)
            if alias.asname:
                yield _dotted(alias.asname.name), start + name
            elif start:
                yield name, start + name
            else:  # `import torch.nn` binds torch
                yield name.split(".")[0], name.split(".")[0]


def _dotted(node: cst.CSTNode) -> str:
    """`torch.nn` of its nodes; empty: another expression."""
    if isinstance(node, cst.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return node.value if isinstance(node, cst.Name) else ""


def last_name(node: cst.CSTNode) -> str:
    """`step` of `self.step`"""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _is(node: cst.BaseExpression, function: Function) -> bool:
    if isinstance(function, cst.Lambda):
        return node is function
    return last_name(node) == function.name.value


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _project(file: str) -> str:
    """The folder of the project that the file is named in."""
    folder = os.path.dirname(os.path.abspath(file))
    above = Path(folder)
    for one in (above, *above.parents):
        if any((one / mark).exists() for mark in _MARKS):
            return str(one)
    here = os.getcwd()
    return here if os.path.commonpath([here, folder]) == here else folder


Reader = Callable[[str], Source]
