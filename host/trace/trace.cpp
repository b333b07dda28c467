#include "trace/trace.h"

#include "program/places.h"
#include "trace/ancestry.h"
#include "trace/argument_stash.h"
#include "trace/block.h"
#include "trace/failures.h"
#include "trace/op_tensors.h"

#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

constinit thread_local Trace *current = nullptr;

Trace::Trace(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic,
             Frontend &own_frontend, Witness *own_witness, const Outcomes *outcomes)
    : frontend(own_frontend), witness(own_witness), inputs(*this, slots, dynamic.names),
      speculation(*this, outcomes), traces_reads_(own_frontend.traces_reads()) {
  if (!dynamic.dimensions.empty() || !dynamic.captures.empty())
    dynamic_sizes.emplace(slots, dynamic, frontend, result, [this](const std::string &what) {
      rejections.reject(Rejection::value_read, what);
    });
}

bool Trace::keeps_data(const c10::OperatorHandle &op) const {
  return without_data() && traits(op).literal;
}

bool Trace::records(const c10::OperatorHandle &op) const {
  return traits(op).own_node || (without_data() && shapes::runs_above(op));
}

void Trace::substitute(const c10::OperatorHandle &op, jit::Stack &stack) {
  blocks.substitute(op, stack);
}

bool Trace::is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) {
  return blocks.is_of_sizes(op, stack);
}

static void check_can_be_recorded(const c10::OperatorHandle &op, const Site &here) {
  const auto &name = op.schema().name();
  if (traits(op).unrecorded)
    reject(Rejection::trace,
           fmt::format("{} at {} is not recorded in a graph. Do it outside of the "
                       "function.",
                       name, text(here)));
  if (traits(op).collective)
    reject(Rejection::trace,
           fmt::format("the body communicates with other processes ({}) at {} in a way that is not "
                       "recorded in a graph. Use another collective (torch.distributed.all_reduce, "
                       "broadcast, all_gather), or call it outside of the function.",
                       name, text(here)));
}

/// The tracer knows each tensor of the op.
void Trace::know_arguments(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const OpTraits &of = traits(op);
  const auto &state = tracer::getTracingState();
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    if (state->hasValue(t))
      return;
    if (t.unsafeGetTensorImpl()->is_wrapped_number())
      return blocks.check_not_made(t);
    const bool fresh = t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() == nullptr;
    if (fresh && (of.literal || (of.takes_number && t.dim() == 0)))
      inputs.literal(t);
    else
      inputs.know(t);
  });
}

/// What the op writes. `raises`: for some values, and may have written a part by then.
void Trace::note_changes(const c10::OperatorHandle &op, const jit::Stack &stack, bool raises) {
  const bool writes = traits(op).writes, by_body = op_depth() == 0;
  if (writes)
    each_written(op, stack,
                 [&](const at::Tensor &t) { inputs.check_written(t, op.schema().name()); });
  if (by_body)
    effects.note_op(op, stack);
  if (raises)
    effects.note_raising(op.schema().name());
  if (blocks.depth && writes && by_body)
    blocks.note_written(op, stack);
}

/// Whether the sizes of the op's results depend on values.
bool Trace::makes_inexact(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const OpTraits &of = traits(op);
  bool inexact = of.inexact && inexact_with(op, stack);
  each_tensor(arguments_of(op, stack),
              [&](const at::Tensor &t) { inexact |= !value_sizes.exact(t); });
  if (!inexact || !traits(op).splits)
    return inexact;
  value_sizes.check_parts(op, stack);
  return false;
}

void Trace::before(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto arguments = arguments_of(op, stack);
  const OpTraits &of = traits(op);
  if (of.reads_value) {
    if (dynamic_sizes && reads_size(op, stack))
      return under_way_.resize(std::min(under_way_.size(), static_cast<std::size_t>(op_depth())));
    reject_read(op, stack);
  }
  if (dynamic_sizes && op_depth() == 0) {
    reading_size_ = false;
    dynamic_sizes->settle();
  }
  check_can_be_recorded(op, here());
  if (of.reshapes && !blocks.may_be_others.empty() && op_depth() == 0)
    blocks.check_reshaped(op, arguments[0].toTensor());
  record_modes();
  const bool by_number = op_depth() == 0 && number_arguments.check(op, stack);
  const auto &state = tracer::getTracingState();
  know_arguments(op, stack);
  const bool raises = op_depth() == 0 && (of.raises || by_number);
  note_changes(op, stack, raises); // each capture is known as such
  if (witness)
    witness->before(op, stack);
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (!t.unsafeGetTensorImpl()->is_wrapped_number())
      inputs.note_leaf(t);
  });
  if (dynamic_sizes && op_depth() == 0 && of.splits && arguments.size() == 3 &&
      arguments[2].isInt() && std::string_view(schema.name()).ends_with("chunk"))
    dynamic_sizes->split(arguments[0].toTensor(), arguments[2].toInt(), arguments[1].toInt());
  const bool inexact = makes_inexact(op, stack);
  under_way_.resize(static_cast<std::size_t>(op_depth()) + 1);
  const bool non_blocking =
      std::string_view(schema.name()) == "aten::copy_" && arguments.back().toBool();
  const at::Tensor *first = by_number && !arguments.empty() && arguments[0].isTensor()
                                ? &arguments[0].toTensor()
                                : nullptr;
  const bool known = first && first->defined() && state->hasValue(*first);
  under_way_.back() = {inexact,
                       state->graph->insertPoint()->prev(),
                       non_blocking,
                       raises,
                       known ? first->unsafeGetTensorImpl() : nullptr,
                       known ? state->getValue(*first) : nullptr};
  if (state_ != state)
    state_ = state;
}

