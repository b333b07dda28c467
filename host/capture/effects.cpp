#include "capture/effects.h"

#include "tape/generator.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace tracehost::capture {
namespace {

at::Generator generator_of(c10::Device device) {
  return at::globalContext().defaultGenerator(device);
}

/// NaN equals NaN of the same bits, and 0.0 does not equal -0.0.
bool have_same_bits(const at::Tensor &a, const at::Tensor &b) {
  return at::equal(bytes_of(without_repeats(a)), bytes_of(without_repeats(b)));
}

bool are_alike(const at::Tensor &a, const at::Tensor &b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type() && a.device() == b.device() &&
         a.requires_grad() == b.requires_grad();
}

bool are_same(const c10::IValue &a, const c10::IValue &b) {
  const bool has = a.isTensor() && a.toTensor().defined();
  if (has != (b.isTensor() && b.toTensor().defined()))
    return false;
  if (!has)
    return a.isTensor() || b.isTensor() || a == b;
  return are_alike(a.toTensor(), b.toTensor()) && have_same_bits(a.toTensor(), b.toTensor());
}

} // namespace

at::Tensor bytes_of(const at::Tensor &t) {
  const at::Tensor all = t.contiguous();
  return all.as_strided({all.numel()}, {1}).view(at::kByte);
}

c10::Device device_of_inputs(c10::ArrayRef<c10::IValue> inputs) {
  c10::Device found = c10::kCPU;
  for (const c10::IValue &input : inputs)
    if (input.isTensor() && input.toTensor().defined() && found.is_cpu())
      found = input.toTensor().device();
  return found;
}

Effects::Effects(const StaticInputs &inputs, c10::ArrayRef<c10::IValue> given, bool draws)
    : device_(device_of_inputs(given)) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (inputs.is_written(i) && given[i].isTensor()) {
      const at::Tensor now = without_repeats(given[i].toTensor());
      written_.emplace_back(i, at::empty_strided(now.sizes(), now.strides(), now.options()));
      written_.back().second.copy_(now, /*non_blocking=*/true);
    }
  if (draws)
    generator_ = tape::state_of(generator_of(device_));
}

void Effects::undo(c10::ArrayRef<c10::IValue> given) const {
  const at::AutoDispatchBelowADInplaceOrView plain;
  for (const auto &[i, before] : written_)
    without_repeats(given[i].toTensor()).copy_(before, /*non_blocking=*/true);
  if (generator_.defined())
    tape::set_state(generator_of(device_), generator_);
}

std::optional<std::string> Effects::difference(const Effects &other) const {
  for (std::size_t i = 0; i < written_.size(); ++i)
    if (!have_same_bits(written_[i].second, other.written_[i].second))
      return c10::str("input ", written_[i].first);
  if (generator_.defined() && !have_same_bits(generator_, other.generator_))
    return "the generator";
  return std::nullopt;
}

DrawsUndone::DrawsUndone(c10::Device device, bool draws) : device_(device) {
  if (draws)
    before_ = tape::state_of(generator_of(device));
}
DrawsUndone::~DrawsUndone() {
  if (before_.defined())
    tape::set_state(generator_of(device_), before_);
}

std::optional<std::string> difference_of_results(c10::ArrayRef<c10::IValue> replayed,
                                                 c10::ArrayRef<c10::IValue> plain) {
  if (replayed.size() != plain.size())
    return "the number of outputs";
  for (std::size_t i = 0; i < plain.size(); ++i)
    if (!are_same(replayed[i], plain[i]))
      return c10::str("output ", i);
  return std::nullopt;
}

} // namespace tracehost::capture
