"""`tracehost doctor`: does all that tracehost needs fit together, and what is set by whom?

- checks.py: the checks that import neither torch nor tracehost; `tracehost --version`
- with_torch.py: the checks that import both: in a child process, so that a crash there is a finding
- doctor.py: the command: all checks, shown as they come or as one document, and the settings

Where no Python starts, the binary says so (host/cli/doctor.cpp).
"""
