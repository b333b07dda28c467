"""The list of functions that use a construct of Python, and inputs for them."""

LOG = []


def note(name, value=None):
    LOG.append(name)
    return value


NUMBERS = [(n,) for n in (-7, -1, 0, 1, 2, 3, 5, 12, 60)]
CASES = []


def case(*calls):
    def keep(f):
        CASES.append((f, calls))
        return f

    return keep
