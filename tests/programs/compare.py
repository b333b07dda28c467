"""The first difference between what eager and a traced function gave, in words."""

import torch
from sweep.sameness import TOLERANCE as ABSOLUTE_RELATIVE

TOLERANCE = {dtype: (most[1], most[0]) for dtype, most in ABSOLUTE_RELATIVE.items()}


def difference(eager: object, ours: object, at: str = "result", close: bool = False) -> str | None:
    """None where both are equal: to the bit, or `close` as torch.testing says. Objects by class and attributes."""
    return compared(eager, ours, at, set(), close)


def compared(a: object, b: object, at: str, seen: set[int], close: bool) -> str | None:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return of_tensors(a, b, at, close)
    if type(a) is not type(b):
        return f"{at}: eager gives a {type(a).__name__}, ours is a {type(b).__name__}"
    if id(a) in seen:
        return None
    if isinstance(a, dict):
        seen.add(id(a))
        if list(a) != list(b):
            return f"{at}: eager has the keys {list(a)}, ours {list(b)}"
        return first(compared(a[key], b[key], f"{at}[{key!r}]", seen, close) for key in a)
    if isinstance(a, list | tuple):
        seen.add(id(a))
        if len(a) != len(b):
            return f"{at}: eager has {len(a)} items, ours {len(b)}"
        return first(
            compared(x, y, f"{at}[{i}]", seen, close) for i, (x, y) in enumerate(zip(a, b))
        )
    if isinstance(a, torch.nn.Module | type) or callable(a):
        return None
    if type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        seen.add(id(a))
        return compared(vars(a), vars(b), at, seen, close)
    same = a == b or (isinstance(a, float) and a != a and b != b)
    return None if same else f"{at}: eager gives {a!r}, ours is {b!r}"


def first(found) -> str | None:
    return next((text for text in found if text), None)


def of_tensors(a: torch.Tensor, b: torch.Tensor, at: str, close: bool) -> str | None:
    for name in ("dtype", "shape", "device", "requires_grad", "layout"):
        if getattr(a, name) != getattr(b, name):
            return f"{at}: eager's {name} is {getattr(a, name)}, ours {getattr(b, name)}"
    if type(a) is not type(b):
        return f"{at}: eager gives a {type(a).__name__}, ours is a {type(b).__name__}"
    if a.layout is torch.strided and a.stride() != b.stride():
        return f"{at}: eager's strides are {a.stride()}, ours {b.stride()}"
    a, b = a.detach(), b.detach()
    if torch.equal(a, b):
        return None
    if a.is_floating_point() or a.is_complex():
        if torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num()):
            return None
        if close and torch.allclose(a, b, *TOLERANCE.get(a.dtype, (0, 0)), equal_nan=True):
            return None
        return f"{at}: values differ by up to {(a - b).abs().max().item():.2g}"
    return f"{at}: {(a != b).sum().item()} of {a.numel()} values differ"
