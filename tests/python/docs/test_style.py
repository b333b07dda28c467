"""docs/internals/style.md, as far as a machine can check.

No sentence of docs, comments, docstrings and messages has over 30 words, or one of the words that the page's table says
to avoid.
No page is too long.
"""

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
STYLE = ROOT / "docs" / "internals" / "style.md"
# scripts/test --models writes this page, with the words of messages.
WRITTEN = {ROOT / "docs" / "rules" / "models.md"}
MOST_LINES = 400


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


DESCRIBED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DESCRIBED) and (found := ast.get_docstring(node)):
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


def too_long_in(paragraphs):
    for paragraph in paragraphs:
        for sentence in sentences(paragraph):
            if len(sentence.split()) > MOST_WORDS and len(CODE.findall(sentence)) <= MOST_SIGNS:
                yield f"{len(sentence.split())} words: {sentence}"


def too_long(path):
    for said in too_long_in(prose(path)):
        yield f"{path.relative_to(ROOT)}: {said}"


def files():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".md", ".py", ".cpp", ".h") and "data" not in path.parts:
                yield path
    yield from sorted(ROOT.glob("*.md"))


@pytest.mark.parametrize("folder", [*FOLDERS, *(page.name for page in ROOT.glob("*.md"))])
def test_no_sentence_is_too_long(folder):
    found = [
        said
        for path in files()
        if path.relative_to(ROOT).parts[0] == folder
        for said in too_long(path)
    ]
    assert not found, "\n".join(found)


def pages():
    return [
        p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if p not in WRITTEN
    ]


def words_to_avoid():
    """The first column of the table in style.md, and what to write instead."""
    table = STYLE.read_text().partition("\n## Words to avoid\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)[1:]
    return {word: better for words, better in rows for word in words.split(", ")}


def avoided(text):
    """The words to avoid in a page's prose and tables: not in code, links and quoted programs."""
    text = re.sub(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL | re.MULTILINE)
    for word, better in words_to_avoid().items():
        case = 0 if "none" in word else re.IGNORECASE  # a value may be None
        for found in re.finditer(rf"(?<![\w-]){word}(?![\w-])".replace(" ", r"\s+"), text, case):
            yield f"'{found[0]}': write {better}"


# A sentence that starts so has its object first.
INVERTED = re.compile(r"(?:^|[.!?:] )(Of (?:a|an|the|what|these|those) )")


def page_without_its_examples(page):
    """style.md shows the words and sentences that it is against, in tables."""
    text = page.read_text()
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE) if page == STYLE else text


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_words_of_a_page(page):
    text = page_without_its_examples(page)
    inverted = [
        m[1] for p in paragraphs_of_markdown(text) for m in INVERTED.finditer(p.strip("- \n"))
    ]
    assert [*avoided(text), *inverted] == []


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "docs"])
def test_words_of_comments(folder):
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in files()
        if path.relative_to(ROOT).parts[0] == folder
        for paragraph in prose(path)
        for word in avoided(paragraph)
    ]
    assert not found, "\n".join(found)


def literals_of_cpp(text):
    """String literals, adjacent ones joined."""
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    for joined in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
        yield "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined[0])).replace("\\n", "\n")


def literals_of_python(text):
    """Strings that are no docstrings; VALUE stands for a replacement field."""
    tree = ast.parse(text)
    described = [n for n in ast.walk(tree) if isinstance(n, DESCRIBED) and ast.get_docstring(n)]
    docs = {id(n.body[0].value) for n in described}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "VALUE" for v in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            yield node.value


NAMES = re.compile(r"[\w:]+(?: [\w:]+){30,}")  # a table of names in one text


def messages(path):
    """What a user may read: texts of four words or more. Help and scripts of shells are tables."""
    if path.name.startswith(("command_table", "option_table", "completion")):
        return []
    literals = literals_of_python if path.suffix == ".py" else literals_of_cpp
    texts = [text for text in literals(path.read_text()) if len(text.split()) >= 4]
    return [text for text in texts if not NAMES.fullmatch(text)]


@pytest.mark.parametrize("folder", ["host", "bindings"])
def test_messages(folder):
    found = [
        f"{path.relative_to(ROOT)}: {said}"
        for path in files()
        if path.relative_to(ROOT).parts[0] == folder and path.suffix != ".md"
        for text in messages(path)
        for said in [*avoided(text), *too_long_in(re.split(r"\n\s*\n", text))]
    ]
    assert not found, "\n".join(found)


# Names of tf's and torch's.
GIVEN_NAMES = {"experimental_relax_shapes"}


def identifiers(text):
    """Names that a file of Python gives or uses, as words: `has_two_words` as "has two words"."""
    for node in ast.walk(ast.parse(text)):
        names = [getattr(node, field, None) for field in ("id", "name", "attr", "arg")]
        for name in {one for one in names if isinstance(one, str)} - GIVEN_NAMES:
            yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip("_").replace("_", " ")


def test_identifiers():
    found = [
        f"{path.relative_to(ROOT)}: {said}"
        for path in files()
        if path.relative_to(ROOT).parts[0] == "bindings" and path.suffix == ".py"
        for said in avoided("; ".join(sorted(set(identifiers(path.read_text())))))
    ]
    assert not found, "\n".join(found)


def test_a_word_in_an_identifier_is_found():
    text = "; ".join(identifiers("class WatchedOps:\n    is_told = 1\n"))
    assert [*avoided(text)] == [
        "'Watched': write guarded, guard, not guarded",
        "'told': write says, reports",
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_is_not_too_long(page):
    assert len(page.read_text().splitlines()) <= MOST_LINES


def test_a_word_to_avoid_is_found():
    assert {"watched", "stand-in", "told"} <= words_to_avoid().keys()
    assert [
        *avoided("A value is Watched\nby a `stand-in`, told [so](told.md).\n```\nrefused\n```\n")
    ] == [
        "'Watched': write guarded, guard, not guarded",
        "'told': write says, reports",
    ]
    assert [*avoided("untold, watched-over\n")] == []
    assert INVERTED.findall("It is so. Of the strides only one is compared") == ["Of the "]


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


def test_a_word_in_a_message_is_found():
    (text,) = literals_of_cpp('// "not this"\nf("the body "\n  "went on: {}");\n')
    assert list(avoided(text)) == ["'went on': write continue"]
    found = list(literals_of_python('def f():\n    "told"\n    return f"x {y} is watched"\n'))
    assert "x VALUE is watched" in found and "told" not in found
