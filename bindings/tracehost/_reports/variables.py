"""What variables say of calls, applied once, when tracehost is imported. `tracehost --eager` and other options
set them; under plain python they are read as well."""

from __future__ import annotations

import os
import sys
import warnings

from tracehost_lock import gate

from .. import _tracehost
from .._errors import RetraceWarning
from .._switches import run_functions_eagerly, stance
from .words import warning


def apply() -> None:
    """Raises ValueError where a variable makes no sense: the host has checked, plain python has not."""
    _check_warning_options()
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
    lock = os.environ.get("TRACEHOST_FROZEN")
    if lock not in (None, "", "false", "0"):
        _tracehost.close_gate(gate.close(lock))
    limit = os.environ.get("TRACEHOST_RETRACE_WARN")
    if limit == "error":
        warnings.filterwarnings("error", category=RetraceWarning)
        warning.as_errors = True
    elif limit:
        if limit != "off" and not (
            limit.isascii() and limit.removeprefix("+").isdigit() and int(limit)
        ):
            raise ValueError(
                f"TRACEHOST_RETRACE_WARN takes off, error or a whole number from 1 on, got {limit!r}"
            )
        _tracehost.set_retrace_limit(0 if limit == "off" else int(limit))


def _check_warning_options() -> None:
    """`-W error::tracehost.RetraceWarnin`: Python could not know at its start that there is no such class."""
    for entry in sys.warnoptions:
        category = (entry.split(":") + ["", ""])[2].strip()
        module, _, name = category.rpartition(".")
        if module != "tracehost" and not module.startswith("tracehost."):
            continue
        found = getattr(sys.modules.get(module), name, None)
        if not (isinstance(found, type) and issubclass(found, Warning)):
            sys.stderr.write(
                f"Invalid -W option ignored: {module} has no warning class {name!r}; "
                "tracehost has RetraceWarning, SideEffectWarning and TraceWarning\n"
            )
