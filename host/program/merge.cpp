#include "program/merge.h"

#include "program/autograd_ops.h"
#include "program/modes.h"
#include "program/nodes.h"
#include "program/numbers.h"
#include "shapes/kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tracehost {

namespace jit = torch::jit;

namespace {

constexpr int kMostViews = 8; ///< one on the other, that are followed

bool writes(const jit::Node &node) {
  const c10::FunctionSchema *schema = node.maybeSchema();
  return !schema ||
         std::any_of(schema->arguments().begin(), schema->arguments().end(), shapes::is_written);
}

/// Ops that behave differently in training drop elements, and do not always say so.
bool depends_on_more(const c10::FunctionSchema &schema) {
  static const std::set<std::string_view> names = {"train",   "training",  "use_input_stats",
                                                   "dropout", "dropout_p", "p"};
  for (const auto &argument : schema.arguments())
    if (names.contains(argument.name()))
      return true;
  const auto op = shapes::op_of(schema);
  return !op || shapes::draws(*op);
}

bool makes_alias(const c10::FunctionSchema &schema) {
  for (const auto &result : schema.returns())
    if (result.alias_info())
      return true;
  return false;
}

/// Whether no use of `value`, or of a view of it, depends on its identity or memory. Then one
/// tensor may replace two.
bool is_internal(const jit::Value &value, int depth = 0) {
  if (depth > kMostViews)
    return false;
  for (const jit::Use &use : value.uses()) {
    const jit::Node &user = *use.user;
    const bool gathers =
        user.kind() == c10::prim::ListConstruct || user.kind() == c10::prim::TupleConstruct;
    if (!gathers && (!user.kind().is_aten() || !user.blocks().empty() || writes(user)))
      return false;
    if (!gathers && !makes_alias(user.schema()))
      continue;
    for (const jit::Value *output : user.outputs())
      if (!is_internal(*output, depth + 1))
        return false;
  }
  return true;
}

bool is_internal(const jit::Node &node) {
  for (const jit::Value *output : node.outputs())
    if (!is_internal(*output))
      return false;
  return true;
}

/// What has been computed so far in one block.
class Table {
public:
  /// The earlier node that computes what `node` does; null: none, and `node` is noted.
  jit::Node *earlier(jit::Node *node) {
    std::string key(node->kind().toQualString());
    key += node->maybeSchema() ? node->schema().overload_name() : std::string();
    for (const jit::Value *input : node->inputs())
      key += '|' + name(*input);
    return nodes_.emplace(std::move(key), node).first->second;
  }
  void clear() { nodes_.clear(); }

private:
  /// Equal for values that are equal: constants and lists by what they hold.
  std::string name(const jit::Value &value) {
    if (const auto found = names_.find(&value); found != names_.end())
      return found->second;
    const jit::Node &node = *value.node();
    std::string text;
    if (node.kind() == c10::prim::Constant)
      text = constant(value);
    if (node.kind() == c10::prim::ListConstruct &&
        value.type()->kind() == c10::TypeKind::ListType) {
      text = "[" + value.type()->str();
      for (const jit::Value *item : node.inputs())
        text += ',' + name(*item);
      text += ']';
    }
    if (text.empty())
      text = '%' + std::to_string(value.unique());
    return names_.emplace(&value, std::move(text)).first->second;
  }

  /// Empty: it is compared by identity.
  static std::string constant(const jit::Value &value) {
    const auto held = jit::toIValue(&value);
    if (!held)
      return {};
    if (held->isInt())
      return 'i' + std::to_string(held->toInt());
    if (held->isBool())
      return held->toBool() ? "true" : "false";
    if (held->isNone())
      return "none";
    if (held->isString())
      return '"' + held->toStringRef() + '"';
    if (held->isDevice())
      return held->toDevice().str();
    if (held->isDouble()) { // by its bits: -0.0 is not 0.0
      std::int64_t bits = 0;
      const double number = held->toDouble();
      std::memcpy(&bits, &number, sizeof bits);
      return 'f' + std::to_string(bits);
    }
    return held->isTensor() ? number(held->toTensor()) : std::string();
  }

  /// The key of a 0-dim tensor on the CPU, such as `1.5` in `x + 1.5`.
  static std::string number(const at::Tensor &t) {
    if (!t.defined() || t.dim() != 0 || !t.is_cpu() || t.requires_grad())
      return {};
    std::string text = t.unsafeGetTensorImpl()->is_wrapped_number() ? "n" : "t";
    text += c10::toString(t.scalar_type());
    const std::string_view bytes(static_cast<const char *>(t.data_ptr()), t.itemsize());
    for (const char byte : bytes)
      text += ' ' + std::to_string(static_cast<unsigned char>(byte));
    return text;
  }

  std::unordered_map<const jit::Value *, std::string> names_;
  std::unordered_map<std::string, jit::Node *> nodes_;
};

bool is_pure(const jit::Node &node) {
  return node.kind() == c10::prim::Constant || node.kind() == c10::prim::ListConstruct ||
         node.kind() == c10::prim::ListUnpack || node.kind() == c10::prim::TupleConstruct ||
         node.kind() == c10::prim::TupleUnpack || node.kind() == c10::prim::NumToTensor;
}

void merge(jit::Block &block) {
  Table table;
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    jit::Node *node = *it++;
    for (jit::Block *inner : node->blocks())
      merge(*inner);
    if (is_pure(*node))
      continue;
    if (!node->kind().is_aten() || !node->blocks().empty() || is_mode(*node) || writes(*node)) {
      table.clear();
      continue;
    }
    if (node->outputs().empty())
      continue;
    jit::Node *earlier = table.earlier(node);
    if (earlier == node || earlier->outputs().size() != node->outputs().size() ||
        depends_on_more(node->schema()) || !is_internal(*node) || !is_internal(*earlier))
      continue;
    node->replaceAllUsesWith(earlier);
    node->destroy();
  }
}

/// Whether the body itself has gradients, of tensors that it makes.
bool begins_gradients(const jit::Block &block) {
  static const auto switches = c10::Symbol::fromQualString("aten::set_grad_enabled");
  static const auto requires_grad = c10::Symbol::fromQualString("tracehost::requires_grad_");
  return any_node(&block, [](const jit::Node &node) {
    return node.kind() == requires_grad || node.kind() == switches || is_autograd_op(node);
  });
}

} // namespace

void merge_equal(jit::Block &block) {
  if (!begins_gradients(block))
    merge(block);
}

} // namespace tracehost
