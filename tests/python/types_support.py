"""What the tests of trace types share."""

from typing import Any


def traces(f: Any, *calls: tuple[Any, ...]) -> str:
    """How many of the calls traced, one digit each."""
    result = ""
    for args in calls:
        before = f.tracing_count()
        f(*args)
        result += str(f.tracing_count() - before)
    return result
