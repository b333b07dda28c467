"""Programs of the shared themes that are not as eager yet, by cause: SILENT (another result), WRONGERR (another exception),
FALSEERR (an exception that eager does not raise), WARNED (another result, and a warning that says so), `REFUSED` (an error
that tracehost raises), RETRACES (as eager, and ten calls without a hit)."""

NOT_RIGHT = {
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

# The same of the second hunt.
NOT_RIGHT |= {
    # A number that C code keeps where no slot and no collector leads: it is a TracedNumber there.
    "leak_np_object_number": "SILENT",
    # `__index__` of the user's class gives C code a traced number.
    "cs_userobj_index": "FALSEERR",
    # As tf.function: a list for a TensorSpec becomes a tensor.
    "sig_dtype_cast": "SILENT",
    # The body passes its own name on: that is the Function.
    "passes_itself": "SILENT",
    # Stores outside of every `if` that no graph can repeat, with a SideEffectWarning.
    "leak_counter_in_closure": "WARNED",
    "list_append_string": "WARNED",
    # The clock, files and draws of Python and numpy, with a TraceWarning.
    "path_exists_read": "WARNED",
    "time_time": "WARNED",
    "random_module_kept": "WARNED",
    "np_random_legacy_kept": "WARNED",
    "own_random_instance": "WARNED",
    # Results that a later call could not make again.
    "cs_set_of": "REFUSED",
    "ri_set": "REFUSED",
    "ri_dataclass_key": "REFUSED",
    "rk_fraction": "REFUSED",
    "ri_lambda_": "REFUSED",
    "ri_iter_": "REFUSED",
    "ri_obj_key": "REFUSED",
    "tensor_subclass_torch_function": "REFUSED",
    # What no graph has.
    "decorated_async": "REFUSED",
    "threadpool_map_body": "REFUSED",
    "torch_rng_state_read": "REFUSED",
    "generator_made_in_body": "REFUSED",
    "spec_param_data_restore": "REFUSED",
    "module_to_double_in_body": "REFUSED",
    "lbfgs_closure": "REFUSED",
    "data_ptr_compare": "REFUSED",
    "is_shared_read": "REFUSED",
    "sparse_nnz_change": "REFUSED",
    "quant_scale_read": "REFUSED",
    # As eager. A new object at each call is another signature.
    "lambda_ids_reused": "RETRACES",
    "object_ids_reused": "RETRACES",
    "module_ids_reused": "RETRACES",
    "bound_method_new_obj": "RETRACES",
    # As eager. What a counter is made into differs at each call.
    "bit_length_method": "RETRACES",
    "counter_namedtuple": "RETRACES",
    "counter_json_dump": "RETRACES",
    "counter_repr": "RETRACES",
    "counter_decimal": "RETRACES",
    "counter_npint": "RETRACES",
    "counter_ndarray": "RETRACES",
    "counter_str_grow": "RETRACES",
    "counter_bytes": "RETRACES",
    "counter_tuple_grow": "RETRACES",
    "counter_dict_merge": "RETRACES",
    "math_gcd_comb": "RETRACES",
    "ordereddict_lru": "RETRACES",
}

# Two threads of a forked process call backward() for the first time at once. PyTorch then makes its autograd engine
# again, without a lock: seldom one thread does so while another one starts the engine's threads, and the process
# hangs or dies. It did without a traced function, too.
RACES_IN_TORCH = {"th_train_two_models"}
