"""docs/internals/style.md, as far as a machine can count: no sentence of docs, comments and docstrings has over 30 words."""

import ast
import re

import pytest
from conftest import ROOT

MOST_WORDS = 30
# Signs of code, a table or a drawing, which are no sentences.
CODE = re.compile(r"[{}();=<>|]")
MOST_SIGNS = 5
# A line that is indented in a comment or docstring is a drawing, a table or a command.
DRAWN = "    "
FOLDERS = ("host", "bindings", "examples", "tests", "scripts", "docs")


def paragraphs_of_markdown(text):
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.lstrip().startswith(("|", "#")):
            yield from re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", paragraph)


def comments(text, mark):
    block = []
    for line in [*text.splitlines(), ""]:
        found = re.match(mark, line)
        if found and found[1].strip() and not found[1].startswith(DRAWN):
            block.append(found[1])
        elif block:
            yield "\n".join(block)
            block = []


def docstrings(text):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and (found := ast.get_docstring(node)):
            yield from re.split(r"\n\s*\n|\n(?=\s+\w+: )|\n {4}(?=\S)", found)


def prose(path):
    text = path.read_text()
    if path.suffix == ".md":
        return paragraphs_of_markdown(text)
    if path.suffix in (".cpp", ".h"):
        return comments(text, r"\s*///?<?\s?(.*)")
    return [*comments(text, r"\s*#\s?(.*)"), *docstrings(text)]


def sentences(paragraph):
    return re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split()))


def too_long(path):
    for paragraph in prose(path):
        for sentence in sentences(paragraph):
            if len(sentence.split()) > MOST_WORDS and len(CODE.findall(sentence)) <= MOST_SIGNS:
                yield f"{path.relative_to(ROOT)}: {len(sentence.split())} words: {sentence}"


def files():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".md", ".py", ".cpp", ".h") and "data" not in path.parts:
                yield path
    yield ROOT / "README.md"


@pytest.mark.parametrize("folder", [*FOLDERS, "README.md"])
def test_no_sentence_is_too_long(folder):
    found = [
        said
        for path in files()
        if path.relative_to(ROOT).parts[0] == folder
        for said in too_long(path)
    ]
    assert not found, "\n".join(found)


def test_a_sentence_that_is_too_long_is_found(tmp_path):
    words = " ".join(["word"] * (MOST_WORDS + 1)) + "."
    text = f'"""Short.\n\n{words}\n"""\n# {words}\nx = 1\n'
    assert (
        len([s for p in docstrings(text) for s in sentences(p) if len(s.split()) > MOST_WORDS]) == 1
    )
    assert (
        len(
            [
                s
                for p in comments(text, r"\s*#\s?(.*)")
                for s in sentences(p)
                if len(s.split()) > MOST_WORDS
            ]
        )
        == 1
    )
    assert [*paragraphs_of_markdown(f"- a\n- {words}\n")] == ["- a", f"- {words}\n"]
