#include "tape/ops.h"

#include "shapes/kernels.h"
#include "tape/blocks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tracehost::tape {

namespace jit = torch::jit;

namespace {

constexpr std::array<std::string_view, 9> kOfSizes{
    "aten::size",      "aten::dim",    "aten::numel",  "aten::len",
    "prim::dtype",     "prim::device", "prim::layout", "aten::is_floating_point",
    "aten::is_complex"};
constexpr std::array<std::string_view, 10> kReads{
    "aten::item",           "aten::Int",
    "aten::Float",          "aten::Bool",
    "aten::IntImplicit",    "aten::FloatImplicit",
    "aten::ScalarImplicit", "aten::is_nonzero",
    "aten::equal",          "aten::_local_scalar_dense"};
/// They change what autograd does with a tensor, or ask for it, or change the process. The code of
/// matrix_power counts writes of its result, or not, by the power.
constexpr std::array<std::string_view, 6> kNever{
    "aten::requires_grad_", "aten::retain_grad",  "prim::requires_grad",
    "aten::warn",           "aten::matrix_power", "aten::linalg_matrix_power"};
constexpr std::array<std::string_view, 6> kOurs{
    "tracehost::check_number", "tracehost::check_kind",   "tracehost::number",
    "tracehost::py_tensor",    "tracehost::view_of_base", "tracehost::cudnn_enabled"};
constexpr std::string_view kNumbers = "tracehost::py_", kPython = "tracehost::py_function";

/// They depend on where a tensor lies in its memory, or give a result that lies there.
constexpr std::array<std::string_view, 9> kByOffset{
    "aten::as_strided",         "aten::as_strided_",     "aten::as_strided_copy",
    "aten::as_strided_scatter", "aten::slice_scatter",   "aten::select_scatter",
    "aten::diagonal_scatter",   "aten::view_as_complex", "aten::view_as_complex_copy"};
/// Besides pointwise ops: those that fail at no value.
constexpr std::array<std::string_view, 30> kSafe{
    "aten::to",         "aten::_to_copy",
    "aten::sum",        "aten::mean",
    "aten::item",       "aten::_local_scalar_dense",
    "aten::rand",       "aten::rand_like",
    "aten::randn",      "aten::randn_like",
    "aten::dropout",    "aten::native_dropout",
    "aten::zeros",      "aten::ones",
    "aten::zeros_like", "aten::ones_like",
    "aten::empty",      "aten::empty_like",
    "aten::clone",      "aten::copy_",
    "aten::batch_norm", "aten::native_batch_norm",
    "aten::layer_norm", "aten::native_batch_norm_backward",
    "aten::conv1d",     "aten::native_layer_norm",
    "aten::conv2d",     "aten::native_layer_norm_backward",
    "aten::mse_loss",   "aten::mse_loss_backward"};

template <std::size_t N>
bool has(const std::array<std::string_view, N> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The constant given for the argument of that name.
std::optional<c10::IValue> constant(const jit::Node &node, std::string_view argument) {
  const auto &formal = node.schema().arguments();
  for (std::size_t i = 0; i < formal.size(); ++i)
    if (formal[i].name() == argument)
      return jit::toIValue(node.input(i));
  return std::nullopt;
}
bool is_false(const std::optional<c10::IValue> &value) {
  return value && value->isBool() && !value->toBool();
}

/// A normalization that changes its running mean and variance, which no schema says.
bool updates_running_mean(const jit::Node &node) {
  const auto &formal = node.schema().arguments();
  if (std::none_of(formal.begin(), formal.end(),
                   [](const c10::Argument &a) { return a.name() == "running_mean"; }))
    return false;
  const auto mean = constant(node, "running_mean");
  return !(mean && mean->isNone()) && !is_false(constant(node, "training")) &&
         !is_false(constant(node, "train")) && !is_false(constant(node, "use_input_stats"));
}

/// Whether the op draws from a generator of the user's.
bool has_generator(const jit::Node &node) {
  const auto &formal = node.schema().arguments();
  for (std::size_t i = 0; i < formal.size(); ++i)
    if (formal[i].name() == "generator")
      if (const auto given = jit::toIValue(node.input(i)); !given || !given->isNone())
        return true;
  return false;
}

bool takes_tensors(const jit::Node &node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [](const jit::Value *input) {
    const auto &type = *input->type();
    return type.isSubtypeOf(*c10::TensorType::get()) || type.kind() == c10::TypeKind::ListType ||
           type.kind() == c10::TypeKind::OptionalType;
  });
}

/// Whether the sizes of the op's results depend on values, as those of the op without `out=` do.
bool has_sizes_by_values(const c10::FunctionSchema &schema) {
  const std::string_view with_out = schema.overload_name(); // `out`, `Tensor_out`
  const auto end = with_out.rfind("_out");
  const std::string plain(end == std::string_view::npos ? "" : with_out.substr(0, end));
  for (const std::string &overload : {schema.overload_name(), plain})
    if (const auto op = c10::Dispatcher::singleton().findSchema({schema.name(), overload});
        op && op->hasTag(at::Tag::dynamic_output_shape))
      return true;
  return false;
}

bool is_grad_switch(const jit::Node &node) {
  static const auto kind = c10::Symbol::fromQualString("aten::set_grad_enabled");
  return node.kind() == kind;
}

} // namespace

