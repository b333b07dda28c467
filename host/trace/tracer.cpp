#include "trace/tracer.h"

#include "program/nodes.h"
#include "program/passes.h"
#include "program/places.h"
#include "trace/ancestry.h"
#include "trace/argument_stash.h"
#include "trace/block.h"
#include "trace/numbers.h"
#include "trace/trace.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/normalize_ops.h>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// Each tensor constant of the graph must come from Inputs::literal: its one use is a clone. Calls
/// of Python are recorded by us: what libtorch has recorded by itself does not hold what it
/// changes.
void audit(const jit::Node *node) {
  if (node->kind() == c10::prim::PythonOp)
    reject(Rejection::trace,
           fmt::format("{} was called by an `apply` that was taken from the class before "
                       "tracehost was imported. Import tracehost first.",
                       static_cast<const jit::PythonOp *>(node)->name()));
  if (node->kind() != c10::prim::Constant ||
      !node->output()->type()->isSubtypeOf(*c10::TensorType::get()))
    return;
  const auto value = jit::toIValue(node->output());
  if (!value || !value->isTensor() || !value->toTensor().defined() ||
      value->toTensor().unsafeGetTensorImpl()->is_wrapped_number())
    return;
  for (const auto &use : node->output()->uses())
    if (use.user->kind() != c10::aten::clone && value->toTensor().dim() > 0)
      reject(Rejection::capture,
             fmt::format("a tensor of shape {} would be a constant of the graph, at {}. Make "
                         "it outside of the function, or by an op in it.",
                         c10::str(value->toTensor().sizes()), place_of(*use.user)));
}

/// Makes a Trace the thread's for as long as its trace runs, with casts of its own.
struct Current {
  Trace &trace;

  explicit Current(Trace &own) : trace(own) {
    trace.forget_casts();
    current = &trace;
  }
  ~Current() {
    current = nullptr;
    trace.forget_casts();
  }
};

/// libtorch's tracer, on for as long as this lives. Not tracer::trace: what that does to the graph
/// afterwards fails on ops that it can't match, and removes writes that it takes for dead.
struct Recording {
  explicit Recording(const std::vector<at::Tensor> &slots) {
    state->strict = false;
    state->warn = false; // reads are errors here, and sizes are exact: nothing is left to warn of
    tracer::setTracingState(state);
    for (const at::Tensor &t : slots)
      state->setValue(t, state->graph->addInput());
  }
  ~Recording() { tracer::setTracingState(nullptr); }
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  const std::shared_ptr<tracer::TracingState> state = std::make_shared<tracer::TracingState>();
};

/// Runs the body. After any exception of the body, libtorch's tracer is fit for the next trace.
std::vector<at::Tensor> run_body(const std::function<std::vector<at::Tensor>()> &body,
                                 Trace &trace) {
  const InstalledHook hook(&trace);
  const auto state = tracer::getTracingState();
  std::optional<shapes::WithoutData> without_data;
  if (trace.without_data())
    without_data.emplace();
  try {
    std::vector<at::Tensor> results = body();
    trace.close();
    for (auto &t : results) {
      trace.inputs.know(t);
      trace.inputs.check_returned(t);
      trace.inputs.note_leaf(t);
      const bool is_size = trace.dynamic_sizes && trace.dynamic_sizes->is_size(t);
      if (!is_size && !is_traced_number(t))
        t = trace.blocks.fake_tensor(t);
    }
    return results;
  } catch (...) {
    if (trace.eager_region)
      trace.land(true);
    // An op that throws leaves the tracer switched off: its kernel does not restore the state.
    tracer::setTracingState(state);
    clear_argument_stash();
    throw;
  }
}

/// The place that torch's own bindings give a node: a line `/a/net.py(12): f` for each frame of
/// Python, and the innermost one's file and line.
jit::SourceRange all_frames() {
  std::string frames;
  std::optional<std::string> file;
  std::size_t line = 0;
  for (const jit::StackEntry &entry : tracer::pythonCallstack()) {
    const auto place = entry.range.file_line_col();
    if (!place)
      continue;
    frames += fmt::format("{}({}): {}\n", std::get<0>(*place), std::get<1>(*place), entry.filename);
    if (!file) {
      file = std::get<0>(*place);
      line = std::get<1>(*place);
    }
  }
  const std::size_t size = frames.size();
  return {std::make_shared<jit::Source>(std::move(frames), file, line), 0, size};
}

/// What libtorch calls for each node that it records.
void give_place(jit::Node *node) {
  node->setSourceRange(current ? current->place() : all_frames());
}

} // namespace

Traced trace(std::vector<at::Tensor> slots, const DynamicDimensions &dynamic, Frontend &frontend,
             const std::function<std::vector<at::Tensor>()> &body, Witness *witness,
             const Outcomes *outcomes) {
  TORCH_INTERNAL_ASSERT(!current && !tracer::isTracing());
  tracer::setRecordSourceLocation(give_place); // an import of torch sets its own
  Trace under_way(slots, dynamic, frontend, witness, outcomes);
  Current mark(under_way);
  const Recording recording(slots);
  jit::Graph &graph = *recording.state->graph;
  const auto results = run_body(body, under_way);
  for (std::size_t i = 0; i < results.size(); ++i)
    graph.registerOutput(recording.state->getOutput(results[i], i));
  tracer::setTracingState(nullptr);
  fold_numbers(*graph.block());
  convert_truths(graph.block());
  // Not the variant that asks which memory a write reaches: of a loop's result it does not see that
  // it is what the loop began with. All writes stay, as in eager.
  jit::EliminateDeadCode(graph.block());
  jit::NormalizeOps(recording.state->graph);
  each_node(graph.block(), [&](const jit::Node *node) { audit(node); });
  settle_kept(graph);
  under_way.result.graph = recording.state->graph;
  return std::move(under_way.result);
}

