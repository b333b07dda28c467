"""Arguments of a function as text: `f32[?,128], i64[], 2, 'relu'`."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import torch
from tracehost import TensorSpec
from tracehost_lock import at_commas

from .errors import UsageError

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
_TENSOR = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<sizes>[^\]]*)\]$")


def device(text: str | None) -> torch.device | None:
    try:
        return None if text is None else torch.device(text)
    except RuntimeError:
        raise UsageError(f"--device takes a device such as cpu or cuda:0, got '{text}'") from None


def arguments(text: str, on: torch.device | None) -> list[Any]:
    """TensorSpecs and Python literals."""
    result: list[Any] = []
    for part in _parts(text):
        tensor = _TENSOR.match(part)
        result.append(_literal(part) if tensor is None else _spec(tensor, part, on))
    return result


def check_fits(text: str, values: list[Any], signature: inspect.Signature) -> None:
    try:
        signature.bind(*values)
    except TypeError as error:
        raise UsageError(f"--signature '{text}' does not fit {signature}: {error}") from None


def _literal(part: str) -> Any:
    try:
        return ast.literal_eval(part)
    except (ValueError, SyntaxError):
        if "[" in part and "]" not in part:
            raise UsageError(f"{part!r} in --signature lacks its ']'") from None
        raise UsageError(
            f"{part!r} in --signature is neither a tensor like f32[?,128] nor a Python literal"
        ) from None


def _spec(tensor: re.Match[str], part: str, on: torch.device | None) -> TensorSpec:
    name = tensor["dtype"]
    dtype = _DTYPES.get(name) or getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(
            f"{name!r} in --signature is not a dtype; write one of {', '.join(_DTYPES)}"
        )
    return TensorSpec([_size(size, part) for size in _parts(tensor["sizes"])], dtype, device=on)


def _size(text: str, part: str) -> int | None:
    if text == "?":
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text!r} in {part!r} is not a size: write a number, or ? for any")
    return int(text)


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in at_commas(text)]
    return [] if parts == [""] else parts
