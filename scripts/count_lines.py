"""Print the files and the lines of code, comments and blanks of each folder. A docstring is a comment.

`count_lines.py` counts the working tree, `count_lines.py REVISION` a commit.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

PYTHON, CPP = (".py", ".pyi"), (".h", ".cpp")
PRODUCTION = ("host/", "bindings/")
KINDS = ("files", "code", "comments", "blank")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def of_python(text: str) -> Counter[str]:
    """A comment is a line with comments alone, or with a string that is a statement."""
    code: set[int] = set()
    comments: set[int] = set()
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    begins = True  # a statement
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        lines = range(token.start[0], token.end[0] + 1)
        if token.type == tokenize.COMMENT:
            comments.update(lines)
        elif token.type in layout:
            begins = begins or token.type != tokenize.NL
        else:
            (comments if begins and token.type == tokenize.STRING else code).update(lines)
            begins = False
    return counted(text, len(code), len(comments - code))


def of_cpp(text: str) -> Counter[str]:
    """A comment is a line with nothing else; `//` in a string is none."""
    bare = re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', without_comment, text, flags=re.DOTALL)
    lines = [(line.strip(), rest.strip()) for line, rest in zip(text.split("\n"), bare.split("\n"))]
    code = sum(bool(rest) for _, rest in lines)
    return counted(text, code, sum(bool(line) and not rest for line, rest in lines))


def without_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else "\n" * found[0].count("\n")


def counted(text: str, code: int, comments: int) -> Counter[str]:
    blank = text.count("\n") - code - comments
    return Counter(files=1, code=code, comments=comments, blank=blank)


def folder_of(path: str) -> str:
    """`host/tape`, `bindings/src/call`, `tests/python`."""
    parts = path.split("/")[:-1]
    return "/".join(parts[: 3 if parts[0] == "bindings" else 2])


def main(revision: str) -> None:
    listed = git("ls-tree", "-r", "--name-only", revision) if revision else git("ls-files")
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for path in listed.splitlines():
        if "/" not in path or not path.endswith(PYTHON + CPP):
            continue
        if not revision and not Path(path).exists():
            continue
        text = git("show", f"{revision}:{path}") if revision else Path(path).read_text()
        folders[folder_of(path)] += (of_python if path.endswith(PYTHON) else of_cpp)(text)
    sums = {"production": PRODUCTION, "all": ("",)}
    for name, begins in sums.items():
        inside = [count for folder, count in folders.items() if folder.startswith(begins)]
        folders[name] = sum(inside, Counter())
    print(f"{'':34}" + "".join(f"{kind:>10}" for kind in KINDS) + "   comments of lines")
    for folder in [*sorted(folders.keys() - sums.keys()), *sums]:
        count = folders[folder]
        share = count["comments"] / max(count["code"] + count["comments"], 1)
        print(f"{folder:34}" + "".join(f"{count[kind]:10,}" for kind in KINDS) + f"{share:20.1%}")


main(sys.argv[1] if len(sys.argv) > 1 else "")
