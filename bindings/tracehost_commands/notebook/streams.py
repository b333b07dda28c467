"""Outputs of a cell as its notebook keeps them."""

from __future__ import annotations

import re
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# `\r` at the end of what has come waits for the next.
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")
_RUBBED_OUT = re.compile(r"[^\n\x08]\x08")


def add_stream(outputs: list[Any], name: str, text: str) -> None:
    """Append text to a cell's outputs: to the stream of that name at their end, if there is one.

    stdout and stderr arrive in no certain order; between two other outputs stdout stands first.
    """
    import nbformat

    at_end = [o for o in outputs[-2:] if o.output_type == "stream"]
    if len(at_end) == 1 and outputs[-1].output_type != "stream":
        at_end = []
    found = next((o for o in at_end if o.name == name), None)
    if found is not None:
        found.text = _collapsed(found.text + text)
        return
    new = nbformat.v4.new_output("stream", name=name, text=_collapsed(text))
    if name == "stdout" and at_end:
        outputs.insert(len(outputs) - 1, new)
    else:
        outputs.append(new)


def _collapsed(text: str) -> str:
    """As a terminal leaves it: lines that `\\r` and backspaces rewrote."""
    while "\x08" in text:
        shorter = _RUBBED_OUT.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _OVERWRITTEN.sub("", text) if "\r" in text else text


def plain(text: str) -> str:
    """Without colours."""
    return _ANSI.sub("", text)


def add_error(outputs: list[Any], name: str, value: str) -> None:
    """What went wrong around a cell, as an output of the cell: the result says why it ends here."""
    import nbformat

    outputs.append(
        nbformat.v4.new_output("error", ename=name, evalue=value, traceback=[f"{name}: {value}"])
    )
