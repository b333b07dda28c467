"""Programs that retrace, in data/retraces, and a run of one of them."""

import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
import tracehost
from applied_fixes import with_part

DATA = Path(__file__).parents[1] / "data" / "retraces"
HEAD = (
    "import array\nimport dataclasses\nimport functools\nimport math\n\n"
    "import numpy as np\nimport torch\nimport tracehost\nfrom tracehost import TensorSpec\n\n"
)


def sections(text):
    parts = re.split(r"(?m)^#### (\w+)\n", text)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


PROGRAMS = {
    name: HEAD + body
    for file in ("sizes", "numbers", "state", "apart")
    for name, body in sections((DATA / f"{file}.txt").read_text()).items()
}


@dataclass
class Run:
    results: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    traces: int = 0


def run(text, file, eager=False):
    file.write_text(text)
    made = Run()

    def out(value):
        value = torch.as_tensor(value)  # of numpy arrays graphs make tensors
        made.results.append(value.detach().clone())

    torch.manual_seed(0)
    tracehost.reset()
    tracehost.run_functions_eagerly(eager)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            scope = {"__name__": "__main__", "out": out, "with_part": with_part}
            exec(compile(text, str(file), "exec"), scope)
    finally:
        tracehost.run_functions_eagerly(False)
    made.warnings = [
        str(w.message) for w in seen if issubclass(w.category, tracehost.RetraceWarning)
    ]
    made.traces = sum(event.kind == "trace" for event in tracehost.events())
    return made
