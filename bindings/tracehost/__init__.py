"""tracehost: PyTorch functions as cached TorchScript graphs, traced once for each call signature.

    import torch, tracehost

    @tracehost.function
    def step(x, scale):
        return (x * scale).sum()

See `tracehost.function` for the options, `tracehost.report()` for what happened.
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ._errors import (
    ArchiveError,
    CaptureError,
    Error,
    RetraceWarning,
    SideEffectWarning,
    SignatureError,
    StagingError,
    TraceError,
    TraceWarning,
    ValueReadError,
)
from ._versions import check as _check

_check()

from . import _cells, _counterparts, autograph, testing  # noqa: E402
from ._archive import Archive, ArchivedFunction, load, save  # noqa: E402
from ._arguments.tensor_spec import TensorSpec  # noqa: E402
from ._concrete import ConcreteFunction  # noqa: E402
from ._function import Function, function  # noqa: E402
from ._init_scope import init_scope  # noqa: E402
from ._python_ops.numpy_function import numpy_function  # noqa: E402
from ._python_ops.print import print as print  # noqa: E402
from ._python_ops.py_function import py_function  # noqa: E402
from ._reports import at_exit as _at_exit  # noqa: E402  (what is written then)
from ._reports import html as _html  # noqa: E402, F401  (what notebooks show)
from ._reports import introspection as _introspection  # noqa: E402, F401  (methods of Function)
from ._reports import variables as _variables  # noqa: E402  (what they say of calls)
from ._reports.monitor import trace_monitor  # noqa: E402
from ._reports.report import Event, events, metrics_text, report, reset  # noqa: E402
from ._switches import (  # noqa: E402
    executing_eagerly,
    functions_run_eagerly,
    inside_function,
    no_retrace,
    run_functions_eagerly,
    stance,
)
from ._tensor_arrays.map_fn import map_fn  # noqa: E402
from ._tensor_arrays.scan import scan  # noqa: E402
from ._tensor_arrays.tensor_array import TensorArray  # noqa: E402
from ._traced import engine as _engine  # noqa: E402, F401  (autograd's, in a trace)
from ._traced import kernels as _kernels  # noqa: E402, F401  (that torch.library registers)
from ._traced import traced_number as _traced_number  # noqa: E402, F401  (gives _tracehost its class)
from ._versions import VERSION as __version__  # noqa: E402
from .autograph.run.cases import case, switch_case  # noqa: E402
from .autograph.run.explicit import cond, range, while_loop  # noqa: E402

# Without print: `from tracehost import *` leaves Python's.
__all__ = [
    "Archive",
    "ArchiveError",
    "ArchivedFunction",
    "CaptureError",
    "ConcreteFunction",
    "Error",
    "Event",
    "Function",
    "RetraceWarning",
    "SideEffectWarning",
    "SignatureError",
    "StagingError",
    "TensorArray",
    "TensorSpec",
    "TraceError",
    "TraceWarning",
    "ValueReadError",
    "__version__",
    "autograph",
    "case",
    "cond",
    "events",
    "executing_eagerly",
    "function",
    "functions_run_eagerly",
    "init_scope",
    "inside_function",
    "load",
    "map_fn",
    "metrics_text",
    "no_retrace",
    "numpy_function",
    "py_function",
    "range",
    "report",
    "reset",
    "run_functions_eagerly",
    "save",
    "scan",
    "stance",
    "switch_case",
    "testing",
    "trace_monitor",
    "while_loop",
]

if not _TYPE_CHECKING:  # a checker would take any name for an attribute

    def __getattr__(name):
        module = _sys.modules[__name__]
        _counterparts.missing(module, f"module '{__name__}'", name, _counterparts.OF_MODULE)


_variables.apply()
_cells.name_cells_in_warnings()
_at_exit.install()


def load_ipython_extension(ipython):  # type: ignore[no-untyped-def]
    """`%load_ext tracehost`"""
    from ._reports.magics import TracehostMagics

    ipython.register_magics(TracehostMagics)
