#include "trace/block.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/scope.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Scope::made_in_block(const at::Tensor &t) {
  jit::Value *value = tracer::getTracingState()->getValue(t);
  of_blocks_.insert_or_assign(t.unsafeGetTensorImpl(), std::pair{t.getIntrusivePtr(), value});
  if (shapes::is_fake_tensor(t) || (on_fake_tensors_ && shapes::is_sparse(t))) // a literal has data
    without_data_.emplace_back(t.getIntrusivePtr(), frontend_.here());
}

Site Scope::left_behind() const {
  for (const auto &[tensor, where] : without_data_)
    if (!tensor.expired())
      return where;
  return {};
}

void Scope::check_not_of_block(const at::Tensor &t) {
  const auto found = of_blocks_.find(t.unsafeGetTensorImpl());
  if (found == of_blocks_.end() || found->second.first.expired())
    return;
  reject(Rejection::staging,
         fmt::format("a tensor used at {} was made in a branch or loop that is staged, and left it "
                     "through a container, an attribute or a function's state. Assign it to a "
                     "variable there (in each branch), or collect values in a TensorArray.",
                     text(frontend_.here())));
}

/// A generator advances as in eager, an error is raised as in eager. See settle_kept().
void Scope::keep(jit::Value *result) {
  insert_op(*result->owningGraph(), "tracehost::keep", {result}, 0);
}

void Scope::enter_fake_tensors() {
  if (on_fake_tensors_++ == 0)
    met.clear();
}

void Scope::leave_fake_tensors() {
  substituted_.clear();
  if (--on_fake_tensors_ == 0 && !frontend_.without_data())
    twins_ = {};
}

void Scope::meet(jit::Value *scalar, const c10::IValue &value) {
  if (on_fake_tensors_)
    met.emplace(scalar, value);
}

void Scope::meet(const at::Tensor &t) {
  if (on_fake_tensors_)
    met.emplace(tracer::getTracingState()->getValue(t), t);
}

jit::Value *value_of(const at::Tensor &t) {
  current->know(t);
  if (!shapes::is_fake_tensor(t)) // a block may return it, and no op meet it
    current->meet(t);
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
  current->may_be_others.insert_or_assign(
      t.unsafeGetTensorImpl(), std::pair{t.getIntrusivePtr(), original.getIntrusivePtr()});
}

at::Tensor in_eager(at::Tensor t) {
  for (;;) {
    const auto found = current->may_be_others.find(t.unsafeGetTensorImpl());
    if (found == current->may_be_others.end() || found->second.second.expired())
      return t;
    t = at::Tensor(found->second.second.lock());
  }
}
void set_inexact(jit::Value *value) { current->inexact.insert(value); }
void set_varies(const jit::Value *value, Fact fact) { current->varying(fact).insert(value); }
void check_not_read(const jit::Value *value, Fact fact) {
  for (const auto &[read, where] : current->read_in_blocks(fact))
    if (may_have_from(fact, read, {value}))
      reject(Rejection::value_read,
             fmt::format("the body of a loop reads at {} {}, which differs from one iteration to "
                         "the next, and one body stands for all of them. Read that before the "
                         "loop, or write the loop over Python values.",
                         text(where),
                         fact == Fact::layout ? "how a tensor lies in memory"
                                              : "what autograd records of a tensor"));
}
bool is_inexact(const jit::Value *value) { return current->inexact.contains(value); }

void forget(jit::Node *node) { current->forget(node); }
void take_block(jit::Node *node, std::size_t taken) { current->take_block(node, taken); }

