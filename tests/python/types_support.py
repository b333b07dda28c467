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


class AttrsLike:
    """What attrs makes, as far as others look at it: attrs itself need not be installed."""

    class Attribute:
        def __init__(self, name: str) -> None:
            self.name = name

    __attrs_attrs__ = (Attribute("a"), Attribute("b"))

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b
