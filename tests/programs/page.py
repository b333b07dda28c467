"""Writes docs/rules/models.md: counts by outcome, and a table of the rows."""

import statistics
from collections import Counter
from pathlib import Path

SHOWN = 160  # characters of a message
HEAD = """\
# Models

Programs of popular packages, each beside a twin that runs eagerly: the same seed, the same 20 calls, other data each
time. After each call results, parameters, gradients, buffers, the optimizer's state and torch's generator are compared. A row
is right only if everything matches bit for bit; a difference within rounding is noted. `scripts/test --models` runs the
rows and writes this page.

| Word | Means |
|---|---|
| right | all is equal |
| rejected | tracehost raises an error, with a line |
| silently wrong | something differs from eager |
| crash | another exception that eager does not raise, or a process that ends |
| traces | of the 20 calls: 1 for inference, 2 for a step that makes the optimizer's state |
| time | the median of hits, in eager calls; of the processor's time, with one thread |

Between the calls of a row named "changes" a user changes the model, the optimizer and modes, which costs traces.
"Padded" are rows with masks; a full mask and others have a graph each. "generate" decorates `forward` with
`reduce_retracing`. "torch" are PyTorch's own examples, the list of their README, written again and small, with the whole
step decorated. "In py_function", "decorated", "without validation" and "loss" are what helps where another row is
rejected.

More than 3 traces have these reasons:

- A model leaves out layers at random (canary): each set of layers is one graph. So is each order of filters that is
  drawn (ColorJitter), and each number of tries or steps (RandomResizedCrop, dopri5).
- A metric keeps a list of results that grows (AUROC): a longer list is another structure.
- numpy's random numbers are part of no graph (Mixup): the trace serves its call alone.

Models are as small as they get. There a call is mostly Python, which a graph is without; a large model gains less.
"""


def write_page(path: Path, results: list[dict]) -> None:
    tables = "".join(table(p, results) for p in packages(results))
    path.write_text(HEAD + summary(results) + counted(results) + tables)


def summary(results: list[dict]) -> str:
    right = [r for r in results if r["outcome"] == "right"]
    share, middle = 100 * len(right) / len(results), statistics.median(r["ratio"] for r in right)
    return f"\n{len(right)} of {len(results)} rows are right ({share:.1f} %). The median of their times is {middle:.2f}.\n"


def packages(results: list[dict]) -> list[str]:
    return list(dict.fromkeys(r["row"].split("/")[0] for r in results))


def of(package: str, results: list[dict]) -> list[dict]:
    return [r for r in results if r["row"].split("/")[0] == package]


def counted(results: list[dict]) -> str:
    kinds = ("right", "rejected", "silently wrong", "crash")
    lines = ["", "| Package | " + " | ".join(kinds) + " | right, but traced more often than 3 times |", "|---" * 6 + "|"]  # fmt: skip
    for package in packages(results):
        rows = of(package, results)
        counts = Counter(r["outcome"] for r in rows)
        often = sum(is_often_traced(r) for r in rows)
        lines.append(
            f"| {package} | " + " | ".join(str(counts[k]) for k in kinds) + f" | {often} |"
        )
    return "\n".join(lines) + "\n"


def is_often_traced(r: dict) -> bool:
    return r["outcome"] == "right" and r["traces"] > 3 and not r["row"].endswith("/changes")


def table(package: str, results: list[dict]) -> str:
    lines = [
        "",
        f"## {package}",
        "",
        "| Program | Outcome | Traces | Time | |",
        "|---|---|---|---|---|",
    ]
    for r in of(package, results):
        right = r["outcome"] == "right"
        measured = f"{r['traces']} | {r['ratio']}" if right else " | "
        told = " ".join(f"{r['text'] or r['why']}"[:SHOWN].split()).replace("|", "\\|")
        told = f"{told} ({r['line']})" if r["line"] else told
        lines.append(f"| {r['row'].partition('/')[2]} | {r['outcome']} | {measured} | {told} |")
    return "\n".join(lines) + "\n"
