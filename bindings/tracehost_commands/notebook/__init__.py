"""`tracehost notebook` and `tracehost kernel`: notebooks run from the command line, by our own binary.

The problem: a notebook has to run like a script, with exit codes, parameters and progress, and its file must never be
lost. What a cell does to its process (a crash, an exit, a signal) must not end the command that reports it. So the
cells run in a kernel, which is a process of its own.

- notebook.py: the command: options, from where, to where; several notebooks are one process each
- document.py: the file: read with clear errors, written so that nothing is lost, as HTML
- parameters.py: `--param` into a tagged cell
- runner.py: all cells of one notebook: saves, progress, the summary, the exit code
- kernel_engine.py: one cell after another in the kernel; outcome.py: how one ended; streams.py: its outputs
- in_kernel.py: what the kernel does after each cell. This module alone is imported over there
- progress.py, retraces.py: a bar or lines; what was traced in each cell
- kernel.py: the other command: an entry in Jupyter's list of kernels

A worked example: `tracehost notebook train.ipynb --param epochs=3`

    main()            reads the words; document.read() the file
    parameters        puts a cell `epochs = 3` behind the one that is tagged `parameters`
    Runner.run()      asks KernelEngine for each cell; notes its Outcome, and saves every 30 s
    KernelEngine      sends the cell's source, then AFTER_CELL, which answers with the traces since the cell before
    Retraces          prints the table at the end; the exit code is 0, or that of the first cell that failed

Nothing here imports torch or tracehost: the command starts at once, and the kernel does, if its notebook does.
"""
