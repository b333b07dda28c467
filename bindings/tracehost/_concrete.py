"""ConcreteFunction: one specialization, asked for by its signature, to be called by itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from . import _tracehost
from ._arguments.dtypes import name_of
from ._arguments.meant import spec_meant
from ._arguments.signature import items
from ._counterparts import OF_CONCRETE, missing
from ._errors import StagingError, TraceWarning, ValueReadError
from ._traced.fake_tensors import Maker, attempt
from ._tracehost import Function, TensorSpec


class UnknownArgument:
    """In a structured signature: an object that the trace saw, and that is gone."""

    def __repr__(self) -> str:
        return "UnknownArgument()"


class ConcreteFunction:
    """One graph of a Function, with what is needed to call it.

    Call it with all of the Python function's parameters, with Python values as they were at the trace.
    Or call it flat, with one tensor for each tensor argument, by place or by name. dtypes, shapes, devices and
    layouts are checked. requires_grad may differ: gradients flow as through eager code. It never traces.

    It is that trace: Python values that the body read then are not read again. Captured tensors are, at
    every call. Grad mode, inference mode and deterministic algorithms are those of the call, unless the
    body sets grad mode itself. Any other context (autocast, default dtype ...) has to be as at the trace.
    In a body that is being traced it becomes part of that graph, as a call of the Python function.

    It keeps working when the Function it came from is gone.
    """

    __slots__ = ("__weakref__", "_core", "_outputs")

    def __init__(self, core: Any) -> None:
        self._core = core
        self._outputs: list[TensorSpec] | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._core(*args, **kwargs)

    if not TYPE_CHECKING:  # a checker would take any name for an attribute

        def __getattr__(self, name):
            missing(self, f"'{type(self).__name__}' object", name, OF_CONCRETE)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def graph(self) -> torch._C.Graph:
        """A copy of the graph: tensor arguments, then captures."""
        return self._core.graph

    @property
    def code(self) -> str:
        """The graph as TorchScript source.

        Raises:
            Error: it has a loop with a count and a condition (a `for` that is left early); `graph` shows that.
        """
        return self._core.code

    @property
    def inputs(self) -> list[TensorSpec]:
        """What the graph takes, captures at the end, each with its name."""
        return [_plain(spec) for spec, _ in self._core.inputs]

    @property
    def outputs(self) -> list[TensorSpec]:
        """The distinct tensors of the result."""
        if self._outputs is None:
            self._outputs = _output_specs(self._core)
        return list(self._outputs)

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) with TensorSpecs in place of tensors."""
        args, kwargs = [], {}
        for name, kind, value in self._arguments(self._input_specs()):
            if kind == "KEYWORD_ONLY":
                kwargs[name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    @property
    def structured_outputs(self) -> Any:
        """The result with TensorSpecs in place of tensors."""
        return self._core.result(self.outputs)

    @property
    def output_shapes(self) -> Any:
        """The result with shapes in place of tensors."""
        return self._core.result([spec.shape for spec in self.outputs])

    @property
    def output_dtypes(self) -> Any:
        """The result with dtypes in place of tensors."""
        return self._core.result([spec.dtype for spec in self.outputs])

    @property
    def captured_inputs(self) -> list[torch.Tensor]:
        """The tensors that the body reached by itself, as they are now."""
        return self._core.captured_inputs()

    @property
    def checks(self) -> tuple[str, ...]:
        """The numbers that the graph serves alone, with the line that needs each: `True at net.py:12`.
        A call that finds another one raises a ValueReadError."""
        return tuple(f"{value} at {where}" for where, value in self._core.checks)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The nn.Parameters among captured_inputs."""
        return [t for t in self.captured_inputs if isinstance(t, torch.nn.Parameter)]

    def buffers(self) -> list[torch.Tensor]:
        """The other tensors among captured_inputs."""
        return [t for t in self.captured_inputs if not isinstance(t, torch.nn.Parameter)]

    def set_external_captures(self, captures: list[torch.Tensor]) -> None:
        """Use these tensors from now on, in the order of captured_inputs: other weights for one graph.

        Raises:
            ValueError: there are more captures, or fewer.
            CaptureError: one has another dtype, shape, device or layout than at the trace.
        """
        self._core.set_external_captures(list(captures))

    def pretty_printed_signature(self, verbose: bool = False) -> str:
        """Parameters and result on one line; `verbose`: one to a line, and the captures."""
        nameless = [TensorSpec(s.shape, s.dtype, s.device) for s in self._input_specs()]
        parameters = self._arguments(nameless)
        result = _type_text(self.structured_outputs)
        if not verbose:
            inside = ", ".join(f"{name}: {_type_text(value)}" for name, _, value in parameters)
            return f"({inside}) -> {result}"
        lines = ["Input Parameters:"]
        lines += [f"  {n} ({kind}): {_type_text(value)}" for n, kind, value in parameters]
        if not parameters:
            lines.append("  None")
        lines += ["Output Type:", f"  {result}", "Captures:"]
        captures = self.inputs[len(nameless) :]
        for spec in captures:
            lines.append(f"  {spec.name}: {TensorSpec(spec.shape, spec.dtype, spec.device)!r}")
        if not captures:
            lines.append("  None")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature(verbose=True)}"

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature()} at {id(self):#x}>"

    def _input_specs(self) -> list[TensorSpec]:
        return self.inputs[: self._core.slots]

    def _arguments(self, leaves: list[Any]) -> list[tuple[str, str, Any]]:
        return self._core.arguments(leaves, UnknownArgument())


def _plain(spec: TensorSpec) -> TensorSpec:
    """Without the device where it is the usual one."""
    if spec.device is None or spec.device.type != "cpu":
        return spec
    return TensorSpec(spec.shape, spec.dtype, None, spec.name)


def _type_text(value: Any) -> str:
    if isinstance(value, (TensorSpec, UnknownArgument)) or value is None:
        return repr(value)
    if isinstance(value, (dict, list, tuple)):
        return _container_text(_type_text, value)
    return f"Literal[{value!r}]"


def _container_text(text: Callable[[Any], str], value: Any) -> str:
    """As Python shows a dict, a list or a tuple, with `text` of each item."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {text(v)}" for k, v in value.items()) + "}"
    inside = ", ".join(map(text, value))
    if isinstance(value, list):
        return f"[{inside}]"
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def is_constant(value: Any) -> bool:
    """Whether it holds no TensorSpec."""
    return not isinstance(value, TensorSpec) and all(map(is_constant, items(value)))


