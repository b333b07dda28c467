#pragma once

#include "capture/static_inputs.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::capture {

/// What a run may change besides its results: inputs that the graph writes to, and the device's
/// generator. The first replay of a capture is undone with it, and compared with a plain run.
class Effects {
public:
  /// Copies what a run may change. `draws`: the generator is part of it.
  Effects(const StaticInputs &inputs, c10::ArrayRef<c10::IValue> given, bool draws);
  /// All is as it was at the copy. `given`: tensors as in the constructor.
  void undo(c10::ArrayRef<c10::IValue> given) const;

  /// What `given` and the generator hold now, for a comparison later.
  Effects again(const StaticInputs &inputs, c10::ArrayRef<c10::IValue> given) const {
    return {inputs, given, generator_.defined()};
  }
  /// What differs, `input 2`; none: nothing. Waits for the device.
  std::optional<std::string> difference(const Effects &other) const;

private:
  std::vector<std::pair<std::size_t, at::Tensor>> written_;
  c10::Device device_ = c10::kCPU;
  at::Tensor generator_; ///< undefined: it is no part
};

/// Runs in the scope draw what the next run would draw.
class DrawsUndone {
public:
  DrawsUndone(c10::Device device, bool draws);
  ~DrawsUndone();
  DrawsUndone(const DrawsUndone &) = delete;
  DrawsUndone &operator=(const DrawsUndone &) = delete;

private:
  const c10::Device device_;
  at::Tensor before_;
};

/// The same for results, `output 0`: sizes, strides, dtype and bits.
std::optional<std::string> difference_of_results(c10::ArrayRef<c10::IValue> replayed,
                                                 c10::ArrayRef<c10::IValue> plain);

/// The values as bytes: devices have no kernels for some dtypes. A tensor of one element may have
/// any stride, and is contiguous all the same.
at::Tensor bytes_of(const at::Tensor &t);

/// The first device of the tensors among inputs. Requires: there is a tensor.
c10::Device device_of_inputs(c10::ArrayRef<c10::IValue> inputs);

} // namespace tracehost::capture
