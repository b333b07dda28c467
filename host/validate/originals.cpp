#include "validate/originals.h"

#include "signature/grad_read.h"
#include "trace/op_tensors.h"
#include "trace/op_traits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/variable.h>

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tracehost::validate {
namespace {

/// Over the whole of `storage`.
at::Tensor bytes_of(const c10::Storage &storage) {
  at::Tensor all = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  return all.set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
}

/// A tensor like `like`, laid out so in the copied memory.
at::Tensor lay_out(const c10::Storage &copied, const at::Tensor &like, c10::IntArrayRef sizes,
                   c10::IntArrayRef strides, std::int64_t offset) {
  const at::NoGradGuard no_grad;
  at::Tensor made = at::empty({0}, like.options().requires_grad(false));
  made.set_(copied, offset, sizes, strides);
  return made;
}

/// libtorch has owned its nodes by shared_ptr in older releases, and by intrusive_ptr in newer.
template <class T> auto make_node(const char *message) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>)
    return c10::make_intrusive<T>(message);
  else
    return std::make_shared<T>(message);
}

bool resizes(std::string_view op) {
  return op == "aten::resize_" || op == "aten::resize_as_" || op == "aten::set_" ||
         op == "aten::resize_as_sparse_" || op == "aten::sparse_resize_";
}

} // namespace

void Originals::met(const at::Tensor &t) {
  if (!problem_.empty())
    return;
  inputs_.push_back(described(t));
  const at::Tensor &grad = grad_of(t);
  grads_.push_back(grad.defined() ? described(grad) : Input());
}

Originals::Input Originals::described(const at::Tensor &t) {
  Input input;
  input.tensor = t;
  input.requires_grad = t.requires_grad();
  input.is_leaf = t.is_leaf();
  if (t.layout() == at::kStrided && t.has_storage()) {
    input.sizes = t.sizes().vec();
    input.strides = t.strides().vec();
    input.offset = t.storage_offset();
    input.is_conj = t.is_conj();
    input.is_neg = t.is_neg();
    if (t.is_view())
      input.base = t._base();
    const c10::Storage &storage = t.storage();
    const auto [entry, is_new] =
        known_.try_emplace(storage.unsafeGetStorageImpl(), memories_.size());
    if (is_new)
      memories_.push_back({storage, {}, {}, false});
    input.memory = static_cast<std::ptrdiff_t>(entry->second);
  }
  return input;
}

void Originals::before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  if (!problem_.empty())
    return;
  if (trace::op_depth() == 0)
    op_began_ = std::chrono::steady_clock::now();
  const trace::OpTraits &traits = trace::traits(op);
  if (traits.random) {
    const trace::Aside aside;
    draws_.before(op, stack);
  }
  if (traits.writes)
    note_writes(op, stack, false);
}

void Originals::before_eager_op(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  note_writes(op, stack, true);
}

void Originals::note_writes(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
                            bool aside) {
  trace::each_written(op, stack, [&](const at::Tensor &t) {
    if (!problem_.empty())
      return;
    if (t.layout() == at::kStrided && t.has_storage()) {
      const auto known = known_.find(t.storage().unsafeGetStorageImpl());
      if (known == known_.end())
        return;
      if (resizes(op.schema().name()))
        give_up("the body resizes an input's memory");
      else
        copy(t, aside);
      return;
    }
    for (const Input &input : inputs_)
      if (input.tensor.is_same(t))
        return give_up(fmt::format("the body writes an input of layout {}", c10::str(t.layout())));
  });
}

void Originals::copy(const at::Tensor &written, bool aside) {
  Memory &memory = memories_[known_.at(written.storage().unsafeGetStorageImpl())];
  memory.aside |= aside;
  if (memory.copy.defined())
    return;
  count(2 * memory.storage.nbytes()); // inputs() copies it again
  if (!problem_.empty())
    return;
  const trace::Aside unseen;
  try {
    memory.copy = bytes_of(memory.storage).clone();
  } catch (const c10::OutOfMemoryError &) { // the call goes on
    give_up("not enough memory");
  }
}

void Originals::after(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  if (!problem_.empty())
    return;
  took(std::chrono::steady_clock::now() - op_began_);
  const auto &results = op.schema().returns();
  const std::size_t first = stack.size() - results.size();
  for (std::size_t i = 0; i < results.size() && problem_.empty(); ++i)
    if (!results[i].alias_info())
      trace::each_tensor({stack[first + i]}, [&](const at::Tensor &t) {
        if (t.layout() == at::kStrided)
          count(t.nbytes());
      });
}

