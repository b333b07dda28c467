#include "archive/graph_check.h"

#include "archive/error.h"
#include "archive/lower.h"
#include "program/numbers.h"
#include "program/undo.h"
#include "shapes/op_names.h"

#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

const auto kPrims =
    op_names("prim::Constant prim::If prim::Loop prim::ListConstruct prim::ListUnpack "
             "prim::Uninitialized prim::device prim::dtype prim::layout prim::TupleConstruct "
             "prim::TupleUnpack prim::TupleIndex prim::NumToTensor prim::RaiseException "
             "prim::is_meta prim::data prim::requires_grad prim::min prim::max prim::abs");

const std::unordered_set<std::string_view> kRejected = {
    // files, output, other processes
    "aten::save", "aten::from_file", "aten::_print", "aten::warn",
    // sizes and indices that nothing checks
    "aten::_reshape_alias", "aten::set_", "aten::record_stream", "aten::_unsafe_index",
    "aten::_unsafe_index_put", "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate", "aten::_sparse_coo_tensor_unsafe",
    "aten::_sparse_compressed_tensor_unsafe", "aten::_sparse_csr_tensor_unsafe",
    "aten::_sparse_csc_tensor_unsafe", "aten::_sparse_bsr_tensor_unsafe",
    "aten::_sparse_bsc_tensor_unsafe", "aten::_nested_view_from_buffer",
    "aten::_nested_view_from_buffer_copy", "aten::_resize_output", "aten::_resize_output_",
    // divisions of numbers that trap, and sums of text
    "aten::floordiv", "aten::__range_length", "aten::__derive_index", "aten::divmod",
    "aten::factorial", "aten::mod"};

const std::unordered_set<std::string_view> kOwn = {"tracehost::view_dtype",
                                                   "tracehost::keep",
                                                   "tracehost::number",
                                                   "tracehost::py_tensor",
                                                   "tracehost::array_new",
                                                   "tracehost::array_write",
                                                   "tracehost::array_read",
                                                   "tracehost::array_written",
                                                   "tracehost::array_unstack",
                                                   "tracehost::cudnn_enabled",
                                                   kTextOp};

const c10::Symbol kRaiseError = c10::Symbol::fromQualString("tracehost::raise_error");

/// PyTorch's own, besides aten and prim, that no function of a user's records.
const auto kOwnNamespaces =
    op_names("cuda c10d prims static_runtime _test profiler export symm_mem rpc inductor "
             "inductor_prims _native _native_aot debug_mode_ops debugprims mkldnn mkldnn_prepacked "
             "mkl onednn rngprims coor fsdp flex_gemm onnx");

bool divides_integers(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return (name == "aten::remainder" || name == "aten::fmod") && node.inputs().size() == 2 &&
         !node.input(0)->type()->isSubtypeOf(*c10::TensorType::get()) &&
         !node.input(1)->type()->isSubtypeOf(*c10::TensorType::get());
}

/// Only an exception of Python's, and nothing that Python would have to make of it.
bool raises_own(const jit::Node &node) {
  const auto type = jit::toIValue(node.input(0)), details = jit::toIValue(node.input(2));
  return type && type->isString() && is_exception(type->toStringRef()) && details &&
         details->isString() && details->toStringRef().empty();
}

bool is_allowed(const jit::Node &node, const std::vector<std::string> &libraries) {
  const std::string_view name = node.kind().toQualString();
  const std::string_view space = name.substr(0, name.find("::"));
  if (space == "prim")
    return kPrims.contains(name);
  if (space == "aten")
    return !kRejected.contains(name) && !name.starts_with("aten::_test") &&
           !name.starts_with("aten::_cufft") && !divides_integers(node);
  if (space == "tracehost")
    return name == "tracehost::raise_error"
               ? raises_own(node)
               : is_number_op(name) || is_check_or_save(name) || kOwn.contains(name);
  return !kOwnNamespaces.contains(space) &&
         std::find(libraries.begin(), libraries.end(), space) != libraries.end();
}

bool raises(const jit::Block &block) {
  const auto nodes = block.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    return node->kind() == c10::prim::RaiseException || node->kind() == kRaiseError;
  });
}

/// What a side that raises gives: nothing reads it.
bool is_of_raising_side(const jit::Node &node) {
  const auto &uses = node.output()->uses();
  return std::all_of(uses.begin(), uses.end(), [](const jit::Use &use) {
    return use.user->kind() == c10::prim::Return && raises(*use.user->owningBlock());
  });
}

} // namespace

void check_operators(jit::Block *block, const std::vector<std::string> &libraries) {
  each_node(block, [&](jit::Node *node) {
    const bool is_nothing = node->kind() == c10::prim::Uninitialized;
    if (!is_allowed(*node, libraries) || (is_nothing && !is_of_raising_side(*node)))
      throw Error(fmt::format("it has operator '{}', which no archive may have",
                              node->kind().toQualString()));
  });
}

} // namespace tracehost::archive
