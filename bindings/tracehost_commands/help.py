"""Help texts: `tracehost help`, and that of each command."""

from __future__ import annotations

import textwrap

from .commands import commands
from .errors import UsageError
from .options import FLAG, Command, Option, nearest

_FORMS = """\
[OPTION...] SCRIPT [ARG...]
[OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]
COMMAND ..."""
WHAT_IT_IS = """\
Runs a Python program as python does. In it, @tracehost.function turns PyTorch
functions into cached TorchScript graphs, one for each call signature."""
_WHERE_OPTIONS_STAND = """
Options stand before the script; what follows the script belongs to it. Python's
own short options (-u, -O, -W ARG, -X OPT, -i ...) are taken as well.
"""
_LEAST = 18  # columns of the left side


def help_of(words: list[str]) -> str:
    """Of the tool, or of the command that is named. Raises UsageError if there is none of that name."""
    if not words:
        return _general()
    name = words[0]
    if name in commands():
        return _of_command(commands()[name])
    raise UsageError(f"no command '{name}'{_meant(name)} (try 'tracehost help')")


def misspelt(word: str) -> str:
    """What is wrong with an option of `run`, or with a first word that is neither a file nor a command."""
    if word.startswith("--"):
        return commands()["run"].unknown(word, lambda option: False)
    return f"'{word}' is neither a file nor a command{_meant(word)} (try 'tracehost help')"


def _meant(word: str) -> str:
    meant = nearest(word, commands())
    return f"; did you mean '{meant}'?" if meant else f"; the commands are {', '.join(commands())}"


def spelled(option: Option) -> str:
    """`-o, --output OUT`"""
    left = ", ".join(option.option_strings)
    if option.kind is FLAG:
        return left
    takes = "NAME" if _has_many_choices(option) else option.metavar
    return f"{left}[={takes}]" if option.nargs == "?" else f"{left} {takes}"


def about(option: Option) -> str:
    """The summary; it has the choices where they are too long for the left side."""
    return f"{option.help}: {option.kind.takes}" if _has_many_choices(option) else f"{option.help}"


def variables(command: Command) -> str:
    """How variables are named, by the example of an option: the command's own rather than a shared one, one with a
    value rather than a flag."""
    options = command.settings()
    if not options:
        return ""
    best = max(options, key=lambda o: (not o.shared, o.kind is not FLAG and not o.repeats and o.nargs != "?"))  # fmt: skip
    return f"Each option has an environment variable, too: --{best.name} has {best.variable}. `tracehost doctor` shows what is set."


def _general() -> str:
    shown = "".join(f"  {name:{_LEAST - 2}}  {c.description}\n" for name, c in commands().items())
    run = commands()["run"]
    return f"{_usage(_FORMS)}\n{WHAT_IT_IS}\n\ncommands:\n{shown}{_options(run)}{_WHERE_OPTIONS_STAND}{_variables(run)}"


def _of_command(command: Command) -> str:
    detail = f"{command.epilog}\n" if command.epilog else ""
    usage = _usage(command.usage or "")
    return f"{usage}\n{command.description}\n{detail}{_options(command)}{_variables(command)}"


def _usage(forms: str) -> str:
    first, *others = forms.split("\n")
    return "".join([f"usage: tracehost {first}\n", *(f"       tracehost {o}\n" for o in others)])


def _options(command: Command) -> str:
    if not command.options:
        return ""
    width = max(_LEAST, *(len(spelled(option)) + 2 for option in command.options))
    lines = ["\noptions:\n"]
    for option in command.options:
        left = spelled(option)
        for part in about(option).split("\n"):
            for line in textwrap.wrap(part, 80 - width - 2, break_on_hyphens=False):
                lines.append(f"  {left:{width}}{line}\n")
                left = ""
    return "".join(lines)


def _variables(command: Command) -> str:
    text = variables(command)
    return "\n" + textwrap.fill(text, 80, break_on_hyphens=False) + "\n" if text else ""


def _has_many_choices(option: Option) -> bool:
    return len("|".join(option.kind.choices)) > 24
