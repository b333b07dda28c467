#include "program/program.h"

#include "program/autograd_ops.h"
#include "program/callback.h"
#include "program/early_checks.h"
#include "program/interruption.h"
#include "program/modes.h"
#include "program/nodes.h"
#include "program/ops.h"
#include "program/passes.h"
#include "program/pieces.h"
#include "program/places.h"
#include "program/undo.h"
#include "tracehost/error.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tracehost {

namespace jit = torch::jit;

namespace {

/// A run may take long: it has a loop, or another device or process does a part of it.
bool is_far(const jit::Node &node) {
  if (node.kind() != c10::prim::Constant)
    return node.kind() == c10::prim::Loop || communicates(node.kind().toQualString());
  const auto value = jit::toIValue(node.output());
  return value && value->isDevice() && !value->toDevice().is_cpu();
}

// A node with its values, types, attributes and instructions, within a factor of two.
constexpr std::size_t kBytesOfNode = 1024;

std::size_t bytes_of(const jit::Block &block) {
  std::size_t sum = 0;
  each_node(&block, [&sum](const jit::Node *node) {
    sum += kBytesOfNode;
    if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value) &&
        node->kindOf(c10::attr::value) == jit::AttributeKind::t)
      sum += node->t(c10::attr::value).nbytes();
  });
  return sum;
}

/// Pieces keep instructions, and constants that the graphs have too. A piece that several Programs
/// share counts once for all.
std::size_t bytes_of(const Chain &chain) {
  std::size_t sum = 0;
  for (const Chain::Link &link : chain.links)
    sum += kBytesOfNode * link.piece->code.instructions().size() /
           static_cast<std::size_t>(link.piece.use_count());
  return sum;
}

} // namespace

struct Program::Impl {
  jit::Code code;
  std::shared_ptr<jit::Graph> graph;
  EarlyChecks early_checks;
  std::size_t outputs = 0;
  std::size_t dropped = 0;
  std::size_t ops = 0;
  bool long_running = false;
  bool calls_python = false;
  bool runs_engine = false;
  bool switches_modes = false; ///< besides grad mode
  bool saves = false;          ///< what a check may restore

  std::string name;
  /// Null: the graph is run as a whole. Else of the newest of `chains`: runs may use older ones.
  std::atomic<const Chain *> chain{nullptr};
  std::size_t graph_bytes = 0;
  std::atomic<std::size_t> piece_bytes{0}; ///< of all chains
  std::mutex cutting;                      ///< guards what follows
  std::vector<std::unique_ptr<const Chain>> chains;
  struct Other {
    std::weak_ptr<const Program> program;
    std::vector<std::string> inputs;
  };
  std::vector<Other> tree; ///< whose chains were cut with the newest one

  void run(jit::Stack &stack, Begun *begun) const;
  void interpret(jit::Stack &stack, Begun *begun, Undo *undo) const;
};

namespace {

/// Throws what the op threw.
[[noreturn]] void fail(const std::exception &interpreters) {
  if (auto error = take_op_error())
    std::rethrow_exception(error);
  // Not an op's: the message without the interpreter's own lines.
  take_op_place();
  std::string text = interpreters.what();
  if (const auto error = text.rfind("RuntimeError: "); error != std::string::npos)
    text.erase(0, error + std::strlen("RuntimeError: "));
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  throw std::runtime_error(text);
}

} // namespace

Program::Program(std::shared_ptr<jit::Graph> graph, const std::string &name, std::size_t outputs,
                 bool merges)
    : impl_(std::make_unique<Impl>()) {
  const c10::InferenceMode off(false); // constants that passes make serve any op
  prepare(graph, merges);
  impl_->name = name;
  impl_->outputs = outputs;
  impl_->dropped = graph->outputs().size() - outputs;
  each_node(graph->block(), [this](const jit::Node *node) {
    impl_->ops += node->kind() == c10::prim::Constant ? 0 : 1;
    impl_->long_running |= is_far(*node);
    impl_->switches_modes |= is_mode(*node);
    impl_->saves |= saves(*node);
    impl_->runs_engine |= tracehost::runs_engine(*node);
    impl_->calls_python |= is_call(*node);
  });
  // The engine must not run under the GIL.
  impl_->long_running |= impl_->ops >= 16 || impl_->switches_modes || impl_->runs_engine;
  complete_places(*graph->block());
  impl_->graph_bytes = bytes_of(*graph->block());
  impl_->graph = std::move(graph);
  {
    const InterruptionChecks checks(*impl_->graph);
    impl_->code = jit::Code(impl_->graph, name); // keeps a copy of the graph
  }
  impl_->early_checks = EarlyChecks(*impl_->graph);
  if (impl_->calls_python)
    each_node(impl_->graph->block(), [](const jit::Node *node) {
      if (!is_call(*node))
        return;
      const auto callback = callback_of(*node);
      callback->owners = callback.use_count() - 1;
    });
}
Program::~Program() = default;

