"""The decorator's surface: options, names, pickling. The calls are in C++ (`_tracehost.Function`)."""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import os
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

import torch

from ._arguments.meant import written
from ._arguments.signature import Declaration
from ._as_function import bind
from ._tracehost import Function, TensorSpec, show

# What `optimize` is where it is not given.
_OPTIMIZE = "TRACEHOST_OPTIMIZE"

_VALUE_READS = ("trace", "error")

# As Function takes them; N: itself.
_VALIDATE: dict[Any, int] = {"off": 0, "first": -1}

# For tracehost_interception: the calls of this Function have the stance "eager_on_error" unless another is
# chosen. A program that does not know of tracehost must not end because of an unsupported trace.
CONTINUES = "_continues"

# Options of tf.function without a meaning here: taken where they say what is so anyway.
_OF_TF = (
    "jit_compile",
    "experimental_implements",
    "experimental_autograph_options",
    "experimental_attributes",
    "experimental_compile",
    "experimental_follow_type_hints",
)


# Names that options of tf.function have had, for what is one here.
_RENAMED = {"experimental_relax_shapes": "reduce_retracing", "executor": "optimize"}


class _ClassMethod(classmethod):
    """A Function for each class, which knows its class. From Python 3.13 on classmethod itself makes one
    for all, as it no longer has what it wraps bind the class."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        of = type(instance) if owner is None else owner
        return bind(self.__func__, of, of)


_P = ParamSpec("_P")
_R = TypeVar("_R")
_D = TypeVar("_D", bound=property | staticmethod | classmethod | functools.cached_property)


class Options(TypedDict, total=False):
    """The options of `function` by name, for type checkers."""

    name: str | None
    limit: int
    watch: bool
    reduce_retracing: bool
    autograph: bool
    value_reads: Literal["trace", "error"]
    validate: int | Literal["off", "first"]
    optimize: Literal["exact", "off"] | None
    experimental_relax_shapes: bool


@overload
def function(func: _D, input_signature: Any = None, **options: Unpack[Options]) -> _D: ...
@overload
def function(
    func: Callable[_P, _R], input_signature: Any = None, **options: Unpack[Options]
) -> Function[_P, _R]: ...
@overload
def function(
    func: None = None, input_signature: Any = None, **options: Unpack[Options]
) -> Callable[[Callable[_P, _R]], Function[_P, _R]]: ...
def function(
    func: Any = None,
    input_signature: Any = None,
    *,
    name: str | None = None,
    limit: int = 64,
    watch: bool = True,
    reduce_retracing: bool = False,
    autograph: bool = True,
    value_reads: str = "trace",
    validate: str | int = "first",
    optimize: str | None = None,
    **options: Any,
) -> Any:
    """Turn a PyTorch function into one that runs as a TorchScript graph, traced once a signature.

    Use it as `@tracehost.function`, `@tracehost.function(limit=8)` or `tracehost.function(f)`; `f` may be
    a function, method, lambda, partial, any callable, or an `nn.Module`; of a property it is the getter.

    A call is compared by its tensors' dtype, shape, device, layout, requires_grad and which are the
    same. Python values are compared by type and value, and so are those that the trace read from
    closures, globals and attributes. Grad mode, autocast and other contexts count, too. If no specialization fits, the body
    runs once, for real, while its ops are recorded. Tensors that it reaches without being passed them
    (parameters, buffers, globals) are read again at every call.

    Args:
        input_signature: a list or tuple of TensorSpec, nested as the arguments are; one trace serves all
            tensors that fit. Python numbers, lists of them and numpy arrays are converted, anything else
            is a SignatureError. A parameter without a spec keeps its default.
        name: in messages and reports; default: the function's own.
        limit: live specializations, at least 1; beyond it the least valuable is dropped: quick to trace,
            seldom used, large.
        reduce_retracing: from the second shape of a tensor on, the dimensions that differed become
            dynamic: one more trace serves all their sizes. What the body needs as numbers (int(n), range(n))
            stays specialized. The same holds for tensors that the body reaches by a path. Arguments that are
            plain objects are compared by their class and by what the body reads of them.
        autograph: `if`, `while`, `for`, `and`, `or`, `not`, conditional expressions and asserts on
            tensors become part of the graph. That holds for the function and for the user's own code
            that it calls.
            False: the body runs as it is, and a condition on a tensor is an error.
        value_reads: what int(t), t.item(), t.tolist() ... of a traced tensor do. "trace": t.item(), and
            under autograph int(t), float(t), bool(t), round, min, max and math, give numbers that each call
            computes again; what needs the value itself (a dict key, a list index, t.tolist()) is a
            ValueReadError. "error": each read is a ValueReadError.
        validate: "first": after a trace the graph runs once more, on copies of what it writes, and has to
            give what the body gave: values, dtypes, strides, requires_grad, aliasing, what is left in
            inputs. If it does not, a TraceWarning says where, and calls with that signature run as plain
            Python. Left out where it would cost over 1 s or 256 MiB, and for graphs that call Python.
            N: at each trace, at any cost, and at every Nth hit of a specialization: that call runs
            the body, and the graph beside it on copies. The body's Python side effects (prints,
            counters) happen there as in plain Python. "off": never.
        optimize: "exact": settled calls of a graph run ATen's kernels on memory that is planned once, without
            libtorch's interpreter and with its bits. A call whose result has a grad_fn runs by the interpreter.
            On CUDA devices, graphs that are called often run as CUDA graphs.
            "off": the interpreter runs all. None: what TRACEHOST_OPTIMIZE or `--optimize` says, else "exact"
            on the CPU and "off" on other devices.
        watch: False: Python values from closures, globals and attributes are baked at the trace.

    tf's experimental_relax_shapes is taken for reduce_retracing.

    Raises:
        TypeError: `func` is not callable, or a class, a coroutine or a generator function; an option is unknown or not supported yet, or `input_signature`
            does not fit the parameters.
        ValueError: `limit` or `validate` is less than 1; `value_reads` is
            neither "trace" nor "error"; `optimize` is neither "exact" nor "off".
    """
    reduce_retracing = options.pop("experimental_relax_shapes", None) or reduce_retracing
    continues = options.pop(CONTINUES, False)
    _check_options(options)
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit must be an int, got {limit!r}")
    if not isinstance(reduce_retracing, int | None):
        raise TypeError(f"reduce_retracing must be True or False, got {reduce_retracing!r}")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    if value_reads not in _VALUE_READS:
        raise ValueError(f"value_reads must be 'trace' or 'error', got {value_reads!r}")
    _check_validate(validate)
    optimize_level = _optimize_level(optimize)
    decorate = functools.partial(
        function,
        input_signature=input_signature,
        name=name,
        limit=limit,
        watch=watch,
        reduce_retracing=reduce_retracing,
        autograph=autograph,
        value_reads=value_reads,
        validate=validate,
        optimize=optimize,
        **{CONTINUES: continues},
    )
    if func is None:
        return decorate
    if isinstance(func, (staticmethod, classmethod)):
        kind = _ClassMethod if type(func) is classmethod else type(func)
        return kind(decorate(func.__func__))
    if isinstance(func, property) and func.fget is not None:
        return func.getter(decorate(func.fget))
    if isinstance(func, functools.cached_property):
        return functools.cached_property(decorate(func.func))
    if not callable(func):
        raise TypeError(_not_callable(func))
    code_owner = _innermost(func)
    _check_callable(func)
    file, line = _definition(code_owner)
    shown_name = name or getattr(func, "__name__", None) or type(func).__name__
    parameters = _parameters(func)
    declared = None
    if input_signature is not None:
        where = f"{shown_name} ({os.path.basename(file) or '?'}:{line})"
        declared = Declaration(shown_name, where, parameters, input_signature, code_owner)
        parameters = declared.parameters
    made = Function(
        func,
        parameters,
        inspect.Parameter.empty,
        shown_name,
        file,
        line,
        _site_key(code_owner),
        limit,
        watch,
        reduce_retracing,
        declared,
        bool(autograph),
        value_reads == "trace",
        _VALIDATE.get(validate, validate),
        bool(continues),
        optimize_level,
    )
    functools.update_wrapper(made, func, updated=())
    _decorators[made] = decorate
    return made


# What made each Function, for copies of it.
_decorators: weakref.WeakKeyDictionary[Function, Callable[..., Any]] = weakref.WeakKeyDictionary()


def every_function() -> list[Function]:
    """Those that are alive."""
    return list(_decorators)


def place_of(function: Function) -> tuple[str, int]:
    """The file and line of its definition."""
    return _definition(_innermost(function._body))


def _check_validate(validate: Any) -> None:
    if isinstance(validate, str) and validate in _VALIDATE:
        return
    if not isinstance(validate, int) or isinstance(validate, bool):
        raise TypeError(f"validate must be 'off', 'first' or an int, got {validate!r}")
    if not 1 <= validate < 2**63:
        raise ValueError(f"validate must be at least 1 (every call), got {validate}")


def _optimize_level(optimize: str | None) -> int:
    """Optimize of host/event/optimize.h: 0 is off, 1 tapes, 2 exact."""
    said = "optimize" if optimize is not None else _OPTIMIZE
    value = optimize if optimize is not None else os.environ.get(_OPTIMIZE)
    if optimize is None and not value:
        return 1
    if value == "fast":
        raise ValueError(f"{said} is 'fast', which is reserved; write 'exact' or 'off'")
    if value not in ("exact", "off"):
        raise ValueError(f"{said} must be 'exact' or 'off', got {value!r}")
    return 2 if value == "exact" else 0


def _check_options(options: dict[str, Any]) -> None:
    for option, value in options.items():
        if option in _OF_TF and value in (None, False):
            continue
        if option in _OF_TF:
            raise TypeError(f"tracehost.function: {option} has no counterpart here; leave it out")
        raise TypeError(f"tracehost.function has no option {option!r}{_meant(option)}")


def _meant(option: str) -> str:
    known = [name for name in inspect.signature(function).parameters if name != "options"]
    near = difflib.get_close_matches(option, [*known[1:], *_RENAMED], 1)
    near = near or [name for name in known[1:] if name in option.split("_")]
    if not near:
        return f"; its options are {', '.join(known[1:])}"
    return f"; did you mean {_RENAMED.get(near[0], near[0])!r}?"


def _not_callable(func: Any) -> str:
    """Why it is none; of what belongs into input_signature how that is given."""
    if not isinstance(func, (list, tuple, TensorSpec)):
        return (
            f"{func!r} is not a callable object. Write @tracehost.function above a def, or "
            "tracehost.function(f) for a function f"
        )
    specs = [func] if isinstance(func, TensorSpec) else func
    return (
        f"tracehost.function takes a function first, got {func!r}. Is that its input_signature? Then write "
        f"@tracehost.function(input_signature={written(specs)})"
    )


def _check_callable(func: Any) -> None:
    """Raise for what can be called, and yet can't be traced: at the decoration, not at some call."""
    if isinstance(func, type):
        raise TypeError(
            f"{func!r} is a class: decorate one of its methods (forward, __call__), or an instance"
        )
    if isinstance(func, functools._lru_cache_wrapper):
        raise TypeError(
            f"{func!r} keeps results: tensors of one trace would get into the next. Put lru_cache above "
            "tracehost.function, or leave it out: a Function keeps its graphs itself"
        )
    body = func
    if not inspect.isroutine(func) and not isinstance(func, functools.partial):
        body = type(func).__call__
    if inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
        raise TypeError(f"{func!r} is async: a graph can't wait. Decorate what it calls")
    if inspect.isgeneratorfunction(body):
        raise TypeError(f"{func!r} is a generator: a graph can't pause. Return a list or a tuple")


