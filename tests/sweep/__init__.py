"""Sweeps check that a trace is right or unsupported, over PyTorch's operator database and random programs.

    cd tests && tracehost -m sweep        every op (scripts/test --sweep runs it, and more)

operators.py has the ops as calls, check.py runs one op, __main__.py all of them in processes of their own.
`refused.toml` lists exactly what is unsupported, and why. programs.py makes random programs, and runs one.
"""
