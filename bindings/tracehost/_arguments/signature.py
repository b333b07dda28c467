"""input_signature: what may be declared, and the values of a call made to fit it.

A declaration is checked once, when the function is decorated. A call whose arguments fit a specialization
as they are never comes here; `Declaration.convert` sees only those that do not fit. Python numbers, lists and
arrays become tensors. An argument that can't fit raises an error with its name. The graph is then looked up or
traced for the arguments that `convert` returns.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .._errors import SignatureError
from .._tracehost import TensorSpec, tensor_text
from .meant import spec_meant, written
from .values import Unfit, as_tensor

_KIND = inspect.Parameter
_DEEPEST = 200
_ANYTHING = object()  # the constraint of `self`


class _Shorten(reprlib.Repr):
    """A repr for messages; of tensors only what they are compared by."""

    def repr1(self, x: Any, level: int) -> str:
        return tensor_text(x) if isinstance(x, torch.Tensor) else super().repr1(x, level)


_shorten = _Shorten()
_shorten.maxother = _shorten.maxstring = 60


class _Frozen:
    """A parameter without a spec: its default, and nothing else."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def takes(self, value: Any) -> bool:
        if value is self.value:
            return True
        if type(value) is not type(self.value):
            return False
        if hasattr(type(value), "__tracehost_type__"):
            own, given = self.value.__tracehost_type__(), value.__tracehost_type__()
            above = getattr(given, "is_subtype_of", None)
            return bool(given == own or (above is not None and above(own)))
        if isinstance(value, (float, complex)):  # 0.0 is not -0.0, a NaN equals a NaN
            return repr(value) == repr(self.value)
        return bool(value == self.value)


