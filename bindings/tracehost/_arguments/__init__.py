"""_arguments: what the user gives, as what a call is compared by, and as tensors.

The problem: a user writes `dtype="float32"`, a numpy array, a nested list, or an instance of a class that says what it is
compared by. C++ compares calls, and asks here where Python's own objects have to be taken apart.

- signature.py: `input_signature`: what may be declared, and a call's values made to fit it
- tensor_spec.py, dtypes.py: TensorSpec with a dtype by name or as numpy's
- meant.py: the TensorSpec that a shape or a dtype was written for, in messages
- values.py, arrays.py: Python values and numpy's arrays as tensors
- trees.py: containers taken apart into leaves, and put together again
- user_types.py: what the methods of a trace type are given

A worked example: `@tracehost.function(input_signature=[TensorSpec([None], "float32")])` called with `[1, 2]`

    dtypes        "float32" is torch.float32
    signature     the declared parameter takes one tensor of rank 1; the call gives a list of ints
    values        torch.tensor([1., 2.]), which fits. A string would be a SignatureError that shows both
"""
