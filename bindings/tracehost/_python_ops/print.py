"""tracehost.print: prints at each run of a graph."""

from __future__ import annotations

import builtins
import contextlib
import sys
import threading
from typing import Any

import torch

from .._arguments.trees import flatten
from .._traced.shown_calls import for_people
from .._traced.traced_number import TracedNumber
from ..autograph.staging.where import line
from .py_function import Call, at_each_run

_PLAIN = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)
_PASSED = object()
_options = threading.Lock()  # torch's print options are the process's


def print(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int | None = None,
    sep: str = " ",
    end: str = "\n",
) -> None:
    """Print at every run, from the graph too; as tf.print, to sys.stderr where no stream is given.

    In a body that is traced it becomes one op of the graph, in its place among the others: Python's print
    prints at the trace only. Also in branches and loops of the graph. Outside of a trace it prints at once.
    A graph with one runs in this process only: it can't be saved.

    Args:
        *inputs: tensors, numbers, and tuples, lists and dicts of them, which show the values of each run, as
            PyTorch prints them (without grad_fn). All else shows its text at the trace.
        output_stream: what has a `write` (sys.stdout, an open file); "file://path", to whose end it is added;
            or a function that takes the text, as logging.info. None: sys.stderr.
        summarize: how many elements are shown at the beginning and end of each dimension; -1: all. None:
            by torch.set_printoptions.
        sep, end: between the inputs, and after them.

    Raises:
        TypeError: `output_stream` or `summarize` is none of those; an input is an object that holds a traced tensor, which
            its text at a trace can't show.
    """
    if summarize is not None and (not isinstance(summarize, int) or isinstance(summarize, bool)):
        raise TypeError(f"tracehost.print's summarize is an int or None, got {summarize!r}")
    leaves, spec = flatten(list(inputs), is_leaf=_is_size)
    passed = [x for x in leaves if _is_passed(x)]
    # The graph keeps none of those.
    shown = [_PASSED if _is_passed(x) else x if type(x) in _PLAIN else _Text(x) for x in leaves]
    stream = _Stream(output_stream)

    def show(*values: Any) -> None:
        each = (v.detach() if isinstance(v, torch.Tensor) else v for v in values)
        with _summarized(summarize):
            now = spec.unflatten(next(each) if x is _PASSED else x for x in shown)
            text = sep.join(map(str, now))
        stream.write(text, end)

    at_each_run(Call(show, passed, None, None, "print"))


def _is_passed(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or type(value) is TracedNumber


def _is_size(value: Any) -> bool:
    """Of ints: shown as torch does."""
    return isinstance(value, torch.Size) and not any(type(n) is TracedNumber for n in value)


class _Text:
    """What an object shows at the trace."""

    def __init__(self, value: Any) -> None:
        self.text = for_people(lambda: str(value))
        if "<traced " in self.text:
            kind = type(value).__name__
            raise TypeError(
                f"tracehost.print at {line()} is given a {kind} that holds a traced tensor: its text is made at "
                "the trace, where that has no value to show. Give the tensors themselves."
            )

    def __repr__(self) -> str:
        return self.text


class _Stream:
    """Where a text goes. sys.stdout and sys.stderr are those of the run."""

    def __init__(self, given: Any) -> None:
        self.standard = "stderr" if given is None else None
        if given is sys.stdout or given is sys.stderr:
            self.standard = "stdout" if given is sys.stdout else "stderr"
        self.given = given if self.standard is None else None
        is_path = isinstance(given, str) and given.startswith("file://")
        if not (given is None or is_path or hasattr(given, "write") or callable(given)):
            raise TypeError(
                "tracehost.print's output_stream must have a write(), as sys.stdout has, or be 'file://path' or a "
                f"function of the text, got {given!r}"
            )

    def write(self, text: str, end: str) -> None:
        given = getattr(sys, self.standard) if self.standard else self.given
        if isinstance(given, str):
            with open(given.removeprefix("file://"), "a", encoding="utf-8") as file:
                file.write(text + end)
        elif hasattr(given, "write"):
            builtins.print(text, end=end, file=given, flush=True)
        else:
            given(text)


@contextlib.contextmanager
def _summarized(count: int | None) -> Any:
    if count is None:
        yield
        return
    options = {"threshold": sys.maxsize} if count < 0 else {"threshold": 0, "edgeitems": count}
    with _options, torch._tensor_str.printoptions(**options):
        yield
