#include "tape/factories.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>

namespace tracehost::tape {

namespace jit = torch::jit;

namespace {

void begin(const at::Tensor &t) {
  if (!t.defined() || t.is_inference() || t._version() == 0)
    return;
  c10::VariableVersion counter = t.unsafeGetTensorImpl()->version_counter(); // it is shared
  counter.set_version(0);
}

const jit::RegisterOperators begins_registered({jit::Operator(
    "tracehost::begin_version(Tensor made) -> ()",
    [](jit::Stack &stack) { begin(jit::pop(stack).toTensor()); },
    c10::AliasAnalysisKind::CONSERVATIVE)});

bool is_tensor(const c10::TypePtr &type) { return type->isSubtypeOf(*c10::TensorType::get()); }

/// Whether the tensor may be seen, or written to, behind the ops that take it.
bool may_be_seen(const jit::Value &made) {
  return std::any_of(made.uses().begin(), made.uses().end(), [](const jit::Use &use) {
    const auto *schema = use.user->maybeSchema();
    return !schema || !use.user->blocks().empty() || !use.user->kind().is_aten() ||
           use.offset >= schema->arguments().size() || schema->arguments()[use.offset].alias_info();
  });
}

} // namespace

bool is_factory(const jit::Node &node) {
  const auto *schema = node.maybeSchema();
  if (!schema || !node.kind().is_aten() || schema->returns().size() != 1 ||
      !is_tensor(schema->returns()[0].type()) || schema->returns()[0].alias_info())
    return false;
  return std::none_of(node.inputs().begin(), node.inputs().end(), [](const jit::Value *input) {
    return is_tensor(input->type()) || input->type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

void begin_version(const jit::Stack &stack) { begin(stack.back().toTensor()); }

FactoryVersions::FactoryVersions(jit::Graph &graph) { insert(*graph.block()); }

void FactoryVersions::insert(jit::Block &block) {
  static const auto kind = c10::Symbol::fromQualString("tracehost::begin_version");
  for (jit::Node *node : block.nodes()) {
    for (jit::Block *inner : node->blocks())
      insert(*inner);
    if (!is_factory(*node) || !may_be_seen(*node->output()))
      continue;
    jit::Node *begins = node->owningGraph()->create(kind, {node->output()}, 0);
    begins->setSourceRange(node->sourceRange());
    nodes_.add(begins->insertAfter(node));
  }
}

} // namespace tracehost::tape
