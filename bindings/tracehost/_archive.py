"""Archives: specializations in a file, and functions that are read from one."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import inspect
import json
import os
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from . import _tracehost
from ._classes_like import named_tuple_like, record_like
from ._concrete import ConcreteFunction, warn_of_one_outcome
from ._errors import ArchiveError, TraceWarning
from ._function import _optimize_level, _signature
from ._tracehost import Function

_Kind = inspect._ParameterKind
_KINDS = (_Kind.POSITIONAL_OR_KEYWORD, _Kind.VAR_POSITIONAL, _Kind.KEYWORD_ONLY, _Kind.VAR_KEYWORD)


# -- saving ------------------------------------------------------------------------------------------------


def save(
    path: str | bytes | os.PathLike[Any],
    functions: Mapping[str, Function | ConcreteFunction | list[ConcreteFunction]],
    *,
    source_paths: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write functions to a file that `tracehost.load`, C++ programs and plain `torch.jit.load` read.

    A Function is written with all live specializations whose Python values (attributes, globals) are still
    as at the trace. A Function with an input_signature and no trace yet is traced for it and written.
    Tensors that the bodies reach (parameters, buffers, globals) are written as they are now, each once. The file is complete or not
    there, and the same functions give the same bytes.

    Args:
        functions: by name, what to write: a Function, a ConcreteFunction, or a list of ConcreteFunctions.
        source_paths: keep the names of files and the lines that ops came from, for messages.
        metadata: your own, strings by strings: a version, the names of classes. `Archive.metadata`
            has it in Python and in C++.

    Raises:
        ArchiveError: a graph can't be stored (it calls Python, runs a backward pass ...), a value among
            the arguments or results can't, or the file can't be written. Nothing is written then.
    """
    _write(path, functions, source_paths, metadata)


def _write(
    path: str | bytes | os.PathLike[Any],
    functions: Mapping[str, Function | ConcreteFunction | list[ConcreteFunction]],
    source_paths: bool,
    metadata: Mapping[str, str] | None,
) -> None:
    """Of save() and of Function.save(): its warnings are for the line that called these."""
    if not isinstance(functions, Mapping) or not functions:
        raise TypeError(_not_by_name(functions))
    own = dict(metadata or {})
    for key, value in own.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"save(metadata=...): strings by strings, got {key!r}: {value!r}. "
                "Write other values as text, by json.dumps for example"
            )
    entries = []
    for name, function in functions.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArchiveError(
                f"{name!r} can't be saved: the name of a function must be a Python identifier"
            )
        concretes = _concretes(name, function)
        remedy = "Call the Function once with each value, and save it again: an archive has all its graphs."
        warn_of_one_outcome(name, concretes, remedy, stacklevel=4)
        callable_ = _tracehost.concrete_source(concretes[0]._core)[0]
        entries.append(entry(name, callable_, concretes))
    without = _tracehost.write_archive(os.fsencode(path), entries, bool(source_paths), own)
    if without:
        warnings.warn(
            f"{_count(len(without), 'graph')} of {shown_path(path)} {'has' if len(without) == 1 else 'have'} no "
            f"copy in TorchScript, for example "
            f"{without[0]}. tracehost.load runs such a graph; torch.jit.load does not have it.",
            TraceWarning,
            stacklevel=3,
        )


def entry(
    name: str, callable_: Any, concretes: list[ConcreteFunction]
) -> tuple[str, dict[str, Any], list[tuple[Any, list[tuple[int | None, ...]]]]]:
    """A function as the compiled part takes it: name, defaults, and each graph with its results' shapes."""
    graphs = [(c._core, [tuple(spec.shape) for spec in c.outputs]) for c in concretes]
    return name, _defaults(callable_), graphs


def live(function: Function) -> tuple[list[ConcreteFunction], str]:
    """The specializations whose Python values are still as at the trace, and one value that is not."""
    made = _tracehost.concrete_functions(function, ConcreteFunction)
    stale = [_tracehost.concrete_source(cf._core)[1] for cf in made]
    return [cf for cf, path in zip(made, stale) if not path], stale[-1] if stale else ""


