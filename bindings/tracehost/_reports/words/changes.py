"""What calls pass instead, so that a cause does not come again: a text for each kind of cause."""

from __future__ import annotations

import re

from .calls import passes
from .causes import Cause, quoted
from .numbers import Numbers, are_numbers
from .records import Account
from .source import parsed
from .uses import Use


def changed(cause: Cause, account: Account, numbers: Numbers) -> str:
    """What calls pass for an argument, or keep in a slot, so that the cause does not come again. Empty: nothing is known."""
    path = cause.path
    if cause.kind == "dtype":
        return f"{_passed(account, cause, f'{{0}}.to(torch.{cause.values[0]})')}: results are then those of {cause.values[0]}"
    if cause.kind == "device":
        device = next((one for one in cause.values if one != "cpu"), cause.values[0])
        return _passed(account, cause, f"{{0}}.to('{device}')")
    if cause.kind == "requires_grad" and set(cause.values) <= {"True", "False"}:
        return _passed(account, cause, "{0}.detach()") + ": where no gradient is needed"
    if cause.kind == "subclass":
        return _passed(account, cause, "{0}.as_subclass(torch.Tensor)")
    if cause.kind == "layout":
        return _layout(account, cause)
    if cause.kind == "alias":
        return (
            f"{passes(account, path, '{0}.clone()')}, which is the same tensor as another argument"
        )
    if cause.kind == "object" and len(cause.values) == 1 and not _is_exchangeable(cause, account):
        return f"create {quoted(path)} once, outside the loop, and pass the same object"
    if cause.kind == "guard" and are_numbers(cause.values):
        return _slot(cause, numbers)
    if cause.kind == "context":
        return _context(cause, account)
    return ""


def _layout(account: Account, cause: Cause) -> str:
    for word, pattern in _LAYOUTS.items():
        if any(word in value for value in cause.values):
            return _passed(account, cause, pattern)
    return ""


def _is_exchangeable(cause: Cause, account: Account) -> bool:
    return any(cause.path in record.exchangeable for record in account.records)


def _slot(cause: Cause, numbers: Numbers) -> str:
    """A number that is kept in a global, an attribute or an enclosing function: a tensor there, written in place."""
    slot = written(cause.path)
    if not slot:
        return ""
    tensor = numbers.tensor(slot, cause.values)
    if not tensor or numbers.use(slot) != Use.ARITHMETIC:
        return ""
    return (
        f"keep {tensor.format(slot)} in {quoted(slot)}, and change it by {slot}.fill_(...): "
        "a tensor's value is not part of the signature"
    )


def padded(account: Account, causes: list[Cause], first: int) -> tuple[str, list[int]]:
    """The text for all dimensions of an argument that changed, and the indices of these causes."""
    cause = causes[first]
    covers, sizes = [], {}
    for index, other in enumerate(causes):
        if other.kind == "shape" and other.paths == cause.paths and index >= first:
            covers.append(index)
            sizes[other.dimension] = max(int(value) for value in other.values)
    pads = [_padded(rank, sizes) for rank in cause.ranks]
    texts = [passes(account, path, pad) for pad, path in zip(pads[:2], cause.paths, strict=False)]
    more = ", and so on" if len(pads) > 2 else ""
    is_odd = len(sizes) == 1 and cause.dimension == 0 and len(cause.values) == 2
    drop = "drop the odd last batch, DataLoader(..., drop_last=True), or " if is_odd else ""
    text = (
        f"{drop}{', and '.join(texts)}{more}: padding changes results that depend on all elements"
    )
    return text, covers


_LAYOUTS = {
    "inference": "{0}.clone()",
    "conj": "{0}.resolve_conj()",
    "neg": "{0}.resolve_neg()",
    "sparse": "{0}.to_dense()",
    "mkldnn": "{0}.to_dense()",
}

_MANAGERS = {"grad mode": "torch.no_grad()", "inference mode": "torch.inference_mode()"}


def _context(cause: Cause, account: Account) -> str:
    field = cause.path
    manager = "torch.autocast(...)" if field.startswith("autocast") else _MANAGERS.get(field)
    if not manager:
        return f"keep the {field} as it is for all calls to {account.name}"
    return f"call {account.name} under one {field}: {manager} around all its calls or around none"


def _passed(account: Account, cause: Cause, pattern: str) -> str:
    """`pass x.to(torch.float32) for 'x' at train.py:40`, for each argument."""
    texts = [passes(account, path, pattern) for path in cause.paths[:2]]
    return ", and ".join(texts) + (", and so on" if len(cause.paths) > 2 else "")


def _padded(rank: int, sizes: dict[int, int]) -> str:
    """`{0}` is the tensor. F.pad counts its pairs from the last dimension back."""
    rank = max(rank, max(sizes) + 1)
    pairs = [
        f"0, {sizes[d]} - {{0}}.shape[{d}]" if d in sizes else "0, 0"
        for d in range(rank - 1, min(sizes) - 1, -1)
    ]
    return f"torch.nn.functional.pad({{0}}, ({', '.join(pairs)}))"


def root(path: str) -> str:
    """`batch` of `batch['image']`"""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def written(path: str) -> str:
    """What a user writes on the left of `=` for the path of a guard: `scale` for `scale (net.py)`. Empty: nothing can
    be written there."""
    text = re.sub(r" \([^()]*\)$", "", path).removeprefix("nonlocal ")
    node = parsed(text)
    return (
        text
        if node is not None and type(node).__name__ in ("Name", "Attribute", "Subscript")
        else ""
    )
