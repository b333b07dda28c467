"""Runs a function and what autograph made of it, and compares all that can be seen."""

import copy
import re
import traceback

from tracehost.autograph.run.calls import convert_callable
from tracehost.autograph.run.traceback import clean_traceback


def counting(traces):
    """A decorator that notes how many traces a body has: `@traces(2)`."""

    def noted(count):
        def add(body):
            traces[body] = count
            return body

        return add

    return noted


def outcome(f, args, log=None):
    """Result, or exception with type, text and the lines of its traceback; arguments afterwards; log."""
    given = copy.deepcopy(args)
    try:
        result = ("returned", repr(f(*given)))
    except Exception as error:
        clean_traceback(error)
        frames = traceback.extract_tb(error.__traceback__)[1:]
        places = [(f.filename, f.lineno, f.name) for f in frames]
        result = ("raised", type(error), str(error), places)
    seen = None if log is None else list(log)
    if log is not None:
        log.clear()
    return result, re.sub(r" at 0x\w+", "", repr(given)), seen


def same(f, *calls, log=None):
    """Each call (a tuple of arguments) must do the same converted as not; the converted function."""
    made = convert_callable(f)
    assert made is not f, f"{f} was not converted"
    for args in calls:
        plain, converted = outcome(f, args, log), outcome(made, args, log)
        assert converted == plain, f"{f.__name__}{args}"
    return made


CHECKED = []


def checked(x):
    assert x > 0, f"{CHECKED.append('message')}: {x} is not positive"
    assert x != 3
    assert x is not None, CHECKED.append("never")
    return x
