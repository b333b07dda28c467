#include "program/program.h"

#include "capture/captures.h"
#include "capture/plugin.h"
#include "program/autograd_ops.h"
#include "program/callback.h"
#include "program/checks.h"
#include "program/early_checks.h"
#include "program/interruption.h"
#include "program/modes.h"
#include "program/nodes.h"
#include "program/numbers.h"
#include "program/ops.h"
#include "program/passes.h"
#include "program/places.h"
#include "program/undo.h"
#include "tape/factories.h"
#include "tape/ops.h"
#include "tape/tapes.h"
#include "tracehost/error.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <cstring>
#include <exception>
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

} // namespace

struct Program::Impl {
  jit::Code code;
  std::shared_ptr<jit::Graph> graph;
  EarlyChecks early_checks;
  Checks checks;
  std::size_t outputs = 0;
  std::size_t dropped = 0;
  std::size_t ops = 0;
  bool long_running = false;
  bool calls_python = false;
  bool runs_engine = false;
  bool switches_modes = false; ///< besides grad mode
  bool saves = false;          ///< what a check may restore
  bool changes = true;         ///< what was there before the run
  std::unique_ptr<tape::Tapes> tapes;
  std::unique_ptr<capture::Captures> captures; ///< instead of the tapes, on a device
  bool asks_for_exact = false;                 ///< could have CUDA graphs, which are no default
  std::size_t graph_bytes = 0;

  /// `undoes`: throws OpFailed where it can.
  void run(Operands &operands, bool undoes) const;
  void run(jit::Stack &stack, bool undoes) const;
  void run_in_modes(jit::Stack &stack, bool undoes) const;
  void interpret(jit::Stack &stack, bool undoes) const;
  bool run_tape(Operands &operands) const;
  bool may_change() const;
  void optimize(ProgramOptions options);
};

