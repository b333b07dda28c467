"""Programs of the shared themes that are not as eager yet, by cause: SILENT (another result), WRONGERR (another exception),
`REFUSED` (an error that tracehost raises)."""

NOT_RIGHT = {
    # Control flow on tensors.
    "try_op_error": "REFUSED",
    "cholesky_retry": "WRONGERR",
    # Draws of numpy, reported by a TraceWarning.
    "np_random_shuffle": "SILENT",
    "np_rng_instance": "SILENT",
    # A nested tensor is rejected; eagerly the program itself ends, when it records that argument.
    "nested_tensor": "SILENT",
    # A numpy scalar that is passed is a tensor to the body.
    "numbers_bool_int_float": "SILENT",
    # Other results.
    "ao_quant_dynamic": "WRONGERR",
    # Unsupported, with a line: what a graph can't do, or not yet.
    "meta_storage_bytes": "REFUSED",
    "rng_fork_inside": "REFUSED",
    "sparse_nnz": "REFUSED",
    "subclass_plain": "REFUSED",
}

# Two threads of a forked process call backward() for the first time at once. PyTorch then makes its autograd engine
# again, without a lock: seldom one thread does so while another one starts the engine's threads, and the process
# hangs or dies. It did without a traced function, too.
RACES_IN_TORCH = {"th_train_two_models"}
