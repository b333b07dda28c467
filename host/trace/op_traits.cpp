#include "trace/op_traits.h"

#include "program/ops.h"
#include "shapes/kernels.h"
#include "shapes/op_names.h"
#include "trace/op_tensors.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace tracehost::trace {
namespace {

// Ops that return a number, but of a tensor's metadata, which the signature fixes. Every other op
// that takes tensors and returns none reads their content, or is taken to.
const auto kMetadata =
    op_names("aten::size aten::stride aten::numel aten::dim aten::storage_offset aten::sym_size "
             "aten::sym_stride aten::sym_numel aten::sym_storage_offset aten::is_same_size "
             "aten::is_pinned aten::is_complex aten::is_signed aten::is_inference "
             "aten::is_floating_point aten::is_conj aten::is_neg aten::_is_zerotensor "
             "aten::can_cast aten::result_type aten::is_distributed aten::sparse_dim "
             "aten::dense_dim aten::_dimI aten::_dimV aten::qscheme aten::sym_is_contiguous "
             "aten::_cufft_get_plan_cache_size aten::_use_cudnn_ctc_loss aten::cudnn_is_acceptable "
             "aten::_has_compatible_shallow_copy_type aten::_fused_sdp_choice "
             "aten::_nnpack_available aten::_has_same_storage_numel");

const auto kUnrecorded =
    op_names("aten::_make_dual aten::_unpack_dual aten::set_data aten::retain_grad "
             "aten::requires_grad_ aten::_backward");

// Not split_with_sizes: a list says how many.
const auto kSplits =
    op_names("aten::unbind aten::split aten::chunk aten::tensor_split aten::unsafe_split "
             "aten::unsafe_chunk aten::hsplit aten::vsplit aten::dsplit");

// Besides those that torch tags: results, or parts of a sparse tensor, of as many elements as there
// are values of some kind.
const auto kInexact =
    op_names("aten::nonzero_numpy aten::where aten::repeat_interleave aten::to_sparse "
             "aten::coalesce aten::values aten::_values aten::indices aten::_indices "
             "aten::col_indices aten::row_indices aten::_pack_padded_sequence "
             "aten::_pad_packed_sequence");

const auto kLiteral = op_names("aten::lift_fresh aten::to aten::detach_ aten::lift");

// Ops that raise for some values or strides, at any shapes; those that end in `_` too, and those of
// linalg.
const auto kRaises =
    op_names("aten::_assert_async aten::_assert_scalar aten::_pack_padded_sequence aten::bernoulli "
             "aten::binary_cross_entropy aten::bincount aten::binomial aten::cholesky "
             "aten::cholesky_inverse aten::cholesky_solve aten::cross_entropy_loss aten::ctc_loss "
             "aten::embedding aten::embedding_bag aten::embedding_renorm aten::floor_divide "
             "aten::gather aten::histc aten::index aten::index_add aten::index_copy "
             "aten::index_fill aten::index_put aten::index_reduce aten::index_select aten::inverse "
             "aten::logdet aten::masked_scatter aten::max_unpool2d aten::max_unpool3d "
             "aten::multi_margin_loss aten::multilabel_margin_loss aten::multinomial "
             "aten::nanquantile aten::nll_loss aten::nll_loss2d aten::nll_loss_nd aten::normal "
             "aten::one_hot aten::poisson aten::put aten::qr aten::quantile aten::remainder "
             "aten::repeat_interleave aten::scatter aten::scatter_add aten::scatter_reduce "
             "aten::slogdet aten::sparse_coo_tensor aten::svd aten::take aten::take_along_dim "
             "aten::view aten::view_as_complex");

// The tracer calls them full_like and zeros_like, with arguments that those do not take. It records
// detach_ as detach, which leaves an input as it is. It runs resize_ without a node, and forgets
// the tensor.
const auto kMisnamed =
    op_names("aten::fill aten::zero aten::detach_ aten::resize_ aten::resize_as_");

bool may_raise(std::string_view name) {
  if (name.ends_with('_'))
    name.remove_suffix(1);
  return name.starts_with("aten::linalg_") || kRaises.contains(name);
}

bool takes_tensor(const c10::FunctionSchema &schema) {
  for (const auto &argument : schema.arguments())
    if (argument.type()->isSubtypeOf(*c10::TensorType::get()) ||
        argument.type()->isSubtypeOf(*c10::ListType::ofTensors()))
      return true;
  return false;
}

/// libtorch's tracer has no way to record a list of numbers (it has for ints and floats).
bool takes_list_of_numbers(const c10::FunctionSchema &schema) {
  for (const auto &argument : schema.arguments())
    if (const auto list = argument.type()->cast<c10::ListType>())
      if (list->getElementType()->kind() == c10::TypeKind::NumberType)
        return true;
  return false;
}

bool returns_only_plain_values(const c10::FunctionSchema &schema) {
  if (schema.returns().empty())
    return false;
  for (const auto &result : schema.returns()) {
    const auto kind = result.type()->kind();
    if (kind != c10::TypeKind::BoolType && kind != c10::TypeKind::IntType &&
        kind != c10::TypeKind::FloatType && kind != c10::TypeKind::NumberType &&
        kind != c10::TypeKind::ComplexType)
      return false;
  }
  return true;
}

/// Whether an op with running statistics updates them with these arguments.
bool updates_statistics(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  const auto &schema = op.schema();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = schema.arguments()[i].name();
    if ((name == "training" || name == "train" || name == "use_input_stats") &&
        arguments[i].isBool())
      return arguments[i].toBool();
  }
  return std::string_view(schema.name()).find("backward") == std::string_view::npos;
}

