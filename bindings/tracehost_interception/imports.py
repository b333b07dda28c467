"""What happens after a module was imported: a finder that gives tracehost's loader to each module that is named.

The loader is there for the import only. When the module runs it has its own again, so that whoever asks for
its source or its data finds what is always there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

from . import main_program
from .apply import replace_in
from .targets import Target


class _Finder:
    def __init__(self, targets: dict[str, list[Target]], program: set[str]) -> None:
        self._targets = targets
        self._program = program  # modules that the program's own may be made of
        self._asking = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        runs = name in self._program
        if (name not in self._targets and not runs) or getattr(self._asking, "name", None) == name:
            return None
        self._asking.name = name
        try:
            spec = _found(name, path, target)
        finally:
            self._asking.name = None
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, name, self._targets.get(name, []), runs)
        return spec


def _found(name: str, path: Sequence[str] | None, target: Any) -> Any:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec = None if find_spec is None else find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


class _Loader:
    def __init__(self, loader: Any, name: str, targets: list[Target], runs: bool) -> None:
        self._loader = loader
        self._name = name
        self._targets = targets
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._targets:
            replace_in(sys.modules.get(self._name, module), self._targets)

    def get_code(self, name: str) -> CodeType | None:
        """For runpy, which runs a module as the program."""
        if self._runs:
            return main_program.module_code(self._loader, name)
        return self._loader.get_code(name)


_finder: _Finder | None = None


def install(targets: list[Target], main: str) -> None:
    global _finder
    by_module: dict[str, list[Target]] = {}
    for target in targets:
        by_module.setdefault(target.module, []).append(target)
    of_main = by_module.get("__main__", [])
    main_program.targets.extend(of_main)
    # What -m or a folder runs.
    program = {main, f"{main}.__main__"} if main and of_main else set()
    _finder = _Finder(by_module, program)
    sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]
    for name, wanted in by_module.items():
        if name in sys.modules and name != "__main__":  # by sitecustomize
            replace_in(sys.modules[name], wanted)


def remove() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)  # type: ignore[arg-type]
