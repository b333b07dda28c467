#include "validate/culprit.h"

#include "program/autograd_ops.h"
#include "program/modes.h"
#include "program/numbers.h"
#include "program/ops.h"
#include "program/places.h"
#include "program/program.h"
#include "shapes/kernels.h"
#include "shapes/op_names.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <string_view>
#include <unordered_set>

namespace tracehost::validate {

namespace jit = torch::jit;

namespace {

constexpr const char *kRequiresGrad = "tracehost::requires_grad_";

// Ops of tracehost that act on tensors and lists of the graph only.
const std::unordered_set<std::string_view> kRepeatable = {
    "tracehost::keep",           "tracehost::raise_error",
    "tracehost::array_new",      "tracehost::array_write",
    "tracehost::array_read",     "tracehost::array_written",
    "tracehost::array_unstack",  "tracehost::number",
    "tracehost::data",           "tracehost::check_number",
    "tracehost::check_kind",     kRequiresGrad,
    "tracehost::save_generator", "tracehost::save_grad",
    "tracehost::save_data",      "tracehost::forget_saved",
    "tracehost::interruptible",  "tracehost::save_default_generator",
    "tracehost::view_dtype",     kTextOp};

const auto kUninitialised =
    op_names("aten::empty aten::empty_like aten::empty_strided aten::empty_permuted "
             "aten::new_empty aten::new_empty_strided aten::resize_ aten::resize_as_");

/// From torch's list for use_deterministic_algorithms(): these add by atomic operations.
const auto kAddsInAnyOrder =
    op_names("aten::index_add aten::index_add_ aten::scatter_add aten::scatter_add_ "
             "aten::scatter_reduce aten::scatter_reduce_ aten::index_put aten::index_put_ "
             "aten::index_reduce aten::index_reduce_ aten::put aten::put_ aten::bincount "
             "aten::cumsum aten::cumsum_ aten::histc aten::embedding_bag aten::nll_loss2d "
             "aten::ctc_loss aten::_convolution aten::convolution aten::conv2d aten::conv1d "
             "aten::conv3d");

std::string told(const jit::Node &node) {
  const std::string where = place_of(node);
  return where.empty() ? node.kind().toQualString()
                       : std::string(node.kind().toQualString()) + " at " + where;
}

/// What `value` is a view of, as far as schemas say.
const jit::Value *viewed(const jit::Value *value) {
  for (;;) {
    const jit::Node *node = value->node();
    const auto *schema = node->maybeSchema();
    const bool view = schema && !node->inputs().empty() && !schema->returns().empty() &&
                      schema->returns()[0].alias_info() && schema->arguments()[0].alias_info();
    if (!view)
      return value;
    value = node->input(0);
  }
}

bool writes(const jit::Node &node, const jit::Value *input) {
  const auto *schema = node.maybeSchema();
  if (!schema)
    return false;
  const auto &arguments = schema->arguments();
  for (std::size_t i = 0; i < arguments.size() && i < node.inputs().size(); ++i) {
    if (shapes::is_written(arguments[i]) && viewed(node.input(i)) == input)
      return true;
  }
  return false;
}

const jit::Node *find(const jit::Block &block, const auto &wanted) {
  for (const jit::Node *node : block.nodes()) {
    if (wanted(*node))
      return node;
    for (const jit::Block *inner : node->blocks())
      if (const jit::Node *found = find(*inner, wanted))
        return found;
  }
  return nullptr;
}

} // namespace

std::string maker(const jit::Value *output) {
  const jit::Node &node = *output->node();
  return node.kind() == c10::prim::Param ? last_writer(output) : told(node);
}

std::string last_writer(const jit::Value *input) {
  const jit::Node *last = nullptr;
  for (const jit::Node *node : input->owningGraph()->nodes())
    if (writes(*node, input))
      last = node;
  return last ? told(*last) : std::string();
}

std::string unrepeatable(const jit::Block &block) {
  const jit::Node *found = find(block, [](const jit::Node &node) {
    const std::string_view name = node.kind().toQualString();
    // A collective is not repeated, because each rank has to run it as often.
    return communicates(name) ||
           (name.starts_with("tracehost::") && !is_number_op(name) && !kRepeatable.contains(name) &&
            !is_mode(node) && !is_autograd_op(node));
  });
  return found ? found->kind().toQualString() : std::string();
}

bool uses_gradients(const jit::Block &block) {
  return find(block, [](const jit::Node &node) {
    return is_autograd_op(node) || node.kind() == c10::Symbol::fromQualString(kRequiresGrad);
  });
}

std::string last_backward(const jit::Graph &graph) {
  const jit::Node *last = nullptr;
  for (const jit::Node *node : graph.nodes())
    if (runs_engine(*node))
      last = node;
  return last ? told(*last) : std::string();
}

const jit::Node *differs_each_time(const jit::Block &block) {
  return find(block, [](const jit::Node &node) {
    return runs_engine(node) || kAddsInAnyOrder.contains(node.kind().toQualString());
  });
}

const jit::Node *uninitialised(const jit::Block &block) {
  return find(block, [](const jit::Node &node) {
    return kUninitialised.contains(node.kind().toQualString());
  });
}

} // namespace tracehost::validate
