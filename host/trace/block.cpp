#include "trace/block.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/trace.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

jit::Value *value_of(const at::Tensor &t) {
  current->inputs.know(t);
  if (!shapes::is_fake_tensor(t)) // a block may return it, and no op meet it
    current->blocks.meet(t);
  current->inputs.note_leaf(t); // `torch.zeros(3, requires_grad=True)`, which leaves a block
  return tracer::getTracingState()->getValue(t);
}

void bind(const at::Tensor &t, jit::Value *value) {
  tracer::getTracingState()->setValue(t, value);
  value->setType(c10::TensorType::get()); // setValue has taken this tensor's for each call's
}

jit::Node *record_op(const std::string &op, c10::ArrayRef<jit::Value *> inputs,
                     std::size_t outputs) {
  jit::Node *node = insert_op(*tracer::getTracingState()->graph, op, inputs, outputs);
  tracer::recordSourceLocation(node);
  return node;
}

void may_be_another(const at::Tensor &t, const at::Tensor &original) {
  current->blocks.may_be_others.insert_or_assign(
      t.unsafeGetTensorImpl(), std::pair{t.getIntrusivePtr(), original.getIntrusivePtr()});
}

at::Tensor in_eager(at::Tensor t) {
  for (;;) {
    const auto found = current->blocks.may_be_others.find(t.unsafeGetTensorImpl());
    if (found == current->blocks.may_be_others.end() || found->second.second.expired())
      return t;
    t = at::Tensor(found->second.second.lock());
  }
}
void set_inexact(jit::Value *value) { current->value_sizes.note(value); }
void set_varies(const jit::Value *value, Fact fact) { current->blocks.varying(fact).insert(value); }
void check_not_read(const jit::Value *value, Fact fact) {
  for (const auto &[read, where] : current->blocks.read(fact))
    if (may_have_from(fact, read, {value}))
      reject(Rejection::value_read,
             fmt::format("the body of a loop reads at {} {}, which differs from one iteration to "
                         "the next, and one body stands for all of them. Read that before the "
                         "loop, or write the loop over Python values.",
                         text(where),
                         fact == Fact::layout ? "how a tensor lies in memory"
                                              : "what autograd records of a tensor"));
}
bool is_inexact(const jit::Value *value) { return current->value_sizes.has(value); }

void forget(jit::Node *node) { current->forget(node); }
void take_block(jit::Node *node, std::size_t taken) { current->blocks.take(node, taken); }

void settle_kept(jit::Graph &graph) {
  static const auto keep = c10::Symbol::fromQualString("tracehost::keep");
  each_node(graph.block(), [](jit::Node *node) {
    if (node->kind() != keep)
      return;
    const auto &uses = node->input()->uses();
    if (std::any_of(uses.begin(), uses.end(),
                    [](const jit::Use &use) { return use.user->kind() != keep; }))
      node->destroy();
  });
}

bool in_block() { return current->blocks.depth > 0; }
void note_made_in_block(const at::Tensor &t) { current->blocks.made(t); }
void check_not_of_block(const at::Tensor &t) { current->blocks.check_not_made(t); }
Site left_behind() { return current->blocks.left_behind(); }
void forgive_rejection() {
  current->rejections.forgive();
  current->raised.clear();
  current->number_arguments.clear();
}
bool is_rejected() { return current->rejections.any(); }
std::string first_effect() { return current->effects.first; }
bool saves_nothing() { return current->effects.saves.empty(); }
void set_first_effect(std::string effect) { current->effects.first = std::move(effect); }
void forgive_failure() { current->raised.clear(); }
void note_raised() { current->effects.note_raise(); }

void bind_made(const at::Tensor &t, jit::Value *value) {
  bind(t, value);
  if (in_block())
    note_made_in_block(t);
}

void settle_reads() {
  if (!current->abandoned())
    current->number_arguments.settle(nullptr);
}

void record_modes() { current->record_modes(); }
void reject_staging(const std::string &message) { reject(Rejection::staging, message); }

InBlock::InBlock(jit::Block *block)
    : block_(block), state_(tracer::getTracingState()),
      before_(block->owningGraph()->insertPoint()), modes_(current->modes) {
  block->owningGraph()->setInsertPoint(block);
  tracer::getTracingState()->enterFrame();
  current->forget_casts();
  ++current->blocks.depth;
}

InBlock::~InBlock() {
  const auto state = std::static_pointer_cast<tracer::TracingState>(state_);
  if (!opened_) {
    current->modes = modes_;
    leave();
  }
  before_->owningGraph()->setInsertPoint(before_);
  if (!current->abandoned() && !tracer::isTracing()) // an op that threw has left it so
    set_tracing_state(state);
}

void InBlock::leave() {
  const auto state = std::static_pointer_cast<tracer::TracingState>(state_);
  if (opened_)
    current->blocks.reshapes.open(block_, block_->owningNode()->owningBlock());
  else
    current->blocks.reshapes.close(block_);
  --current->blocks.depth;
  state->leaveFrame();
  current->speculation.know_slots(*state);
  current->forget_casts();
}

void InBlock::open() {
  opened_ = true;
  leave();
  current->blocks.open(block_);
}

bool InBlock::keeps_shapes() const { return !current->blocks.reshapes.any(block_); }

void InBlock::close() {
  if (current->abandoned())
    return;
  if (!keeps_shapes())
    reject_staging(
        fmt::format("a branch that is staged changes the shape of a tensor from before it in "
                    "place, at {}. Use an op that returns a new tensor.",
                    text(current->here())));
  if (!keeps_modes()) {
    const std::string where = text(current->here());
    modes_.restore();
    reject_staging(
        fmt::format("a branch or loop that is staged changes grad mode, inference mode or "
                    "autocast for what comes after it, at {}. Use a `with` statement "
                    "in it, or around it.",
                    where));
  }
  current->modes.record_changes(0);
}

OnFakeTensors::OnFakeTensors() { current->blocks.enter_fake_tensors(); }
OnFakeTensors::~OnFakeTensors() { current->blocks.leave_fake_tensors(); }

at::Tensor fake_tensor_for(const at::Tensor &t) {
  current->inputs.know(t);
  return current->blocks.fake_tensor(t);
}

void meet(jit::Value *value, const c10::IValue &list) { current->blocks.met.emplace(value, list); }

std::unordered_map<jit::Value *, c10::IValue> OnFakeTensors::met() const {
  auto result = current->blocks.met;
  if (current->dynamic_sizes)
    result.insert(current->dynamic_sizes->given.begin(), current->dynamic_sizes->given.end());
  return result;
}

} // namespace tracehost::trace
