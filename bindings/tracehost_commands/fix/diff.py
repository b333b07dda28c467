"""A unified diff. The heading of each hunk names the fixes that it belongs to, where git writes a function's name."""

from __future__ import annotations

import difflib

from .found import Fix

_CONTEXT = 3


def unified(name: str, before: str, after: str, fixes: dict[int, list[Fix]]) -> str:
    """As `patch -p1` and `git apply` take it.

    Args:
        fixes: by lines of `before`. A line that none of them names was changed for all: an import.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        ranges = f"-{_range(first[1], last[2])} +{_range(first[3], last[4])}"
        lines.append(f"@@ {ranges} @@ # {_heading(first[1] + 1, last[2], fixes)}\n")
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += [" " + line for line in old[a:b]]
            else:
                lines += ["-" + line for line in old[a:b]] + ["+" + line for line in new[c:d]]
    end = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + end for line in lines)


def _heading(first: int, last: int, fixes: dict[int, list[Fix]]) -> str:
    here = [one for line, found in sorted(fixes.items()) if first <= line <= last for one in found]
    if not here:
        here = [one for found in fixes.values() for one in found]
    return "; ".join(dict.fromkeys(one.claim for one in here))


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + bool(length)},{length}"
