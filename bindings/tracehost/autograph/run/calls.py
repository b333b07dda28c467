"""What a call in converted code calls: the converted function for the user's own, else the callee itself."""

from __future__ import annotations

import collections
import functools
import math
import sys
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from ... import _tracehost
from ..._tensor_arrays.map_fn import map_fn
from ..._tensor_arrays.scan import scan
from ..._tensor_arrays.tensor_array import TensorArray
from ..._traced.traced_number import TracedNumber, compute, of_this_call
from ..conversion.compile import converted, copy_of
from ..conversion.policy import is_rejected
from ..staging import lists
from ..staging.conditions import raise_if
from ..staging.iterables import Range, enumerate_, is_staged, len_, range_, zip_
from ..staging.snapshots import cells
from ..staging.state import is_read, is_tensor, is_traced
from . import cases
from .explicit import cond, while_loop
from .flags import flags_of
from .numbers import has_numbers, tensor_of_numbers
from .reductions import all_, any_, extreme, sorted_


def _any_staged(values: Iterable[Any]) -> bool:
    return any(is_staged(v) for v in values)


def _range(*args: Any) -> Any:
    if not _any_staged(args):
        return range(*args)
    made = range_(*args)
    if is_traced(step := made.step):
        raise_if(step == 0, ValueError("range() arg 3 must not be zero"))
    return made


def _zip(*iterables: Any, **options: Any) -> Any:
    if _any_staged(iterables):
        return zip_(*iterables, **options)
    return zip(*iterables, **options)


def _reversed(value: Any) -> Any:
    return value.reversed() if isinstance(value, Range) else reversed(value)


def _len(value: Any) -> Any:
    if type(value) is TensorArray:
        return value.size()
    return len_(value) if is_staged(value) else len(value)


def _one(plain: Callable[..., Any], traced: Callable[[Any], Any]) -> Callable[..., Any]:
    """any() and all()."""

    def of(*args: Any, **options: Any) -> Any:
        if len(args) == 1 and not options and _tracehost.recording():
            return traced(args[0])
        return plain(*args, **options)

    return of


def _calling(plain: Callable[..., Any], first: int, *names: str) -> Callable[..., Any]:
    """`plain` of converted functions: its parameters from place `first` on, of these names, take them."""

    def call_with_functions(*args: Any, **options: Any) -> Any:
        places = range(first, first + len(names))
        given = [call(a) if i in places else a for i, a in enumerate(args)]
        options |= {name: call(options[name]) for name in names if name in options}
        return plain(*given, **options)

    return call_with_functions


def _sorted(*args: Any, key: Any = None, **options: Any) -> Any:
    if _tracehost.recording() and len(args) == 1 and not (options.keys() - {"reverse"}):
        return sorted_(args[0], call, key, **options)
    return sorted(*args, key=call(key), **options)


def read(value: Any) -> Any:
    """What item() is, of a tensor of one element that may be read; else the value itself."""
    return value.item() if is_tensor(value) and _tracehost._can_be_read(value) else value


