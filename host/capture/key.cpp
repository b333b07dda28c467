#include "capture/key.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace tracehost::capture {
namespace {

constexpr std::uintptr_t kVector = 16; ///< bytes of the widest load

} // namespace

LaunchSettings LaunchSettings::now() {
  at::Context &context = at::globalContext();
  LaunchSettings now;
  now.switches = {context.userEnabledCuDNN(),
                  context.benchmarkCuDNN(),
                  context.deterministicCuDNN(),
                  context.allowFP16AccumulationCuBLAS(),
                  context.userEnabledFlashSDP(),
                  context.userEnabledMemEfficientSDP(),
                  context.userEnabledMathSDP(),
                  context.userEnabledCuDNNSDP(),
                  context.allowFP16BF16ReductionMathSDP(),
                  context.deterministicFillUninitializedMemory()};
  const auto precision = [&context](at::Float32Op op) {
    return static_cast<int>(context.float32Precision(at::Float32Backend::CUDA, op));
  };
  now.choices = {precision(at::Float32Op::MATMUL), precision(at::Float32Op::CONV),
                 precision(at::Float32Op::RNN),
                 static_cast<int>(context.allowFP16ReductionCuBLAS()),
                 static_cast<int>(context.allowBF16ReductionCuBLAS())};
  return now;
}

std::uint8_t Key::alignment(const at::Tensor &t) {
  return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(t.const_data_ptr()) % kVector);
}

Key::Key(c10::ArrayRef<c10::IValue> inputs) {
  for (const c10::IValue &given : inputs) {
    if (!given.isTensor()) {
      inputs_.push_back({false, false, 0, {}, c10::ScalarType::Undefined, c10::kCPU, {}, {}});
      continue;
    }
    const at::Tensor &t = given.toTensor();
    inputs_.push_back({true, t.requires_grad(), alignment(t), t.key_set(), t.scalar_type(),
                       t.device(), t.sizes().vec(), t.strides().vec()});
  }
}

bool Key::is_same(const Input &input, const c10::IValue &given) {
  if (!given.isTensor() || !input.is_tensor)
    return given.isTensor() == input.is_tensor;
  const at::Tensor &t = given.toTensor();
  return t.key_set() == input.keys && t.scalar_type() == input.dtype &&
         t.device() == input.device && t.requires_grad() == input.requires_grad &&
         t.sizes() == input.sizes && t.strides() == input.strides &&
         alignment(t) == input.alignment;
}

bool Key::holds(c10::ArrayRef<c10::IValue> inputs, const tape::Settings &settings,
                const LaunchSettings &launch) const {
  return settings == settings_ && launch == launch_ && is_like(inputs);
}

bool Key::is_like(c10::ArrayRef<c10::IValue> inputs) const {
  return std::equal(inputs_.begin(), inputs_.end(), inputs.begin(), inputs.end(), &is_same);
}

bool Key::is_possible(c10::ArrayRef<c10::IValue> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const c10::IValue &given) {
    return given.isNone() || (given.isTensor() && tape::is_plain_on_its_device(given.toTensor()));
  });
}

} // namespace tracehost::capture
