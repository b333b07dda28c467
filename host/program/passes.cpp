#include "program/passes.h"

#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/shape_analysis.h>

namespace tracehost {
namespace {

// torch.tensor(...) ends with ops that return what they are given; after a literal's clone (a fresh
// tensor without history) lift_fresh and detach have nothing left to do.
void drop_identities(torch::jit::Block *block) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    torch::jit::Node *node = *it++;
    for (auto *inner : node->blocks())
      drop_identities(inner);
    if (node->kind() != c10::Symbol::fromQualString("aten::lift_fresh"))
      continue;
    node->output()->replaceAllUsesWith(node->input());
    node->destroy();
  }
}

} // namespace

void prepare(const std::shared_ptr<torch::jit::Graph> &graph) {
  torch::jit::Inline(*graph);
  drop_identities(graph->block());
  torch::jit::LowerSimpleTuples(graph);
  // Types still carry the sizes of the traced call; later passes and reports must not rely on them.
  torch::jit::EraseShapeInformation(graph);
  torch::jit::ConstantPooling(graph);
}

} // namespace tracehost
