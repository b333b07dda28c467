"""What a fix changes in the source.

All changes of one fix are found before the first is kept, so a fix is written whole or not at all."""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from typing import NamedTuple

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor

from .arguments import argument, check_dropped, parameters
from .found import Fix, Line
from .rewrite import Apply, Replace, Spell, options_of, with_first, with_options, with_value
from .source import CannotWrite, Function, LeftAlone, Source, last_name

_GENERAL = {"input_signature", "reduce_retracing"}


class _Change(NamedTuple):
    source: Source
    node: cst.CSTNode
    replace: Replace


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
        self._changes: dict[Source, dict[cst.CSTNode, list[Replace]]] = {}
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
            module = source.module.visit(Apply(changes))
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
            if fix.options.keys() <= {"limit"} or not _GENERAL & options_of(one)
        ]
        if not makers:
            raise CannotWrite(f"no tracehost.function is applied to it in {source.shown}")
        options = {name: self._expression(source, text) for name, text in fix.options.items()}
        return [_Change(source, one, with_options(one, options)) for one in makers]

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
                    node = argument(call, parameters(source, function, call), path, place)
                    check_dropped(node, text, place)
                    made = self._expression(there, text)
                    changes.append(_Change(there, node, with_value(made, path)))
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
        return [_Change(source, function.body, with_first(fix.begins))]

    def _expression(self, source: Source, text: str) -> cst.BaseExpression:
        """With the names that the file has for torch and tracehost."""
        spelled = {}
        for meant in ("torch", "tracehost.TensorSpec"):
            if meant in text:
                spelled[meant] = source.names.spelled(meant) or meant
                if not source.names.spelled(meant):
                    self._needs.append((source, meant.split(".")[0]))
        made = cst.parse_expression(text).visit(Spell(spelled))
        assert isinstance(made, cst.BaseExpression)
        return made
