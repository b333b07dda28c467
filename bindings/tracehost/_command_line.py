"""`python -m tracehost._command_line export | inspect ...`: archives from the command line."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import os
import re
import sys
from typing import Any

import torch

from . import _archive
from ._concrete import ConcreteFunction
from ._errors import Error
from ._function import function
from ._tracehost import Function, TensorSpec

_DTYPES = {
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "bool": torch.bool,
}
_SPEC = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<sizes>[^\]]*)\]$")


class Usage(Exception):
    """What is wrong with the command line, with what to write."""


def signature(text: str) -> list[Any]:
    """`f32[?,128], i64[], 2, 'relu'` as arguments: TensorSpecs and Python literals."""
    result: list[Any] = []
    for part in _parts(text):
        spec = _SPEC.match(part)
        if spec is None:
            try:
                result.append(ast.literal_eval(part))
            except (ValueError, SyntaxError):
                raise Usage(
                    f"{part!r} in --signature is neither a tensor like f32[?,128] nor a Python literal"
                ) from None
            continue
        name = spec["dtype"]
        dtype = _DTYPES.get(name) or getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise Usage(f"{name!r} in --signature is no dtype; there are {', '.join(_DTYPES)}")
        result.append(TensorSpec([_size(s, part) for s in _parts(spec["sizes"])], dtype))
    return result


def _size(text: str, part: str) -> int | None:
    if text == "?":
        return None
    if not text.isdigit():
        raise Usage(f"{text!r} in {part!r} is no size: a number, or ? for any")
    return int(text)


def _parts(text: str) -> list[str]:
    """Split at commas that are in no brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "[({":
            depth += 1
        elif c in "])}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def find(target: str) -> Any:
    """`package.module:function` or `script.py:object.method`."""
    place, colon, path = target.rpartition(":")
    if not colon or not place or not path:
        raise Usage(f"{target!r} names no function: write MODULE:FUNCTION or SCRIPT.py:FUNCTION")
    found = _script(place) if place.endswith(".py") else _module(place)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Usage(f"{place} has no {path!r}") from None
    return found


def _module(name: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        raise Usage(f"there is no module {name!r}; a script is named with its .py") from None


def _script(path: str) -> Any:
    if not os.path.isfile(path):
        raise Usage(f"there is no file {path!r}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def export(args: argparse.Namespace) -> None:
    found = find(args.function)
    if not isinstance(found, (Function, ConcreteFunction)):
        if not callable(found):
            raise Usage(f"{args.function} is a {type(found).__name__}, no function")
        found = function(found)
    name = args.name or args.function.rpartition(":")[2].rpartition(".")[2]
    if args.signature:
        if isinstance(found, ConcreteFunction):
            raise Usage(f"{args.function} is a ConcreteFunction, which has a signature")
        made: Any = [found.get_concrete_function(*signature(s)) for s in args.signature]
    else:
        made = found
    _archive.save(args.output, {name: made}, source_paths=args.source_paths)
    print(_archive.describe(_archive.load(args.output)))


def inspect(args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(_archive.manifest_of(args.file), indent=1))
        return
    archive = _archive.load(args.file, device=args.device)
    if args.graph is not None:
        print(_archive.graph_of(archive, args.graph), end="")
    elif args.code is not None:
        print(_archive.code_of(archive, args.code), end="")
    else:
        print(_archive.describe(archive))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tracehost", add_help=False, allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("export", prog="tracehost export", add_help=False, allow_abbrev=False)
    one.set_defaults(run=export)
    one.add_argument("function", metavar="MODULE:FUNCTION")
    one.add_argument("-o", "--output", metavar="FILE", required=True)
    one.add_argument("--signature", metavar="SPECS", action="append")
    one.add_argument("--name")
    one.add_argument("--source-paths", action="store_true")
    one = commands.add_parser(
        "inspect", prog="tracehost inspect", add_help=False, allow_abbrev=False
    )
    one.set_defaults(run=inspect)
    one.add_argument("file", metavar="FILE")
    one.add_argument("--json", action="store_true")
    one.add_argument("--graph", type=int, metavar="N")
    one.add_argument("--code", type=int, metavar="N")
    one.add_argument("--device")
    return parser


def main(words: list[str]) -> int:
    args = _parser().parse_args(words)
    try:
        args.run(args)
    except Usage as error:
        print(f"tracehost: {error}", file=sys.stderr)
        return 2
    except (Error, IndexError) as error:
        print(f"tracehost: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
