"""Programs of the shared themes that differ from eager so far, by cause. SILENT: another result. WRONGERR: another
exception. `REFUSED`: an error that tracehost raises."""

NOT_RIGHT = {
    # Control flow on tensors.
    "branch_dtype": "REFUSED",
    "try_op_error": "REFUSED",
    "cholesky_retry": "WRONGERR",
    # Draws by numpy, which a TraceWarning reports.
    "np_random_shuffle": "SILENT",
    "np_rng_instance": "SILENT",
    # A nested tensor is rejected. In eager the program itself ends when it records that argument.
    "nested_tensor": "SILENT",
    # A numpy scalar that is passed is a tensor to the body.
    "numbers_bool_int_float": "SILENT",
    # Other results.
    "ao_quant_dynamic": "WRONGERR",
    # Unsupported, with the line: what a graph can't do, or not yet.
    "meta_storage_bytes": "REFUSED",
    "rng_fork_inside": "REFUSED",
    "sparse_nnz": "REFUSED",
    "subclass_plain": "REFUSED",
}

# Two threads of a forked process call backward() for the first time at once. PyTorch then makes a new autograd engine
# without a lock. Seldom one thread makes it while another one starts the engine's threads, and the process hangs
# or dies. This also happens without a traced function.
RACES_IN_TORCH = {"th_train_two_models"}