def brief(value: Any) -> str:
    """With TensorSpecs as the signatures of archives are written: `float32[None, 3]`."""
    if isinstance(value, TensorSpec):
        sizes = "..." if value.shape is None else ", ".join(map(str, value.shape))
        return f"{name_of(value.dtype)}[{sizes}]"
    return repr(value) if is_constant(value) else _container_text(brief, value)


# -- what a graph's results look like ----------------------------------------------------------------------


def _output_specs(core: Any) -> list[TensorSpec]:
    """Sizes that follow from an open one are None: found by running the graph, without data, twice."""
    traced = [_plain(spec) for spec in core.outputs]
    if not core.dynamic:
        return traced
    try:
        if core.calls_python:
            raise NotImplementedError("it would be called with tensors that have no data")
        one, other = (_output_sizes(core, offset) for offset in (0, 5))
    except Exception:  # a graph that does not run without data
        return [TensorSpec((None,) * len(s.shape), s.dtype, s.device) for s in traced]
    return [
        TensorSpec([a if a == b else None for a, b in zip(*sizes)], spec.dtype, spec.device)
        for spec, *sizes in zip(traced, one, other)
    ]


def _output_sizes(core: Any, offset: int) -> list[tuple[int, ...]]:
    maker = Maker(lambda dimension, _count: 128 + 11 * dimension + offset)
    inputs = []
    for spec, requires_grad in core.inputs:
        tensor = maker.tensor(spec)
        inputs.append(tensor.requires_grad_() if requires_grad else tensor)
    with torch.set_grad_enabled(core.grad_mode), _tracehost.WithoutData():
        return [tuple(t.shape) for t in core.run(inputs)]