namespace {

/// A `raise` of the body, and what Python's arithmetic raises, have rules of their own.
bool is_raise(const std::exception_ptr &error) {
  try {
    std::rethrow_exception(error);
  } catch (const Raised &) {
    return true;
  } catch (const LeavesNumbers &) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Of a run that was captured, and not executed.
capture::Failure take_failure() {
  std::exception_ptr error = take_op_error();
  return {std::move(error), take_op_place()};
}

/// Throws what the op threw, as OpFailed if `undoes`.
[[noreturn]] void fail(const std::exception &interpreters, bool undoes) {
  if (auto error = take_op_error()) {
    if (undoes && !is_raise(error))
      throw OpFailed{std::move(error)};
    std::rethrow_exception(error);
  }
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
                 ProgramOptions options)
    : impl_(std::make_unique<Impl>()) {
  const c10::InferenceMode off(false); // constants that passes make serve any op
  prepare(graph, options.merges);
  impl_->outputs = outputs;
  impl_->changes = options.changes;
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
  impl_->early_checks = EarlyChecks(*impl_->graph);
  impl_->checks = Checks(*impl_->graph, impl_->early_checks.count());
  {
    const InterruptionChecks checks(*impl_->graph);
    const tape::FactoryVersions versions(*impl_->graph);
    impl_->code = jit::Code(impl_->graph, name); // keeps a copy of the graph
  }
  if (options.optimize != Optimize::off)
    impl_->optimize(std::move(options));
  if (impl_->calls_python)
    each_node(impl_->graph->block(), [](const jit::Node *node) {
      if (!is_call(*node))
        return;
      const auto callback = callback_of(*node);
      callback->owners = callback.use_count() - 1;
    });
}
Program::~Program() = default;

void Program::Impl::optimize(ProgramOptions given) {
  if (!given.on_device) {
    tapes = std::make_unique<tape::Tapes>(*graph, &ask_for_interruption, dropped,
                                          std::move(given.on_graph));
    return;
  }
  if (given.optimize != Optimize::exact) {
    asks_for_exact = true;
    return;
  }
  capture::Options options;
  options.interpret = [this](jit::Stack &stack, bool captured) {
    const Uninterrupted if_captured(captured);
    jit::InterpreterState(code).run(stack);
  };
  options.take_failure = &take_failure;
  options.complete_places = &complete_places;
  options.place_of = &place_of;
  options.find_device = &capture::plugin_device;
  options.arguments = given.arguments;
  options.pools = std::move(given.pools);
  options.report = std::move(given.on_graph);
  captures = std::make_unique<capture::Captures>(*graph, std::move(options));
}

void Program::Impl::run(jit::Stack &stack, bool undoes) const {
  if (!saves)
    return interpret(stack, undoes);
  Undo undo;
  try {
    interpret(stack, undoes);
  } catch (const CheckFailed &) {
    undo.restore();
    throw;
  } catch (const OpFailed &failed) {
    if (!undo.has_all())
      std::rethrow_exception(failed.error);
    undo.restore();
    throw;
  }
}

/// Whether a run may leave something changed, as far as the graph says.
bool Program::Impl::may_change() const {
  return changes && any_node(graph->block(), [](const jit::Node &node) {
           const auto *schema = node.maybeSchema();
           return (schema && schema->is_mutable()) || tape::draws(node) ||
                  (node.hasSideEffects() && !is_check(node.kind().toQualString()) &&
                   node.kind() != c10::prim::RaiseException);
         });
}

bool Program::Impl::run_tape(Operands &operands) const {
  try {
    return tapes->run(operands);
  } catch (const EndRun &end) {
    throw Interrupted(end.why, may_change());
  } catch (...) { // a signal's
    take_signalled();
    throw;
  }
}

void Program::Impl::interpret(jit::Stack &stack, bool undoes) const {
  const bool grad = at::GradMode::is_enabled();
  try {
    if (captures && captures->run(stack))
      return;
    jit::InterpreterState(code).run(stack);
  } catch (const FailedCheck &failed) {
    at::GradMode::set_enabled(grad);
    throw checks.failed(failed);
  } catch (const EndRun &end) {
    at::GradMode::set_enabled(grad);
    throw Interrupted(end.why, may_change());
  } catch (const std::exception &e) {
    at::GradMode::set_enabled(grad);
    const bool ended = take_signalled(); // no op's own error
    fail(e, undoes && !ended && (!changes || op_is_undoable()));
  }
}

const Checks &Program::checks() const { return impl_->checks; }

bool Program::checks_hold(c10::ArrayRef<c10::IValue> inputs) const {
  return impl_->early_checks.hold(inputs);
}

void Program::Impl::run_in_modes(jit::Stack &stack, bool undoes) const {
  if (switches_modes) [[unlikely]] {
    bool grad = at::GradMode::is_enabled();
    {
      const ModesKept kept;
      run(stack, undoes);
      grad = at::GradMode::is_enabled();
    }
    at::GradMode::set_enabled(grad);
  } else {
    run(stack, undoes);
  }
  if (dropped) [[unlikely]]
    stack.resize(stack.size() - dropped);
}

/// A tape saves and restores for itself, and switches no mode but grad mode.
void Program::Impl::run(Operands &operands, bool undoes) const {
  if (tapes && run_tape(operands))
    return;
  const c10::WarningUtils::WarningHandlerGuard warnings(operands.warnings());
  run_in_modes(operands.own(), undoes);
}

void Program::run(Operands &operands) const { impl_->run(operands, false); }
void Program::run_or_undo(Operands &operands) const { impl_->run(operands, true); }
void Program::run(torch::jit::Stack &stack) const {
  Operands operands(std::move(stack));
  impl_->run(operands, false);
  stack = std::move(operands.own());
}

std::size_t Program::ops() const { return impl_->ops; }
std::size_t Program::bytes() const { return impl_->graph_bytes; }
bool Program::long_running() const { return impl_->long_running; }
bool Program::runs_engine() const { return impl_->runs_engine; }
bool Program::calls_python() const { return impl_->calls_python; }
std::string Program::runs_by() const {
  if (impl_->captures)
    return impl_->captures->describe();
  if (impl_->asks_for_exact)
    return "the interpreter: optimize=\"exact\" asks for CUDA graphs";
  return impl_->tapes ? impl_->tapes->describe() : "";
}
const torch::jit::Graph &Program::graph() const { return *impl_->graph; }
std::shared_ptr<jit::Graph> Program::copy_graph() const { return impl_->graph->copy(); }
std::string Program::take_failed_at() { return take_op_place(); }

} // namespace tracehost
