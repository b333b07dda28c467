"""`tracehost doctor`: does all that tracehost needs fit together, and what is set by whom?

- doctor.py: the command: all checks, shown as they come or as one document, and the settings
- findings.py: what a check finds
- installed.py: what installed files say of Python, torch and tracehost; `tracehost --version`, too
- with_torch.py: what is found with torch imported: in a child process, so that a crash there is a finding

Where no Python starts, the binary says so (host/cli/doctor.cpp).
"""