def _not_by_name(given: Any) -> str:
    if isinstance(given, Mapping):
        return (
            "save(path, functions): functions has no name. Give at least one: {'predict': predict}"
        )
    name = getattr(given, "name", "predict")
    name = name if name.isidentifier() else "predict"
    return (
        f"save(path, functions): functions is a {type(given).__name__}, not a dict. Write "
        f"tracehost.save(path, {{{name!r}: {name}}})"
    )


def _concretes(name: str, function: Any) -> list[ConcreteFunction]:
    if isinstance(function, types.MethodType) and isinstance(function.__func__, Function):
        function = function.__func__  # the instance's own
    if isinstance(function, ConcreteFunction):
        return [function]
    if isinstance(function, (list, tuple)) and function:
        if all(isinstance(f, ConcreteFunction) for f in function):
            return list(function)
    elif isinstance(function, Function):
        return _live(name, function)
    raise TypeError(
        f"{name!r} can't be saved: it is a {type(function).__name__}. Save a tracehost.Function, a "
        "ConcreteFunction, or a list of these"
    )


def _live(name: str, function: Function) -> list[ConcreteFunction]:
    current, stale = live(function)
    if current:
        return current
    if stale:
        raise ArchiveError(
            f"{name} can't be saved: {stale} is another value now than when it was traced. Call it "
            "again, so that there is a graph for that value"
        )
    if function.input_signature is not None:
        return [function.get_concrete_function()]
    raise ArchiveError(
        f"{name} can't be saved: it has no specialization yet. Call it, or request one: "
        f"{function.name}.get_concrete_function(tracehost.TensorSpec(...))"
    )


def _defaults(callable_: Any) -> dict[str, Any]:
    try:
        parameters = _signature(callable_).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return {}
    made = {p.name: p.default for p in parameters if p.default is not p.empty}
    made |= {p.name: () for p in parameters if p.kind is p.VAR_POSITIONAL}
    return made | {p.name: {} for p in parameters if p.kind is p.VAR_KEYWORD}


def _save(
    self: Function, /, path: str | bytes | os.PathLike[Any], *, source_paths: bool = False
) -> None:
    """save(path, *, source_paths=False)

    tracehost.save(path, {name: self}): writes the live specializations.
    """
    name = self.name if self.name.isidentifier() else "function"
    _write(path, {name: self}, source_paths, None)


# -- loading -----------------------------------------------------------------------------------------------


