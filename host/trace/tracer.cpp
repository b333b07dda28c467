#include "trace/tracer.h"

#include "trace/argument_stash.h"
#include "trace/block.h"
#include "trace/modes.h"
#include "trace/op_hook.h"
#include "trace/op_traits.h"
#include "trace/relaxed_sizes.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tracehost::trace {

namespace jit = torch::jit;
namespace tracer = torch::jit::tracer;

namespace {

const auto kKeep = c10::Symbol::fromQualString("tracehost::keep");

/// Calls `f` with each defined tensor among `values`, in lists and optionals too.
template <class F> void each_tensor(c10::ArrayRef<c10::IValue> values, const F &f) {
  for (const auto &value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined())
        f(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor &t : value.toTensorVector())
        if (t.defined())
          f(t);
    } else if (value.isList()) {
      each_tensor(value.toListRef(), f);
    } else if (value.isTuple()) {
      each_tensor(value.toTupleRef().elements(), f);
    }
  }
}

/// Replaces each defined tensor among the last values of `stack`, in lists too.
template <class F> void replace_tensors(jit::Stack &stack, std::size_t from, const F &f) {
  const auto replace = [&](const c10::IValue &value, const auto &self) -> c10::IValue {
    if (value.isTensor() && value.toTensor().defined())
      return f(value.toTensor());
    if (!value.isList())
      return value;
    const auto items = value.toList().copy();
    for (std::size_t i = 0; i < items.size(); ++i)
      items.set(i, self(items.get(i), self));
    return items;
  };
  for (std::size_t i = from; i < stack.size(); ++i)
    stack[i] = replace(stack[i], replace);
}

/// The state of one trace; lives on the stack of trace().
class Scope final : public OpHook {
public:
  Scope(const std::vector<at::Tensor> &slots, const Relaxation &relaxation, Frontend &frontend)
      : modes(ModeRecord::now()), frontend_(frontend) {
    if (!relaxation.dimensions.empty())
      relaxed.emplace(slots, relaxation, frontend, result,
                      [this](const std::string &what) { refuse(Refusal::value_read, what); });
  }

