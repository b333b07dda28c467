"""staging: control flow on traced values, recorded as control flow of the graph.

The problem: a graph must hold both branches of an `if`, and a loop's body once, while Python runs one path. What a
block assigns has to become the outputs of a node. What a block changes elsewhere has to be undone, or is unsupported.

How a block is staged. Its state is the variables that it assigns, taken apart into tensors. The block's function runs
while the tracer records into a sub-block. Then the state is taken apart again, and the old one is restored. Each
variable that differs becomes an output of the node.

- branches.py: `if`. The branch that is taken runs for real, the other one on fake tensors
- join.py: what the two branches leave, made one per variable: tensors, numbers, or an error where it is used
- loops.py: `while` and `for`. attempts.py: the body is staged again until all is known of what it carries
- carried.py, loop_errors.py: what a loop carries, and why it can't be staged; options.py: what the user says of it
- conditions.py: conditional expressions, `and`, `or`, `not`, `assert`: staged ifs that have a value
- iterables.py: what a staged `for` goes over; and `is_staged`, which all operators ask first
- state.py: variables apart and together; identity.py: which of their lists and dicts are one object
- stores.py, snapshots.py, containers.py: attributes that called code sets, what a block could change besides, and
  changes of containers, which a graph would not repeat
- lists.py: a list that a staged loop appends to, as a list of the graph
- where.py: the user's line, for messages; and what a body would catch, which a graph can't

A worked example. `if_stmt` of the function in the overview of conversion gives

    %5 : bool = aten::Bool(%4)              the condition, x.sum() > 0
    %6 : Tensor = prim::If(%5)
      block0():
        %9 : Tensor = aten::mul(%x, %8)     y = x * 2
        -> (%9)
      block1():
        %10 : Tensor = aten::neg(%x)        y = -x
        -> (%10)

and the variable y is %6 from then on. Code that is not converted stages too: `tracehost.cond` and `while_loop`
(run/explicit.py) come here with the user's own functions as blocks.
"""