/// The tracer's kernel leaves a node without results, and itself switched off. An op that fails for
/// its sizes fails at each call of this signature: the graph leaves it out.
void Trace::failed(const c10::OperatorHandle &op) {
  const auto depth = static_cast<std::size_t>(op_depth());
  if (abandoned() || depth >= under_way_.size())
    return;
  if (!tracer::isTracing())
    set_tracing_state(state_);
  clear_argument_stash();
  const jit::Node *end = state_->graph->insertPoint();
  const auto kind = c10::Symbol::fromQualString(op.schema().name());
  const bool may_be_sure = depth == 0 && !in_loop() && !under_way_[0].makes_inexact &&
                           !dynamic_sizes &&
                           (!op.schema().is_mutable() || op.schema().name().ends_with('_'));
  bool is_sure = false;
  for (jit::Node *node = const_cast<jit::Node *>(end)->prev(); node != under_way_[depth].before;) {
    is_sure |= may_be_sure && node->kind() == kind && fails_by_sizes(*node);
    jit::Node *earlier = node->prev();
    node->destroy();
    node = earlier;
  }
  if (is_sure || blocks.on_fake_tensors()) // it may fail for how its tensors lie in memory
    result.reads_strides = true;
  if (raised.empty() && !rejections.any() && !is_sure)
    raised =
        fmt::format("an op ({}) failed at {}, and the body continued: a graph can't catch what "
                    "its ops raise. Check for the cause before, in tensors, or move the "
                    "attempt out of the function.",
                    op.schema().name(), text(frontend.here()));
}

/// The tracer records each copy_() as one that blocks.
static void keep_non_blocking(const jit::Node *before) {
  jit::Graph &graph = *tracer::getTracingState()->graph;
  for (jit::Node *node = graph.insertPoint()->prev(); node != before; node = node->prev())
    if (node->kind() == c10::aten::copy_ && node->inputs().size() == 3) {
      const jit::WithInsertPoint there(node);
      node->replaceInput(2, graph.insertConstant(true));
    }
}

/// The tracer records an op's name and arguments; a graph finds the overload by these, and may find
/// another: max(x, out=y) reads as the maximum of x and y.
static void check_overload(const c10::OperatorHandle &op, const jit::Node *before,
                           const Site &here) {
  const auto &schema = op.schema();
  jit::Node *node = tracer::getTracingState()->graph->insertPoint()->prev();
  while (node != before && node->kind() == c10::prim::ListUnpack)
    node = node->prev();
  if (node == before || std::string_view(node->kind().toQualString()) != schema.name())
    return; // a composite's parts
  const jit::Operator *found = node->maybeOperator();
  // The same op under either name where the arguments leave a choice: upsample's given a size and
  // no scale, pinv's given no tolerance.
  const std::string_view name = schema.name();
  const bool same = name.find("upsample_") != name.npos || name == "aten::linalg_pinv";
  if (found && !same && found->schema().overload_name() != schema.overload_name())
    reject(Rejection::trace,
           fmt::format("{}.{} at {} can't be recorded: a graph would take it for {}.{}. Do it "
                       "outside of the function, or by another op.",
                       schema.name(), schema.overload_name(), text(here), schema.name(),
                       found->schema().overload_name()));
}

