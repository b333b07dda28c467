"""run: what converted code calls. A Python value means what it means in Python; a traced one is staged.

The problem: converted code must behave as the user's own where nothing is traced: the same values, exceptions,
order of evaluation and tracebacks. Only where a value belongs to the trace the graph gets the control flow.

- operators.py: the module that generated code knows as `ag__`; an operator for each statement and expression
- calls.py: `ag__.call(f)`: the converted function for the user's own, a traced one for builtins and `math`, else `f`
- flags.py: which arguments of an op are bools, of which torch takes no traced one
- reductions.py, asking.py, membership.py: `any`, `all`, `min`, `max`, `sorted` and `in` of what is traced
- numbers.py, subscripts.py, places.py: tensors made of numbers; `x[i]` by a traced index; `self.x` as a block's state
- shown.py: `print`, loggers and exceptions, which show this call's values
- explicit.py, cases.py: control flow by name: `tracehost.cond`, `while_loop`, `range`, `case`, `switch_case`
- traceback.py: tracebacks without these frames; why a condition was left to Python

A worked example, `if_stmt` in full:

    def if_stmt(cond, body, orelse, get_state, set_state, names, rest=NO_REST, dead=()):
        if is_staged(cond):           # a tensor or number of this thread's trace
            branches.stage(cond, (body, orelse), get_state, set_state, names, "if", (), rest, dead)
        elif cond:                    # anything else: Python's own if
            body()
        else:
            orelse()

The folders import one way: conversion knows nothing of the other two, staging knows conversion's names of variables, run
knows both.
"""
