"""`tracehost fix`: the fixes of RetraceWarnings, written into the source.

    found.py      the fixes that the processes of the run left (tracehost/_reports/words/fixes.py)
    source.py     a file with its syntax tree: functions, calls, imports; which files are left alone
    arguments.py  where a call passes an argument
    rewrite.py    changes of the syntax tree
    edits.py      what a fix changes, and the text with all changes
    diff.py       the unified diff, whose hunks name the fixes
    fix.py        the command

A fix is written whole or not at all. Only these modules import LibCST.
"""
