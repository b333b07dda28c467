"""What variables say of calls, applied once, when tracehost is imported. `tracehost --eager` and other options
set them; under plain python they are read as well."""

from __future__ import annotations

import os
import warnings

from .. import _tracehost
from .._errors import RetraceWarning
from .._switches import run_functions_eagerly, stance
from .words import warning


def apply() -> None:
    """Raises ValueError where a variable makes no sense: the host has checked, plain python has not."""
    eager = os.environ.get("TRACEHOST_EAGER")
    if eager in ("true", "1"):
        run_functions_eagerly(True)
    elif eager not in (None, "", "false", "0"):
        raise ValueError(f"TRACEHOST_EAGER takes true or false, got {eager!r}")
    name = os.environ.get("TRACEHOST_STANCE")
    if name:
        try:
            stance(name)
        except ValueError as error:
            raise ValueError(f"TRACEHOST_STANCE: {error}") from None
    limit = os.environ.get("TRACEHOST_RETRACE_WARN")
    if limit == "error":
        warnings.filterwarnings("error", category=RetraceWarning)
        warning.as_errors = True
    elif limit:
        if limit != "off" and not (
            limit.isascii() and limit.removeprefix("+").isdigit() and int(limit)
        ):
            raise ValueError(
                f"TRACEHOST_RETRACE_WARN takes a whole number from 1 on, off or error, got {limit!r}"
            )
        _tracehost.set_retrace_limit(0 if limit == "off" else int(limit))
