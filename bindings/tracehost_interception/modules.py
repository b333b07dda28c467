"""What stands for an nn.Module that is traced: it is the module in all but its call."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch


class Replacement(torch.nn.Module):
    """Parameters, buffers, submodules, attributes and mode are the module's own, not copies."""

    _shared = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")

    def __init__(self, module: torch.nn.Module, function: Any) -> None:
        vars(self)["_module"] = module
        super().__init__()
        vars(self)["forward"] = function
        vars(self).update({name: vars(self._module)[name] for name in self._shared})

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._module.training

    @training.setter
    def training(self, value: bool) -> None:
        if "forward" in vars(self):  # not what nn.Module.__init__ begins with
            self._module.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_module":  # before __init__
            raise AttributeError(name)
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise AttributeError(
                f"'{type(self._module).__name__}' object has no attribute '{name}'{self._hint()}"
            ) from None

    def _hint(self) -> str:
        return ""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "forward" or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        if name == "forward" or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._module, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *super().__dir__()})

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._module)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self._module[index]  # type: ignore[index]

    def _again(self, module: torch.nn.Module) -> Any:
        """One like this, of another module."""
        made = copy.deepcopy(self.forward, {id(self._module): module})
        return type(self)(module, made)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._again(copy.deepcopy(self._module, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A file has the module itself: who loads it need not know of tracehost."""
        return operator.itemgetter(0), ((self._module,),)
