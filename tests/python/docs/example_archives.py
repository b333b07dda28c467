"""Runs examples in one process, then saves, loads and calls what they have traced: example_archives.py FILE SCRIPT...

Each Function that a script makes is observed: its calls' arguments are kept, one for each signature. After the script
its live graphs are saved, each alone, and the loaded one is called as the Function is. FILE gets a JSON dict: script
-> what it printed, how many graphs came back, which were rejected and why, which could not be compared and why."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy
import torch
import tracehost
from torch.utils._pytree import tree_leaves, tree_map
from tracehost._archive import live
from tracehost._reports.monitor import TraceMonitor

function = tracehost.function
watched: list[Watched] = []


class Watched(TraceMonitor):
    """Passes everything on to the Function; keeps what it is called with outside of other traces."""

    def __init__(self, made: Any) -> None:
        self._function = self.__wrapped__ = made
        self.calls: dict[Any, tuple[Any, ...]] = {}
        watched.append(self)

    @tracehost.autograph.do_not_convert
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if tracehost.inside_function():
            return self._function(*args, **kwargs)
        given = copied((args, kwargs))
        result = self._function(*args, **kwargs)
        grad = torch.is_grad_enabled()
        self.calls[grad, str(described(given))] = (*given, grad)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._function.__get__(instance, owner)


def watching(*args: Any, **options: Any) -> Any:
    if not args:
        return lambda f: watching(f, **options)
    return Watched(function(*args, **options))


def copied(value: Any) -> Any:
    return tree_map(_copied, value)


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, torch.nn.Parameter):
        return torch.nn.Parameter(leaf.detach().clone(), leaf.requires_grad)
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    return leaf.copy() if isinstance(leaf, numpy.ndarray) else leaf


def described(value: Any) -> Any:
    """Calls that differ in values of tensors only are one."""
    return tree_map(
        lambda t: (t.dtype, tuple(t.shape)) if isinstance(t, torch.Tensor) else repr(t), value
    )


def same(got: Any, expected: Any) -> None:
    """Numbers that eager has are tensors where control flow changes them."""
    left, right = tree_leaves(got), tree_leaves(expected)
    assert len(left) == len(right)
    for a, b in zip(left, right):
        if isinstance(a, torch.Tensor):
            if isinstance(b, torch.Tensor):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
            b = torch.as_tensor(b, dtype=a.dtype)
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert repr(a) == repr(b)


def called(f: Any, call: tuple[Any, ...]) -> tuple[Any, Any]:
    """The result, and the arguments afterwards."""
    args, kwargs, grad = call
    args, kwargs = copied((args, kwargs))
    torch.manual_seed(0)
    with torch.set_grad_enabled(grad):
        result = f(*args, **kwargs)
    return result, (args, kwargs)


def round_trip(one: Watched, found: dict[str, Any]) -> None:
    """Each live graph is called as one of the calls that it serves was, and gives what the Function gives."""
    made = one._function
    try:
        graphs, _ = live(made)
    except tracehost.CaptureError as error:
        found["rejected"][str(error)] += 1
        return
    for number, graph in list(enumerate(graphs))[:: 1 + len(graphs) // 25]:  # of a storm, some
        path = Path(folder) / f"{len(os.listdir(folder))}.thz"
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".* no copy in TorchScript")
                tracehost.save(path, {"f": graph})
        except tracehost.ArchiveError as error:
            found["rejected"][str(error)] += 1
            continue
        loaded = tracehost.load(path)["f"]
        calls = list(one.calls.values())
        for call in calls[number:] + calls[:number]:  # most often it is this one
            try:
                got = called(loaded, call)
            except tracehost.SignatureError:
                continue
            args, kwargs, grad = call
            with torch.set_grad_enabled(grad):
                hit = made.explain(*args, **kwargs).hit
            with tracehost.stance("default" if hit else "eager"):  # parameters may be frozen now
                same(got, called(made, call))
            found["equal"] += 1
            same_in_torch(path, call, found)
            break
        else:
            found["not called"].append(f"{made.name}: {loaded.signatures[0]}")


def same_in_torch(path: Path, call: tuple[Any, ...], found: dict[str, Any]) -> None:
    """Plain torch.jit.load gives what tracehost.load gives, where it has the graph. It takes and gives tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates TorchScript
        plain = torch.jit.load(path)
    if not hasattr(plain, "f"):
        found["not in torch"] += 1
        return
    loaded = tracehost.load(path)["f"]  # its tensors are as they were saved, as plain's are
    args, kwargs, grad = call
    args, kwargs = copied((args, kwargs))
    given = loaded.__signature__.bind(*args, **kwargs).arguments.values()
    tensors = [t for t in tree_leaves(list(given)) if isinstance(t, torch.Tensor)]
    if len(tensors) != len(list(plain.f.graph.inputs())) - 1:  # a number, or one tensor twice
        found["not in torch"] += 1
        return
    expected = tree_leaves(called(loaded, call)[0])
    torch.manual_seed(0)
    with torch.set_grad_enabled(grad):
        got = [x for x in tree_leaves(plain.f(*tensors)) if x is not None]
    shown = [x for x in expected if isinstance(x, torch.Tensor)]
    if len(got) != len(shown):
        shown = [x for x in expected if isinstance(x, (torch.Tensor, bool, int, float))]
    same(got, shown)
    found["equal in torch"] += 1


def few_of_each(made: list[Watched]) -> list[Watched]:
    """A Function that a script makes again and again: twenty of them are enough."""
    by_code: dict[Any, list[Watched]] = collections.defaultdict(list)
    for one in made:
        body = one._function.python_function
        by_code[getattr(body, "__code__", type(body))].append(one)
    return [one for alike in by_code.values() for one in alike[:20]]


def run(script: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"equal": 0, "equal in torch": 0, "not in torch": 0, "rejected": collections.Counter(), "not called": [], "error": ""}  # fmt: skip
    watched.clear()
    printed = io.StringIO()
    kept = dict(sys.modules), list(sys.path), torch.get_num_threads()
    sys.argv, sys.path[0] = [str(script)], str(script.parent)
    torch.manual_seed(0)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            names = runpy.run_path(str(script), run_name="__main__")
            for one in few_of_each(watched):
                round_trip(one, found)
        del names
    except BaseException:
        found["error"] = traceback.format_exc()
    for name in sys.modules.keys() - kept[0]:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(script.parent)):
            del sys.modules[name]  # `measure` is another one in the next folder
    sys.path[:] = kept[1]
    torch.set_num_threads(kept[2])
    return {**found, "functions": len(watched), "printed": printed.getvalue()}


if __name__ == "__main__":
    out, *scripts = map(Path, sys.argv[1:])
    tracehost.function, events = watching, tracehost.events
    tracehost.events = lambda f: events(getattr(f, "_function", f))
    warnings.simplefilter("always", tracehost.RetraceWarning)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        out.write_text(json.dumps({script.stem: run(script) for script in scripts}))