def _number(name: str, plain: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """`plain(x)`, of a tensor of one element as well, which the graph has by the op `name`."""

    def number(*args: Any, **options: Any) -> Any:
        if len(args) != count or options:  # math.hypot(a, b, c), int(text, base=n)
            return plain(*map(_value, args), **{key: _value(v) for key, v in options.items()})
        values = [read(a) for a in args]
        if any(is_read(v) for v in values):
            return compute(name, plain, *values)
        return plain(*args)

    return number


_TYPES: dict[type, Callable[..., Any]] = {
    int: _number("int", int),
    float: _number("float", float),
    bool: _number("truth", bool),
    map: _calling(map, 0, "func"),
    filter: _calling(filter, 0, "function"),
}
# Where a loop iterates the result at once. Elsewhere Python's own: it may be kept, compared, indexed.
_OVER: dict[Any, Callable[..., Any]] = {
    range: _range,
    enumerate: enumerate_,
    zip: _zip,
    reversed: _reversed,
}
_BUILTINS: dict[Any, Callable[..., Any]] = {
    len: _len,
    any: _one(any, any_),
    all: _one(all, all_),
    min: extreme("min", lambda key: call(key)),
    max: extreme("max", lambda key: call(key)),
    sorted: _sorted,
    functools.reduce: _calling(functools.reduce, 0, "function"),
}


def _add_math() -> None:
    """Of any other function of math the body needs the value of a number."""
    known = _tracehost.number_ops()
    same = {"floor": "floor", "ceil": "ceil", "trunc": "int"}
    for name, function in vars(math).items():
        if callable(function):
            op = same.get(name, f"math_{name}")
            made = _number(op, function, known[op]) if op in known else _of_values(function)
            _BUILTINS[function] = made
    log = _BUILTINS[math.log]
    _BUILTINS[math.log] = lambda *args: (
        log(*args) if len(args) != 2 else log(args[0]) / log(args[1])
    )


def _of_values(plain: Callable[..., Any]) -> Callable[..., Any]:
    return _with_values(plain, lambda value: _value(read(value)))


def _complex(*args: Any, **options: Any) -> complex:
    """C code would ask a complex tensor for its value unseen."""
    parts = (a.item() if is_tensor(a) and a.is_complex() else a for a in args)
    return complex(*parts, **options)


def _case(pred_fn_pairs: Any, default: Any = None, exclusive: Any = False) -> Any:
    pairs = [(pred, call(f)) for pred, f in cases.checked_pairs(pred_fn_pairs, default)]
    return cases.case(pairs, call(default), exclusive)


def _switch_case(branch_index: Any, branch_fns: Any, default: Any = None) -> Any:
    functions = {n: call(f) for n, f in cases.numbered(branch_fns).items()}
    return cases.switch_case(branch_index, functions, call(default))


# tracehost's functions that call the user's functions, and a library's function that asks for a class.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    cond: _calling(cond, 1, "true_fn", "false_fn"),
    while_loop: _calling(while_loop, 0, "cond", "body"),
    cases.case: _case,
    cases.switch_case: _switch_case,
    map_fn: _calling(map_fn, 0, "fn"),
    scan: _calling(scan, 0, "fn"),
    torch.is_tensor: is_tensor,
}


_WITH_FLAGS = ("torch.nn.functional", "torch.functional")
# Code that asks C code for the class of a number, and takes none that is like an int.
_EXACT = {"datetime", "_datetime", "decimal", "_decimal", "_pydecimal", "json", "statistics", "uuid", "plistlib",
          "_struct", "math", "cmath", "numpy"}  # fmt: skip