class ArchivedFunction:
    """A function of an archive: called as the one that it was saved from.

    Arguments are bound to its parameters, defaults filled in. The graph that serves is found by the same
    rules as a Function's; requires_grad may differ, gradients flow as through eager code. Numbers, lists
    of them and numpy arrays become tensors where the graph has tensors. It never traces: what no graph
    serves is a SignatureError.
    """

    def __init__(self, core: Any, name: str) -> None:
        self._core = core
        self.name = self.__name__ = name
        self.__signature__ = _python_signature(core.parameters(name))
        self.__doc__ = "\n".join(self.signatures)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, NotImported):  # by now it may be imported
                self.__signature__ = _python_signature(self._core.parameters(self.name))
                bound.arguments[name] = self.__signature__.parameters[name].default
                if isinstance(bound.arguments[name], NotImported):
                    raise ArchiveError(f"{self.name}: {value.why}")
        return self._core.call(self.name, tuple(bound.arguments.values()))

    @property
    def signatures(self) -> tuple[str, ...]:
        """What it takes and gives, a line for each graph, most specific first."""
        return tuple(f"{s['signature']} -> {s['result']}" for s in self._core.described(self.name))

    def graph(self, index: int = 0) -> torch._C.Graph:
        """A copy of a graph: tensor arguments, then captures."""
        return self._core.graph(self.name, _checked(index, len(self.signatures), self.name))

    def tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers that its graphs read, by their name in the module. Writing to them
        in place changes what it computes."""
        return self._core.tensors(self.name)

    def __str__(self) -> str:
        return "\n".join(f"{self.name}{signature}" for signature in self.signatures)

    def __repr__(self) -> str:
        return f"<ArchivedFunction {self.name}, {_count(len(self.signatures), 'signature')}>"


class Archive(Mapping[str, ArchivedFunction]):
    """What `tracehost.load` gives: functions by name."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._functions = {name: ArchivedFunction(core, name) for name in core.names()}
        facts = core.facts
        self.path: str = facts["path"]
        self.version: int = facts["version"]  # of the format
        self.tracehost: str = facts["tracehost"]  # versions that wrote it
        self.torch: str = facts["torch"]
        self.hash: str = facts["hash"]
        self.sha256: str = facts["sha256"]
        self.metadata: dict[str, str] = facts["metadata"]  # of whoever saved it
        self.device = torch.device(facts["device"])

    def __getitem__(self, name: str) -> ArchivedFunction:
        try:
            return self._functions[name]
        except KeyError:
            known = ", ".join(self._functions) or "none"
            raise KeyError(f"{name!r} is no function of {self.path}; there is {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __str__(self) -> str:
        return "\n".join(map(str, self._functions.values()))

    def __repr__(self) -> str:
        return f"<Archive {self.path!r}: {', '.join(self)}>"


def load(
    path: str | bytes | os.PathLike[Any],
    device: str | torch.device | None = None,
    optimize: str | None = None,
    *,
    sha256: str | None = None,
) -> Archive:
    """Read an archive: its functions by name.

    The file is checked before it is used: load() ends with an archive or with ArchiveError, imports nothing and
    runs no Python, also for a file from a stranger. To call a function of a stranger's is to run his code: see
    docs/guides/archives.md.

    Args:
        device: where to put tensors and ops that were on the device of the trace; default: there.
        optimize: "exact": settled calls run on kernel tapes, with the same bits; "off"; default: TRACEHOST_OPTIMIZE,
            else "exact" on the CPU and "off" on other devices.
        sha256: the SHA-256 that the file must have: 64 hex digits, as `sha256sum` and `tracehost inspect` print
            it. It is computed over the bytes that are then read. "": any; `Archive.sha256` has it.

    Raises:
        ValueError: another `optimize`.
        ArchiveError: the file is not there, cut off, damaged, no archive, or of a newer format; or the
            device is not here; or the file has another SHA-256.
    """
    given = None if device is None else str(torch.device(device))
    level = _optimize_level(optimize)
    try:
        return Archive(_tracehost.read_archive(os.fsencode(path), given, level, sha256))
    except (ArchiveError, MemoryError):
        raise
    except Exception as error:  # a value that Python does not take
        reason = str(error) or type(error).__name__
        raise ArchiveError(
            f"{shown_path(path)}: it is not what tracehost writes: {reason}"
        ) from error


def shown_path(path: str | bytes | os.PathLike[Any]) -> str:
    """As it can be printed anywhere: bytes that are no UTF-8 as `\\xff`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _python_signature(parameters: list[tuple[str, int, bool, Any]]) -> inspect.Signature:
    made = []
    for name, kind, has_default, default in parameters:
        spreads = _KINDS[kind] in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)
        value = default if has_default and not spreads else inspect.Parameter.empty
        made.append(inspect.Parameter(name, _KINDS[kind], default=value))
    # A default before a parameter without one can't be left out.
    for i in range(len(made) - 1, 0, -1):
        positional = made[i].kind is made[i - 1].kind is _Kind.POSITIONAL_OR_KEYWORD
        if positional and made[i].default is made[i].empty:
            made[i - 1] = made[i - 1].replace(default=inspect.Parameter.empty)
    return inspect.Signature(made)


def _checked(index: int, count: int, owner: str) -> int:
    if not 0 <= index < count:
        raise IndexError(f"{owner} has {_count(count, 'graph')}, there is no graph {index}")
    return index


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# -- values of results, for the compiled part --------------------------------------------------------------


def torch_constant(name: str) -> Any:
    found = vars(torch).get(name)
    if isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        return found
    raise ArchiveError(f"torch.{name} is needed, which this PyTorch does not have")


def _found(name: str) -> Any:
    """What `module:Qualified.Name` is, of modules that are imported; None: it is not there. Runs no code of
    the module: an attribute of some is imported when it is read."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        if not isinstance(found, (type, types.ModuleType)):
            return None
        found = vars(found).get(part)
    return found


def member(name: str) -> Any:
    enum_name, _, own = name.rpartition(".")
    found = _found(enum_name)
    if isinstance(found, type) and issubclass(found, enum.Enum) and own in found.__members__:
        return found.__members__[own]
    raise ArchiveError(
        f"the value {own} of {enum_name.replace(':', '.')} is needed: import {enum_name.partition(':')[0]} first"
    )


class NotImported:
    """A parameter's default of a class that is not imported. It is shown as it was; a call that needs it
    raises."""

    def __init__(self, text: str, why: str) -> None:
        self._text, self.why = text, why

    def __repr__(self) -> str:
        return self._text


def put_together(
    name: str, fields: list[str], is_record: bool, items: list[Any], absent: list[int]
) -> Any:
    """An instance of a class of the user's; of one like it where it is not imported."""
    if name in ("builtins:slice", "builtins:range"):
        return getattr(builtins, name[9:])(*items)
    found = _found(name)
    if is_record:
        cls = found if _is_record(found, fields) else record_like(name, tuple(fields))
        made = object.__new__(cls)
        for i, (field, item) in enumerate(zip(fields, items)):
            if i not in absent:
                object.__setattr__(made, field, item)
        return made
    alike = isinstance(found, type) and getattr(found, "_fields", None) == tuple(fields)
    cls = found if alike and issubclass(found, tuple) else named_tuple_like(name, tuple(fields))
    return tuple.__new__(cls, items)


def _is_record(found: Any, fields: list[str]) -> bool:
    if not isinstance(found, type):
        return False
    if dataclasses.is_dataclass(found):
        return [f.name for f in dataclasses.fields(found)] == fields
    return [a.name for a in getattr(found, "__attrs_attrs__", ())] == fields


# -- inspecting --------------------------------------------------------------------------------------------


def describe(archive: Archive) -> str:
    """What `tracehost inspect` prints."""
    size = os.path.getsize(archive.path)
    lines = [
        f"{os.path.basename(shown_path(archive.path))}: {size:,} bytes, format {archive.version}, "
        f"tracehost {archive.tracehost}, torch {archive.torch}, {archive.device}",
        f"hash {archive.hash}",
    ]
    if archive.sha256:
        lines.append(f"sha256 {archive.sha256}")
    tensors: dict[str, torch.Tensor] = {}
    number = 0
    for function in archive.values():
        lines += ["", f"{function.name}{function.__signature__}"]
        tensors |= function.tensors()
        for one in archive._core.described(function.name):
            lines.append(f"  {number}  {one['signature']} -> {one['result']}")
            lines.append(
                f"     method {one['method']}, {_count(one['ops'], 'op')}, "
                f"{_count(len(one['captures']), 'tensor')} of the archive"
            )
            if one["no_torchscript"]:
                lines.append(f"     not for torch.jit.load: {one['no_torchscript']}")
            lines += [f"     for sizes where {condition}" for condition in one["conditions"]]
            number += 1
    if tensors:
        lines += ["", _count(len(tensors), "tensor")]
        width = max(map(len, tensors))
        for name, tensor in tensors.items():
            lines.append(f"  {name:{width}}  {_tracehost.tensor_text(tensor)}")
    return "\n".join(lines)


def graph_of(archive: Archive, number: int) -> torch._C.Graph:
    """The graph with that number in describe()."""
    graphs = [(f, i) for f in archive.values() for i in range(len(f.signatures))]
    function, index = graphs[_checked(number, len(graphs), archive.path)]
    return function.graph(index)


def code_of(archive: Archive, number: int) -> str:
    """The graph with that number in describe(), as it is in the file."""
    count = sum(len(function.signatures) for function in archive.values())
    return _tracehost.read_code(os.fsencode(archive.path), _checked(number, count, archive.path))


def manifest_of(path: str | bytes | os.PathLike[Any]) -> Any:
    return json.loads(_tracehost.read_manifest(os.fsencode(path)))


Function.save = _save
for _class in (Archive, ArchivedFunction):
    _class.__module__ = "tracehost"
