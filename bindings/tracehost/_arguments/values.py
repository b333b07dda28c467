"""Python values and numpy arrays as tensors of a declared dtype."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .._tracehost import TensorSpec

_OF_ARRAY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_INTEGERS = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}


class Unfit(Exception):
    """Why a value does not become a tensor; for the message."""


def last_kind(dtype: torch.dtype) -> int:
    """The index of the last one of bool, int, float, complex that the dtype takes."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype != torch.bool)


def as_tensor(spec: TensorSpec, value: Any) -> torch.Tensor:
    """A new tensor of the spec's dtype and device. Nothing is lost but digits of a float."""
    dtype = spec.dtype
    most = last_kind(dtype)
    limits = torch.iinfo(dtype) if most == 1 and dtype in _INTEGERS else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.kind not in _OF_ARRAY:
            raise Unfit(f"an array of {value.dtype} can't be a tensor")
        _check_kind(str(value.dtype), _OF_ARRAY[value.dtype.kind], most, spec)
        if limits and value.dtype.kind != "b" and value.size:
            _check_range(int(value.min()), limits)
            _check_range(int(value.max()), limits)
        # In order, writable, of this machine's byte order: torch takes no other.
        plain = numpy.array(value, dtype=value.dtype.newbyteorder("="), order="C")
    else:
        try:
            plain = _plain(value, most, limits, spec)
        except RecursionError:
            raise Unfit("it is nested without end") from None
    try:
        return torch.tensor(plain, dtype=dtype, device=spec.device)
    except Exception as error:  # torch's own words: a ragged list, a device that is not there
        raise Unfit(str(error).split("\n")[0].rstrip(".")) from error


def _plain(value: Any, most: int, limits: torch.iinfo | None, spec: TensorSpec) -> Any:
    """Numbers and nested lists of them, without numpy's."""
    if isinstance(value, (list, tuple)):
        return [_plain(item, most, limits, spec) for item in value]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        inner = value.tolist()
        if type(inner) is not type(value):  # a longdouble has no number of Python's
            return _plain(inner, most, limits, spec)
    for kind, number in enumerate((bool, int, float, complex)):
        if isinstance(value, number):
            _check_kind(repr(value), kind, most, spec)
            if limits and kind == 1:
                _check_range(value, limits)
            return value
    if isinstance(value, torch.Tensor):
        raise Unfit("a list of tensors is not one tensor; use torch.stack")
    raise Unfit(f"{type(value).__name__} can't be a tensor")


def _check_kind(shown: str, kind: int, most: int, spec: TensorSpec) -> None:
    if kind > most:
        raise Unfit(f"cannot convert {shown} to {spec.dtype}")


def _check_range(value: int, limits: torch.iinfo) -> None:
    if not limits.min <= value <= limits.max:
        raise Unfit(f"{value} is out of the range of torch.{limits.dtype}")
