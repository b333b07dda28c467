"""The operator database as calls: for each op and dtype the samples, copied so that nothing is shared between runs."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

DEVICE = os.environ.get("SWEEP_DEVICE", "cpu")  # of the samples; set by --device
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# What they return is memory as it was found.
UNINITIALISED = (
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
)

# Eager itself writes past its memory, or reads it wrongly, where dimensions lie the other way round.
UNSAFE_STRIDES = (
    "tril",
    "triu",
    "linalg.lu",
    "lu_unpack",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
)

# The database's random ops seed the generator themselves, which a graph can't; here the caller of a body does.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


@dataclass(frozen=True)
class Pair:
    """An op of the database and one of its dtypes."""

    op: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.op} {self.dtype}"

    @staticmethod
    def from_text(text: str) -> "Pair":
        return Pair(*text.split())


@dataclass
class Call:
    """One way to call an op: its body, made for a Function, and its arguments."""

    label: str
    body: Callable
    arguments: tuple
    backward: bool = False
    finish: Callable = staticmethod(lambda out: out)


def name_of(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPS = {name_of(op): op for op in op_db}


def dtypes_of(op) -> list[torch.dtype]:
    """float32, one integer dtype and bool, as far as the op has them."""
    integer = [d for d in INTEGERS if d in op.dtypes][:1]
    return [d for d in (torch.float32, *integer, torch.bool) if d in op.dtypes]


def all_pairs() -> list[Pair]:
    return [
        Pair(name, str(d).removeprefix("torch.")) for name, op in OPS.items() for d in dtypes_of(op)
    ]


def calls_of(pair: Pair) -> Iterator[Call]:
    """Every sample as a plain call, in place and into out= where the op has these; for floats also with gradients."""
    op, dtype = OPS[pair.op], getattr(torch, pair.dtype)
    torch.manual_seed(0)
    for index, sample in enumerate(op.sample_inputs(DEVICE, dtype, requires_grad=False)):
        arguments = (sample.input, sample.args, sample.kwargs)
        yield Call(f"sample {index}", plain(op.op), arguments)
        if op.inplace_variant is not None and not sample.broadcasts_input:
            yield Call(f"sample {index} in place", plain(op.inplace_variant), arguments)
        if op.supports_out and "out" not in sample.kwargs:
            out = out_for(op.op, arguments)
            if out is not None:
                yield Call(f"sample {index} out=", into(op.op), (*arguments, out))
    if not (dtype.is_floating_point and op.supports_autograd):
        return
    torch.manual_seed(0)
    for index, sample in enumerate(op.sample_inputs(DEVICE, dtype, requires_grad=True)):
        arguments = (sample.input, sample.args, sample.kwargs)
        finish = sample.output_process_fn_grad
        yield Call(f"sample {index} backward", plain(op.op), arguments, True, finish)


def plain(op: Callable) -> Callable:
    def call(first, rest, named):
        return op(first, *rest, **named)

    return call


def into(op: Callable) -> Callable:
    def call(first, rest, named, out):
        return op(first, *rest, **named, out=out)

    return call


def out_for(op: Callable, arguments: tuple) -> object:
    """Tensors that the op can write its result to, or None where it can't or has no result of tensors."""
    first, rest, named = copied(arguments)
    try:
        result = op(first, *rest, **named)
        tensors = (result,) if isinstance(result, torch.Tensor) else tuple(result)
        if not all(isinstance(t, torch.Tensor) and t.layout is torch.strided for t in tensors):
            return None
        fresh = tuple(torch.zeros_like(t) for t in tensors)
        out = fresh[0] if isinstance(result, torch.Tensor) else fresh
        first, rest, named = copied(arguments)
        op(first, *rest, **named, out=copied(out))
        return out
    except Exception:  # not a call that eager takes
        return None


def copied(arguments: object) -> object:
    """The same arguments with tensors of their own; a tensor that comes twice does so again."""
    made: dict[int, torch.Tensor] = {}

    def copy(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = copy_of(leaf)
        return made[id(leaf)]

    return tree_map(copy, arguments)


def copy_of(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        dense = t.layout is torch.strided and not t.is_quantized and type(t) is torch.Tensor
        if dense and 0 not in t.stride() and not torch._debug_has_internal_overlap(t):
            out = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t)
        elif dense and t.numel():
            memory = torch.as_strided(t, (extent(t),), (1,), t.storage_offset()).clone()
            out = torch.as_strided(memory, t.shape, t.stride())
        else:
            out = t.detach().clone()
    return out.requires_grad_(t.requires_grad)


def extent(t: torch.Tensor) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))


def perturbed(arguments: object) -> object:
    """Other values: in the other order; floats nearer to zero, bools negated."""
    own = copied(arguments)

    def change(leaf):
        if (
            not isinstance(leaf, torch.Tensor)
            or leaf.layout is not torch.strided
            or leaf.is_quantized
        ):
            return leaf
        with torch.no_grad():
            dims = list(range(leaf.dim()))
            values = leaf.clone().flip(dims) if dims else leaf.clone()
            if leaf.dtype.is_floating_point:
                values = values * 0.75
            elif leaf.dtype == torch.bool:
                values = ~values
            if not torch._debug_has_internal_overlap(leaf):
                leaf.detach().copy_(values)
        return leaf

    tree_map(change, own)
    return own


def restrided(arguments: object) -> object:
    """The same values, with the dimensions in memory the other way round."""
    own = copied(arguments)

    def change(leaf):
        if (
            not isinstance(leaf, torch.Tensor)
            or leaf.layout is not torch.strided
            or leaf.is_quantized
        ):
            return leaf
        if leaf.dim() < 2 or torch._debug_has_internal_overlap(leaf):
            return leaf
        with torch.no_grad():
            turned = leaf.transpose(0, -1).contiguous().transpose(0, -1)
        return turned.requires_grad_(leaf.requires_grad)

    return tree_map(change, own)
