#include "tape/blocks.h"

#include "tape/block_runs.h"
#include "tape/composite.h"
#include "tape/factories.h"
#include "tape/ops.h"
#include "tape/recording.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace tracehost::tape {
namespace {

const c10::Symbol kKind = c10::Symbol::fromQualString("tracehost::blocks");
const c10::Symbol kRun = c10::Symbol::attr("run"), kDraws = c10::Symbol::attr("draws"),
                  kViews = c10::Symbol::attr("views"), kWrites = c10::Symbol::attr("writes");

/// Whether the tensor has memory that the block makes at each run: nobody else sees a write to it.
bool is_own(const jit::Value &value) {
  const jit::Node *node = value.node();
  if (!node->maybeSchema() || is_composite(*node))
    return false;
  if (!node->schema().returns()[value.offset()].alias_info())
    return true;
  return (!writes(*node) || writes_in_place(*node)) && is_own(*node->input(0));
}

/// What a view is of, and what an op in place has written to.
const jit::Value *base_of(const jit::Value *value) {
  for (;;) {
    const jit::Node *node = value->node();
    if (!node->maybeSchema() || is_composite(*node) || (writes(*node) && !writes_in_place(*node)) ||
        !node->schema().returns()[value->offset()].alias_info())
      return value;
    value = node->input(0);
  }
}

c10::intrusive_ptr<Blocks> blocks_of(const jit::Node &node) {
  return c10::static_intrusive_pointer_cast<Blocks>(node.ival(kRun).toCapsule());
}

/// Whether a value of a block may be a view. A composite op may end in one, which no schema says.
bool gives_view(const jit::Value &value) {
  const jit::Node *node = value.node();
  if (node->kind() == c10::prim::Param || node->kind() == c10::prim::Constant)
    return false; // given from around the block: a copy, where the result is an output
  if (!node->blocks().empty())
    return std::any_of(node->blocks().begin(), node->blocks().end(), [&](const jit::Block *block) {
      const std::size_t first = node->kind() == c10::prim::Loop ? 1 : 0; // its condition
      return gives_view(*block->outputs()[first + value.offset()]);
    });
  if (!value.type()->isSubtypeOf(*c10::TensorType::get()))
    return value.type()->kind() == c10::TypeKind::ListType;
  if (writes_in_place(*node))
    return gives_view(*node->input(0));
  return is_composite(*node) || node->schema().returns()[value.offset()].alias_info();
}

class Outlining {
public:
  explicit Outlining(void (*interruptible)()) : interruptible_(interruptible) {}

  void outline(jit::Graph &graph) {
    std::vector<jit::Node *> nodes;
    for (jit::Node *node : graph.nodes())
      if (!node->blocks().empty())
        nodes.push_back(node);
    for (jit::Node *node : nodes)
      outline(graph, *node);
  }

private:
  void outline(jit::Graph &graph, jit::Node &node) {
    if (node.kind() != c10::prim::If && node.kind() != c10::prim::Loop)
      give_up(node.kind().toQualString());
    auto run = c10::make_intrusive<Blocks>();
    run->is_loop = node.kind() == c10::prim::Loop;
    run->own = node.inputs().size();
    run->interruptible = interruptible_;
    std::vector<jit::Value *> inputs(node.inputs().begin(), node.inputs().end());
    bool draws_any = false;
    std::set<std::int64_t> written;
    for (jit::Block *block : node.blocks()) {
      std::vector<std::size_t> captured;
      auto inner = graph_of(*block, inputs, captured);
      const std::size_t own = inner->inputs().size() - captured.size();
      std::set<const jit::Value *> outside;
      draws_any |= check(*inner->block(), outside);
      for (const jit::Value *value : outside) {
        if (value->node() != inner->param_node() || value->offset() < own)
          give_up("in a loop or a branch: an op writes to what lies outside");
        written.insert(static_cast<std::int64_t>(captured[value->offset() - own]));
      }
      run->captures.push_back(std::move(captured));
      run->blocks.push_back(std::make_unique<Block>(std::move(inner), interruptible_));
    }
    jit::Node *op = graph.create(kKind, inputs, node.outputs().size());
    op->ival_(kRun, c10::IValue::make_capsule(std::move(run)));
    op->i_(kDraws, draws_any ? 1 : 0);
    op->is_(kWrites, {written.begin(), written.end()});
    std::vector<std::int64_t> views;
    for (const jit::Value *output : node.outputs())
      views.push_back(gives_view(*output) ? 1 : 0);
    op->is_(kViews, std::move(views));
    op->insertBefore(&node);
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      op->outputs()[i]->setType(node.outputs()[i]->type());
      node.outputs()[i]->replaceAllUsesWith(op->outputs()[i]);
    }
    node.destroy();
  }

