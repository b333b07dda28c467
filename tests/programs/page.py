"""Writes docs/models.md: counts by outcome, and a table of the rows."""

from collections import Counter
from pathlib import Path

HEAD = """\
# Models

Programs of popular packages, each beside a twin that runs eagerly: the same seed, the same 20 calls, other data each
time. After each call results, parameters, gradients, buffers, the optimizer's state and torch's generator are equal to
the bit, or the row is not right; the first difference within rounding is told. `scripts/test --models` runs the rows and writes this page.

| Word | Means |
|---|---|
| right | all is equal |
| refused | tracehost raises an error, with a line |
| silently wrong | something differs from eager |
| crash | another exception that eager does not raise, or a process that ends |
| traces | of the calls of the row: 1 for inference, 2 for a step that makes the optimizer's state |
| time | the median of hits, in eager calls |

Models are as small as they get. There a call is mostly Python, which a graph is without; a large model gains less.
"""


def write_page(path: Path, results: list[dict]) -> None:
    path.write_text(HEAD + counted(results) + "".join(table(p, results) for p in packages(results)))


def packages(results: list[dict]) -> list[str]:
    return list(dict.fromkeys(r["row"].split("/")[0] for r in results))


def of(package: str, results: list[dict]) -> list[dict]:
    return [r for r in results if r["row"].split("/")[0] == package]


def counted(results: list[dict]) -> str:
    kinds = ("right", "refused", "silently wrong", "crash")
    lines = ["", "| Package | " + " | ".join(kinds) + " | right with 3 traces at most |", "|---" * 6 + "|"]  # fmt: skip
    for package in packages(results):
        rows = of(package, results)
        counts = Counter(r["outcome"] for r in rows)
        few = sum(r["outcome"] == "right" and r["traces"] <= 3 for r in rows)
        lines.append(f"| {package} | " + " | ".join(str(counts[k]) for k in kinds) + f" | {few} |")
    return "\n".join(lines) + "\n"


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
        told = " ".join(f"{r['text'] or r['why']} {r['line']}".split()).replace("|", "\\|")
        lines.append(f"| {r['row'].partition('/')[2]} | {r['outcome']} | {measured} | {told} |")
    return "\n".join(lines) + "\n"