  void before(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void substitute(const c10::OperatorHandle &op, jit::Stack &stack) override;
  bool keeps_data(const c10::OperatorHandle &op) const override {
    return stands_in() && traits(op).literal;
  }
  bool is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void after(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  bool abandoned() const override { return abandoned_; }
  void unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) override;

  /// Makes sure that the tracer knows `t`, as a capture if need be.
  void know(const at::Tensor &t);
  /// What stands for `t` where the trace has no data; the tracer knows it as it knows `t`.
  at::Tensor stand_in(const at::Tensor &t);
  [[noreturn]] void refuse(Refusal why, const std::string &what);
  [[noreturn]] void refuse_sizes(const std::string &what);
  /// Whether `t`'s sizes follow from the signature, not from values (nonzero, a mask).
  bool exact(const at::Tensor &t) const;
  void repeat_refusal() const;
  /// After the body: balances modes; a swallowed refusal is refused again.
  void close();
  void record_modes(int depth);
  bool stands_in() const { return frontend_.stands_in(); }
  void enter_stand_ins();
  void leave_stand_ins();
  Frontend &frontend() { return frontend_; }

  Traced result;
  std::optional<RelaxedSizes> relaxed;
  /// Results of random ops, in order. Not the tensors: a second owner would change what ops do.
  std::vector<jit::Value *> randoms;
  ModeRecord modes;
  int blocks = 0; ///< under construction around what is recorded now
  std::unordered_set<const jit::Value *> inexact; ///< values whose sizes depend on values
  /// Tensors with data that ops met on stand-ins.
  std::unordered_map<jit::Value *, at::Tensor> met;

private:
  void literal(const at::Tensor &t);
  void keep(jit::Value *random);
  void check_not_of_block(const at::Tensor &t);
  void check_substituted(const c10::OperatorHandle &op);
  [[noreturn]] void refuse_read(const c10::OperatorHandle &op);
  bool reads_size(const c10::OperatorHandle &op, const jit::Stack &stack);

  Frontend &frontend_;
  std::vector<std::pair<at::Tensor, at::Tensor>> substituted_; ///< by the last op, with stand-ins
  std::unordered_map<const c10::TensorImpl *, jit::Value *> captured_; ///< hidden inputs
  /// Tensors made in a block, of which only its end tells what they are.
  std::unordered_map<const c10::TensorImpl *, c10::weak_intrusive_ptr<c10::TensorImpl>> of_blocks_;
  int on_stand_ins_ = 0;
  std::vector<bool> makes_inexact_; ///< of the ops under way, by depth
  bool reading_size_ = false;       ///< an op under way reads a traced size
  bool refused_ = false;
  bool abandoned_ = false;
  Refusal why_ = Refusal::trace;
  std::string what_;
};

thread_local Scope *current = nullptr;

void Scope::refuse(Refusal why, const std::string &what) {
  if (!refused_) {
    refused_ = true;
    why_ = why;
    what_ = what;
  }
  if (frontend_.goes_on()) {
    abandoned_ = true;
    tracer::setTracingState(nullptr);
    throw Abandoned(what_);
  }
  frontend_.refuse(why, what);
  std::terminate(); // a front end's refuse() throws
}

void Scope::refuse_read(const c10::OperatorHandle &op) {
  std::string why;
  if (op.schema().name() == "aten::is_nonzero")
    why = frontend_.why_not_staged();
  if (!why.empty())
    why = fmt::format(" (It is not staged: {}.)", why);
  refuse(Refusal::value_read,
         fmt::format("the body reads the value of a traced tensor ({}) at {}, which a graph can't "
                     "repeat.{} Keep the computation in tensors (torch.where, masks), or move the "
                     "read out of the function.",
                     op.schema().name(), text(frontend_.here()), why));
}

void Scope::unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const bool reads = traits(op).reads_value;
  if (!reads && !relaxed)
    return;
  const auto count = op.schema().arguments().size();
  each_tensor(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
              [&](const at::Tensor &t) {
                if (!tracer::getTracingState()->hasValue(t))
                  return;
                if (relaxed && relaxed->is_size(t))
                  relaxed->pin(t, "torch.tensor() of a size");
                else if (reads)
                  refuse_read(op);
              });
}

void Scope::before(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const OpTraits &op_traits = traits(op);
  if (op_traits.reads_value) {
    if (relaxed && reads_size(op, stack))
      return;
    refuse_read(op);
  }
  if (relaxed && op_depth() == 0) {
    reading_size_ = false;
    relaxed->settle();
  }
  if (op_traits.unrecorded)
    refuse(Refusal::trace, fmt::format("{} at {} is not recorded in a graph. Do it outside of the "
                                       "function.",
                                       schema.name(), text(frontend_.here())));
  record_modes(op_depth());

  const auto count = schema.arguments().size();
  const auto &state = tracer::getTracingState();
  each_tensor(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
              [&](const at::Tensor &t) {
                if (state->hasValue(t) || t.unsafeGetTensorImpl()->is_wrapped_number())
                  return;
                const bool fresh = t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() == nullptr;
                if (op_traits.literal && fresh)
                  literal(t);
                else
                  know(t);
              });
  if (relaxed && op_depth() == 0 && op_traits.splits && count == 3 && stack.back().isInt() &&
      std::string_view(schema.name()).ends_with("chunk"))
    relaxed->split(stack[stack.size() - 3].toTensor(), stack.back().toInt(),
                   stack[stack.size() - 2].toInt());
  bool inexact = op_traits.inexact && inexact_with(op, stack);
  each_tensor(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
              [&](const at::Tensor &t) { inexact |= !exact(t); });
  if (inexact && op_traits.splits)
    refuse_sizes(schema.name());
  makes_inexact_.resize(static_cast<std::size_t>(op_depth()) + 1);
  makes_inexact_.back() = inexact;
}

/// A size that torch reads as a number or a bool: recorded by what takes it, or a condition.
bool Scope::reads_size(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (op_depth() > 0 && reading_size_)
    return true;
  reading_size_ = false;
  const std::string_view name = op.schema().name();
  const bool truth = name == "aten::is_nonzero";
  if (!truth && name != "aten::item" && name != "aten::_local_scalar_dense")
    return false;
  const at::Tensor &t = stack.back().toTensor();
  if (!relaxed->is_size(t))
    return false;
  if (truth)
    relaxed->truth(t);
  else
    relaxed->index(t);
  reading_size_ = true;
  return true;
}

