"""Commands of the host: all but `run`.

`tracehost notebook ...` starts `python -P -m tracehost_commands notebook ...`: the binary hands the words over as they
are, and argparse reads them here. Help, completion, notebooks, kernels and the prompt import neither torch nor
`tracehost`, so that they start at once.

- __main__.py: from the command's name to its module's `main(options, words)`
- commands.py: the table: help and options of each command;   options.py: what an option's values and variable may be
- reading.py: a command line and variables become the fields of a namespace
- help.py, manual.py: texts from the table;   completion.py: what a shell offers, for the scripts tracehost.bash ...
- notebook/: `tracehost notebook` and `tracehost kernel`;   bench/, fix/, doctor/: a command each
- repl.py, export.py, inspect.py, report.py, lock.py: a command each
- errors.py: what ends a command;   files.py: a file, written whole;   signals.py: Ctrl-C;
  running.py: a program in a process of its own
- target.py, arguments.py: `module:function`, and `f32[?,128]` as arguments
"""
