#include "capture/writes.h"

#include "tape/ops.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>

/// Follows the memory of inputs through views and lists. A schema says which results may lie in
/// the memory of which arguments.

namespace tracehost::capture {

namespace jit = torch::jit;

namespace {

/// They may return their argument, and no schema says so.
constexpr std::array<std::string_view, 5> kMayReturnTheirArgument{
    "aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout",
    "aten::type_as"};

class Memories {
public:
  explicit Memories(const jit::Graph &graph) : written_(graph.inputs().size()) {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      of_[graph.inputs()[i]] = {i};
    walk(*graph.block());
  }
  const std::vector<bool> &written() const { return written_; }

private:
  using Inputs = std::set<std::size_t>;

  Inputs of(c10::ArrayRef<const jit::Value *> values) const {
    Inputs all;
    for (const jit::Value *value : values)
      if (const auto found = of_.find(value); found != of_.end())
        all.insert(found->second.begin(), found->second.end());
    return all;
  }
  void add(c10::ArrayRef<const jit::Value *> values, const Inputs &inputs) {
    for (const jit::Value *value : values)
      of_[value].insert(inputs.begin(), inputs.end());
  }

  void walk(const jit::Block &block) {
    for (const jit::Node *node : block.nodes()) {
      for (const std::size_t i : tape::written_arguments(*node))
        for (const std::size_t input : of({node->input(i)}))
          written_[input] = true;
      add(node->outputs(), results(*node));
    }
  }

  /// The inputs whose memory the node's results may lie in.
  Inputs results(const jit::Node &node) {
    if (!node.blocks().empty())
      return results_of_blocks(node);
    const auto *schema = node.maybeSchema();
    if (!schema) // lists and tuples
      return of(node.inputs());
    const auto &returns = schema->returns();
    const bool returns_argument =
        std::find(kMayReturnTheirArgument.begin(), kMayReturnTheirArgument.end(), schema->name()) !=
        kMayReturnTheirArgument.end();
    if (!returns_argument && std::none_of(returns.begin(), returns.end(),
                                          [](const c10::Argument &r) { return r.alias_info(); }))
      return {};
    std::vector<const jit::Value *> arguments;
    for (std::size_t i = 0; i < schema->arguments().size(); ++i)
      if (returns_argument || schema->arguments()[i].alias_info())
        arguments.push_back(node.input(i));
    return of(arguments);
  }

  /// A loop's results may be what it got, or what an earlier turn gave.
  Inputs results_of_blocks(const jit::Node &node) {
    Inputs all = of(node.inputs());
    for (int turn = 0; turn < 2; ++turn)
      for (const jit::Block *block : node.blocks()) {
        add(block->inputs(), all);
        walk(*block);
        const Inputs given = of(block->outputs());
        all.insert(given.begin(), given.end());
      }
    return all;
  }

  std::unordered_map<const jit::Value *, Inputs> of_;
  std::vector<bool> written_;
};

} // namespace

std::vector<bool> written_inputs(const jit::Graph &graph) { return Memories(graph).written(); }

} // namespace tracehost::capture
