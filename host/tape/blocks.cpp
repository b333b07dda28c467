#include "tape/blocks.h"

#include "shapes/kernels.h"
#include "tape/factories.h"
#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/tapes.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <unordered_set>

namespace tracehost::tape {
namespace {

const c10::Symbol kKind = c10::Symbol::fromQualString("tracehost::blocks");
const c10::Symbol kRun = c10::Symbol::attr("run"), kDraws = c10::Symbol::attr("draws"),
                  kViews = c10::Symbol::attr("views");

thread_local std::vector<Copied> copied; ///< results of the last run

/// Whether the op is made of ops that autograd sees. Of an op that is not known: yes.
bool is_composite(const jit::Node &node) {
  const auto *schema = node.maybeSchema();
  const auto op = schema ? shapes::op_of(*schema) : std::nullopt;
  return !op || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool is_below(const c10::impl::LocalDispatchKeySet &keys) {
  return keys.excluded_.has(c10::DispatchKey::ADInplaceOrView);
}

/// Runs with views as eager has them, where an argument requires a gradient, or with versions.
/// matmul() and linear() fold a batch if a view of the weight requires one, in no_grad(), too.
/// Below autograd a view requires none. The results are no views of other tensors, as below
/// autograd.
void with_views(jit::Stack &stack, std::size_t inputs, std::size_t outputs, bool versions,
                c10::function_ref<void(jit::Stack &)> run) {
  const auto &now = c10::impl::tls_local_dispatch_key_set();
  bool requires_grad = false;
  for (const c10::IValue &argument : jit::last(stack, inputs))
    each_tensor(argument,
                [&](const at::Tensor &t) { requires_grad |= t.defined() && t.requires_grad(); });
  if ((!versions && (!requires_grad || c10::GradMode::is_enabled())) || !is_below(now))
    return run(stack);
  {
    const c10::impl::ForceDispatchKeyGuard views(
        now.included_, now.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
    run(stack);
  }
  for (std::size_t i = stack.size() - outputs; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().is_view())
      stack[i] = stack[i].toTensor().alias();
}

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
  ~Turns() {
    for (jit::Node *node : nodes_)
      node->destroy();
  }
  Turns(const Turns &) = delete;
  Turns &operator=(const Turns &) = delete;

private:
  void insert(jit::Block &block) {
    for (jit::Node *node : block.nodes()) {
      for (jit::Block *inner : node->blocks())
        insert(*inner);
      if (node->kind() != c10::prim::Loop)
        continue;
      static const auto kind = c10::Symbol::fromQualString("tracehost::turn");
      jit::Graph &graph = *node->owningGraph();
      nodes_.push_back(node->blocks()[0]->prependNode(graph.create(kind, 0)));
      nodes_.push_back(graph.create(kind, 0)->insertAfter(node));
    }
  }
  std::vector<jit::Node *> nodes_;
};

jit::Code code_of(const std::shared_ptr<jit::Graph> &graph) {
  const Turns turns(*graph);
  const FactoryVersions versions(*graph);
  return jit::Code(graph, "block"); // keeps a copy of the graph
}

/// Whether the tensor has memory that the block makes at each run: nobody else sees a write to it.
bool is_own(const jit::Value &value) {
  const jit::Node *node = value.node();
  if (!node->maybeSchema() || is_composite(*node))
    return false;
  if (!node->schema().returns()[value.offset()].alias_info())
    return true;
  return (!writes(*node) || writes_in_place(*node)) && is_own(*node->input(0));
}

/// A block as a graph: its own inputs, then what it reads from around it.
struct Block {
  Block(std::shared_ptr<jit::Graph> graph, void (*interruptible)())
      : graph(std::move(graph)), code(code_of(this->graph)), tapes(*this->graph, interruptible),
        interruptible(interruptible) {}

  void run(Operands &operands) {
    // At a recording autograd counts the writes: tapes of that are no use later.
    const bool below = is_below(c10::impl::tls_local_dispatch_key_set());
    if (below && run_tape(operands))
      return;
    jit::Stack &stack = operands.own();
    const auto interpret = [this](jit::Stack &all) {
      const auto asked = std::exchange(asked_by_turns, interruptible);
      const auto back = c10::make_scope_exit([asked] { asked_by_turns = asked; });
      jit::InterpreterState(code).run(all);
    };
    if (below && (has_composite || counts_writes))
      with_views(stack, graph->inputs().size(), graph->outputs().size(), counts_writes, interpret);
    else
      interpret(stack);
  }
  bool run_tape(Operands &operands) {
    try {
      return tapes.run(operands);
    } catch (...) {
      throw Interruption{std::current_exception()};
    }
  }

  std::shared_ptr<jit::Graph> graph;
  jit::Code code;
  Tapes tapes;
  void (*const interruptible)();
  const bool counts_writes =
      std::any_of(graph->nodes().begin(), graph->nodes().end(),
                  [](const jit::Node *node) { return !node->blocks().empty() || writes(*node); });
  const bool has_composite =
      std::any_of(graph->nodes().begin(), graph->nodes().end(), [](const jit::Node *node) {
        return !node->blocks().empty() || (node->maybeSchema() && is_composite(*node));
      });
};

/// An `if` or a loop. The node's inputs: those that it had, then what each block captures.
struct Blocks : torch::CustomClassHolder {
  bool is_loop = false;
  std::size_t own = 0; ///< inputs of the node that the blocks do not capture
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::vector<std::size_t>> captures; ///< by block: inputs of the node
  void (*interruptible)() = nullptr;

  void run(jit::Stack &stack, std::size_t inputs, std::size_t outputs) {
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

private:
  void lend_captures(std::size_t block, const std::vector<c10::IValue> &given, Operands &operands) {
    for (const std::size_t input : captures[block])
      operands.lend(given[input]);
  }
  void branch(const std::vector<c10::IValue> &given, Operands &operands) {
    const std::size_t block = given[0].toBool() ? 0 : 1;
    lend_captures(block, given, operands);
    blocks[block]->run(operands);
  }
  void loop(const std::vector<c10::IValue> &given, Operands &turn) {
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

  static void copy_what_was_given(jit::Stack &results, const std::vector<c10::IValue> &given) {
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
};

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
    for (jit::Block *block : node.blocks()) {
      std::vector<std::size_t> captured;
      auto inner = graph_of(*block, inputs, captured);
      draws_any |= check(*inner->block());
      run->captures.push_back(std::move(captured));
      run->blocks.push_back(std::make_unique<Block>(std::move(inner), interruptible_));
    }
    jit::Node *op = graph.create(kKind, inputs, node.outputs().size());
    op->ival_(kRun, c10::IValue::make_capsule(std::move(run)));
    op->i_(kDraws, draws_any ? 1 : 0);
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

  /// Whether an op of the block draws.
  static bool check(const jit::Block &block) {
    bool draws_any = false;
    for (const jit::Node *node : block.nodes()) {
      for (const jit::Block *inner : node->blocks())
        draws_any |= check(*inner);
      if (!node->blocks().empty() || is_plain_node(*node))
        continue;
      const std::string_view name = node->kind().toQualString();
      if (auto why = why_not(*node); !why.empty())
        give_up("in a loop or a branch: " + why);
      if (reads_offset(*node))
        give_up(std::string("in a loop or a branch: ") + std::string(name) +
                " asks where a tensor lies");
      if (writes(*node) && !(writes_in_place(*node) && is_own(*node->input(0))))
        give_up(std::string("in a loop or a branch: ") + std::string(name) +
                " writes to what lies outside");
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

thread_local const Below *Below::current = nullptr;

void interrupt(void (*interruptible)()) {
  if (TimeLimit::current) // a recording takes no signal
    return;
  const auto &outside = Below::current->outside_;
  const c10::impl::ForceDispatchKeyGuard as_outside(outside.included_, outside.excluded_);
  const Below *const within = std::exchange(Below::current, nullptr);
  const auto back = c10::make_scope_exit([within] { Below::current = within; });
  try {
    interruptible();
  } catch (...) {
    throw Interruption{std::current_exception()};
  }
}

std::shared_ptr<jit::Graph> outline(const jit::Graph &graph, void (*interruptible)()) {
  auto copy = const_cast<jit::Graph &>(graph).copy();
  Outlining(interruptible).outline(*copy);
  return copy;
}

bool is_outlined(const jit::Node &node) { return node.kind() == kKind; }
bool outlined_draws(const jit::Node &node) { return node.i(kDraws) != 0; }
bool may_be_view(const jit::Node &node, std::size_t index) { return node.is(kViews)[index] != 0; }
Copied was_copied(std::size_t index) { return copied[index]; }

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
