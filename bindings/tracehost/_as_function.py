"""What torch's compilers find where they look for a Python function and there is a Function.

A call, and access on an instance, use the type's slots. torch.compile reads the attributes `__call__` and
`__get__` instead: here it finds Python code, which continues into the body. Other parts of torch, such as
torch.fx, take nothing but a Python function, and read its code. To them a Function says that it is one.
"""

from __future__ import annotations

import copy
import operator
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from ._tracehost import Function, show

# Modules of torch that compare a class with FunctionType, and then read no more than these attributes.
_COMPARE = (
    "torch.fx._symbolic_trace",
    "torch._dynamo.variables.misc",  # super().forward(x)
)
_INSPECT = ("inspect", "torch.package.package_importer")  # the latter replaces inspect.getfile
_READ = ("__defaults__", "__kwdefaults__", "__globals__", "__closure__")

bind = Function.__get__  # the slot's; a lookup of the name finds `_get` from now on


def _call(self: Function, /, *args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_compiling():
        return self._body(*args, **kwargs)
    return self(*args, **kwargs)


def _get(self: Function, instance: Any, owner: type | None = None) -> Any:
    if torch.compiler.is_compiling():
        return self._body.__get__(instance, owner)  # type: ignore[attr-defined]
    return bind(self, instance, owner)


def _asks(frame: FrameType | None) -> str:
    """The module that asks, if it asks by `inspect`; else an empty string."""
    inner = frame
    while frame is not None and frame.f_globals.get("__name__") in _INSPECT:
        frame = frame.f_back
    return "" if frame is None or frame is inner else str(frame.f_globals.get("__name__"))


def _class(self: Function) -> type:
    frame = sys._getframe().f_back
    is_asked = frame is not None and frame.f_globals.get("__name__") in _COMPARE
    if is_asked or _asks(frame).startswith("torch."):
        return FunctionType if type(self._body) is FunctionType else Function
    return Function


def _code(self: Function) -> CodeType:
    """The body's. torch.compile asks in which file a callable is defined, and wraps what is in files whose
    frames it does not take. A call of a Function is no frame at all: such a file is the answer."""
    if _asks(sys._getframe().f_back).startswith("torch._dynamo."):
        return copy.copy.__code__
    return self._body.__code__  # type: ignore[attr-defined]


show(Function, "__call__", _call)
show(Function, "__get__", _get)
show(Function, "__class__", property(_class))
show(Function, "__code__", property(_code))
for _name in _READ:
    show(Function, _name, property(operator.attrgetter(f"_body.{_name}")))
