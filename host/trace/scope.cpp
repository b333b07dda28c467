#include "trace/scope.h"

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

constinit thread_local Scope *current = nullptr;

namespace {

/// A user can't change a line of a library, which most remedies are about.
std::string with_remedy_in_library(const std::string &what, const Site &here) {
  if (here.inside.empty() || what.find(here.inside) == std::string::npos)
    return what;
  return what + " That line is a library's: decorate a part of the function that does not reach "
                "it, or call it in tracehost.py_function.";
}

} // namespace

void Scope::reject(Rejection why, const std::string &message) {
  const std::string what = with_remedy_in_library(message, frontend_.here());
  if (!rejected_) {
    rejected_ = true;
    why_ = why;
    what_ = what;
  }
  if (tracer::isTracing()) // a block that is taken out of the graph takes what is stashed along
    clear_argument_stash();
  if (!on_fake_tensors_ && abandons()) // else only the code that stages the block can continue
    throw Abandoned(what_);
  frontend_.reject(why, what);
  std::terminate(); // a front end's `reject()` throws
}

bool Scope::abandons() {
  if (!abandoned_ && rejected_ && frontend_.goes_on(why_)) {
    abandoned_ = true;
    set_tracing_state(nullptr);
  }
  return abandoned_;
}

void Scope::reject_read(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const at::Tensor *first = nullptr;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) { first = first ? first : &t; });
  reject_read(first, op.schema().name(), frontend_.here());
}

void Scope::unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const bool reads = traits(op).reads_value;
  if (!reads && !dynamic_sizes)
    return;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    if (!tracer::getTracingState()->hasValue(t))
      return;
    if (dynamic_sizes && dynamic_sizes->is_size(t))
      dynamic_sizes->specialize(t, "torch.tensor() of a size");
    else if (reads)
      reject_read(&t, op.schema().name(), frontend_.here());
  });
}

void Scope::check_can_be_recorded(const c10::OperatorHandle &op) {
  const auto &name = op.schema().name();
  if (traits(op).unrecorded)
    reject(Rejection::trace,
           fmt::format("{} at {} is not recorded in a graph. Do it outside of the "
                       "function.",
                       name, text(frontend_.here())));
  if (traits(op).collective)
    reject(Rejection::trace,
           fmt::format("the body communicates with other processes ({}) at {} in a way that is not "
                       "recorded in a graph. Use another collective (torch.distributed.all_reduce, "
                       "broadcast, all_gather), or call it outside of the function.",
                       name, text(frontend_.here())));
}

void Scope::note_raising(const std::string &op) {
  if (on_fake_tensors_)
    return;
  if (!frontend_.acts_on_raise())
    return;
  if (effect.empty() && !in_loop())
    saves_.need_to_end(*tracer::getTracingState()->graph, head());
  else if (const Site where = frontend_.catches(); where.line)
    caught_.push_back({op, where});
}

void Scope::before(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto arguments = arguments_of(op, stack);
  const OpTraits &op_traits = traits(op);
  if (op_traits.reads_value) {
    if (dynamic_sizes && reads_size(op, stack))
      return under_way_.resize(std::min(under_way_.size(), static_cast<std::size_t>(op_depth())));
    reject_read(op, stack);
  }
  if (dynamic_sizes && op_depth() == 0) {
    reading_size_ = false;
    dynamic_sizes->settle();
  }
  check_can_be_recorded(op);
  if (op_traits.reshapes && !may_be_others.empty() && op_depth() == 0)
    check_reshaped(op, arguments[0].toTensor());
  record_modes();
  const bool by_number = op_depth() == 0 && check_numbers(op, stack);
  const auto &state = tracer::getTracingState();
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (state->hasValue(t))
      return;
    if (t.unsafeGetTensorImpl()->is_wrapped_number())
      return check_not_of_block(t);
    const bool fresh = t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() == nullptr;
    if (fresh && (op_traits.literal || (op_traits.takes_number && t.dim() == 0)))
      literal(t);
    else
      know(t);
  });
  if (op_traits.writes)
    each_written(op, stack, [&](const at::Tensor &t) {
      if (const std::string *made = arrays_.find(t))
        reject_shared(fmt::format("{} at {} writes to", schema.name(), text(frontend_.here())),
                      *made);
    });
  if (op_depth() == 0) // each capture is known as such
    note_effects(op, stack);
  const bool raises = op_depth() == 0 && (op_traits.raises || by_number);
  if (raises) // may have written a part
    note_raising(schema.name());
  if (blocks && op_traits.writes && op_depth() == 0)
    note_written(op, stack);
  if (witness_)
    witness_->before(op, stack);
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (!t.unsafeGetTensorImpl()->is_wrapped_number())
      note_leaf(t);
  });
  if (dynamic_sizes && op_depth() == 0 && op_traits.splits && arguments.size() == 3 &&
      arguments[2].isInt() && std::string_view(schema.name()).ends_with("chunk"))
    dynamic_sizes->split(arguments[0].toTensor(), arguments[2].toInt(), arguments[1].toInt());
  bool inexact = op_traits.inexact && inexact_with(op, stack);
  each_tensor(arguments, [&](const at::Tensor &t) { inexact |= !exact(t); });
  if (inexact && op_traits.splits) {
    check_parts(op, stack);
    inexact = false;
  }
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
void Scope::failed(const c10::OperatorHandle &op) {
  const auto depth = static_cast<std::size_t>(op_depth());
  if (abandoned_ || depth >= under_way_.size())
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
  if (raised.empty() && !rejected_ && !is_sure)
    raised =
        fmt::format("an op ({}) failed at {}, and the body continued: a graph can't catch what "
                    "its ops raise. Check for the cause before, in tensors, or move the "
                    "attempt out of the function.",
                    op.schema().name(), text(frontend_.here()));
}

