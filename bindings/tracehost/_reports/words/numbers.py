"""Which Python numbers can be passed, or kept, as tensors: by what the body does with them, and what they are."""

from __future__ import annotations

from .causes import Cause
from .records import Account, Record
from .source import Definition, definition_at
from .uses import Use, Uses

# A float32 has all integers up to here, and about seven digits.
_MOST_OF_FLOAT32 = 2.0**24


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def are_numbers(values: list[str]) -> bool:
    return bool(values) and all(map(is_number, values))


def varies_as_number(cause: Cause) -> bool:
    """Whether the cause is a Python number of the arguments."""
    if cause.kind == "value":
        return are_numbers(cause.values)
    return cause.kind == "type" and set(cause.values) <= {"int", "float", "Tensor"}


class Numbers:
    """The numbers of the calls of one definition."""

    def __init__(self, account: Account) -> None:
        self.definition: Definition | None = definition_at(account.definition)
        self._dtypes = {
            tensor.dtype
            for record in account.records
            if record.request
            for tensor in record.request.tensors
        }
        self._texts = _texts(account.records)
        tensors = {
            node.path
            for record in account.records
            for node in (record.request.nodes if record.request else ())
            if node.kind == "tensor"
        }
        self._uses = Uses(self.definition, tensors) if self.definition else None

    def use(self, path: str) -> Use:
        return self._uses.of_number(path) if self._uses else Use.VALUE

    def needs_size(self, path: str) -> bool:
        """Whether the body needs a size of the tensor as Python's own number."""
        return self._uses.needs_size(path) if self._uses else False

    def needs_identity(self, name: str) -> bool:
        """Whether the body depends on which object it is given for the parameter."""
        return self._uses.needs_identity(name) if self._uses else False

    def dtype(self, path: str, is_float: bool, values: list[str] | None = None) -> str:
        """What a number is as a tensor, with the results that it has as a number; empty: it can be none.

        An op takes a 0-dim tensor for a number and gives its other operand's dtype, if that is floating. A 0-dim
        operand has its own dtype, so a float is a float64 only where all tensors are.
        """
        if self.use(path) == Use.VALUE:
            return ""
        texts = self._texts.get(path, set()) if values is None else set(values)
        if not is_float:
            return "int64"
        whole = {text for text in texts if text.lstrip("-").isdigit()}
        integers = any(dtype.startswith(("int", "uint", "bool")) for dtype in self._dtypes)
        if whole and integers:
            return ""  # the result is of another dtype for an int
        if self._dtypes and self._dtypes <= {"float64", "complex128"}:
            return "float64"
        large = any(_MOST_OF_FLOAT32 <= abs(float(text)) < float("inf") for text in texts)
        return "" if large else "float32"

    def tensor(self, path: str, values: list[str]) -> str:
        """`torch.tensor({0})`: the number at the path, {0}, as a tensor; empty: it can be none."""
        floats = [value for value in values if not value.lstrip("-").isdigit()]
        dtype = self.dtype(path, bool(floats), values)
        if not dtype:
            return ""
        number = "{0}" if len(floats) in (0, len(values)) else "float({0})"
        return f"torch.tensor({number}{', dtype=torch.float64' if dtype == 'float64' else ''})"


def _texts(records: list[Record]) -> dict[str, set[str]]:
    """The numbers that each path had."""
    result: dict[str, set[str]] = {}
    for record in records:
        for node in record.request.nodes if record.request else ():
            if node.kind in ("int", "float"):
                result.setdefault(node.path, set()).add(node.text)
    return result