def warn_of_one_outcome(
    name: str, made: list[ConcreteFunction], remedy: str, stacklevel: int = 3
) -> None:
    """Lists the places of which `made` have one outcome alone: calls with another one have no graph."""
    outcomes: dict[str, set[str]] = {}
    for concrete in made:
        for where, value in concrete._core.checks:
            outcomes.setdefault(where, set()).add(value)
    one = [f"{min(values)} at {where}" for where, values in outcomes.items() if len(values) == 1]
    if one:
        warnings.warn(
            f"a graph of {name} serves only calls in which Python reads these values: {', '.join(one)}. A call with "
            f"another one raises an error. {remedy}",
            TraceWarning,
            stacklevel=stacklevel,
        )


# -- requests ----------------------------------------------------------------------------------------------


def _get_concrete_function(self: Function, /, *args: Any, **kwargs: Any) -> ConcreteFunction:
    """get_concrete_function(*args, **kwargs) -> ConcreteFunction

    The specialization that serves these arguments, traced first if there is none. No op is run: tensors
    are taken for what they are compared by, and a TensorSpec stands for one, at any depth. So there is no
    example data, and no tensor, generator or running statistic changes. The Python code of the body runs
    once where a trace is made; where a size of None does not suit the body, up to four times, with other
    sizes.

    The same signature gives the same object. A trace that is wider than the request serves it. With an
    input_signature the arguments may be left out.
    """
    made = _requested(self, args, kwargs)
    remedy = "Call the Function itself, which has a graph for each value, or turn autograph on: a graph then has both sides."
    warn_of_one_outcome(self.name, [made], remedy)
    return made


def _requested(self: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConcreteFunction:
    declared = None if args or kwargs else _tracehost.declaration(self)
    meant = spec_meant(*args, kwargs)
    args = (*instance_of(self), *args)
    if declared is not None:
        args, kwargs = declared.requested(args)
    try:
        return attempt(
            self.name, lambda maker: _tracehost.request(self, args, kwargs, maker, ConcreteFunction)
        )
    except Exception as error:
        if meant:
            error.add_note(
                "A shape, a dtype or a list is a Python value here, as in a call. For each tensor pass a "
                f"TensorSpec, {meant}, with a None for each size that may differ."
            )
        raise


def instance_of(function: Function) -> tuple[Any, ...]:
    """What a method is called on, as an argument before the others."""
    instance = _tracehost.instance(function)
    return () if instance is None else (instance,)


def _warm_up(self: Function, /, *signatures: Any) -> list[ConcreteFunction]:
    """warm_up(*signatures) -> list

    Traces ahead of the first call, without example data: get_concrete_function for each signature. A
    signature is a tuple or list of positional arguments, a dict of keyword arguments, or one argument.

    Where the body needs values, a signature of tensors is called: one for each outcome of what the graph
    checks. Its effects are those of a call.
    """
    made = []
    for signature in signatures:
        if isinstance(signature, dict):
            made.append(_ahead(self, (), signature))
        elif isinstance(signature, (tuple, list)):
            made.append(_ahead(self, tuple(signature), {}))
        else:
            made.append(_ahead(self, (signature,), {}))
    return made


def _ahead(self: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConcreteFunction:
    """What serves such a call; with data where a trace from specs has none to go by."""
    has_data = any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))
    try:
        found = _requested(self, args, kwargs)
        if not has_data or not found.checks:
            return found
    except (StagingError, ValueReadError):
        if not has_data:
            raise
    before = _tracehost.concrete_functions(self, ConcreteFunction)
    self(*args, **kwargs)
    after = _tracehost.concrete_functions(self, ConcreteFunction)
    made = [one for one in after if not any(one is earlier for earlier in before)]
    return (made or after)[-1]


def _signatures(self: Function, verbose: bool = False) -> str:
    """pretty_printed_concrete_signatures(verbose=False) -> str

    The signature of each live specialization, a line each; `verbose`: a paragraph each. With an
    input_signature its trace is made first.
    """
    if self.input_signature is not None:
        self.get_concrete_function()
    made = _tracehost.concrete_functions(self, ConcreteFunction)
    return ("\n\n" if verbose else "\n").join(cf.pretty_printed_signature(verbose) for cf in made)


Function.get_concrete_function = _get_concrete_function
Function.warm_up = _warm_up
Function.pretty_printed_concrete_signatures = _signatures
ConcreteFunction.__module__ = UnknownArgument.__module__ = "tracehost"