  /// `inputs`: of the node, grows by what the block captures; `captured`: their places.
  static std::shared_ptr<jit::Graph> graph_of(jit::Block &block, std::vector<jit::Value *> &inputs,
                                              std::vector<std::size_t> &captured) {
    auto graph = std::make_shared<jit::Graph>();
    std::unordered_map<const jit::Value *, jit::Value *> known;
    std::vector<jit::Value *> outer;
    const jit::WithInsertPoint at(graph->block());
    graph->block()->cloneFrom(&block, [&](jit::Value *value) {
      if (const auto found = known.find(value); found != known.end())
        return found->second;
      jit::Value *made = nullptr;
      if (value->node()->kind() == c10::prim::Constant) {
        made = graph->insertNode(graph->createClone(value->node(), [](jit::Value *v) { return v; }))
                   ->output();
      } else {
        made = graph->addInput()->setType(value->type());
        outer.push_back(value);
      }
      return known[value] = made;
    });
    for (jit::Value *value : outer) {
      const auto at_input = std::find(inputs.begin(), inputs.end(), value);
      captured.push_back(static_cast<std::size_t>(at_input - inputs.begin()));
      if (at_input == inputs.end())
        inputs.push_back(value);
    }
    return graph;
  }

  /// Whether an op of the block draws. `outside`: gets what ops write to that the block has not
  /// made.
  static bool check(const jit::Block &block, std::set<const jit::Value *> &outside) {
    bool draws_any = false;
    for (const jit::Node *node : block.nodes()) {
      for (const jit::Block *inner : node->blocks())
        draws_any |= check(*inner, outside);
      if (!node->blocks().empty() || is_plain_node(*node))
        continue;
      const std::string_view name = node->kind().toQualString();
      if (auto why = why_not(*node); !why.empty())
        give_up("in a loop or a branch: " + why);
      if (reads_offset(*node))
        give_up(std::string("in a loop or a branch: ") + std::string(name) +
                " asks where a tensor lies");
      if (writes(*node) && !(writes_in_place(*node) && is_own(*node->input(0)))) {
        if (resizes_by_number(*node)) // or by the block that runs
          give_up(std::string("in a loop or a branch: ") + std::string(name) +
                  " writes to what lies outside");
        outside.insert(base_of(node->input(0)));
      }
      if (name == "aten::set_grad_enabled")
        give_up("in a loop or a branch: grad mode is switched");
      draws_any |= draws(*node);
    }
    return draws_any;
  }
  static bool is_plain_node(const jit::Node &node) {
    return node.kind() == c10::prim::Constant || node.kind() == c10::prim::ListConstruct ||
           node.kind() == c10::prim::ListUnpack;
  }

  void (*interruptible_)();
};

} // namespace

std::shared_ptr<jit::Graph> outline(const jit::Graph &graph, void (*interruptible)()) {
  auto copy = const_cast<jit::Graph &>(graph).copy();
  Outlining(interruptible).outline(*copy);
  return copy;
}

bool is_outlined(const jit::Node &node) { return node.kind() == kKind; }
bool outlined_draws(const jit::Node &node) { return node.i(kDraws) != 0; }
std::vector<std::size_t> outlined_writes(const jit::Node &node) {
  const auto &written = node.is(kWrites);
  return {written.begin(), written.end()};
}
bool may_be_view(const jit::Node &node, std::size_t index) { return node.is(kViews)[index] != 0; }

jit::Operation operation_of(const jit::Node &node) {
  const std::size_t inputs = node.inputs().size(), outputs = node.outputs().size();
  if (is_outlined(node))
    return [=, run = blocks_of(node)](jit::Stack &stack) { run->run(stack, inputs, outputs); };
  jit::Operation operation = node.getOperation();
  if (is_factory(node))
    return [operation = std::move(operation)](jit::Stack &stack) mutable {
      operation(stack);
      begin_version(stack);
    };
  if (!is_composite(node))
    return operation;
  return [=](jit::Stack &stack) mutable {
    with_views(stack, inputs, outputs, false, [&](jit::Stack &all) { operation(all); });
  };
}

} // namespace tracehost::tape