void Trace::after(const c10::OperatorHandle &op, jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto &state = tracer::getTracingState();
  blocks.check_substituted(op);
  if (records(op))
    recorded(op, stack);
  const auto depth = static_cast<std::size_t>(op_depth());
  if (depth < under_way_.size())
    check_overload(op, under_way_[depth].before, here());
  if (depth < under_way_.size() && under_way_[depth].non_blocking)
    keep_non_blocking(under_way_[depth].before);
  if (depth == 0 && number_arguments.any())
    number_arguments.settle(&op); // while the op's node is the last
  const OpTraits &of = traits(op);
  const bool raises = depth < under_way_.size() && under_way_[depth].raises;
  const bool kept =
      of.random || of.functional || (of.statistics && depth == 0) || (raises && !of.writes);
  const bool inexact = depth < under_way_.size() && under_way_[depth].makes_inexact;
  each_tensor(results_of(op, stack), [&](const at::Tensor &t) {
    if (!state->hasValue(t))
      reject(Rejection::trace,
             fmt::format("{} at {} is not recorded by libtorch's tracer. Do it outside "
                         "of the function.",
                         schema.name(), text(frontend.here())));
    if (inexact && (t.dim() > 0 || traits(op).drops_dimensions))
      value_sizes.note(state->getValue(t));
    if (kept)
      keep(state->getValue(t));
    if (blocks.depth && depth == 0)
      blocks.made(t);
  });
  if (depth > 0)
    return;
  part_from_argument(op, stack);
  if (inexact && traits(op).drops_dimensions)
    value_sizes.check_rank(op, stack);
  if (witness)
    witness->after(op, stack);
  if (!dynamic_sizes)
    return;
  if (std::string_view(schema.name()) == "aten::split")
    for (jit::Node *node = state->graph->insertPoint()->prev(); node != under_way_[0].before;
         node = node->prev())
      if (node->kind() == c10::aten::split)
        dynamic_sizes->split_by(node->input(1));
  std::vector<at::Tensor> results;
  each_tensor(results_of(op, stack), [&](const at::Tensor &t) { results.push_back(t); });
  dynamic_sizes->after(results);
}

const jit::SourceRange &Trace::place() {
  const bool undoable = effects.undoable();
  if (Site site = here(); !last_place_ || site != last_site_ || undoable != last_undoable_) {
    last_place_ = place_range(site.line ? text(site) : std::string(), undoable);
    last_site_ = std::move(site);
    last_undoable_ = undoable;
  }
  return *last_place_;
}

void Trace::note_grads() {
  for (const auto &[t, grad] : gradients.assumed())
    if (const auto input = inputs.find(t); input && input->second.is_same(t))
      result.grads.push_back({input->first, grad});
  std::sort(result.grads.begin(), result.grads.end(),
            [](const GradRead &a, const GradRead &b) { return a.input < b.input; });
}

void Trace::close() {
  if (eager_region) {
    const Site where = eager_region->where;
    land(true);
    if (!abandoned())
      reject(Rejection::trace,
             fmt::format("the block that the body lifts out of the trace (init_scope) at {} is "
                         "still open at the end of the body. Close it before: a generator that "
                         "opens it has to run to its end.",
                         text(where)));
  }
  if (abandoned())
    rejections.throw_abandoned();
  number_arguments.settle(nullptr);
  rejections.repeat();
  if (!raised.empty())
    reject(Rejection::trace, raised);
  if (dynamic_sizes)
    dynamic_sizes->finish();
  if (const auto problem = at_call_.left_switched(); !problem.empty())
    reject(Rejection::trace, fmt::format("the body ends in a region that it has opened ({}). "
                                         "Use a `with` statement, which ends in the body.",
                                         problem));
  note_grads();
  record_modes();
  effects.close();
}

/// dropout(x, p) gives x itself where p is 0, which a later call's number may not be. So the body
/// gets another tensor over x's memory, and x stays what it was.
void Trace::part_from_argument(const c10::OperatorHandle &op, jit::Stack &stack) {
  if (under_way_.empty()) // a read of a size
    return;
  const Op &ran = under_way_.front();
  if (!ran.first || traits(op).writes || stack.empty() || !stack.back().isTensor() ||
      stack.back().toTensor().unsafeGetTensorImpl() != ran.first)
    return;
  const auto &state = tracer::getTracingState();
  const at::Tensor argument = stack.back().toTensor();
  jit::Value *result = state->getValue(argument);
  const auto inputs = result->node()->inputs();
  const bool by_number = std::any_of(inputs.begin(), inputs.end(), [](const jit::Value *input) {
    return !input->type()->isSubtypeOf(*c10::TensorType::get()) && !is_of_constants(input);
  });
  if (result == ran.first_value || !by_number)
    return;
  at::Tensor other;
  {
    const Paused paused;
    const InstalledHook no_hook(nullptr);
    other = at::alias(argument);
  }
  state->setValue(argument, ran.first_value);
  state->setValue(other, result);
  stack.back() = std::move(other);
}

/// Another node or value may get the same address.
void Trace::forget(jit::Node *node) {
  const auto forget_value = [this](jit::Value *value) {
    value_sizes.forget(value);
    speculation.loose.erase(value);
    number_arguments.forget(value);
    blocks.forget(value);
    if (dynamic_sizes)
      dynamic_sizes->forget(value);
  };
  number_arguments.forget(node);
  effects.saves.forget(node);
  if (dynamic_sizes)
    dynamic_sizes->forget(node);
  for (jit::Value *value : node->outputs())
    forget_value(value);
  for (jit::Block *block : node->blocks()) {
    for (jit::Value *value : block->inputs())
      forget_value(value);
    for (jit::Node *inner : block->nodes())
      forget(inner);
  }
}

} // namespace tracehost::trace
