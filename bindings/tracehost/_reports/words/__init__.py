"""The words of retraces: causes, fixes that were tried on the recorded calls, warnings, the table.

C++ keeps the facts (host/report): which traces there were, how each differs from the nearest graph, when a warning is
due. The modules, each over those before:

    records.py    the facts as Python's objects
    source.py     what the text of the function says: which arguments it reads, and where
    uses.py       what the body does with a number or a size
    causes.py     the differences of many traces, put together and said in a sentence
    numbers.py    which numbers can be tensors
    declared.py   the narrowest input_signature that takes some calls
    replay.py     the recorded calls again, under another decorator or with other arguments
    calls.py      what calls write for an argument, and where
    changes.py    what calls pass instead, for each kind of cause
    remedies.py   which fixes there are
    choice.py     which of them are shown, with what they save
    advice.py     where to look if there is no fix
    warning.py    the text of a warning
    table.py      the table of all Functions
    fixes.py      the fixes as data, for `tracehost fix`
"""
