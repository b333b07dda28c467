"""_reports: what a Function has traced and why, as text, tables and pictures.

The problem: whether a call was a hit shows in its time alone. The modules here show what C++ counts and notes.

- introspection.py: `explain`, `specializations`: plain objects, and their texts
- report.py: `tracehost.report()`, `events()` and the table at exit
- at_exit.py: what `--report`, `--metrics-file`, `--events` and `--max-retraces` ask for, at the end and at SIGTERM
- run.py, page.py: all that a run did as data, read from its events, and as a page
- monitor.py: `trace_monitor`, a decorator that watches the Function below it
- html.py, drawing.py, magics.py: what a notebook shows, a graph as a picture, `%load_ext tracehost`
- variables.py: what environment variables say of calls, applied once at import

A worked example: `tracehost --report script.py`

    the binary     sets TRACEHOST_REPORT
    at_exit        reads it when tracehost is imported, and is called again at exit
    at exit        a row of each Function: calls, hits, traces, and the cause of the last retrace
"""