OpTraits derive(const c10::OperatorHandle &op) {
  const auto &schema = op.schema();
  const std::string_view name = schema.name();
  OpTraits t;
  t.reads_value =
      takes_tensor(schema) && returns_only_plain_values(schema) && !kMetadata.contains(name);
  t.is_item = name == "aten::item" || name == "aten::_local_scalar_dense";
  t.random = shapes::draws(op);
  t.raises = may_raise(name);
  t.statistics =
      std::any_of(schema.arguments().begin(), schema.arguments().end(),
                  [](const c10::Argument &argument) { return argument.name() == "running_mean"; });
  t.literal = kLiteral.contains(name);
  t.takes_number = name == "aten::index_put_" || name == "aten::fill_";
  t.splits = kSplits.contains(name);
  t.drops_dimensions = name.starts_with("aten::squeeze");
  t.inexact = op.hasTag(at::Tag::dynamic_output_shape) || kInexact.contains(name);
  t.writes = std::any_of(schema.arguments().begin(), schema.arguments().end(), shapes::is_written);
  t.reshapes = op.hasTag(at::Tag::inplace_view) || name == "tracehost::set_data" ||
               name == "tracehost::requires_grad_";
  t.unrecorded = kUnrecorded.contains(name);
  t.collective = name.starts_with("c10d::");
  t.functional = communicates(name);
  t.wraps = name == "_c10d_functional::_wrap_tensor_autograd";
  t.aside = name.starts_with("profiler::");
  t.own_node = t.functional || kMisnamed.contains(name) || takes_list_of_numbers(schema) ||
               (takes_tensor(schema) && schema.returns().empty()) || is_view_of_dtype(schema);
  return t;
}

bool is_mask(const c10::IValue &index) {
  return index.isTensor() && index.toTensor().defined() &&
         (index.toTensor().scalar_type() == at::kBool ||
          index.toTensor().scalar_type() == at::kByte);
}

} // namespace

bool inexact_with(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto argument = [&](std::size_t i) -> const c10::IValue & {
    return stack[stack.size() - schema.arguments().size() + i];
  };
  const std::string_view name = schema.name();
  if (name == "aten::index") { // only a mask selects as many as there are true values
    for (const c10::IValue &index : argument(1).toListRef())
      if (is_mask(index))
        return true;
    return false;
  }
  if (name == "aten::where")
    return schema.arguments().size() == 1;
  if (name == "aten::one_hot")
    return argument(1).isInt() && argument(1).toInt() < 0;
  if (name == "aten::repeat_interleave") // with repeats as a tensor, and no output_size
    return schema.overload_name() != "self_int" && stack.back().isNone();
  return true;
}

void each_written(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
                  const std::function<void(const at::Tensor &)> &f) {
  if (!traits(op).writes)
    return;
  const auto &arguments = op.schema().arguments();
  const auto values = arguments_of(op, stack);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (shapes::is_written(arguments[i]) &&
        (!shapes::is_statistic(arguments[i]) || updates_statistics(op, values)))
      each_tensor({values[i]}, f);
}

const OpTraits &traits(const c10::OperatorHandle &op) {
  thread_local std::unordered_map<const c10::FunctionSchema *, OpTraits> known;
  const auto *schema = &op.schema();
  const auto found = known.find(schema);
  return found != known.end() ? found->second : known.emplace(schema, derive(op)).first->second;
}

} // namespace tracehost::trace