bool recording() { return current && !current->abandoned() && tracer_records(); }
bool active() { return current != nullptr; }
bool abandoned() { return current && current->abandoned(); }
bool abandons() { return current && current->rejections.abandons(); }

Paused::Paused() : state_(tracer::getTracingState()) { set_tracing_state(nullptr); }
Paused::~Paused() { set_tracing_state(std::static_pointer_cast<tracer::TracingState>(state_)); }

std::int64_t integer_now(const at::Tensor &t) {
  const PausedWithData paused;
  return t.item().toLong();
}

bool traces_reads() { return current->traces_reads(); }
void reject_read(const std::string &what) { reject(Rejection::value_read, what); }
void reject(Rejection why, const std::string &message) { current->rejections.reject(why, message); }
void repeat_rejection() { current->rejections.repeat(); }
void check_size_read(const at::Tensor &t, const std::string &what) {
  if (!current->value_sizes.exact(t))
    current->value_sizes.reject_sizes(what);
}
bool has_exact_sizes(const at::Tensor &t) { return current->value_sizes.exact(t); }
bool has_unknown_sizes() { return current->value_sizes.any(); }
void note_strides_read() { current->result.reads_strides = true; }
static bool may_be_view(const at::Tensor &t) {
  return (t.is_view() || t.is_inference()) && !current->without_data() &&
         !shapes::is_fake_tensor(t);
}
static void check_known_sizes(const at::Tensor &t) {
  if (may_be_view(t))
    current->value_sizes.check(t, "how a tensor lies in memory");
}
bool lies_by_values(const at::Tensor &t) {
  return (traces_reads() && may_be_view(t) && !current->value_sizes.exact(t)) || lies_by_block(t);
}
bool lies_by_block(const at::Tensor &t) {
  return traces_reads() && current->blocks.varies(Fact::layout, t);
}
bool records_by_block(const at::Tensor &t) {
  return traces_reads() && current->blocks.varies(Fact::gradient, t);
}
bool lies_by_sizes(const at::Tensor &t, Layout read, const char *name) {
  if (!current->value_sizes.exact(t)) {
    if (!traces_reads())
      check_size_read(t, name);
    return traces_reads();
  }
  if (lies_by_block(t))
    return true;
  if (!current->dynamic_sizes)
    return false;
  current->inputs.know(t);
  current->blocks.meet(t);
  return current->dynamic_sizes->lies_by_sizes(t, read);
}
void note_strides_read(const at::Tensor &t) {
  check_known_sizes(t);
  if (current->inputs.may_lie_as_inputs(t))
    note_strides_read();
  if (current->dynamic_sizes)
    current->dynamic_sizes->read_strides(t);
}
void note_contiguity_read(const at::Tensor &t) {
  check_known_sizes(t);
  if (current->inputs.may_lie_as_inputs(t))
    note_strides_read();
  if (current->dynamic_sizes)
    current->dynamic_sizes->read_contiguity(t);
}
std::optional<at::Tensor> traced_size(const at::Tensor &t, std::int64_t dimension) {
  if (!current->dynamic_sizes) [[likely]]
    return std::nullopt;
  current->inputs.know(t);
  current->blocks.meet(t);
  return current->dynamic_sizes->size(t, dimension);
}
std::optional<at::Tensor> traced_numel(const at::Tensor &t) {
  if (!current->dynamic_sizes) [[likely]]
    return std::nullopt;
  current->inputs.know(t);
  current->blocks.meet(t);
  return current->dynamic_sizes->numel(t);
}
bool has_dynamic_sizes() { return current->dynamic_sizes.has_value(); }
void same_value(const at::Tensor &from, const at::Tensor &to) {
  const auto &state = tracer::getTracingState();
  state->setValue(to, state->getValue(from));
}
bool may_be_one(const at::Tensor &a, const at::Tensor &b) {
  const auto &state = tracer::getTracingState();
  return in_eager(a).is_same(in_eager(b)) || (state->hasValue(a) && state->hasValue(b) &&
                                              may_be_one(state->getValue(a), state->getValue(b)));
}
bool is_of_block(const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  return state->hasValue(t) && is_of_block(state->getValue(t));
}
bool is_traced_size(const at::Tensor &t) {
  const Resumed resumed;
  return current && current->dynamic_sizes && current->dynamic_sizes->is_size(t);
}
std::int64_t specialize_size(const at::Tensor &size, const std::string &why) {
  const Resumed resumed;
  if (current && current->dynamic_sizes && tracer::isTracing())
    return current->dynamic_sizes->specialize(size, why);
  return integer_now(size);
}
std::int64_t index_of_size(const at::Tensor &size) {
  if (in_eager_region())
    return specialize_size(size, "a size in init_scope");
  // Where torch has the tracer switched off for a moment, no op that records the size follows.
  if (current && current->dynamic_sizes && tracer::isTracing())
    return tracer_records() ? current->dynamic_sizes->index(size)
                            : current->dynamic_sizes->specialize(size, "torch.tensor() of a size");
  return integer_now(size);
}
void note_draw(const std::string &what) {
  current->result.draws.push_back({what, current->here()});
}
void note_edited(const std::string &what) {
  current->result.edited.push_back({what, current->here()});
}
void note_raising(const std::string &op) { current->effects.note_raising(op); }
/// A generator advances as in eager, an error is raised as in eager. See settle_kept().
void keep(jit::Value *result) { insert_op(*result->owningGraph(), "tracehost::keep", {result}, 0); }
void note_leaf_read() { current->result.reads_leaf = true; }

} // namespace tracehost::trace