bool Scope::exact(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return inexact.empty() || !state->hasValue(t) || !inexact.contains(state->getValue(t));
}

void Scope::refuse_sizes(const std::string &what) {
  refuse(Refusal::value_read,
         fmt::format(
             "the body reads a size ({}) that depends on a tensor's values (nonzero, unique, a "
             "mask as index) at {}; a later call's may differ. Use torch.where or masks that keep "
             "the size, or move this out of the function.",
             what, text(frontend_.here())));
}

void Scope::after(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto count = schema.returns().size();
  const auto &state = tracer::getTracingState();
  check_substituted(op);
  const bool random = traits(op).random;
  const auto depth = static_cast<std::size_t>(op_depth());
  const bool inexact = depth < makes_inexact_.size() && makes_inexact_[depth];
  each_tensor(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
              [&](const at::Tensor &t) {
                if (!state->hasValue(t))
                  refuse(Refusal::trace,
                         fmt::format("{} at {} is not recorded by libtorch's tracer. Do it outside "
                                     "of the function.",
                                     schema.name(), text(frontend_.here())));
                if (inexact && t.dim() > 0)
                  this->inexact.insert(state->getValue(t));
                if (random)
                  keep(state->getValue(t));
                if (blocks && depth == 0)
                  of_blocks_.insert_or_assign(t.unsafeGetTensorImpl(), t.getIntrusivePtr());
              });
  if (!relaxed || op_depth() > 0)
    return;
  std::vector<at::Tensor> results;
  each_tensor(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
              [&](const at::Tensor &t) { results.push_back(t); });
  relaxed->after(results);
}

/// Whether the memory is torch's own: not numpy's, a buffer's, another framework's.
bool owns_memory(const at::Tensor &t) {
  if (!t.device().is_cpu() || !t.has_storage() || t.storage().nbytes() == 0)
    return true;
  return t.storage().data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

void Scope::literal(const at::Tensor &t) {
  if (!owns_memory(t))
    refuse(Refusal::capture,
           fmt::format(
               "the body makes a tensor from memory that is not torch's (a numpy array?) at {}; "
               "later calls would not see it change. Convert it outside of the function and "
               "pass the tensor.",
               text(frontend_.here())));
  const auto &state = tracer::getTracingState();
  at::Tensor kept;
  {
    const PausedWithData paused;
    kept = t.clone();
  }
  jit::Value *constant = state->graph->insertConstant(kept);
  state->setValue(t, state->graph->insert(c10::aten::clone, {constant}));
  if (blocks)
    of_blocks_.insert_or_assign(t.unsafeGetTensorImpl(), t.getIntrusivePtr());
}

void Scope::know(const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  if (state->hasValue(t))
    return;
  if (const auto found = captured_.find(t.unsafeGetTensorImpl()); found != captured_.end())
    return bind(t, found->second); // met first in a block that is closed now
  check_not_of_block(t);
  std::string path = frontend_.capture_path(t);
  jit::Value *input = state->graph->addInput("capture_" + std::to_string(result.captures.size()));
  input->setType(c10::TensorType::get());
  state->setValue(t, input);
  captured_.emplace(t.unsafeGetTensorImpl(), input);
  result.captures.push_back({t, std::move(path)});
}

void Scope::check_not_of_block(const at::Tensor &t) {
  const auto found = of_blocks_.find(t.unsafeGetTensorImpl());
  if (found == of_blocks_.end() || found->second.expired())
    return;
  refuse(Refusal::staging,
         fmt::format("a tensor used at {} was made in a branch or loop that is staged, and left it "
                     "through a container, an attribute or a function's state. Assign it to a "
                     "variable there (in each branch), or collect values in a TensorArray.",
                     text(frontend_.here())));
}

/// In a block there are no outputs of the graph: an op that does nothing uses the result.
void Scope::keep(jit::Value *random) {
  if (!blocks)
    return randoms.push_back(random);
  auto *graph = random->owningGraph();
  graph->insertNode(graph->create(kKeep, {random}, 0));
}

void Scope::enter_stand_ins() {
  if (on_stand_ins_++ == 0)
    met.clear();
  const Paused paused;
  frontend_.enter_stand_ins();
}

void Scope::leave_stand_ins() {
  --on_stand_ins_;
  const Paused paused;
  frontend_.leave_stand_ins();
}

at::Tensor Scope::stand_in(const at::Tensor &t) {
  if (!stands_in())
    return t;
  at::Tensor twin;
  {
    const Paused paused;
    twin = frontend_.stand_in(t);
  }
  const auto &state = tracer::getTracingState();
  if (on_stand_ins_ && !twin.is_same(t))
    met.emplace(state->getValue(t), t);
  if (!state->hasValue(twin)) // it is another tensor
    state->setValue(twin, state->getValue(t));
  return twin;
}

bool Scope::is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!stands_in() || !relaxed)
    return false;
  substituted_.clear();
  bool any = false, all = true;
  each_tensor(
      c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().arguments().size()),
      [&](const at::Tensor &t) {
        const bool is_size = relaxed->is_size(t);
        any |= is_size;
        all &= is_size || t.unsafeGetTensorImpl()->is_wrapped_number();
      });
  return any && all;
}

