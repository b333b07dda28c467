"""_tensor_arrays: lists of tensors that loops of a graph write to, and the loops over rows that are made of them.

The problem: a Python list has no place in a graph, and a loop of the graph has no length that is known at the trace.

- tensor_array.py: TensorArray: a Python list outside of traces, a list value of the graph in a trace
- array.py: its elements one by one; a list that a staged loop appends to has the same (autograph/staging/lists.py)
- elements.py: what an element may be: its dtype, its shape, what is rejected
- array_rows.py: stack, unstack, concat, split: the elements as one tensor, and back
- rows.py: the rows of nested tensors, one after the other
- map_fn.py, scan.py: a function of each row; a value carried over the rows

A worked example: `tracehost.map_fn(f, x)` in a trace

    rows          how many there are: a size of x, which may differ at each call
    looped        (autograph/run/explicit.py) a Loop of the graph: f of row i, written to a TensorArray
    array_rows    stack() of the elements is the result. Without rows, its shape is that of the declared output
"""
