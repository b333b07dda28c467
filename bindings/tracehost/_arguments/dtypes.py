"""What the user gives as a dtype: torch's own, its name, or numpy's."""

from __future__ import annotations

import difflib
import sys
from typing import Any

import torch

# Names that torch and numpy give different dtypes.
_AMBIGUOUS = {"int": ("int32", "int64"), "float": ("float32", "float64")}
_ALIASES = {"half": torch.float16, "double": torch.float64}


def name_of(dtype: torch.dtype) -> str:
    """`float32`"""
    return str(dtype).removeprefix("torch.")


# By the one name that each has: `float32`, not `float`.
_NAMES = {name_of(v): v for v in vars(torch).values() if isinstance(v, torch.dtype)}


def dtype_of(value: Any, what: str, others: str = "") -> torch.dtype:
    """The torch.dtype that the user means.

    Args:
        value: a torch.dtype; its name, with `torch.` or without ("float32"); a numpy dtype or scalar
            type (np.dtype("int64"), np.float32).
        what: for the message, as in "TensorSpec: dtype".
        others: for the message, what else is taken there, as in ", or None".

    Raises:
        TypeError: it is none of them; or torch has no such dtype; or the name stands for two.
    """
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, str):
        return _by_name(value.removeprefix("torch."), repr(value), what)
    name = _name_in_numpy(value)
    if name is not None:
        return _by_name(name, f"numpy's {name}", what)
    given = "None" if value is None else f"{value!r} ({type(value).__name__})"
    raise TypeError(
        f"{what} is a torch.dtype, its name ('float32') or numpy's{others}, got {given}"
        + _remedy(value)
    )


def is_dtype(value: Any) -> bool:
    """Whether `dtype_of` takes values of this kind."""
    return isinstance(value, (torch.dtype, str)) or _name_in_numpy(value) is not None


def _by_name(name: str, shown: str, what: str) -> torch.dtype:
    dtype = _NAMES.get(name) or _ALIASES.get(name)
    if dtype is not None:
        return dtype
    if name in _AMBIGUOUS:
        a, b = _AMBIGUOUS[name]
        raise TypeError(f"{what} {shown} may be {a} or {b}: write '{a}' or '{b}'")
    near = difflib.get_close_matches(name, [*_NAMES, *_ALIASES], 1)
    raise TypeError(
        f"{what}: torch has no dtype {shown}" + (f"; did you mean '{near[0]}'?" if near else "")
    )


def _name_in_numpy(value: Any) -> str | None:
    """numpy is not imported: whoever has a dtype of it has done so."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.dtype):
        return str(value.name)
    if not isinstance(value, type) or not issubclass(value, numpy.generic):
        return None
    try:
        dtype = numpy.dtype(value)
    except TypeError:
        return value.__name__
    return str(dtype.name) if dtype.type is value else value.__name__  # not numpy.floating


def _remedy(value: Any) -> str:
    names = {bool: "'bool'", int: "'int32' or 'int64'", float: "'float32' or 'float64'"}
    return f": write {names[value]}" if isinstance(value, type) and value in names else ""
