"""conversion: from a function's source to code that asks an operator wherever Python would read a truth.

The problem: Python decides `if x.sum() > 0:` by itself, and tracing would record one of the two paths. So the
function is written again. Each `if`, `while`, `for`, `and`, `or`, `not`, `assert`, comparison and call becomes a call
of an operator, and each block becomes a function that the operator may run. Nothing is run here.

The way of a function:

- policy.py, libraries.py: whether this code is converted at all. The user's is, library code is left alone
- source.py: the syntax tree of a function object, with the file's own lines
- `rejection.py`, text.py: what in it can't be taken apart; quick searches of the source
- statements.py: the whole function, statement by statement. It is the head of these two:
  control.py for `if`, `while` and `for`; expressions.py (asking.py: `any(v > 0 for v in x)`) for what has a value
- match.py, lower.py: before that, `match` becomes ifs, and break, continue and return become flags
- scopes.py, liveness.py, blocks.py: which names a block assigns, which of them are read later, and the functions
  that read and write them
- nodes.py, undefined.py: short makers of tree nodes; what a variable holds before its first assignment
- compile.py: the tree becomes a code object. It is kept for the original code object, and forgotten with it

A worked example. `def f(x)` with this body

    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    return y

becomes (`ag__` is the module run/operators.py, which the code finds in a cell of its closure)

    y = ag__.Undefined('y')
    def ag__body():
        nonlocal y
        y = x * 2
    def ag__orelse():
        nonlocal y
        y = -x
    def ag__set_state(ag__state):
        nonlocal y
        y, = ag__state
    ag__.if_stmt(ag__.call(x.sum)() > 0, ag__body, ag__orelse, lambda: (y,), ag__set_state, ('y',))
    return ag__.ld(y)

`tracehost.autograph.to_code(f)` shows this for any function.
"""