def _innermost(func: Any) -> Any:
    """What the definition site belongs to: through wrappers, partials and bound methods."""
    seen = set()
    while id(func) not in seen:
        seen.add(id(func))
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, Function):
            func = func.python_function
        else:
            func = getattr(func, "__wrapped__", None) or getattr(func, "__func__", func)
    return func


def _definition(func: Any) -> tuple[str, int]:
    # Of a callable object the place of its class's code.
    methods = (getattr(type(func), name, None) for name in ("forward", "__call__"))
    for owner in (func, *methods):
        if (code := getattr(owner, "__code__", None)) is not None:
            return code.co_filename, code.co_firstlineno
    return "", 0


_sites: dict[int, tuple[Any, int]] = {}


def _site_key(func: Any) -> int:
    """One number a definition site: the code object's, or the callable's own. Code objects are kept, so
    that an address is never taken for another's."""
    code = getattr(func, "__code__", None)
    owner = code if code is not None else object()
    return _sites.setdefault(id(owner), (owner, len(_sites) + 1))[1]


# From Python 3.14 on annotations are evaluated when they are asked for. What they name may come later, or never.
_FORMAT: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    import annotationlib

    _FORMAT["annotation_format"] = annotationlib.Format.FORWARDREF


def _signature(func: Any) -> inspect.Signature:
    if isinstance(func, torch.nn.Module) and type(func).__call__ is torch.nn.Module.__call__:
        func = func.forward  # __call__ takes anything, and hands it on
    return inspect.signature(func, **_FORMAT)


