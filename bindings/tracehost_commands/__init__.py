"""Commands of the host that are made in Python.

`tracehost notebook ...` starts `python -P -m tracehost_commands notebook --option=value ... -- words`: the
binary knows the options and has checked them, this package gives them a meaning. Notebooks, kernels and the prompt
import neither torch nor `tracehost`, so that they start at once.

- __main__.py: from the command's name to its module's `main(options, words)`
- notebook/: `tracehost notebook` and `tracehost kernel`;   bench/: `tracehost bench`
- repl.py, doctor.py, export.py, inspect.py, report.py, lock.py: a command each
- options.py: `--name=value` into the fields of a dataclass;   errors.py: what ends a command;   signals.py: Ctrl-C
- target.py, arguments.py: `module:function`, and `f32[?,128]` as arguments
"""
