"""Names of TensorFlow that are no attributes here: the AttributeError says what to write.

docs/start/coming-from-tensorflow.md has the whole list.
"""

from __future__ import annotations

from typing import Any, NoReturn

OF_MODULE = {
    "GradientTape": "call loss.backward(), or torch.autograd.grad(loss, tensors)",
    "Module": "write torch.nn.Module",
    "Operation": "a ConcreteFunction's `graph` has nodes",
    "RaggedTensorSpec": "only tensors are declared, by TensorSpec",
    "SparseTensorSpec": "only tensors are declared, by TensorSpec",
    "Tensor": "write torch.Tensor",
    "Variable": "use a torch.nn.Parameter, or a tensor that the body changes in place",
    "config": "run_functions_eagerly() and stance() are functions of tracehost",
    "constant": "write torch.tensor(value)",
    "control_dependencies": "ops keep the order of the body",
    "convert_to_tensor": "write torch.as_tensor(value)",
    "custom_gradient": "write a torch.autograd.Function",
    "data": "write torch.utils.data.DataLoader",
    "experimental": "these functions are attributes of tracehost and of tracehost.autograph",
    "foldl": "write a `for` loop, or tracehost.while_loop",
    "foldr": "write a `for` loop, or tracehost.while_loop",
    "gradients": "call torch.autograd.grad(results, tensors)",
    "group": "ops keep the order of the body",
    "keras": "write torch.nn",
    "saved_model": "call tracehost.save and tracehost.load",
    "stop_gradient": "call x.detach()",
    "vectorized_map": "call torch.vmap, outside of the function",
}
OF_FUNCTION = {
    "experimental_get_compiler_ir": "`graph` and `code` of a ConcreteFunction show what runs",
    "function_spec": "specializations() lists what the graphs are for",
    "function_type": "specializations() lists what the graphs are for",
    "inputs": "a ConcreteFunction has `inputs`",
    "outputs": "a ConcreteFunction has `outputs`",
    "structured_outputs": "a ConcreteFunction has `structured_outputs`",
    "trainable_variables": "call parameters() of a ConcreteFunction",
    "variables": "call parameters() and buffers() of a ConcreteFunction",
}
# Options of tf's control flow.
OF_CALLS = {
    "back_prop": "leave it out; for False write `with torch.no_grad():` around the call",
    "infer_shape": "leave it out: shapes are those of the results",
    "name": "leave it out",
    "parallel_iterations": "leave it out: iterations run in order",
    "return_same_structure": "leave it out: the result has the structure of loop_vars",
    "strict": "leave it out",
    "swap_memory": "leave it out",
}
OF_CONCRETE = {
    "add_to_graph": "call it, or save it with tracehost.save",
    "function_def": "`graph` and `code` show what runs",
    "function_type": "`structured_input_signature` says what it takes",
    "inference_fn": "`graph` and `code` show what runs",
    "replace_capture_with_deferred_capture": "captures are read again at each call",
    "set_variables": "captures are read again at each call",
    "trainable_variables": "call parameters()",
    "variables": "call parameters() and buffers()",
}


def check_options(what: str, options: dict[str, Any]) -> None:
    """Raises TypeError for a keyword that the function `what` does not take."""
    for name in options:
        hint = OF_CALLS.get(name)
        message = f"{what}() got an unexpected keyword argument {name!r}"
        raise TypeError(f"{message}: {hint}" if hint else message)


def missing(owner: Any, what: str, name: str, hints: dict[str, str]) -> NoReturn:
    """Raises the AttributeError of `owner`, which is `what`."""
    hint = hints.get(name)
    message = f"{what} has no attribute {name!r}"
    raise AttributeError(f"{message}: {hint}" if hint else message, name=name, obj=owner)
