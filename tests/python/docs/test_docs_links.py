"""Links of README.md and docs/ lead somewhere; so do the pages that sources, tests and scripts cite."""

import re
from functools import cache

import pytest
from conftest import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("host", "bindings", "examples", "tests", "scripts", "cmake", ".ci")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
NAMED = re.compile(r"`((?:scripts|examples|docs|tests|host|bindings|cmake)/[\w./-]*)`")
CITED = re.compile(r"\bdocs/[\w./-]+\.md(?:#[\w-]+)?")


def name(path):
    return str(path.relative_to(ROOT))


@cache
def anchors(page):
    """The #names of a page's headings, as GitHub makes them."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M):
        text = re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")
        found.append(f"{text}-{found.count(text)}" if text in found else text)
    return found


def wrong_link(page, target, anchor):
    """A sentence on a link that leads nowhere; None if it leads somewhere."""
    if target.startswith("http"):
        return None
    path = (page.parent / target).resolve() if target else page
    if not path.exists():
        return f"{name(page)}: {target} does not exist"
    if anchor and anchor[1:] not in anchors(path):
        return f"{name(page)}: {target} has no heading {anchor}"
    return None


def cited(text):
    """The pages of docs/ that a source names, and their anchors."""
    return [(place.partition("#")[0], place.partition("#")[2]) for place in CITED.findall(text)]


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix not in (".pyc", ".ipynb")
                and "data" not in path.parts
            ):
                yield path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_of_a_page(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    wrong = [wrong_link(page, *link) for link in LINK.findall(text)]
    wrong += [f"{name(page)}: {path}" for path in NAMED.findall(text) if not (ROOT / path).exists()]
    assert not [w for w in wrong if w]


def test_pages_that_sources_cite():
    wrong = []
    for path in sources():
        for page, anchor in cited(path.read_text(encoding="utf-8", errors="replace")):
            if not (ROOT / page).exists():
                wrong.append(f"{name(path)}: {page} does not exist")
            elif anchor and anchor not in anchors(ROOT / page):
                wrong.append(f"{name(path)}: {page} has no heading #{anchor}")
    assert not wrong, "\n".join(wrong)


def test_every_page_is_in_the_index():
    docs = ROOT / "docs"
    index = docs / "README.md"
    listed = {(index.parent / target).resolve() for target, _ in LINK.findall(index.read_text())}
    assert not [
        name(page)
        for page in PAGES
        if docs in page.parents and page != index and page not in listed
    ]


def test_wrong_links_are_found(tmp_path):
    page = ROOT / "README.md"
    assert wrong_link(page, "none.md", "") == "README.md: none.md does not exist"
    assert wrong_link(page, "", "#no-such-heading") == "README.md:  has no heading #no-such-heading"
    assert wrong_link(page, "", "#tracehost") is None
    other = tmp_path / "page.md"
    other.write_text("# A `b`: c, d\n## Twice\n## Twice\n```\n# code\n```\n")
    assert anchors(other) == ["a-b-c-d", "twice", "twice-1"]
    # Put together, so that this file cites no page.
    folder = "docs" + "/"
    assert cited(f"see {folder}x/y.md#a-b, {folder}z.md.") == [
        (f"{folder}x/y.md", "a-b"),
        (f"{folder}z.md", ""),
    ]
