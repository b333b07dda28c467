"""tracehost bench: a function's calls against eager's and torch.compile's."""

from __future__ import annotations

import inspect
import json
import os
import sys
import types
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
import tracehost
from tracehost import ConcreteFunction, Function, TensorSpec
from tracehost._concrete import brief

from ..arguments import arguments, check_fits, device
from ..errors import CommandError, UsageError
from ..options import only
from ..target import find
from .report import Case, as_text, slower
from .timing import EAGER, OURS, Contender, measure, nanoseconds

_RIVALS = ("eager", "compile")
_POLICY = 3  # the exit code of --max-regress

_clock = nanoseconds


def main(options: Namespace, targets: list[str]) -> int:
    rivals = _rivals(options)
    takes = "'bench' takes one MODULE:FUNCTION, SCRIPT.py:FUNCTION or ARCHIVE:FUNCTION"
    target = only(targets, takes)
    given = [_sized(arguments(text, device(options.device)), text) for text in options.signature]
    file, _, name = target.rpartition(":")
    archived = not file.endswith(".py") and os.path.isfile(file)
    calls = {OURS: _of_archive(file, name, options)} if archived else _calls(target, rivals)
    parameters = inspect.signature(calls[OURS])
    for text, values in zip(options.signature, given):
        check_fits(text, values, parameters)

    signatures = given or [_declared(target, calls[OURS], parameters)]
    cases = [_measured(name, calls, values, options) for values in signatures]
    sys.stdout.write(_as_json(name, cases) if options.json else as_text(cases))
    for case in cases:
        if case.contenders[-1].failure is not None:  # tracehost's
            raise CommandError(f"{case.title}: {case.contenders[-1].failure}")
    complaint = "" if options.max_regress is None else slower(cases, options.max_regress)
    sys.stderr.write(complaint)
    return _POLICY if complaint else 0


def _rivals(options: Namespace) -> list[str]:
    rivals: list[str] = options.against.split(",")
    for word in set(rivals) - set(_RIVALS):
        raise UsageError(f"--against takes {' and '.join(_RIVALS)}, got '{word}'")
    if options.max_regress is not None and "eager" not in rivals:
        raise UsageError("--max-regress compares with eager, which --against leaves out")
    if options.repeat == 0:
        raise UsageError("--repeat takes a whole number from 1 on, got '0'")
    return rivals


def _of_archive(file: str, name: str, options: Namespace) -> Callable[..., Any]:
    if options.max_regress is not None:
        raise UsageError(f"{file}:{name} is in an archive: --max-regress has no eager to compare it with")  # fmt: skip
    try:
        archive = tracehost.load(file, device=device(options.device))
    except tracehost.Error as error:
        raise CommandError(str(error)) from None
    if name not in archive:
        raise UsageError(f"{file} has no {name!r}; there is {', '.join(archive)}")
    return archive[name]


def _calls(target: str, rivals: list[str]) -> dict[str, Callable[..., Any]]:
    """What is called, by the contender's name: tracehost's last."""
    found = find(target)
    if isinstance(found, ConcreteFunction):
        raise UsageError(f"{target} is a ConcreteFunction; name the function that it was made of")
    method = isinstance(found, types.MethodType) and isinstance(found.__func__, Function)
    function = found if method or isinstance(found, Function) else tracehost.function(found)
    function.clear()  # what the import traced: the first call is to be a trace
    body = function.python_function
    calls = {EAGER: body} if "eager" in rivals else {}
    if "compile" in rivals:
        calls["torch.compile"] = torch.compile(body)
    return {**calls, OURS: function}


def _sized(values: list[Any], text: str) -> list[Any]:
    if any(isinstance(value, TensorSpec) and None in value.shape for value in values):
        raise UsageError(f"--signature '{text}': a size must be a number to be measured with")
    return values


def _declared(target: str, function: Any, parameters: inspect.Signature) -> list[Any]:
    """The arguments where none are given: of the input_signature, if that has all sizes, or none."""
    specs = getattr(function, "input_signature", None)
    if specs is not None and all(isinstance(s, TensorSpec) and None not in (s.shape or [None]) for s in specs):  # fmt: skip
        return list(specs)
    try:
        parameters.bind()
    except TypeError:
        takes = f"{target}{parameters} takes arguments: give them"
        raise UsageError(f"{takes}, --signature 'f32[32,128], 2'") from None
    return []


def _measured(name: str, calls: dict[str, Any], values: list[Any], options: Namespace) -> Case:
    # The values are each contender's own: the body may write to them.
    contenders = [Contender(one, call, _values(values)) for one, call in calls.items()]
    measure(contenders, _clock, options.warmup, options.repeat)
    return Case(f"{name}({', '.join(map(brief, values))})", contenders)


def _values(values: list[Any]) -> tuple[Any, ...]:
    """The same for every contender: normal numbers, and 0 or 1 where a tensor has no fractions."""
    generator = torch.Generator().manual_seed(0)

    def tensor(spec: TensorSpec) -> torch.Tensor:
        shape, dtype = list(spec.shape), spec.dtype
        made = torch.randint(0, 2, shape, generator=generator)
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            made = torch.randn(shape, generator=generator, dtype=wide)
        return made.to(device=spec.device, dtype=dtype)

    return tuple(tensor(v) if isinstance(v, TensorSpec) else v for v in values)


def _as_json(name: str, cases: list[Case]) -> str:
    document = {
        "schema": "tracehost.bench/1", "function": name, "tracehost": tracehost.__version__, "torch": torch.__version__,
        "threads": torch.get_num_threads(), "cores": os.cpu_count(),
        "signatures": [{"signature": case.title, "rows": case.rows()} for case in cases],
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"
