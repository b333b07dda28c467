"""Records the forward of an `autograd.Function` that needs no gradient, as any code of the body is recorded.

The forward must consist of torch's ops. With numpy, a read of a value or a branch in it, it stays a call of Python,
which each run of the graph makes again (foreign.py).
"""

from __future__ import annotations

import dis
from contextlib import nullcontext
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from .._bytecode import loaded
from .._tracehost import unobserved

# Attributes of a module, a tensor or the context that are no ops, or read values.
_NO_OPS = {"item", "tolist", "numpy", "data_ptr", "storage", "untyped_storage", "backward", "autograd", "grad", "grad_fn",
           "requires_grad", "register_hook", "requires_grad_", "equal", "allclose", "utils", "jit", "compile",
           "manual_seed", "is_nonzero", "__array__", "save", "from_numpy"}  # fmt: skip
_MORE_THAN_OPS = ("STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_", "IMPORT_", "MAKE_FUNCTION", "LOAD_CLOSURE",
                  "LOAD_DEREF", "LOAD_NAME", "BEFORE_WITH", "LOAD_SPECIAL", "FOR_ITER", "GET_", "YIELD", "RAISE",
                  "LOAD_BUILD_CLASS", "SETUP_", "COPY_FREE_VARS", "CALL_FUNCTION_EX")  # fmt: skip


def is_recorded(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether `function(*args)`, the `apply` of an autograd.Function, is its forward alone."""
    cls = getattr(function, "__self__", None)
    if kwargs or not isinstance(cls, type) or not issubclass(cls, torch.autograd.Function):
        return False
    if not all(_is_plain(a) for a in args):
        return False
    if cls.setup_context is not torch.autograd.Function.setup_context:
        return False
    asked = torch.is_grad_enabled() and any(_requires_grad(a) for a in args)
    dual = torch.autograd.forward_ad._current_level >= 0
    return not asked and not dual and unobserved(consists_of_ops, cls.forward)


def recorded(function: Any, args: Any) -> Any:
    """What `function(*args)` gives without gradients. Requires: is_recorded()."""
    cls = function.__self__
    context = cls._backward_cls()
    context.needs_input_grad = tuple(_requires_grad(a) for a in args)
    with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
        result = cls.forward(context, *args)
    dirty = context.dirty_tensors or ()
    if isinstance(result, tuple):
        return tuple(_output(r, args, dirty) for r in result)
    return _output(result, args, dirty)


def _is_plain(value: Any) -> bool:
    """A tensor, a number and the like: nothing with methods that are no ops."""
    if isinstance(value, tuple):
        return all(_is_plain(v) for v in value)
    plain = (torch.Tensor, int, float, str, slice, torch.dtype, torch.device)
    return value is None or value is ... or isinstance(value, plain)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _output(result: Any, args: Any, dirty: Any) -> Any:
    """As torch makes of what forward returns: an input comes back as a view, unless it was marked as changed."""
    if not isinstance(result, torch.Tensor):
        return result
    given = any(result is a for a in args)
    if result.requires_grad:
        return result.detach() if given or result._is_view() else result.detach_()
    return result.view_as(result) if given and not any(result is d for d in dirty) else result


def consists_of_ops(function: Any, seen: frozenset[CodeType] = frozenset()) -> bool:
    """Whether a function's code calls torch's ops and others that do, has no branch, and stores in its context alone."""
    if type(function) is not FunctionType:
        return False
    code = function.__code__
    if code in seen:
        return False
    instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    return all(
        _is_of_ops(i, instructions, function, seen | {code}) for i in range(len(instructions))
    )


def _is_of_ops(at: int, instructions: list, function: FunctionType, seen: frozenset) -> bool:
    now = instructions[at]
    name = now.opname
    if name.startswith(_MORE_THAN_OPS) or ("JUMP" in name and "IF" in name):
        return False
    if name.startswith("LOAD_GLOBAL"):
        return _is_known(function.__globals__.get(now.argval), seen)
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        return now.argval not in _NO_OPS
    if name == "STORE_ATTR":
        before = instructions[at - 1]
        return "LOAD_FAST" in before.opname and loaded(before) == _first(function.__code__)
    if name == "PUSH_NULL":  # what is called stands beside it
        beside = instructions[at - 1 : at] + instructions[at + 1 : at + 2]
        return not any("LOAD_FAST" in i.opname for i in beside)
    return True


def _first(code: CodeType) -> str | None:
    return code.co_varnames[0] if code.co_argcount else None


def _is_known(value: Any, seen: frozenset) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == "torch"
    if isinstance(value, torch.dtype | bool | int | float):
        return True
    return consists_of_ops(value, seen)
