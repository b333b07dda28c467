#pragma once

#include "tape/guards.h"

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <vector>

/// What a capture was made for: exact sizes and strides, and the settings that kernels were chosen
/// by when they were launched. A capture keeps that choice.

namespace tracehost::capture {

/// Settings of the process that kernels of a device read at their launch.
struct LaunchSettings {
  static LaunchSettings now();
  bool operator==(const LaunchSettings &) const = default;

  std::array<bool, 10> switches{};
  std::array<int, 5> choices{};
};

class Key {
public:
  explicit Key(c10::ArrayRef<c10::IValue> inputs);
  /// Hot. Whether a call has the same key.
  bool holds(c10::ArrayRef<c10::IValue> inputs, const tape::Settings &settings,
             const LaunchSettings &launch) const;
  /// Hot. The same without the settings.
  bool is_like(c10::ArrayRef<c10::IValue> inputs) const;

  /// Tensors that are nothing but values in memory of the device, and None.
  static bool is_possible(c10::ArrayRef<c10::IValue> inputs);
  /// The first byte of the tensor within a vector's width: kernels are chosen by it.
  static std::uint8_t alignment(const at::Tensor &t);

private:
  struct Input {
    bool is_tensor;
    bool requires_grad;
    std::uint8_t alignment;
    c10::DispatchKeySet keys;
    c10::ScalarType dtype;
    c10::Device device;
    std::vector<std::int64_t> sizes, strides;
  };
  static bool is_same(const Input &input, const c10::IValue &given);

  std::vector<Input> inputs_;
  tape::Settings settings_ = tape::Settings::now();
  LaunchSettings launch_ = LaunchSettings::now();
};

} // namespace tracehost::capture