std::string full_name(const c10::FunctionSchema &schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

std::vector<std::size_t> written_arguments(const jit::Node &node) {
  if (is_outlined(node))
    return outlined_writes(node);
  std::vector<std::size_t> written;
  const auto *schema = node.maybeSchema();
  if (!schema)
    return written;
  const bool updates = updates_running_mean(node);
  for (std::size_t i = 0; i < schema->arguments().size(); ++i) {
    const c10::Argument &formal = schema->arguments()[i];
    const bool is_running = formal.name() == "running_mean" || formal.name() == "running_var";
    if ((formal.alias_info() && formal.alias_info()->isWrite()) || (updates && is_running))
      written.push_back(i);
  }
  return written;
}

bool writes_in_place(const jit::Node &node) {
  const auto written = written_arguments(node);
  return node.outputs().size() == 1 && written.size() == 1 && written.front() == 0 &&
         !is_outlined(node) && node.schema().name().ends_with('_');
}

bool resizes_by_number(const jit::Node &node) {
  if (!writes(node) || is_outlined(node)) // whose blocks have been asked
    return false;
  const auto op = shapes::op_of(node.schema());
  return !writes_in_place(node) || !op || op->hasTag(at::Tag::inplace_view);
}

bool does_nothing(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return name == "aten::detach_" || name.starts_with("tracehost::save_") ||
         name == "tracehost::forget_saved" || name == "tracehost::keep";
}

bool reads_offset(const jit::Node &node) {
  const auto *schema = node.maybeSchema();
  return schema && (has(kByOffset, schema->name()) || full_name(*schema) == "aten::view.dtype");
}

bool may_fail(const jit::Node &node, bool integers) {
  const auto *schema = node.maybeSchema();
  if (integers || !schema)
    return true;
  if (has(kSafe, schema->name()))
    return false;
  const auto op = shapes::op_of(*schema);
  return !op || !op->hasTag(at::Tag::pointwise);
}

bool draws(const jit::Node &node) {
  if (is_outlined(node))
    return outlined_draws(node);
  if (!node.maybeSchema())
    return false;
  const auto handle = shapes::op_of(node.schema());
  if (!handle || !handle->hasTag(at::Tag::nondeterministic_seeded))
    return false;
  const auto &formal = node.schema().arguments();
  for (std::size_t i = 0; i < formal.size(); ++i)
    if (const auto value = jit::toIValue(node.input(i));
        value && shapes::stops_draws(node.schema().name(), formal[i].name(), *value))
      return false;
  return true;
}

bool switches_grad(const jit::Graph &graph) {
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const jit::Node *node) { return is_grad_switch(*node); });
}

bool gives_tensors(const jit::Node &node) {
  return std::all_of(node.outputs().begin(), node.outputs().end(), [](const jit::Value *output) {
    return output->type()->isSubtypeOf(*c10::TensorType::get()) ||
           output->type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

bool is_fixed(const jit::Node &node) {
  if (is_outlined(node))
    return false;
  return !takes_tensors(node) || has(kOfSizes, node.kind().toQualString());
}

bool is_uninitialized(const jit::Node &node) {
  return std::string_view(node.kind().toQualString()).find("empty") != std::string_view::npos;
}

bool gives_workspace(const jit::Node &node) {
  return std::string_view(node.kind().toQualString()) == "aten::mkldnn_rnn_layer";
}

std::string why_not(const jit::Node &node) {
  const std::string name = node.kind().toQualString();
  if (is_outlined(node) || name == "tracehost::keep")
    return {};
  if (!node.maybeSchema())
    return name;
  if (is_grad_switch(node) || has(kOurs, name) || (name.starts_with(kNumbers) && name != kPython))
    return {};
  const bool of_torch = name.starts_with("aten::") || name.starts_with("prim::");
  if (!of_torch || has(kNever, name) || (node.outputs().empty() && !writes(node)))
    return name;
  if (writes(node) && has_sizes_by_values(node.schema()))
    return name + " changes sizes"; // of what out= names
  if (draws(node) && has_generator(node))
    return name + " draws from a generator of its own";
  if (!gives_tensors(node) && !is_fixed(node) && !has(kReads, name))
    return name + " reads a value";
  return {};
}

} // namespace tracehost::tape
