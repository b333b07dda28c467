"""Whether what a traced function did is what eager did: results, gradients, and what became of the arguments."""

import math

import torch
from torch.utils._pytree import tree_flatten

# By dtype: absolute and relative. Most results are bit for bit the same; fused or reordered kernels are not.
TOLERANCE = {
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1e-2, 1.6e-2),
    torch.float32: (1e-5, 1.3e-6),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1e-5, 1.3e-6),
    torch.complex128: (1e-7, 1e-7),
}


def difference(
    eager: object, ours: object, where: str = "result", values: bool = True
) -> str | None:
    """The first difference in words, or None. With values=False only what describes a tensor is compared."""
    eager_leaves, eager_tree = tree_flatten(eager)
    leaves, tree = tree_flatten(ours)
    if str(eager_tree) != str(tree):
        return f"{where}: eager's structure is {eager_tree}, ours {tree}"
    for index, (a, b) in enumerate(zip(eager_leaves, leaves)):
        at = f"{where}[{index}]" if len(leaves) > 1 else where
        found = leaf_difference(a, b, at, values)
        if found:
            return found
    return None


def leaf_difference(a: object, b: object, at: str, values: bool) -> str | None:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return tensor_difference(a, b, at, values)
    if type(a) is not type(b):
        return f"{at}: eager gives a {type(a).__name__}, ours is a {type(b).__name__}"
    if (
        isinstance(a, float)
        and values
        and (math.isclose(a, b, rel_tol=1e-6) or (a != a and b != b))
    ):
        return None
    if values and a != b:
        return f"{at}: eager gives {a!r}, ours is {b!r}"
    return None


def tensor_difference(a: torch.Tensor, b: torch.Tensor, at: str, values: bool) -> str | None:
    for name, x, y in described(a, b):
        if x != y:
            return f"{at}: eager's {name} is {x}, ours {y}"
    if not values:
        return None
    if a.layout is not torch.strided:
        a, b = a.detach().to_dense(), b.detach().to_dense()
    elif a.is_quantized:
        a, b = a.dequantize(), b.dequantize()
    a, b = a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()
    if a.dtype is torch.complex32:  # has no comparison
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if torch.equal(a, b):
        return None
    absolute, relative = TOLERANCE.get(a.dtype, (0, 0))
    if torch.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True):
        return None
    return f"{at}: values differ, eager {short(a)}, ours {short(b)}"


def described(a: torch.Tensor, b: torch.Tensor):
    yield "class", type(a), type(b)
    yield "dtype", a.dtype, b.dtype
    yield "layout", a.layout, b.layout
    yield "shape", tuple(a.shape), tuple(b.shape)
    yield "device", a.device, b.device
    yield "requires_grad", a.requires_grad, b.requires_grad
    if a.layout is torch.strided:
        yield "stride", a.stride(), b.stride()
        yield "storage offset", a.storage_offset(), b.storage_offset()
        yield "conj bit", a.is_conj(), b.is_conj()
        yield "neg bit", a.is_neg(), b.is_neg()


def short(t: torch.Tensor) -> str:
    flat = t.reshape(-1)
    return f"{flat[:6].tolist()}{'...' if flat.numel() > 6 else ''}"


def alias_pattern(inputs: object, result: object) -> list[str]:
    """For each tensor of a result, which input it is or shares its memory with, or which result before it."""
    seen: list[tuple[str, torch.Tensor]] = [
        (f"input {i}", t)
        for i, t in enumerate(tree_flatten(inputs)[0])
        if isinstance(t, torch.Tensor)
    ]
    pattern = []
    for index, t in enumerate(tree_flatten(result)[0]):
        if not isinstance(t, torch.Tensor):
            continue
        pattern.append(
            next(
                (f"{index} {how(t, other)} {name}" for name, other in seen if how(t, other)),
                f"{index} fresh",
            )
        )
        seen.append((f"result {index}", t))
    return pattern


def how(t: torch.Tensor, other: torch.Tensor) -> str:
    if t is other:
        return "is"
    return "shares memory with" if memory(t) is not None and memory(t) == memory(other) else ""


def memory(t: torch.Tensor) -> int | None:
    if t.layout is not torch.strided or t.numel() == 0:
        return None
    return t.untyped_storage().data_ptr() or None