def _parameters(func: Any) -> list[tuple[str, int, Any]]:
    try:
        parameters = _signature(func).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return [("args", 2, inspect.Parameter.empty), ("kwargs", 4, inspect.Parameter.empty)]
    return [(p.name, int(p.kind), p.default) for p in parameters]


def reject_arguments(func: Any, declared: bool, /, *args: Any, **kwargs: Any) -> None:
    """Raise the TypeError that inspect.Signature.bind() gives for arguments that do not fit, with the function's name."""
    name = getattr(func, "__name__", type(func).__name__)
    try:
        signature = _signature(func)
        if declared:  # an input_signature has no **kwargs
            taken = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
            signature = signature.replace(parameters=taken)
        _check_names(signature, list(kwargs))
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def _check_names(signature: inspect.Signature, given: list[str]) -> None:
    """A misspelt name comes before the parameter that it leaves without a value."""
    parameters = signature.parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for name in given:
        if name not in signature.parameters:
            close = difflib.get_close_matches(name, named, 1)
            hint = f". Did you mean '{close[0]}'?" if close else ""
            raise TypeError(f"got an unexpected keyword argument '{name}'{hint}")


def deep_copy(made: Function, memo: dict[int, Any]) -> Function:
    """A function is its own copy, as in Python; a method's or module's Function gets a copy of that."""
    inner = made.python_function
    copied = copy.deepcopy(inner, memo)
    return made if copied is inner else _decorators[made](copied)


def reduce(made: Function) -> Any:
    """Pickle by reference where the Function can be imported, else with an empty cache."""
    module, path = getattr(made, "__module__", None), getattr(made, "__qualname__", "")
    found: Any = sys.modules.get(module) if module else None
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is made:
        return path
    inner = made.python_function
    if isinstance(inner, types.FunctionType) and inner.__qualname__ == path and found is not inner:
        raise pickle.PicklingError(
            f"{made!r} can't be pickled: {module}.{path} is not found there. Define it at the top level of a module."
        )
    return _decorators[made], (inner,)


show(Function, "__deepcopy__", deep_copy)
show(Function, "__reduce__", reduce)
