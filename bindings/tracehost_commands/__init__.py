"""Commands of the host that are made in Python: notebook, kernel, repl.

`tracehost notebook ...` starts `python -P -m tracehost_commands notebook --option=value ... -- words`: the
binary knows the options and has checked them, this package gives them a meaning. It imports neither torch nor
`tracehost`, so that it starts at once; a kernel does, if its notebook does.
"""
