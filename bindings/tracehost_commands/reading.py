"""A command line as a command gets it: options and variables as one namespace, and the other words.

What commands share with `run` reaches the user's code by the environment, as the binary does it for programs."""

from __future__ import annotations

import os
from argparse import Namespace

from .commands import commands
from .options import Given


def read(name: str, words: list[str]) -> tuple[Namespace, list[str]]:
    """The options of a command as fields, and its other words; `given` is the list of what says something.

    Raises:
        UsageError: an option is unknown, or a value is wrong
    """
    command = commands()[name]
    found, rest = command.split(words, _elsewhere)
    given = found | command.from_variables(found)
    options = Namespace(given=list(given.values()))
    for option in command.settings():
        said = given.get(option.dest)
        setattr(options, option.dest, option.fallback if said is None else said.value)
        if option.shared and option.name != "python":  # that is the binary's
            # What an option excludes is not to reach the program as a variable.
            os.environ.pop(option.variable, None)
            if said is not None:
                os.environ[option.variable] = "\n".join(said.texts)
    return options, rest


def all_given(given: list[Given]) -> list[Given]:
    """What is set for any command: `given`, and what variables say. Raises UsageError for a wrong value."""
    found = {(one.option.full_name): one for one in given}
    for command in commands().values():
        own = {one.option.dest: one for one in given if one.option in command.options}
        for one in command.from_variables(own).values():
            found.setdefault(one.option.full_name, one)
    return list(found.values())


def _elsewhere(option: str) -> bool:
    return any(option in (o.name for o in command.options) for command in commands().values())
