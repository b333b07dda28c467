#include "capture/static_inputs.h"

#include "capture/key.h"
#include "tape/recording.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace tracehost::capture {
namespace {

/// Memory of the capture's own, with the sizes, strides and alignment of `t`.
at::Tensor own_memory_like(const at::Tensor &t) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const auto item = static_cast<std::int64_t>(t.itemsize());
  const std::int64_t offset = Key::alignment(t) / item;
  const auto bytes = static_cast<std::int64_t>(
      at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
  return at::empty({bytes / item + offset}, t.options()).as_strided(t.sizes(), t.strides(), offset);
}

} // namespace

at::Tensor without_repeats(const at::Tensor &t) {
  at::Tensor once = t;
  for (std::int64_t i = 0; i < t.dim(); ++i)
    if (t.stride(i) == 0 && t.size(i) > 1)
      once = once.narrow(i, 0, 1);
  return once;
}

StaticInputs::StaticInputs(std::size_t count, std::size_t arguments, std::vector<bool> written)
    : inputs_(count) {
  for (std::size_t i = 0; i < count; ++i) {
    inputs_[i].is_argument = i < arguments;
    inputs_[i].written = written[i];
  }
}

bool StaticInputs::is_at(const Input &input, const at::Tensor &t) {
  return input.seen && input.seen->_unsafe_get_target() == t.storage().unsafeGetStorageImpl() &&
         input.address == t.const_data_ptr();
}

void StaticInputs::see(Input &input, const at::Tensor &t) {
  input.address = t.const_data_ptr();
  input.seen = t.storage().getWeakStorageImpl();
}

void StaticInputs::add(std::int64_t writes) {
  Input &input = inputs_.emplace_back();
  input.how = Input::How::in_place;
  input.is_argument = true;
  input.written = writes > 0;
  input.writes = writes;
}

void StaticInputs::begin_warm_run(c10::ArrayRef<c10::IValue> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].isTensor())
      continue;
    Input &input = inputs_[i];
    const at::Tensor &t = given[i].toTensor();
    input.version = tape::version_of(t);
    const bool moved = input.how != Input::How::none && !is_at(input, t);
    if (input.how == Input::How::none)
      input.how = Input::How::in_place;
    else if (moved && (input.is_argument || input.moved))
      input.how = Input::How::copied;
    input.moved |= moved;
    see(input, t);
  }
}

void StaticInputs::end_warm_run(c10::ArrayRef<c10::IValue> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].isTensor())
      continue;
    Input &input = inputs_[i];
    input.writes = tape::version_of(given[i].toTensor()) - input.version;
    input.written |= input.writes > 0;
  }
}

void StaticInputs::copy_what_moved(c10::ArrayRef<c10::IValue> given, bool all) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (Input &input = inputs_[i]; input.how == Input::How::in_place &&
                                   (input.is_argument || all) && !is_at(input, given[i].toTensor()))
      input.how = Input::How::copied;
}

void StaticInputs::bind(c10::ArrayRef<c10::IValue> given) {
  unbind();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input &input = inputs_[i];
    if (input.how == Input::How::none)
      continue;
    const at::Tensor &t = given[i].toTensor();
    if (std::exchange(input.moved, false) && !is_at(input, t))
      input.how = Input::How::copied;
    if (input.how == Input::How::in_place) {
      see(input, t);
      input.fixed = t.variable_data();
    } else {
      input.fixed = own_memory_like(t);
      to_.push_back(without_repeats(input.fixed));
    }
  }
}

void StaticInputs::unbind() {
  to_.clear();
  from_.clear();
  for (Input &input : inputs_)
    input.fixed.reset();
}

std::int64_t StaticInputs::bytes() const {
  std::int64_t sum = 0;
  for (const Input &input : inputs_)
    if (input.how == Input::How::copied && input.fixed.defined())
      sum += static_cast<std::int64_t>(input.fixed.storage().nbytes());
  return sum;
}

torch::jit::Stack StaticInputs::stack() const {
  torch::jit::Stack stack;
  for (const Input &input : inputs_)
    stack.emplace_back(input.how == Input::How::none ? c10::IValue() : c10::IValue(input.fixed));
  return stack;
}

bool StaticInputs::are_in_place(c10::ArrayRef<c10::IValue> given) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].how == Input::How::in_place && !is_at(inputs_[i], given[i].toTensor()))
      return false;
  return true;
}

bool StaticInputs::are_apart(c10::ArrayRef<c10::IValue> given) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].written || !given[i].isTensor())
      continue;
    const auto *written = given[i].toTensor().storage().unsafeGetStorageImpl();
    for (std::size_t j = 0; j < inputs_.size(); ++j) {
      if (j == i || !given[j].isTensor() ||
          (inputs_[i].how == Input::How::in_place && inputs_[j].how == Input::How::in_place))
        continue;
      if (given[j].toTensor().storage().unsafeGetStorageImpl() == written)
        return false;
    }
  }
  return true;
}

void StaticInputs::copy_in(c10::ArrayRef<c10::IValue> given) {
  if (to_.empty())
    return;
  const at::AutoDispatchBelowADInplaceOrView plain;
  from_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].how == Input::How::copied)
      from_.push_back(without_repeats(given[i].toTensor()));
  at::_foreach_copy_(to_, from_, /*non_blocking=*/true);
  from_.clear(); // the caller's tensors are not kept
}

void StaticInputs::copy_back(c10::ArrayRef<c10::IValue> given) const {
  const at::AutoDispatchBelowADInplaceOrView plain;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input &input = inputs_[i];
    if (input.written && input.how == Input::How::copied)
      given[i].toTensor().copy_(input.fixed, /*non_blocking=*/true);
  }
}

void StaticInputs::count_writes(c10::ArrayRef<c10::IValue> given) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    for (std::int64_t write = 0; write < inputs_[i].writes; ++write)
      given[i].toTensor().unsafeGetTensorImpl()->bump_version();
}

} // namespace tracehost::capture
