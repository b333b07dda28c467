#include "tape/block_runs.h"

#include "tape/below.h"
#include "tape/composite.h"
#include "tape/factories.h"
#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/temporary_nodes.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tracehost::tape {
namespace {

thread_local std::vector<Copied> copied; ///< results of the last run

/// What a turn of a loop that libtorch's interpreter runs in a block asks for an end.
thread_local void (*asked_by_turns)() = nullptr;

void begin_turn(void (*interruptible)()) {
  if (TimeLimit::current)
    TimeLimit::current->check();
  if (interruptible)
    interrupt(interruptible);
}

const jit::RegisterOperators turn_registered({jit::Operator(
    "tracehost::turn() -> ()", [](jit::Stack &) { begin_turn(asked_by_turns); },
    c10::AliasAnalysisKind::CONSERVATIVE)});

/// In the loops of the graph for a scope: while its bytecode is made. The op stands at the start of
/// a turn, and behind the loop. Else libtorch's bytecode may move a value out too early
/// (InterruptionChecks::insert).
class Turns {
public:
  explicit Turns(jit::Graph &graph) { insert(*graph.block()); }

private:
  void insert(jit::Block &block) {
    for (jit::Node *node : block.nodes()) {
      for (jit::Block *inner : node->blocks())
        insert(*inner);
      if (node->kind() != c10::prim::Loop)
        continue;
      static const auto kind = c10::Symbol::fromQualString("tracehost::turn");
      jit::Graph &graph = *node->owningGraph();
      nodes_.add(node->blocks()[0]->prependNode(graph.create(kind, 0)));
      nodes_.add(graph.create(kind, 0)->insertAfter(node));
    }
  }
  TemporaryNodes nodes_;
};

jit::Code code_of(const std::shared_ptr<jit::Graph> &graph) {
  const Turns turns(*graph);
  const FactoryVersions versions(*graph);
  return jit::Code(graph, "block"); // keeps a copy of the graph
}

/// Whether an op of the graph is such a one. Of a block in a block: yes.
template <class Is> bool any_op(jit::Graph &graph, const Is &is) {
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const jit::Node *node) { return !node->blocks().empty() || is(*node); });
}

void copy_what_was_given(jit::Stack &results, const std::vector<c10::IValue> &given) {
  std::unordered_set<const c10::StorageImpl *> known;
  const auto storage = [](const at::Tensor &t) {
    return t.defined() && t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
  };
  for (const c10::IValue &value : given)
    each_tensor(value, [&](const at::Tensor &t) { known.insert(storage(t)); });
  for (std::size_t i = 0; i < results.size(); ++i) {
    bool is_known = false, is_dense = true;
    each_tensor(results[i], [&](const at::Tensor &t) {
      is_known |= t.defined() && !known.insert(storage(t)).second;
      is_dense &= !t.defined() || t.is_non_overlapping_and_dense();
    });
    if (!is_known)
      continue;
    copied[i] = is_dense ? Copied::yes : Copied::with_other_strides;
    results[i] = results[i].deepcopy();
  }
}

} // namespace

Block::Block(std::shared_ptr<jit::Graph> graph, void (*interruptible)())
    : graph_(std::move(graph)), code_(code_of(graph_)), tapes_(*graph_, interruptible),
      interruptible_(interruptible), counts_writes_(any_op(*graph_, writes)),
      has_composite_(any_op(*graph_, [](const jit::Node &node) {
        return node.maybeSchema() && is_composite(node);
      })) {}

void Block::run(Operands &operands) {
  // At a recording autograd counts the writes: tapes of that are no use later.
  const bool below = is_below(c10::impl::tls_local_dispatch_key_set());
  if (below && run_tape(operands))
    return;
  jit::Stack &stack = operands.own();
  const auto interpret = [this](jit::Stack &all) {
    const auto asked = std::exchange(asked_by_turns, interruptible_);
    const auto back = c10::make_scope_exit([asked] { asked_by_turns = asked; });
    jit::InterpreterState(code_).run(all);
  };
  if (below && (has_composite_ || counts_writes_))
    with_views(stack, graph_->inputs().size(), graph_->outputs().size(), counts_writes_, interpret);
  else
    interpret(stack);
}

bool Block::run_tape(Operands &operands) {
  try {
    return tapes_.run(operands);
  } catch (...) {
    throw Interruption{std::current_exception()};
  }
}

void Blocks::run(jit::Stack &stack, std::size_t inputs, std::size_t outputs) {
  const std::vector<c10::IValue> given(stack.end() - static_cast<std::ptrdiff_t>(inputs),
                                       stack.end());
  jit::drop(stack, inputs);
  Operands results;
  is_loop ? loop(given, results) : branch(given, results);
  copied.assign(outputs, Copied::no);
  copy_what_was_given(results.own(), given);
  for (c10::IValue &result : results.own())
    stack.push_back(std::move(result));
}

void Blocks::lend_captures(std::size_t block, const std::vector<c10::IValue> &given,
                           Operands &operands) {
  for (const std::size_t input : captures[block])
    operands.lend(given[input]);
}

void Blocks::branch(const std::vector<c10::IValue> &given, Operands &operands) {
  const std::size_t block = given[0].toBool() ? 0 : 1;
  lend_captures(block, given, operands);
  blocks[block]->run(operands);
}

void Blocks::loop(const std::vector<c10::IValue> &given, Operands &turn) {
  std::vector<c10::IValue> carried(given.begin() + 2,
                                   given.begin() + static_cast<std::ptrdiff_t>(own));
  bool goes_on = given[1].toBool();
  for (std::int64_t i = 0; goes_on && i < given[0].toInt(); ++i) {
    begin_turn(interruptible);
    turn.clear();
    turn.lend(c10::IValue(i));
    for (const c10::IValue &value : carried)
      turn.lend(value);
    lend_captures(0, given, turn);
    blocks[0]->run(turn);
    const jit::Stack &results = turn.own();
    goes_on = results[0].toBool();
    carried.assign(results.begin() + 1, results.end());
  }
  turn.clear();
  turn.own() = std::move(carried);
}

Copied was_copied(std::size_t index) { return copied[index]; }

} // namespace tracehost::tape