void Program::Impl::run(jit::Stack &stack, Begun *begun) const {
  if (!saves)
    return interpret(stack, begun, nullptr);
  Undo undo;
  try {
    interpret(stack, begun, &undo);
  } catch (const CheckFailed &) {
    undo.restore();
    throw;
  }
}

void Program::Impl::interpret(jit::Stack &stack, Begun *begun, Undo *undo) const {
  const bool grad = at::GradMode::is_enabled();
  std::shared_ptr<Begun> left;
  const Chain *cut = chain.load(std::memory_order_acquire);
  try {
    if (begun && !(cut && cut->start(*begun) == Start::same && cut->reads_as(*begun, stack))) {
      begun->saved.restore();
      begun = nullptr;
    }
    if (cut) [[unlikely]]
      left = cut->run(stack, begun, undo);
    else
      jit::InterpreterState(code).run(stack);
  } catch (const FailedCheck &check) {
    at::GradMode::set_enabled(grad);
    set_op_place(check.place);
    throw CheckFailed(check.what);
  } catch (const EndRun &) {
    at::GradMode::set_enabled(grad);
    throw Interrupted("interrupted");
  } catch (const std::exception &e) {
    at::GradMode::set_enabled(grad);
    fail(e);
  }
  if (left) [[unlikely]] {
    at::GradMode::set_enabled(grad);
    cut->fail(std::move(left));
  }
}

Program::Start Program::start(const Begun &begun) const {
  const Chain *chain = impl_->chain.load(std::memory_order_acquire);
  return chain ? chain->start(begun) : Start::other;
}

void Program::share_start(const std::vector<Named> &alike) {
  std::vector<Named> all = alike;
  const auto is_there = [&](const std::shared_ptr<const Program> &program) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Named &one) { return one.program == program; });
  };
  for (const Named &one : alike) {
    Impl &impl = *one.program->impl_;
    const std::lock_guard lock(impl.cutting);
    for (const Impl::Other &other : impl.tree)
      if (const auto alive = other.program.lock(); alive && !is_there(alive))
        all.insert(all.begin(), {alive, other.inputs}); // the newest stays the last one
  }
  std::vector<Beginning> starts;
  for (const Named &one : all)
    starts.push_back({one.program->impl_->graph.get(), one.inputs});
  auto chains = cut(std::move(starts), all.back().program->impl_->name);
  std::vector<Impl::Other> tree;
  for (std::size_t i = 0; i < chains.size(); ++i)
    if (chains[i])
      tree.push_back({all[i].program, all[i].inputs});
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (!chains[i])
      continue;
    Impl &impl = *all[i].program->impl_;
    const std::lock_guard lock(impl.cutting);
    impl.piece_bytes += bytes_of(*chains[i]);
    impl.chains.push_back(std::move(chains[i]));
    impl.chain.store(impl.chains.back().get(), std::memory_order_release);
    impl.tree = tree;
  }
}

bool Program::checks_hold(const torch::jit::Stack &stack) const {
  return impl_->early_checks.hold(stack);
}

void Program::run(torch::jit::Stack &stack, Begun *begun) const {
  if (impl_->switches_modes) [[unlikely]] {
    bool grad = at::GradMode::is_enabled();
    {
      const ModesKept kept;
      impl_->run(stack, begun);
      grad = at::GradMode::is_enabled();
    }
    at::GradMode::set_enabled(grad);
  } else {
    impl_->run(stack, begun);
  }
  if (impl_->dropped) [[unlikely]]
    stack.resize(stack.size() - impl_->dropped);
}

std::size_t Program::ops() const { return impl_->ops; }
std::size_t Program::bytes() const { return impl_->graph_bytes + impl_->piece_bytes; }
bool Program::long_running() const { return impl_->long_running; }
bool Program::runs_engine() const { return impl_->runs_engine; }
bool Program::calls_python() const { return impl_->calls_python; }
const torch::jit::Graph &Program::graph() const { return *impl_->graph; }
std::shared_ptr<jit::Graph> Program::copy_graph() const { return impl_->graph->copy(); }
std::string Program::take_failed_at() { return take_op_place(); }

} // namespace tracehost
