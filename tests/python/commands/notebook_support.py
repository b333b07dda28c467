"""Notebooks made for tests, and results made comparable."""

import re

import nbformat
from nbformat import v4
from tracehost_commands.notebook.streams import add_stream, plain


def notebook(*cells, **metadata):
    """Each cell: source, or (source, tag...)."""
    made = v4.new_notebook(metadata=metadata)
    for number, cell in enumerate(cells):
        source, *tags = (cell,) if isinstance(cell, str) else cell
        new = v4.new_code_cell(source, metadata={"tags": tags} if tags else {})
        new["id"] = f"c{number}"
        made.cells.append(new)
    return made


def save(path, made):
    path.write_text(nbformat.writes(made), encoding="utf-8")
    return path


def load(path):
    return nbformat.read(path, as_version=4)


def texts(cell):
    """All that a cell shows as text."""
    return "".join(
        o.get("text")
        or o.get("data", {}).get("text/plain")
        or f"{o.get('ename')}: {o.get('evalue')}\n"
        for o in cell.outputs
    )


ACCEPTANCE = [
    ("factor = 2", "parameters"),
    "import ctypes\nlibc = ctypes.CDLL(None)\nprinted = libc.puts(b'from C')",
    "import subprocess\ndone = subprocess.run(['echo', 'from a child'], check=True)",
    "import os\nwritten = os.write(2, b'raw\\n')",
    "import matplotlib.pyplot as plt\nlines = plt.plot([1, 3, 2])",
    "class Rich:\n"
    "    def _repr_html_(self): return '<b>rich</b>'\n"
    "    def _repr_png_(self): return b'\\x89PNG no picture'\n"
    "    def __repr__(self): return 'plain'\n"
    "print('before')\ndisplay(Rich())\nprint('after')\nRich()",
    "handle = display('one', display_id='it')\nupdated = handle.update('two')",
    "handle.update('three')\n"
    "from IPython.display import clear_output\nprint('gone')\nclear_output()\n"
    "print('10 %', end='\\r')\nprint('99 %', end='\\r')\nprint('all')",
    "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "%time 1 + factor",
    "%%bash\necho from bash\necho wrong >&2",
    "import warnings\nwarnings.warn('careful')",
    ("input('name? ')", "raises-exception"),
    "import torch\ntorch.arange(6).reshape(2, 3) * factor",
    "import tracehost\n\n@tracehost.function\ndef scale(x):\n    return x * factor\n\n"
    "results = [scale(torch.ones(n)).sum().item() for n in (2, 2, 3)]\nresults, scale.tracing_count()",
]  # fmt: skip


def comparable(cell):
    """A cell's outputs without what differs from run to run: times, temporary names, places in tracebacks."""
    outputs = []
    for output in cell.outputs:
        if output.output_type == "stream":
            add_stream(outputs, output.name, output.text)
        else:
            outputs.append(output)
    found = []
    for output in outputs:
        if output.output_type == "stream":
            text = re.sub(r"/tmp/ipykernel_\d+/\d+\.py|<ipython-input-[\w-]+>", "CELL", output.text)
            text = re.sub(r"[\d.]+(?:e[+-]?\d+)? [mµμn]?s\b", "N s", text)
            text = re.sub(r"user .*, sys: .*, total: ", "", text)
            found.append((output.name, text))
        elif output.output_type == "error":
            last = plain(output.traceback[-1]).strip().splitlines()[-1]
            found.append(("error", output.ename, output.evalue, last))
        else:
            found.append(
                (
                    output.output_type,
                    dict(output.data),
                    output.metadata,
                    output.get("execution_count"),
                )
            )
    return cell.execution_count, found
