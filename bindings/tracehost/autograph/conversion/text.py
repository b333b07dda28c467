"""What a function's source holds at all, so that searches are made only where they can find something."""

from __future__ import annotations

import re

# Builtins that read the caller's variables, and with how many arguments they don't.
FRAME_READERS = {"locals": 0, "vars": 0, "dir": 0, "eval": 1, "exec": 1}

_BRANCH = re.compile(r"\b(if|while|for|and|or|assert|match)\b|<|>|==")


class Text:
    """Facts of one source text."""

    def __init__(self, source: str) -> None:
        self.walrus = ":=" in source
        self.nonlocals = "nonlocal" in source
        self.yields = "yield" in source or "await" in source or "async" in source
        self.frames = any(name + "(" in source for name in FRAME_READERS)
        self.finals = "finally" in source
        self.matches = "match" in source
        self.branches = _BRANCH.search(source) is not None