class Declaration:
    """The input_signature of one Function, spread over its parameters.

    `signature` is what `f.input_signature` shows. `parameters` are those that calls bind to: **kwargs
    is dropped. `specs` has for each of them its TensorSpecs, in the order of a call's tensors.
    """

    def __init__(
        self,
        name: str,
        where: str,
        parameters: list[tuple[str, int, Any]],
        signature: Any,
        owner: Any,
    ) -> None:
        """`owner`: the function that was written, for whether `cls` is a class."""
        self._name = name
        try:
            self.signature = _checked(signature)
            self.parameters = [p for p in parameters if p[1] != _KIND.VAR_KEYWORD]
            self._constraints = _spread(self.signature, self.parameters, owner)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
        self.specs = [
            [leaf for leaf in _leaves(c) if isinstance(leaf, TensorSpec)] for c in self._constraints
        ]

    def convert(
        self, values: tuple[Any, ...], extra: tuple[Any, ...], tracing: bool
    ) -> tuple[Any, ...] | None:
        """The values as declared, in the order of the parameters; None if they are so already.

        `values` are of the parameters that are one value, `extra` of *args. `tracing`: sizes may be those
        of a trace around the call, to be compared where it sees it.
        """
        fixed, before, made = iter(values), [], []

        def fit(constraint: Any, value: Any, path: str) -> None:
            before.append(value)
            made.append(_fit(constraint, value, path, tracing))

        for (name, kind, _), constraint in zip(self.parameters, self._constraints):
            if kind != _KIND.VAR_POSITIONAL:
                fit(constraint, next(fixed), name)
                continue
            self._check_count(name, len(constraint), len(extra))
            for i, (inner, value) in enumerate(zip(constraint, extra)):
                fit(inner, value, f"{name}[{i}]")
        return None if all(a is b for a, b in zip(made, before)) else tuple(made)

    def requested(self, instance: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a request that gives none but, for a method, the instance."""
        args, kwargs, given = [], {}, list(instance)
        for (name, kind, default), constraint in zip(self.parameters, self._constraints):
            if given:
                args.append(given.pop(0))
            elif kind == _KIND.VAR_POSITIONAL:
                args.extend(constraint)
            elif kind == _KIND.KEYWORD_ONLY:
                kwargs[name] = _wanted(constraint, default)
            elif constraint is not _ANYTHING:
                args.append(_wanted(constraint, default))
        return tuple(args), kwargs

    def _check_count(self, name: str, declared: int, given: int) -> None:
        if given < declared:
            raise TypeError(f"{self._name}() missing a required argument: '{name}_{given}'")
        if given > declared:
            raise TypeError(f"{self._name}() too many positional arguments")


# -- declaring -----------------------------------------------------------------------------------------------


def _checked(signature: Any) -> tuple[Any, ...]:
    """A copy that nobody else can change; TypeError for what can't be declared."""
    if not isinstance(signature, (tuple, list)):
        raise TypeError(
            "input_signature must be either a tuple or a list, got "
            f"{type(signature).__name__} {_shorten.repr(signature)}.{_in_a_list(signature)}"
        )
    wrong = [leaf for leaf in _leaves(signature) if not isinstance(leaf, TensorSpec)]
    if wrong:
        raise TypeError(
            "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
            f"[{', '.join(map(_shorten.repr, wrong))}] with types "
            f"[{', '.join(type(w).__name__ for w in wrong)}]. {_remedy(wrong, signature)}"
        )
    return tuple(_copied(s) for s in signature)


def _remedy(wrong: list[Any], signature: Any) -> str:
    meant = spec_meant(signature) or spec_meant(wrong)
    if meant:
        return f"Write input_signature=[{meant}], with a None for each size that may differ."
    return "A Python value is declared by the parameter's default."


def _in_a_list(value: Any) -> str:
    meant = written(value) if isinstance(value, TensorSpec) else spec_meant(value)
    return f" Write input_signature=[{meant}]." if meant else ""


def _leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """What the containers hold, in order."""
    if depth > _DEEPEST:
        raise TypeError(f"input_signature is nested deeper than {_DEEPEST} levels.")
    if not isinstance(value, (tuple, list, dict)):
        yield value
    for inner in items(value):
        yield from _leaves(inner, depth + 1)


def items(value: Any) -> Iterable[Any]:
    """Those of a container; none of anything else."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (tuple, list)) else ()


def _copied(spec: Any) -> Any:
    return _mapped(_copied, spec) if isinstance(spec, (tuple, list, dict)) else spec


def _mapped(function: Callable[[Any], Any], container: Any) -> Any:
    """A container of the same type with `function` of each item."""
    if isinstance(container, dict):
        return _like(container, {key: function(item) for key, item in container.items()})
    return _like(container, map(function, container))


def _like(container: Any, items: Any) -> Any:
    """A container of the same type with other items."""
    make = getattr(type(container), "_make", None)  # of a namedtuple
    if make is not None and isinstance(container, tuple):
        return make(items)
    if hasattr(container, "default_factory"):
        return type(container)(container.default_factory, items)
    return type(container)(items)


def _spread(
    specs: tuple[Any, ...], parameters: list[tuple[str, int, Any]], owner: Any
) -> list[Any]:
    """One constraint for each parameter: tf consumes the specs from left to right."""
    left, constraints = list(specs), []
    for i, (name, kind, default) in enumerate(parameters):
        if kind == _KIND.VAR_POSITIONAL:
            constraints.append(tuple(left))
            left = []
        elif kind == _KIND.KEYWORD_ONLY:
            if default is _KIND.empty:
                raise TypeError(
                    f"Since input_signature is defined, keyword-only parameter `{name}` must have a "
                    "default value."
                )
            constraints.append(_frozen(default))
        elif i == 0 and _is_instance(name, owner):
            constraints.append(_ANYTHING)
        elif left:
            constraints.append(left.pop(0))
        elif default is _KIND.empty:
            raise TypeError(f"input_signature missing type constraint for {name}.")
        else:
            constraints.append(_frozen(default))
    if left:
        raise TypeError(f"input_signature contains {len(left)} extra type constraints.")
    return constraints


def _is_instance(name: str, owner: Any) -> bool:
    """Whether a first parameter is what a method is called on. As in tf `self` always is; `cls` only in a
    class, as it is a tensor's name, too."""
    outer = getattr(owner, "__qualname__", "").rpartition(".")[0]
    return name == "self" or (name == "cls" and bool(outer) and not outer.endswith("<locals>"))


def _frozen(default: Any, depth: int = 0) -> Any:
    """The constraint that a default makes: its own value, for a tensor its dtype and shape."""
    if isinstance(default, torch.Tensor):
        return TensorSpec(default.shape, default.dtype)
    is_container = type(default) in (tuple, list, dict) or hasattr(type(default), "_make")
    if is_container and depth < _DEEPEST:
        return _mapped(lambda item: _frozen(item, depth + 1), default)
    return _Frozen(default)


def _wanted(constraint: Any, default: Any) -> Any:
    """What a request asks for: a default as it is, else the specs."""
    is_frozen = any(isinstance(leaf, _Frozen) for leaf in _leaves(constraint))
    return default if is_frozen else constraint


# -- calling -------------------------------------------------------------------------------------------------


def _fit(constraint: Any, value: Any, path: str, tracing: bool) -> Any:
    """`value`, or what it becomes under `constraint`; SignatureError if it does not fit."""
    if constraint is _ANYTHING:
        return value
    if isinstance(constraint, TensorSpec):
        return _fit_tensor(constraint, value, path, tracing)
    if isinstance(constraint, _Frozen):
        if constraint.takes(value):
            typed = hasattr(type(value), "__tracehost_type__")
            return value if typed else constraint.value
        expected = f"{_shown(constraint.value)} (its default: input_signature has no spec for it)"
        raise mismatch(path, expected, _shown(value))
    return _fit_container(constraint, value, path, tracing)


def _fit_container(constraint: Any, value: Any, path: str, tracing: bool) -> Any:
    keys = _keys(constraint)
    if type(value) is not type(constraint) or len(value) != len(constraint) or _keys(value) != keys:
        raise mismatch(path, _shown_container(constraint), _shown_container(value))
    made = {k: _fit(constraint[k], value[k], f"{path}[{k!r}]", tracing) for k in keys}
    same = list(made) == list(_keys(value)) and all(made[k] is value[k] for k in keys)
    return value if same else _like(value, made if isinstance(value, dict) else made.values())


def _keys(container: Any) -> Any:
    return container.keys() if isinstance(container, dict) else range(len(container))


def _fit_tensor(spec: TensorSpec, value: Any, path: str, tracing: bool) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        if not spec.is_compatible_with(value):
            raise mismatch(path, repr(spec), _shown(value, spec))
        if tracing and spec.shape is not None:
            # A size that the trace around has as any: reading it makes it a condition of that trace.
            for dimension, size in enumerate(spec.shape):
                if size is not None and value.shape[dimension] != size:
                    raise mismatch(path, repr(spec), _shown(value, spec))
        return value
    try:
        made = as_tensor(spec, value)
    except Unfit as reason:
        raise mismatch(path, repr(spec), f"{_shown(value)}: {reason}") from None
    if not spec.is_compatible_with(made):
        raise mismatch(path, repr(spec), f"{_shown(value)}, which makes {tensor_text(made)}")
    return made


def mismatch(path: str, expected: str, got: str, what: str = "") -> SignatureError:
    """`what`: in the message, in place of what is expected."""
    error = SignatureError(f"argument '{path}'{what or f': expected {expected}, got {got}'}")
    error.parameter, error.expected, error.got = path, expected, got
    return error


def _shown(value: Any, spec: TensorSpec | None = None) -> str:
    if not isinstance(value, torch.Tensor):
        return _shorten.repr(value)
    elsewhere = spec is not None and spec.device is not None and value.device.type == "cpu"
    return tensor_text(value) + (", cpu" if elsewhere else "")


def _shown_container(value: Any) -> str:
    if isinstance(value, dict):
        return f"a {type(value).__name__} with the keys {_shorten.repr(list(value))}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return _shown(value)
