#include "program/program.h"

#include "program/passes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstring>
#include <utility>
#include <vector>

namespace tracehost {

namespace jit = torch::jit;

namespace {

// Found in the interpreter's error text: which node failed.
constexpr const char *kMark = "tracehost-node-";

thread_local std::string failed;

struct Origin {
  std::string where;            ///< user's line
  c10::OperatorName op{"", ""}; ///< empty for an op that the dispatcher does not have
  std::size_t inputs = 0;
};

/// `/a/b/net.py(12): f` or `net.py:12:0` -> `net.py:12`.
std::string short_place(const jit::SourceRange &range) {
  if (const auto line = range.file_line_col()) {
    const auto &[file, number, column] = *line;
    const auto slash = file.rfind('/');
    return file.substr(slash == std::string::npos ? 0 : slash + 1) + ":" + std::to_string(number);
  }
  return {};
}

bool worth_dropping_gil(const jit::Block &block, std::size_t &ops) {
  bool far = false;
  for (const jit::Node *node : block.nodes()) {
    if (node->kind() == c10::prim::Constant) {
      const auto value = jit::toIValue(node->output());
      far |= value && value->isDevice() && !value->toDevice().is_cpu();
      continue;
    }
    ++ops;
    far |= node->kind() == c10::prim::PythonOp || node->kind() == c10::prim::Loop;
    for (const jit::Block *inner : node->blocks())
      far |= worth_dropping_gil(*inner, ops);
  }
  return far;
}

} // namespace

struct Program::Impl {
  jit::Code code;
  std::shared_ptr<jit::Graph> graph;
  std::vector<Origin> origins; ///< by the number in the node's mark
  std::size_t outputs = 0;
  std::size_t dropped = 0;
  std::size_t ops = 0;
  bool long_running = false;

  void mark(jit::Block &block);
  [[noreturn]] void fail(std::string_view text, const torch::jit::Stack &stack) const;
};

void Program::Impl::mark(jit::Block &block) {
  for (jit::Node *node : block.nodes()) {
    for (jit::Block *inner : node->blocks())
      mark(*inner);
    if (node->kind() == c10::prim::Constant)
      continue;
    Origin origin;
    origin.where = short_place(node->sourceRange());
    if (const auto *schema = node->maybeSchema()) {
      origin.op = c10::OperatorName(schema->name(), schema->overload_name());
      origin.inputs = schema->arguments().size();
    }
    const std::string mark_text = kMark + std::to_string(origins.size()) + " ";
    node->setSourceRange(
        jit::SourceRange(std::make_shared<jit::Source>(mark_text), 0, mark_text.size()));
    origins.push_back(std::move(origin));
  }
}

Program::Program(std::shared_ptr<jit::Graph> graph, const std::string &name, std::size_t outputs)
    : impl_(std::make_unique<Impl>()) {
  prepare(graph);
  impl_->outputs = outputs;
  impl_->dropped = graph->outputs().size() - outputs;
  const bool far = worth_dropping_gil(*graph->block(), impl_->ops);
  impl_->long_running = far || impl_->ops >= 16;
  impl_->mark(*graph->block());
  impl_->graph = std::move(graph);
  impl_->code = jit::Code(impl_->graph, name);
}
Program::~Program() = default;

void Program::run(torch::jit::Stack &stack) const {
  const bool grad = at::GradMode::is_enabled();
  try {
    jit::InterpreterState(impl_->code).run(stack);
  } catch (const std::exception &e) {
    at::GradMode::set_enabled(grad);
    // The interpreter replaces the op's exception by its own text. The op's inputs are still on the
    // stack: calling it once more, by itself, throws eager's exception.
    impl_->fail(e.what(), stack);
  }
  if (impl_->dropped) [[unlikely]]
    stack.resize(stack.size() - impl_->dropped);
}

void Program::Impl::fail(std::string_view text, const torch::jit::Stack &stack) const {
  failed.clear();
  const auto at = text.find(kMark);
  if (at != std::string_view::npos) {
    const auto index = static_cast<std::size_t>(std::atoll(text.data() + at + std::strlen(kMark)));
    if (index < origins.size()) {
      const Origin &origin = origins[index];
      failed = origin.where;
      const auto op = c10::Dispatcher::singleton().findSchema(origin.op);
      if (op && stack.size() >= origin.inputs) {
        torch::jit::Stack again(stack.end() - static_cast<std::ptrdiff_t>(origin.inputs),
                                stack.end());
        op->callBoxed(again);
      }
    }
  }
  // It did not fail again (memory was short, say): the message without the interpreter's own lines.
  auto rest = std::string(text);
  if (const auto error = rest.rfind("RuntimeError: "); error != std::string::npos)
    rest = rest.substr(error + std::strlen("RuntimeError: "));
  while (!rest.empty() && rest.back() == '\n')
    rest.pop_back();
  throw std::runtime_error(rest);
}

std::size_t Program::ops() const { return impl_->ops; }
bool Program::long_running() const { return impl_->long_running; }
const torch::jit::Graph &Program::graph() const { return *impl_->graph; }
std::string Program::take_failed_at() { return std::exchange(failed, {}); }

} // namespace tracehost
