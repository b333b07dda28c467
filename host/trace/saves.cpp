#include "trace/saves.h"

#include "program/checks.h"
#include "program/nodes.h"

#include <ATen/Context.h>

#include <algorithm>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

bool has_check(const jit::Node *node) {
  return any_node(node, [](const jit::Node &n) { return is_check(n.kind().toQualString()); });
}

} // namespace

void Saves::generator(const at::Generator &generator) {
  const auto same = [&](const Generator &known) { return known.generator == generator; };
  if (std::none_of(generators_.begin(), generators_.end(), same))
    generators_.push_back({generator});
}

const Saves::Node *Saves::find(jit::Graph &graph, const at::Tensor &t, What what) const {
  const jit::Block *here = graph.insertPoint()->owningBlock();
  for (const Node &saved : nodes_) {
    const jit::Block *block = saved.node->owningBlock();
    if (saved.what == what && (block == graph.block() || block == here) &&
        std::any_of(saved.tensors.begin(), saved.tensors.end(),
                    [&](const Tensor &known) { return known == Tensor(t.getIntrusivePtr()); }))
      return &saved;
  }
  return nullptr;
}

bool Saves::has_grad(jit::Graph &graph, const at::Tensor &leaf) const {
  return find(graph, leaf, What::grad) || find(graph, leaf, What::grad_and_values);
}

void Saves::grad(jit::Graph &graph, const at::Tensor &leaf, jit::Value *value, bool values) {
  const What what = values ? What::grad_and_values : What::grad;
  if (values ? find(graph, leaf, what) != nullptr : has_grad(graph, leaf))
    return;
  // One node for the many leaves of zero_grad(): nothing has changed this `.grad` since.
  const bool is_input =
      value->node()->kind() == c10::prim::Param && value->node()->owningBlock() == graph.block();
  for (Node &saved : nodes_)
    if (is_input && saved.what == what &&
        saved.node->owningBlock() == graph.insertPoint()->owningBlock()) {
      saved.node->input(0)->node()->addInput(value);
      saved.tensors.emplace_back(leaf.getIntrusivePtr());
      return;
    }
  jit::Node *list = graph.insertNode(graph.createList(c10::TensorType::get(), {value}));
  jit::Value *constant = graph.insertConstant(values);
  nodes_.push_back({insert_op(graph, "tracehost::save_grad", {list->output(), constant}, 0),
                    what,
                    {Tensor(leaf.getIntrusivePtr())}});
}

void Saves::data(jit::Graph &graph, const at::Tensor &t, jit::Value *value) {
  if (!find(graph, t, What::data))
    nodes_.push_back({insert_op(graph, "tracehost::save_data", {value}, 0),
                      What::data,
                      {Tensor(t.getIntrusivePtr())}});
}

void Saves::need(jit::Graph &graph, Head &head) {
  for (Node &saved : nodes_)
    saved.needed = true;
  for (Generator &drawn : generators_) {
    if (drawn.needed)
      continue;
    drawn.needed = true;
    head.add([&] {
      const c10::Device device = drawn.generator.device();
      if (drawn.generator == at::globalContext().defaultGenerator(device))
        return insert_op(graph, "tracehost::save_default_generator", {graph.insertConstant(device)},
                         0);
      jit::Value *generator = graph.insertConstant(c10::IValue(drawn.generator));
      return insert_op(graph, "tracehost::save_generator", {generator}, 0);
    });
  }
}

bool Saves::all_needed() const {
  const auto needed = [](const auto &saved) { return saved.needed; };
  return std::all_of(nodes_.begin(), nodes_.end(), needed) &&
         std::all_of(generators_.begin(), generators_.end(), needed);
}

void Saves::forget(const jit::Node *node) {
  std::erase_if(nodes_, [&](const Node &saved) { return saved.node == node; });
}

std::size_t Saves::close(jit::Graph &graph) {
  std::size_t bytes = 0;
  bool any = std::any_of(generators_.begin(), generators_.end(),
                         [](const Generator &drawn) { return drawn.needed; });
  for (const Node &saved : nodes_) {
    any |= saved.needed;
    if (saved.needed) {
      for (const Tensor &t : saved.tensors)
        if (const auto alive = t.lock(); alive && saved.what != What::grad)
          bytes += at::Tensor(alive).nbytes();
      continue;
    }
    jit::Node *list = saved.what == What::data ? nullptr : saved.node->input(0)->node();
    saved.node->destroy();
    if (list)
      list->destroy();
  }
  nodes_.clear();
  if (!any || to_end_)
    return bytes;
  const auto nodes = graph.block()->nodes().reverse();
  const auto last = std::find_if(nodes.begin(), nodes.end(), has_check);
  if (last == nodes.end())
    return bytes;
  const jit::WithInsertPoint behind((*last)->next());
  insert_op(graph, "tracehost::forget_saved", {}, 0);
  return bytes;
}

} // namespace tracehost::trace
