"""docs/start/coming-from-tensorflow.md names all of tf's names, and only such tracehost names as exist."""

import inspect
import re

import pytest
import tracehost
from conftest import ROOT

PAGE = (ROOT / "docs" / "start" / "coming-from-tensorflow.md").read_text(encoding="utf-8")

TF = {
    "options of tf.function": "func input_signature autograph jit_compile reduce_retracing "
    "experimental_implements experimental_autograph_options experimental_attributes "
    "experimental_relax_shapes experimental_compile experimental_follow_type_hints",
    "Function": "get_concrete_function python_function input_signature name function_spec function_type "
    "pretty_printed_concrete_signatures experimental_get_tracing_count experimental_get_compiler_ir "
    "get_initialization_function PolymorphicFunction GenericFunction",
    "ConcreteFunction": "graph name inputs outputs structured_input_signature structured_outputs "
    "output_dtypes output_shapes captured_inputs variables trainable_variables set_external_captures "
    "replace_capture_with_deferred_capture set_variables pretty_printed_signature function_type function_def "
    "inference_fn add_to_graph add_gradient_functions_to_graph",
    "TensorSpec": "shape dtype name value_type from_tensor from_spec is_compatible_with is_subtype_of "
    "most_specific_common_supertype most_specific_compatible_type cast flatten from_tensors to_tensors "
    "placeholder_value experimental_as_proto experimental_from_proto experimental_type_proto",
    "TensorArray": "dtype size dynamic_size clear_after_read tensor_array_name handle flow infer_shape "
    "element_shape colocate_with_first_write_call write read stack unstack gather scatter concat split "
    "identity close grad",
    "autograph": "to_code to_graph set_verbosity trace do_not_convert set_loop_options Feature "
    "parallel_iterations swap_memory shape_invariants maximum_iterations AUTOGRAPH_VERBOSITY",
    "config": "run_functions_eagerly functions_run_eagerly experimental_run_functions_eagerly "
    "experimental_functions_run_eagerly enable_op_determinism set_jit get_jit set_experimental_options "
    "get_experimental_options set_intra_op_parallelism_threads set_inter_op_parallelism_threads "
    "set_soft_device_placement get_soft_device_placement set_device_policy set_synchronous_execution",
    "beside": "cond case switch_case while_loop range map_fn scan foldl foldr vectorized_map py_function "
    "numpy_function print executing_eagerly inside_function init_scope Variable GradientTape custom_gradient "
    "recompute_grad stop_gradient SupportsTracingProtocol TraceType TracingContext",
}


@pytest.mark.parametrize("names", TF.values(), ids=TF.keys())
def test_each_name_of_tfs_is_there(names):
    missing = [name for name in names.split() if not re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE)]
    assert missing == []


def test_what_it_says_of_ours_exists():
    for path in set(re.findall(r"`tracehost\.([a-zA-Z_.]+)", PAGE)):
        owner = tracehost
        for name in path.rstrip(".").split("."):
            owner = getattr(owner, name)
    for kind, letter in ((tracehost.Function, "f"), (tracehost.ConcreteFunction, "cf")):
        for row in re.findall(r"^\| .*\| (?!no counterpart)(.*) \|$", PAGE, re.MULTILINE):
            for name in re.findall(rf"`{letter}\.(\w+)", row):
                assert hasattr(kind, name), (kind, name)


def test_the_signature_of_tensor_array():
    shown = re.search(r"^`TensorArray\((.*?)\)`$", PAGE, re.MULTILINE | re.DOTALL)[1]
    parameters = inspect.signature(tracehost.TensorArray).parameters.values()
    ours = ", ".join(
        ("*, " if p.name == "infer_shape" else "") + f"{p.name}={p.default}" for p in parameters
    )
    assert " ".join(shown.split()) == ours


def test_import_of_all_names_leaves_pythons_print():
    names = {}
    exec("from tracehost import *", names)
    assert "print" not in names and names["map_fn"] is tracehost.map_fn
    assert all(hasattr(tracehost, name) for name in tracehost.__all__)
    assert sorted(set(tracehost.__all__)) == sorted(tracehost.__all__)
