"""Every program in README.md and docs/ runs in the host and prints what the page says.

A ```python block is saved under the name that its first line gives (`# scale.py`) and run; if a ```text
block follows, that is its output. A ```console block is run line by line: `$ command`, then its output.
"""

import os
import re
import subprocess
from dataclasses import dataclass

import pytest
from conftest import BIN, ROOT, clean_environment

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Snippet:
    where: str
    kind: str
    text: str
    output: str | None  # None: the page shows none


def snippets():
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = list(FENCE.finditer(text))
        for block, following in zip(blocks, [*blocks[1:], None]):
            if block[1] not in ("python", "console"):
                continue
            shown = following is not None and following[1] == "text"
            where = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}"
            found.append(Snippet(where, block[1], block[2], following[2] if shown else None))
    return found


def normal(text, folder):
    """Without what differs from run to run: times, folders, and a traceback's frames."""
    text = re.sub(
        r"^Traceback \(most recent call last\):\n(?:[ \t]+.*\n|\n)*", "", text, flags=re.MULTILINE
    )
    text = text.replace("tracehost._errors.", "tracehost.").replace(f"{folder}/", "")
    text = re.sub(r"\d+(\.\d+)? ms\b", "N ms", text)
    lines = []
    for line in text.strip().splitlines():
        if line.startswith(("function  ", "total  ")) or re.match(r"\S+ \(\S+:\d+\)  ", line):
            # The report table: its milliseconds, and with them the widths of columns.
            line = re.sub(r"(?<=%) +[\d.]+", " N", re.sub(r" {2,}", " ", line))
        lines.append(line.rstrip())
    return "\n".join(lines)


def run(command, folder):
    env = clean_environment(PYTHONUNBUFFERED="1", PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("snippet", snippets(), ids=lambda s: s.where)
def test_snippet(snippet, tmp_path):
    if snippet.kind == "console":
        for command, output in re.findall(
            r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", snippet.text, re.MULTILINE
        ):
            done = run(["bash", "-c", command], tmp_path)
            assert normal(done.stdout, tmp_path) == normal(output, tmp_path), command
        return
    named = re.match(r"# (\w+\.py)\n", snippet.text)
    assert named, f"{snippet.where}: the first line must name the file, `# scale.py`"
    (tmp_path / named[1]).write_text(snippet.text, encoding="utf-8")
    done = run(["tracehost", named[1]], tmp_path)
    if snippet.output is None:
        assert done.returncode == 0, done.stdout
    else:
        assert normal(done.stdout, tmp_path) == normal(snippet.output, tmp_path)


def test_the_example_is_fifteen_lines():
    first = next(s for s in snippets() if s.where.startswith("README.md"))
    assert len(first.text.splitlines()) <= 15 and first.output