/// A size that torch reads as a number or a bool: recorded by what takes it, or a condition.
bool Scope::reads_size(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (op_depth() > 0 && reading_size_)
    return true;
  reading_size_ = false;
  const bool truth = op.schema().name() == "aten::is_nonzero";
  if (!truth && !traits(op).is_item)
    return false;
  const at::Tensor &t = stack.back().toTensor();
  if (!dynamic_sizes->is_size(t))
    return false;
  if (truth)
    dynamic_sizes->truth(t);
  else
    dynamic_sizes->index(t);
  reading_size_ = true;
  return true;
}

bool Scope::exact(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return inexact.empty() || !state->hasValue(t) || !inexact.contains(state->getValue(t));
}

/// An op returns as many tensors as its input has sizes, which depend on values: the graph checks
/// them.
void Scope::check_parts(const c10::OperatorHandle &op, const jit::Stack &stack) {
  each_tensor(arguments_of(op, stack),
              [&](const at::Tensor &t) { check_sizes(t, op.schema().name()); });
}

void Scope::check_sizes(const at::Tensor &t, const std::string &what) {
  if (exact(t))
    return;
  if (!traces_reads_ || without_data() || shapes::is_fake_tensor(t))
    reject_sizes(what);
  const auto &state = tracer::getTracingState();
  jit::Value *value = state->getValue(t);
  for (std::int64_t i = 0; i < t.dim(); ++i)
    speculate(state->graph->insert(c10::aten::size, {value, i}), t.size(i), what + ", a size",
              text(frontend_.here()));
  if (blocks == 0) // else another path may not have checked
    this->inexact.erase(value);
}

/// Sizes that depend on values say which dimensions squeeze drops: the graph checks how many are
/// left. nonzero's last size is how many dimensions its tensor has.
void Scope::check_rank(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &state = tracer::getTracingState();
  const at::Tensor &t = stack.back().toTensor();
  jit::Value *value = state->getValue(t);
  const jit::Node *made =
      value->node()->inputs().empty() ? nullptr : value->node()->input(0)->node();
  const bool of_one = op.schema().overload_name() == "dim";
  if (shapes::is_fake_tensor(t) || without_data() ||
      (of_one && made && made->kind() == c10::aten::nonzero))
    return;
  speculate(state->graph->insert(c10::aten::dim, {value}), t.dim(),
            op.schema().name() + ", the number of dimensions", text(frontend_.here()));
}

void Scope::reject_sizes(const std::string &what) {
  reject(Rejection::value_read,
         fmt::format(
             "the body reads a size ({}) that depends on a tensor's values (nonzero, unique, a "
             "mask as index, a py_function without shape=) at {}; a later call's may differ. Use "
             "torch.where or masks that keep the size, or move this out of the function.",
             what, text(frontend_.here())));
}

/// The tracer records each copy_() as one that blocks.
void Scope::keep_non_blocking(const jit::Node *before) {
  jit::Graph &graph = *tracer::getTracingState()->graph;
  for (jit::Node *node = graph.insertPoint()->prev(); node != before; node = node->prev())
    if (node->kind() == c10::aten::copy_ && node->inputs().size() == 3) {
      const jit::WithInsertPoint there(node);
      node->replaceInput(2, graph.insertConstant(true));
    }
}

/// The tracer records an op's name and arguments; a graph finds the overload by these, and may find
/// another: max(x, out=y) reads as the maximum of x and y.
void Scope::check_overload(const c10::OperatorHandle &op, const jit::Node *before) {
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
                       schema.name(), schema.overload_name(), text(frontend_.here()), schema.name(),
                       found->schema().overload_name()));
}

