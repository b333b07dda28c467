"""_traced: what stands for a value while a body is traced, and what Python does for the tracer.

The problem: a body that is traced asks for numbers, runs backward passes and calls code that a graph can't hold. The
tracer is C++ and records ops. What has to look like Python to the body is here.

- traced_number.py: a bool, int or float that may differ at a later call: `t.item()`, a size
- fake_tensors.py: tensors without data, from which a function is traced by its signature alone
- engine.py: `backward()` in a trace as an op of the graph
- foreign.py, custom_forward.py: an `autograd.Function`, which each run calls again; its forward, recorded as ops
- closed_over.py: what such a call reaches by itself (closures, attributes), as inputs of it
- raised.py: exceptions that a graph raises, with their arguments and attributes
- shown_calls.py: whether print() or a logger shows what is computed now
- kernels.py: kernels of torch.library in place of ATen's, which no tape calls
- numbers_left.py: Python's numbers in place of traced ones that a body left somewhere in the program

A worked example: the body `x * x.max().item()` at the trace, and at later calls

    item()        asks C++ for the number, which is a value of the graph: a TracedNumber of class float, here 2.0
    x * number    TracedNumber gives the op the graph's value, so that later calls multiply by their own maximum
    at the end    numbers_left finds a TracedNumber that the body put into a list of the program: it becomes 2.0
"""
