"""A row of the table of parity tests, and what many rows have in common."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """`args` follow the executable; a row with `shell` runs that line of bash instead. `files` are written
    into the working directory first. "{exe}" in files, shell and env stands for the executable under test.
    A row with `send` waits for the first line of output and for
    the program to wait, then sends the signal. A row with `types` has a
    terminal: each text is typed when the output ends with the prompt before it."""

    name: str
    args: tuple = ()
    files: dict[str, str | bytes] = field(default_factory=dict)
    stdin: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    shell: str = ""
    send: int = 0
    spins: bool = False  # never waits: the signal is sent after the first line
    types: tuple[tuple[str, str], ...] = ()
    slow: bool = False  # takes more than a second: for one personality only
    status: int | None = None  # where the number itself matters: both must return it


def c(name: str, code: str, *more: str, **keywords) -> Row:
    return Row(name, ("-c", code, *more), **keywords)


def script(name: str, code: str, *more: str, files=None, **keywords) -> Row:
    return Row(name, ("s.py", *more), files={"s.py": code, **(files or {})}, **keywords)


def module(name: str, *args: str, **keywords) -> Row:
    return Row(name, ("-m", *args), **keywords)


SHOW_ARGV = "import sys; print([a.encode('utf-8', 'surrogateescape') for a in sys.argv])\n"
SHOW_WHERE = (
    "import sys\n"
    "print(sys.path[0], sys.argv, __name__, globals().get('__file__'), __spec__ and __spec__.name, __package__)\n"
    "print(__loader__ and type(__loader__).__name__, sys.prefix, sys.base_prefix, sys.exec_prefix)\n"
)