void Scope::after(const c10::OperatorHandle &op, jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto &state = tracer::getTracingState();
  check_substituted(op);
  if (records(op))
    recorded(op, stack);
  const auto depth = static_cast<std::size_t>(op_depth());
  if (depth < under_way_.size())
    check_overload(op, under_way_[depth].before);
  if (depth < under_way_.size() && under_way_[depth].non_blocking)
    keep_non_blocking(under_way_[depth].before);
  if (depth == 0 && !numbers_read_.empty())
    settle_numbers(&op); // while the op's node is the last
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
                         schema.name(), text(frontend_.here())));
    if (inexact && (t.dim() > 0 || traits(op).drops_dimensions))
      this->inexact.insert(state->getValue(t));
    if (kept)
      keep(state->getValue(t));
    if (blocks && depth == 0)
      made_in_block(t);
  });
  if (depth > 0)
    return;
  part_from_argument(op, stack);
  if (inexact && traits(op).drops_dimensions)
    check_rank(op, stack);
  if (witness_)
    witness_->after(op, stack);
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

void Scope::reject_shared(const std::string &what, const std::string &made_at) {
  reject(
      Rejection::capture,
      fmt::format("{} the memory of a numpy array that the body makes a tensor of at {}; a graph "
                  "has a copy of the array. Copy it in the body too (torch.tensor(array)), or "
                  "pass the array as an argument.",
                  what, made_at));
}

void Scope::check_returned(const at::Tensor &t) {
  if (const std::string *made = arrays_.find(t))
    reject_shared("the body returns a tensor in", *made);
}

void Scope::literal(const at::Tensor &t) {
  if (!ArrayMemory::is_torchs(t)) {
    const std::string place = text(frontend_.here());
    const c10::StorageImpl &memory = *t.storage().unsafeGetStorageImpl();
    const bool shared = std::any_of(outside_.begin(), outside_.end(), [&](const auto &known) {
      return ArrayMemory::overlap(memory, *known.first);
    });
    if (shared)
      reject_shared("a tensor from outside shares", place);
    arrays_.add(t, place);
  }
  const auto &state = tracer::getTracingState();
  at::Tensor kept;
  {
    const PausedWithData paused;
    kept = t.clone();
  }
  jit::Value *constant = state->graph->insertConstant(kept);
  state->setValue(t, state->graph->insert(c10::aten::clone, {constant}));
  if (blocks)
    made_in_block(t);
}

const jit::SourceRange &Scope::place() {
  const bool undoable = this->undoable();
  if (Site site = here(); !last_place_ || site != last_site_ || undoable != last_undoable_) {
    last_place_ = place_range(site.line ? text(site) : std::string(), undoable);
    last_site_ = std::move(site);
    last_undoable_ = undoable;
  }
  return *last_place_;
}

void Scope::know(const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  if (state->hasValue(t))
    return;
  if (const auto found = captured_.find(t.unsafeGetTensorImpl()); found != captured_.end())
    return bind(t, found->second); // met first in a block that is closed now
  check_not_of_block(t);
  if (const std::string *made = arrays_.find(t))
    reject_shared("a tensor from outside shares", *made);
  std::string path = frontend_.capture_path(t);
  jit::Value *input = state->graph->addInput("capture_" + std::to_string(result.captures.size()));
  input->setType(c10::TensorType::get());
  state->setValue(t, input);
  captured_.emplace(t.unsafeGetTensorImpl(), input);
  result.captures.push_back({t, std::move(path)});
  if (dynamic_sizes)
    dynamic_sizes->captured(t, input->offset());
  note_outside(t);
  if (witness_)
    witness_->met(t);
}

void Scope::repeat_rejection() const {
  if (rejected_ && !abandoned_)
    frontend_.reject(why_, what_);
}

void Scope::record_modes() { modes.record_changes(op_depth()); }

void Scope::close() {
  if (eager_region) {
    const Site where = eager_region->where;
    land(true);
    if (!abandoned_)
      reject(Rejection::trace,
             fmt::format("the block that the body lifts out of the trace (init_scope) at {} is "
                         "still open at the end of the body. Close it before: a generator that "
                         "opens it has to run to its end.",
                         text(where)));
  }
  if (abandoned_)
    throw Abandoned(what_);
  settle_numbers(nullptr);
  repeat_rejection();
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
  result.changes = !effect.empty() || !saves_.empty();
  if (result.changes) // else the body can run in place of a graph whose op fails
    result.caught.insert(result.caught.end(), caught_.begin(), caught_.end());
  constexpr std::size_t kWorthSaying = 1 << 20;
  const std::size_t bytes = saves_.close(*tracer::getTracingState()->graph);
  if (bytes > kWorthSaying && !result.checked.empty())
    result.notes.push_back(
        fmt::format("each hit copies {:.1f} MB, which a failed check restores: the "
                    "last check is at {}",
                    static_cast<double>(bytes) / kWorthSaying, result.checked.back().where));
}

} // namespace tracehost::trace