def _is_exact(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _EXACT


def _of_function(f: Any) -> Any:
    if f in _FUNCTIONS:
        return _FUNCTIONS[f]
    if _is_exact(f.__module__) and _tracehost.origin(f.__code__.co_filename) == "python":
        return _with_values(f, _value)
    made = converted(f)
    if made is f and "__wrapped__" in f.__dict__:
        return _with_wrapped(f)
    if made is f and f.__module__ in _WITH_FLAGS and _tracehost.recording():
        return _with_values(f, _flag)
    return made


def _with_wrapped(f: FunctionType) -> FunctionType:
    """A library's decorator (torch.no_grad() ...) around the user's function: a wrapper of the converted one."""
    inner = f.__wrapped__  # type: ignore[attr-defined]
    if type(inner) is not FunctionType or not f.__closure__ or is_rejected(f):
        return f
    made = _of_function(inner)
    if made is inner:
        return f
    holding = {id(cell) for _, cell, held in cells(f) if held is inner}
    if not holding:
        return f
    own = tuple(CellType(made) if id(cell) in holding else cell for cell in f.__closure__)
    return copy_of(f, f.__code__, own)


# Their overload for a number computes by another kernel, or to another result, than the one for a tensor. So do all
# of torch.special.
_OF_NUMBERS = {"bucketize", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_",
               "float_power", "float_power_", "histogram", "isin", "lerp", "lerp_", "linspace", "logspace", "nanquantile",
               "normal", "pow", "pow_", "quantile", "randint_like", "repeat_interleave", "result_type", "searchsorted",
               "tensor_split"}  # fmt: skip


def _of_builtin(f: Any) -> Any:
    if f in _BUILTINS:  # math.pow is not torch's
        return _BUILTINS[f]
    name = getattr(f, "__name__", "")
    owner = getattr(f, "__self__", None)
    # Without a wrapper, what torch warns of names the user's line.
    flags = flags_of(name, owner) if _tracehost._has_numbers() else frozenset()
    # torch's argument parser takes no list of tensors for one of numbers.
    if name.startswith("_foreach_"):
        return _with_numbers(f, _given_list)
    if name in _OF_NUMBERS or name.startswith("special_"):
        return _with_numbers(f, lambda x, place: _flag(x) if place in flags else _given(x, place))
    of = owner if isinstance(owner, type) else type(owner)
    if _is_exact(getattr(f, "__module__", None)) or _is_exact(of.__module__):
        return _with_values(f, _value)
    if type(owner) is GeneratorType:  # what it is sent may be what it keeps
        return _with_values(f, _value)
    if name == "new_tensor" and isinstance(owner, torch.Tensor):
        return _new_tensor_of(owner, f)
    if flags:
        return _with_numbers(f, lambda x, place: _flag(x) if place in flags else x)
    return f


def _with_numbers(f: Any, given: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, of torch, called with the values of numbers: the op has them from the graph."""
    first = 1 if isinstance(getattr(f, "__self__", None), torch.Tensor) else 0

    def call_with_numbers(*args: Any, **options: Any) -> Any:
        values = [given(value, place) for place, value in enumerate(args, first)]
        return f(*values, **{name: given(value, name) for name, value in options.items()})

    return call_with_numbers


def _given(value: Any, argument: int | str, element: int = -1) -> Any:
    """The value of a number, which the op that is called next has from the graph; else `value`."""
    return _tracehost._number_given(value, argument, element) if is_read(value) else value


def _value(value: Any) -> Any:
    """The value with a check, also in containers: in a copy of those."""
    kind = type(value)
    if kind is TracedNumber:
        return of_this_call(value, "by C code", "gives a float to C code")
    if kind in (list, tuple, dict) and _holds_number(value):
        if kind is dict:
            return {_value(k): _value(v) for k, v in value.items()}
        return kind(map(_value, value))
    return value


def _flag(value: Any) -> Any:
    """The value of a bool, which chooses what is computed (`training=`): torch's parser takes no traced one."""
    return _value(value) if type(value) is TracedNumber and value.__class__ is bool else value


def _holds_number(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return _holds_number(list(value)) or _holds_number(list(value.values()))
    if kind in (list, tuple):
        return any(map(_holds_number, value))
    return kind is TracedNumber


def _given_list(value: Any, argument: int | str) -> Any:
    if isinstance(value, (list, tuple)) and any(is_read(v) for v in value):
        return [_given(v, argument, element) for element, v in enumerate(value)]
    return value


def _with_values(f: Any, given: Callable[[Any], Any]) -> Callable[..., Any]:
    def call_with_values(*args: Any, **options: Any) -> Any:
        values = [given(value) for value in args]  # an observer sees what `f` gets
        return f(*values, **{name: given(value) for name, value in options.items()})

    return call_with_values


def _isinstance(value: Any, classes: Any) -> bool:
    if type(value) is not TracedNumber:
        return isinstance(value, classes)
    return issubclass(value.__class__, classes)


def _hasattr(value: Any, name: str) -> bool:
    return hasattr(value.__class__ if type(value) is TracedNumber else value, name)


def _type(*args: Any, **options: Any) -> Any:
    if len(args) == 1 and type(args[0]) is TracedNumber:
        return args[0].__class__
    return type(*args, **options)


def _tensor_of(plain: Callable[..., Any]) -> Callable[..., Any]:
    """torch.tensor() and its kin of numbers, in lists or alone: of the dtype that numbers give."""

    def made(data: Any, *args: Any, **options: Any) -> Any:
        if not has_numbers(data):
            return plain(data, *args, **options)
        dtype = options.pop("dtype", None)
        requires_grad = options.pop("requires_grad", False)
        tensor = tensor_of_numbers(data)
        if dtype is None and tensor.dtype == torch.float64:
            dtype = torch.get_default_dtype()
        if dtype or args or options:
            tensor = tensor.to(*args, dtype=dtype, **options)
        return tensor.requires_grad_() if requires_grad else tensor

    return made


def _new_tensor_of(of: torch.Tensor, plain: Callable[..., Any]) -> Callable[..., Any]:
    def made(data: Any, **options: Any) -> Any:
        if has_numbers(data):
            return _tensor_of(plain)(data, **{"dtype": of.dtype, "device": of.device, **options})
        return plain(data, **options)

    return made


def _pow(*args: Any, **options: Any) -> Any:
    """Of three numbers the value: no operator takes a modulus."""
    return (
        pow(*args, **options) if len(args) + len(options) < 3 else _of_values(pow)(*args, **options)
    )


def _deque(*args: Any, **options: Any) -> Any:
    """C code takes the length; numbers in the deque stay the graph's."""
    options = {name: _value(v) if name == "maxlen" else v for name, v in options.items()}
    return collections.deque(*args[:1], *map(_value, args[1:]), **options)


def _broadcast_shapes(*shapes: Any) -> Any:
    return torch.broadcast_shapes(
        *map(_value, shapes) if any(map(is_read, tree_leaves(shapes))) else shapes
    )


def _exit(*status: Any) -> NoReturn:
    """sys.exit() leaves its status where no exception is yet: of a number none would find it."""
    if any(type(s) is TracedNumber for s in status) and len(status) == 1:
        raise SystemExit(*status)
    sys.exit(*status)


def _check(cond: Any, *message: Any) -> None:
    torch._check(bool(cond), *message)


_add_math()
# What takes a list that a loop of the graph appends to, and what asks what a number is.
_BUILTINS.update({f: _tensor_of(f) for f in (torch.tensor, torch.as_tensor, torch.asarray)})
_BUILTINS.update({isinstance: _isinstance, hasattr: _hasattr, pow: _pow, sys.exit: _exit})
_BUILTINS.update({torch.stack: lists.stack, torch.cat: lists.cat, torch.concat: lists.cat})


def _interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, *args: Any, **options: Any
) -> Any:
    """torch's parser takes no numbers of the graph among floats."""
    scale = _value(scale_factor)
    return torch.nn.functional.interpolate(input, size, scale, *args, **options)


_FUNCTIONS.update(
    {
        torch._check: _check,
        torch.broadcast_shapes: _broadcast_shapes,
        torch.nn.functional.interpolate: _interpolate,
    }
)
_TYPES.update({type: _type, collections.deque: _deque, complex: _complex})


def _of_descriptor(f: Any) -> Any:
    """`int.bit_length`, `torch.Tensor.pow`, taken from their class."""
    if issubclass(torch.Tensor, f.__objclass__):
        return _of_builtin(f)
    return _with_values(f, _value) if issubclass(f.__objclass__, (int, float)) else f


def _of_wrapper(f: Any) -> Any:
    """`(5).__mul__`: the number is the first operand, and takes no other class for the second one."""
    return _with_values(f, _value) if type(f.__self__) in (bool, int, float) else f


def _of_class(f: Any) -> Any:
    """A class whose __init__ is converted: what type.__call__ does, with that one."""
    if f in _TYPES:
        return _TYPES[f]
    init = f.__init__
    users = type(init) is FunctionType and _tracehost.origin(init.__code__.co_filename) != "python"
    if _is_exact(f.__module__) and not users:
        return _with_values(f, _value)
    if type(init) is not FunctionType or type(f).__call__ is not type.__call__:
        return f
    made = converted(init)
    return f if made is init else _maker(f, made)


def _maker(kind: Any, init: FunctionType) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        made = kind.__new__(kind, *args, **kwargs)
        if not issubclass(type(made), kind):
            return made
        given = init if type(made) is kind else call(type(made).__init__)
        result = given(made, *args, **kwargs)
        if result is not None:
            raise TypeError(f"__init__() should return None, not {type(result).__name__!r}")
        return made

    return make


def _of_method(f: Any) -> Any:
    function = f.__func__
    made = call(function)
    return f if made is function else MethodType(made, f.__self__)


def _of_partial(f: Any) -> Any:
    made = call(f.func)
    return f if made is f.func else functools.partial(made, *f.args, **f.keywords)


def _of_object(f: Any) -> Any:
    """A callable object whose class defines __call__ in Python. A module's is torch's own, with its hooks."""
    kind = type(f)
    if issubclass(kind, type):
        return _of_class(f)
    if _is_exact(kind.__module__):  # numpy's functions
        return _with_values(f, _value)
    function = getattr(kind, "__call__", None)  # noqa: B004 (the class's, not the object's)
    if type(function) is not FunctionType:
        return f
    made = converted(function)
    return f if made is function else MethodType(made, f)


_BY_KIND: dict[type, Callable[[Any], Any]] = {
    FunctionType: _of_function,
    BuiltinFunctionType: functools.partial(_tracehost.unobserved, _of_builtin),
    type: _of_class,
    MethodDescriptorType: _of_descriptor,
    WrapperDescriptorType: _of_descriptor,
    MethodType: _of_method,
    MethodWrapperType: _of_wrapper,
    functools.partial: _of_partial,
}


def call(f: Any) -> Any:
    """What to call in place of `f`: generated code says `ag__.call(f)(x)`, so that Python binds the arguments."""
    kind = type(f)
    return _BY_KIND.get(kind, _of_object)(f)


def call_over(f: Any) -> Any:
    """`call(f)`, for a call whose result a loop iterates, or len() counts."""
    over = _OVER.get(f) if type(f) is type else None
    return call(f) if over is None else over


convert_callable = call  # as C++ knows it
