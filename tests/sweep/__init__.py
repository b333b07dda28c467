"""Nets that show that a trace is right, or unsupported: PyTorch's operator database, and random programs.

    cd tests && tracehost -m sweep        every op (scripts/test --sweep runs it, and more)

operators.py has the ops as calls, check.py runs one op, __main__.py all of them in processes of their own.
`rejected.toml` lists what is unsupported and why, exactly. programs.py makes random programs, and runs one.
"""
