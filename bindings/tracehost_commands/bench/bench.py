"""tracehost bench: a function's calls against eager's and torch.compile's."""

from __future__ import annotations

import inspect
import os
import sys
import time
import types
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import tracehost
from tracehost import ConcreteFunction, Function, TensorSpec
from tracehost._concrete import brief

from ..arguments import arguments, check_fits, device
from ..errors import CommandError, UsageError
from ..options import only
from ..target import find
from .report import EAGER, OURS, Case, as_json, as_text, slower, untraced
from .timing import Contender, Plan, measure

_RIVALS = ("eager", "compile")
_POLICY = 3  # the exit code of --max-regress

_clock = time.perf_counter_ns


@dataclass
class Subject:
    """What is measured: how each contender is called."""

    name: str
    signature: inspect.Signature
    calls: dict[str, Callable[..., Any]]  # what is called, by the contender's name
    declared: list[list[Any]]  # arguments that it is measured with where none are given


def main(options: Namespace, targets: list[str]) -> int:
    rivals = _rivals(options)
    target = only(
        targets, "'bench' takes one MODULE:FUNCTION, SCRIPT.py:FUNCTION or ARCHIVE:FUNCTION"
    )
    on = device(options.device)
    given = [_sized(arguments(text, on), text) for text in options.signature]

    file = target.rpartition(":")[0]
    archived = not file.endswith(".py") and os.path.isfile(file)
    subject = _archived(target, options) if archived else _subject(target, find(target), rivals)
    for text, values in zip(options.signature, given):
        check_fits(text, values, subject.signature)
    signatures = given or subject.declared or [_no_arguments(target, subject)]
    cases = [_measured(subject, values, options) for values in signatures]
    sys.stdout.write(as_json(subject.name, cases) if options.json else as_text(cases))
    failed = untraced(cases)
    if failed is not None:
        raise CommandError(failed)
    complaint = "" if options.max_regress is None else slower(cases, options.max_regress)
    sys.stderr.write(complaint)
    return _POLICY if complaint else 0


def _rivals(options: Namespace) -> list[str]:
    rivals = options.against.split(",")
    for word in rivals:
        if word not in _RIVALS:
            raise UsageError(f"--against takes {' and '.join(_RIVALS)}, got '{word}'")
    if options.max_regress is not None and "eager" not in rivals:
        raise UsageError("--max-regress compares with eager, which --against leaves out")
    if options.repeat == 0:
        raise UsageError("--repeat takes a whole number from 1 on, got '0'")
    return rivals


def _archived(target: str, options: Namespace) -> Subject:
    if options.max_regress is not None:
        raise UsageError(
            f"{target} is in an archive: --max-regress has no eager to compare it with"
        )
    file, _, name = target.rpartition(":")
    try:
        archive = tracehost.load(file, device=device(options.device))
    except tracehost.Error as error:
        raise CommandError(str(error)) from None
    if name not in archive:
        raise UsageError(f"{file} has no {name!r}; there is {', '.join(archive)}")
    function = archive[name]
    return Subject(name, inspect.signature(function), {OURS: function}, [])


def _subject(target: str, found: Any, rivals: list[str]) -> Subject:
    if isinstance(found, ConcreteFunction):
        raise UsageError(f"{target} is a ConcreteFunction; name the function that it was made of")
    method = isinstance(found, types.MethodType) and isinstance(found.__func__, Function)
    function = found if method or isinstance(found, Function) else tracehost.function(found)
    function.clear()  # what the import traced: the first call is to be a trace
    body = function.python_function
    calls: dict[str, Callable[..., Any]] = {}
    if "eager" in rivals:
        calls[EAGER] = body
    if "compile" in rivals:
        calls["torch.compile"] = torch.compile(body)
    calls[OURS] = function
    declared = function.input_signature
    sized = declared is not None and all(
        isinstance(spec, TensorSpec) and None not in (spec.shape or [None]) for spec in declared
    )
    return Subject(
        name=target.rpartition(":")[2],
        signature=inspect.signature(function),
        calls=calls,
        declared=[list(declared)] if sized else [],
    )


def _sized(values: list[Any], text: str) -> list[Any]:
    for value in values:
        if isinstance(value, TensorSpec) and None in value.shape:
            raise UsageError(f"--signature '{text}': a size must be a number to be measured with")
    return values


def _no_arguments(target: str, subject: Subject) -> list[Any]:
    try:
        subject.signature.bind()
    except TypeError:
        raise UsageError(
            f"{target}{subject.signature} takes arguments: give them, --signature 'f32[32,128], 2'"
        ) from None
    return []


def _measured(subject: Subject, values: list[Any], options: Namespace) -> Case:
    contenders = [
        Contender(
            name,
            call,
            _values(values),  # its own: the body may write to them
            inside=lambda stance="default" if name == OURS else "eager": tracehost.stance(stance),
            must_run=name == EAGER,
        )
        for name, call in subject.calls.items()
    ]
    plan = Plan(options.warmup, options.repeat)
    if torch.cuda.is_available():
        plan.settle = torch.cuda.synchronize
    measure(contenders, plan, _clock)
    return Case(f"{subject.name}({', '.join(map(brief, values))})", contenders)


def _values(values: list[Any]) -> tuple[Any, ...]:
    """The same for every contender: normal numbers, and 0 or 1 where a tensor has no fractions."""
    generator = torch.Generator().manual_seed(0)

    def tensor(spec: TensorSpec) -> torch.Tensor:
        shape, dtype = list(spec.shape), spec.dtype
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            made = torch.randn(shape, generator=generator, dtype=wide)
        else:
            made = torch.randint(0, 2, shape, generator=generator)
        return made.to(device=spec.device, dtype=dtype)

    return tuple(tensor(v) if isinstance(v, TensorSpec) else v for v in values)
