"""The staged side of each operator: what happens where a value is a traced tensor."""

from __future__ import annotations

from typing import Any, NoReturn


def is_staged(value: Any) -> bool:
    """Whether the value is a tensor (or a range, enumerate, zip over one) of this thread's trace."""
    return False


def _missing(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("control flow on traced tensors can't be staged yet")


if_stmt = while_stmt = for_stmt = for_rest = _missing
if_exp = and_ = or_ = not_ = assert_stmt = _missing
range_ = enumerate_ = zip_ = len_ = min_ = max_ = _missing
return_value = aug = _missing