void Scope::substitute(const c10::OperatorHandle &op, jit::Stack &stack) {
  if (!stands_in())
    return;
  substituted_.clear();
  const bool literal = traits(op).literal;
  replace_tensors(stack, stack.size() - op.schema().arguments().size(), [&](const at::Tensor &t) {
    const auto *impl = t.unsafeGetTensorImpl();
    if (impl->is_wrapped_number() || (literal && impl->pyobj_slot()->load_pyobj() == nullptr))
      return t;
    at::Tensor twin = stand_in(t);
    if (!twin.is_same(t))
      substituted_.emplace_back(t, twin);
    return twin;
  });
}

/// The body still sees the tensor itself, which an op does not change in such a trace.
void Scope::check_substituted(const c10::OperatorHandle &op) {
  const auto differ = [](const at::Tensor &t, const at::Tensor &twin) {
    return t.requires_grad() != twin.requires_grad() ||
           (t.layout() == at::kStrided &&
            (t.sizes() != twin.sizes() || t.strides() != twin.strides()));
  };
  for (const auto &[t, twin] : substituted_)
    if (differ(t, twin))
      refuse(Refusal::trace,
             fmt::format("{} at {} changes the shape or requires_grad of a tensor in place, which "
                         "can't be followed in a trace without example data. Call the function "
                         "once with such arguments instead.",
                         op.schema().name(), text(frontend_.here())));
}

void Scope::repeat_refusal() const {
  if (refused_ && !abandoned_)
    frontend_.refuse(why_, what_);
}

void Scope::close() {
  if (abandoned_)
    throw Abandoned(what_);
  repeat_refusal();
  if (relaxed)
    relaxed->finish();
  record_modes(0);
}

void Scope::record_modes(int depth) {
  if (const auto problem = modes.record_changes(depth); !problem.empty())
    refuse(Refusal::trace, fmt::format("{} at {}", problem, text(frontend_.here())));
}

/// Each tensor constant of the graph must come from Scope::literal: its one use is a clone.
void audit_constants(const jit::Block &block, Scope &scope) {
  for (const jit::Node *node : block.nodes()) {
    for (const jit::Block *inner : node->blocks())
      audit_constants(*inner, scope);
    if (node->kind() != c10::prim::Constant ||
        !node->output()->type()->isSubtypeOf(*c10::TensorType::get()))
      continue;
    const auto value = jit::toIValue(node->output());
    if (!value || !value->isTensor() || !value->toTensor().defined() ||
        value->toTensor().unsafeGetTensorImpl()->is_wrapped_number())
      continue;
    for (const auto &use : node->output()->uses())
      if (use.user->kind() != c10::aten::clone && value->toTensor().dim() > 0)
        scope.refuse(
            Refusal::capture,
            fmt::format("a tensor of shape {} would be a constant of the graph, at {}. Make "
                        "it outside of the function, or by an op in it.",
                        c10::str(value->toTensor().sizes()), use.user->sourceRange().str()));
  }
}