void Originals::count(std::size_t bytes) {
  bytes_ += bytes;
  if (policy_.when == Policy::When::first && bytes_ > Policy::kMostBytes)
    give_up(fmt::format("its tensors take over {} MiB", Policy::kMostBytes >> 20));
}

void Originals::took(std::chrono::nanoseconds time) {
  time_ += time;
  if (policy_.when == Policy::When::first && time_ > Policy::kMostTime && problem_.empty())
    give_up(fmt::format("its ops take over {} s", Policy::kMostTime.count()));
}

void Originals::give_up(std::string why) {
  problem_ = std::move(why);
  memories_.clear();
  known_.clear();
  for (Input &input : inputs_)
    input.memory = -1;
  grads_.assign(inputs_.size(), Input());
}

bool Originals::is_written(std::size_t input) const {
  const auto memory = inputs_[input].memory;
  return memory >= 0 && memories_[static_cast<std::size_t>(memory)].copy.defined();
}

bool Originals::is_written_aside(std::size_t input) const {
  return is_written(input) && memories_[static_cast<std::size_t>(inputs_[input].memory)].aside;
}

std::vector<at::Tensor> Originals::inputs(bool gradients) {
  {
    const trace::Aside aside;
    for (Memory &memory : memories_)
      if (memory.copy.defined())
        memory.lent = memory.copy.clone();
  }
  std::vector<at::Tensor> result;
  const at::AutoGradMode grad(true);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    at::Tensor stands = as_it_was(inputs_[i]);
    if (gradients && inputs_[i].is_leaf)
      stands = with_own_grad(std::move(stands), inputs_[i], grads_[i]);
    result.push_back(std::move(stands));
  }
  bases_.clear();
  for (Memory &memory : memories_)
    memory.lent.reset();
  return result;
}

at::Tensor Originals::as_it_was(const Input &input) {
  if (input.memory >= 0)
    if (const Memory &memory = memories_[static_cast<std::size_t>(input.memory)];
        memory.copy.defined())
      return rebuilt(input, memory);
  return input.tensor;
}

at::Tensor Originals::rebuilt(const Input &input, const Memory &memory) {
  const bool viewed = input.base.defined() && input.base.has_storage() &&
                      input.base.dtype() == input.tensor.dtype() && !input.is_conj && !input.is_neg;
  if (!viewed)
    return copy_of(input, memory);
  return base_of(input, memory).as_strided(input.sizes, input.strides, input.offset);
}

/// The copy that stands for a tensor which is no view; one for each.
at::Tensor Originals::copy_of(const Input &input, const Memory &memory) {
  for (const auto &[base, copy] : bases_)
    if (base.is_same(input.tensor))
      return copy;
  const at::Tensor copy =
      lay_out(memory.lent.storage(), input.tensor, input.sizes, input.strides, input.offset);
  copy._set_conj(input.is_conj);
  copy._set_neg(input.is_neg);
  set_history(copy, input.requires_grad, input.is_leaf);
  return bases_.emplace_back(input.tensor, copy).second;
}

/// The copy of what a view is one of.
at::Tensor Originals::base_of(const Input &view, const Memory &memory) {
  for (const Input &other : inputs_)
    if (other.tensor.is_same(view.base))
      return copy_of(other, memory);
  for (const auto &[base, copy] : bases_)
    if (base.is_same(view.base))
      return copy;
  const at::Tensor &base = view.base;
  const at::Tensor copy =
      lay_out(memory.lent.storage(), base, base.sizes(), base.strides(), base.storage_offset());
  set_history(copy, view.requires_grad, false);
  return bases_.emplace_back(base, copy).second;
}

/// What computes gradients of a copy is never run: it only has to be there.
void Originals::set_history(const at::Tensor &copy, bool requires_grad, bool is_leaf) {
  if (!requires_grad)
    return;
  if (is_leaf) {
    copy.set_requires_grad(true);
    return;
  }
  lacks_history_ = true;
  const auto error =
      make_node<torch::autograd::Error>("a copy that tracehost made has no history of gradients");
  const auto output = error->add_input_metadata(copy);
  torch::autograd::impl::set_gradient_edge(copy, torch::autograd::Edge(error, output));
}

} // namespace tracehost::validate