/// Another node or value may get the same address.
void Scope::forget(jit::Node *node) {
  const auto forget_value = [this](jit::Value *value) {
    inexact.erase(value);
    for (const Fact fact : {Fact::layout, Fact::gradient}) {
      varying(fact).erase(value);
      read_in_blocks(fact).erase(value);
    }
    loose.erase(value);
    std::replace(texts.begin(), texts.end(), value, static_cast<jit::Value *>(nullptr));
    met.erase(value);
    for (auto &[impl, made] : of_blocks_)
      if (made.second == value)
        made.second = nullptr;
    if (dynamic_sizes)
      dynamic_sizes->forget(value);
  };
  parsed_.erase(node);
  std::erase_if(numbers_read_, [&](const NumberRead &read) {
    return read.last == node || read.tensor->node() == node;
  });
  saves_.forget(node);
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

void Scope::take_block(jit::Node *node, std::size_t taken) {
  jit::Block *around = node->owningBlock(), *block = node->blocks()[taken];
  const std::vector<jit::Node *> nodes(block->nodes().begin(), block->nodes().end());
  for (jit::Node *inner : nodes)
    inner->moveBefore(node);
  opened_.erase(block);
  forget(node);
  node->destroy();
  know_taken({around});
}

/// Tensors made in the block are known in what is around it.
void Scope::open_block(const jit::Block *block) {
  opened_.insert(block);
  know_taken(opened_);
}

void Scope::know_taken(const std::unordered_set<const jit::Block *> &taken) {
  std::erase_if(of_blocks_, [&](const auto &entry) {
    const auto &[tensor, value] = entry.second;
    if (!value || !taken.contains(value->node()->owningBlock()))
      return false;
    if (const auto alive = tensor.lock(); alive.defined())
      bind(at::Tensor(alive), value);
    return blocks == 0;
  });
}

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

bool in_block() { return current->blocks > 0; }
void note_made_in_block(const at::Tensor &t) { current->made_in_block(t); }
void check_not_of_block(const at::Tensor &t) { current->check_not_of_block(t); }
Site left_behind() { return current->left_behind(); }
void forgive_rejection() { current->forgive_rejection(); }
bool is_rejected() { return current->is_rejected(); }
std::string first_effect() { return current->effect; }
bool saves_nothing() { return current->saves_nothing(); }
void set_first_effect(std::string effect) { current->effect = std::move(effect); }
void forgive_failure() { current->raised.clear(); }
void note_raised() { current->note_raise(); }

bool Scope::in_loop() const {
  const jit::Block *block = tracer::getTracingState()->graph->insertPoint()->owningBlock();
  for (; block->owningNode(); block = block->owningNode()->owningBlock())
    if (block->owningNode()->kind() == c10::prim::Loop)
      return true;
  return false;
}

void bind_made(const at::Tensor &t, jit::Value *value) {
  bind(t, value);
  if (in_block())
    note_made_in_block(t);
}

void settle_reads() {
  if (!current->abandoned())
    current->settle_numbers(nullptr);
}

void record_modes() { current->record_modes(); }
void reject_staging(const std::string &message) { current->reject(Rejection::staging, message); }

InBlock::InBlock(jit::Block *block)
    : block_(block), state_(tracer::getTracingState()),
      before_(block->owningGraph()->insertPoint()), modes_(current->modes) {
  block->owningGraph()->setInsertPoint(block);
  tracer::getTracingState()->enterFrame();
  current->forget_casts();
  ++current->blocks;
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
    current->reshapes.open(block_, block_->owningNode()->owningBlock());
  else
    current->reshapes.close(block_);
  --current->blocks;
  state->leaveFrame();
  current->know_slots(*state);
  current->forget_casts();
}

void InBlock::open() {
  opened_ = true;
  leave();
  current->open_block(block_);
}

bool InBlock::keeps_shapes() const { return !current->reshapes.any(block_); }

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

OnFakeTensors::OnFakeTensors() { current->enter_fake_tensors(); }
OnFakeTensors::~OnFakeTensors() { current->leave_fake_tensors(); }

at::Tensor fake_tensor_for(const at::Tensor &t) {
  current->know(t);
  return current->fake_tensor(t);
}

void meet(jit::Value *value, const c10::IValue &list) { current->met.emplace(value, list); }

std::unordered_map<jit::Value *, c10::IValue> OnFakeTensors::met() const {
  auto result = current->met;
  if (current->dynamic_sizes)
    result.insert(current->dynamic_sizes->given.begin(), current->dynamic_sizes->given.end());
  return result;
}

} // namespace tracehost::trace