/// An unused random op would be removed as dead, and the generator would not advance as in eager:
/// its results are outputs while the tracer finishes the graph. Those that turn out used are
/// dropped again, the others moved behind the body's outputs. Returns how many stay.
std::size_t settle_randoms(jit::Graph &graph, std::size_t count) {
  std::vector<jit::Value *> unused;
  for (std::size_t i = count; i-- > 0;) {
    jit::Value *value = graph.outputs()[i];
    if (value->uses().size() == 1)
      unused.push_back(value);
    graph.eraseOutput(i);
  }
  for (jit::Value *value : unused)
    graph.registerOutput(value);
  return unused.size();
}

/// In blocks: a random result that is used after all needs nothing to keep it.
void settle_kept(jit::Block &block) {
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    jit::Node *node = *it++;
    for (jit::Block *inner : node->blocks())
      settle_kept(*inner);
    if (node->kind() == kKeep && node->input()->uses().size() > 1)
      node->destroy();
  }
}

/// Makes a Scope the thread's for as long as its trace runs.
class Current {
public:
  explicit Current(Scope &scope) { current = &scope; }
  ~Current() { current = nullptr; }
};

/// Runs the body; whatever it throws, libtorch's tracer is fit for the next trace.
std::vector<at::Tensor> run_body(const std::function<std::vector<at::Tensor>()> &body,
                                 Scope &scope) {
  const InstalledHook hook(scope);
  const AutocastCacheOff cache;
  const auto state = tracer::getTracingState();
  try {
    std::vector<at::Tensor> results = body();
    scope.close();
    for (auto &t : results) {
      scope.know(t);
      const bool is_size = scope.relaxed && scope.relaxed->is_size(t);
      scope.result.size_outputs.push_back(is_size);
      if (!is_size)
        t = scope.stand_in(t);
    }
    return results;
  } catch (...) {
    // An op that throws leaves the tracer switched off: its kernel does not restore the state.
    tracer::setTracingState(state);
    clear_argument_stash();
    throw;
  }
}

} // namespace

Traced trace(std::vector<at::Tensor> slots, const Relaxation &relaxation, Frontend &frontend,
             const std::function<std::vector<at::Tensor>()> &body) {
  TORCH_INTERNAL_ASSERT(!current && !tracer::isTracing());
  Scope scope(slots, relaxation, frontend);
  Current mark(scope);
  const auto run = [&](const jit::Stack &) {
    const auto &state = tracer::getTracingState();
    state->warn = false; // reads are errors here, and sizes are exact: nothing is left to warn of
    const auto results = run_body(body, scope);
    for (jit::Value *value : scope.randoms)
      state->graph->registerOutput(value);
    return jit::Stack(results.begin(), results.end());
  };
  auto [state, stack] = tracer::trace(
      jit::Stack(slots.begin(), slots.end()), run, [](const at::Tensor &) { return std::string(); },
      false);
  stack.clear();
  audit_constants(*state->graph->block(), scope);
  settle_kept(*state->graph->block());
  scope.result.keep_alive = settle_randoms(*state->graph, scope.randoms.size());
  scope.result.graph = state->graph;
  return std::move(scope.result);
}

bool recording() { return current && !current->abandoned() && tracer_records(); }
bool active() { return current != nullptr; }
bool abandoned() { return current && current->abandoned(); }

Paused::Paused() : state_(tracer::getTracingState()) { set_tracing_state(nullptr); }
Paused::~Paused() { set_tracing_state(std::static_pointer_cast<tracer::TracingState>(state_)); }

