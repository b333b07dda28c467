"""Small programs with control flow on tensors, one a construct: what each staged graph is compared on.

Inputs take every path and several trip counts, none included. Each of them is also used as the first, so
that the graph is traced from every path. `error` is a part of the message of an unsupported program.
"""

import control_flow_branches
import control_flow_expressions
import control_flow_for
import control_flow_functions
import control_flow_statements
import control_flow_while
from control_flow_registry import PROGRAMS

__all__ = ["MODULES", "PROGRAMS"]

MODULES = (
    control_flow_branches,
    control_flow_expressions,
    control_flow_while,
    control_flow_for,
    control_flow_functions,
    control_flow_statements,
)  # each fills PROGRAMS
