"""_python_ops: Python code that a graph calls at each run.

The problem: a graph holds ops. Code that is to run at each call, as Python, becomes an op that calls back.

- py_function.py: the op itself: what goes in, the declared results, gradients, errors with their lines
- numpy_function.py: the same with numpy's arrays in place of tensors
- print.py: `tracehost.print`, a call back without results

A worked example: `y = tracehost.py_function(f, [x], torch.float32)` in a body

    at the trace   the graph gets an op that holds f, with x as its input and y as its output
    at each hit    the op calls f with this call's x, and checks that what comes back is as declared
"""