void refuse_read(const std::string &what) { current->refuse(Refusal::value_read, what); }
void refuse(Refusal why, const std::string &message) { current->refuse(why, message); }
void repeat_refusal() { current->repeat_refusal(); }
void check_size_read(const at::Tensor &t, const std::string &what) {
  if (!current->exact(t))
    current->refuse_sizes(what);
}
void note_strides_read() { current->result.reads_strides = true; }
void note_strides_read(const at::Tensor &t) {
  note_strides_read();
  if (current->relaxed)
    current->relaxed->read_strides(t);
}
void note_contiguity_read(const at::Tensor &t) {
  note_strides_read();
  if (current->relaxed)
    current->relaxed->read_contiguity(t);
}
std::optional<at::Tensor> traced_size(const at::Tensor &t, std::int64_t dimension) {
  if (!current->relaxed) [[likely]]
    return std::nullopt;
  current->know(t);
  return current->relaxed->size(t, dimension);
}
std::optional<at::Tensor> traced_numel(const at::Tensor &t) {
  if (!current->relaxed) [[likely]]
    return std::nullopt;
  current->know(t);
  return current->relaxed->numel(t);
}
bool relaxing() { return current->relaxed.has_value(); }
void same_value(const at::Tensor &from, const at::Tensor &to) {
  const auto &state = tracer::getTracingState();
  state->setValue(to, state->getValue(from));
}
bool is_traced_size(const at::Tensor &t) {
  return current && current->relaxed && current->relaxed->is_size(t);
}
std::int64_t pin_size(const at::Tensor &size, const std::string &why) {
  if (current && current->relaxed && tracer::isTracing())
    return current->relaxed->pin(size, why);
  const PausedWithData paused;
  return size.item().toLong();
}
std::int64_t index_of_size(const at::Tensor &size) {
  // Where torch has the tracer switched off for a moment, no op that records the size follows.
  if (current && current->relaxed && tracer::isTracing())
    return tracer_records() ? current->relaxed->index(size)
                            : current->relaxed->pin(size, "torch.tensor() of a size");
  const PausedWithData paused;
  return size.item().toLong();
}
void note_leaf_read() { current->result.reads_leaf = true; }

jit::Value *value_of(const at::Tensor &t) {
  current->know(t);
  return tracer::getTracingState()->getValue(t);
}
void bind(const at::Tensor &t, jit::Value *value) {
  tracer::getTracingState()->setValue(t, value);
  value->setType(c10::TensorType::get()); // setValue has taken this tensor's for each call's
}
void set_inexact(jit::Value *value) { current->inexact.insert(value); }
void forget(jit::Node *node) {
  for (jit::Value *value : node->outputs())
    current->inexact.erase(value);
  for (jit::Block *block : node->blocks()) {
    for (jit::Value *value : block->inputs())
      current->inexact.erase(value);
    for (jit::Node *inner : block->nodes())
      forget(inner);
  }
}
bool is_inexact(const jit::Value *value) { return current->inexact.contains(value); }
bool has_data() { return !current->stands_in(); }
void record_modes() { current->record_modes(0); }
void refuse_staging(const std::string &message) { current->refuse(Refusal::staging, message); }

InBlock::InBlock(jit::Block *block)
    : state_(tracer::getTracingState()), before_(block->owningGraph()->insertPoint()),
      modes_(current->modes) {
  block->owningGraph()->setInsertPoint(block);
  tracer::getTracingState()->enterFrame();
  ++current->blocks;
}

InBlock::~InBlock() {
  const auto state = std::static_pointer_cast<tracer::TracingState>(state_);
  --current->blocks;
  current->modes = modes_;
  state->leaveFrame();
  before_->owningGraph()->setInsertPoint(before_);
  if (!current->abandoned() && !tracer::isTracing()) // an op that threw has left it so
    set_tracing_state(state);
}

void InBlock::close() {
  if (!modes_.is_now())
    refuse_staging(fmt::format("a branch or loop that is staged changes grad mode for what comes "
                               "after it, at {}. Use `with torch.no_grad():` inside of it, or "
                               "around it.",
                               text(current->frontend().here())));
  current->modes.record_changes(0);
}

OnStandIns::OnStandIns() { current->enter_stand_ins(); }
OnStandIns::~OnStandIns() { current->leave_stand_ins(); }
at::Tensor without_data(const at::Tensor &t) {
  current->know(t);
  return current->stand_in(t);
}
const std::unordered_map<jit::Value *, at::Tensor> &OnStandIns::met() const { return current->met; }

} // namespace tracehost::trace
