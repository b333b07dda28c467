"""The table of parity tests: behaviours in which the host must not differ from the python command."""

from .children import CHILDREN
from .exits import EXIT, SIGNALS
from .forms import ARGUMENTS, FORMS
from .options import OPTIONS, VARIABLES
from .process import PROCESS
from .row import Row
from .terminal import TERMINAL
from .tools import TOOLS
from .tracebacks import TRACEBACKS, WARNINGS

# What depends on the name of the executable, or is about processes that it starts.
OF_BOTH: list[Row] = [*ARGUMENTS, *FORMS, *CHILDREN]
ROWS: list[Row] = [
    *EXIT,
    *SIGNALS,
    *TRACEBACKS,
    *WARNINGS,
    *OPTIONS,
    *VARIABLES,
    *PROCESS,
    *TERMINAL,
    *TOOLS,
    *OF_BOTH,
]
