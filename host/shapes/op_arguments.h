#pragma once

#include "shapes/device.h"
#include "shapes/fake_tensor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string_view>
#include <vector>

/// The arguments of an op that runs without data; internal to without_data.cpp.

namespace tracehost::shapes {

using torch::jit::Stack;

/// The arguments of one op, and their counterparts that a kernel is run on.
class Arguments {
public:
  Arguments(const c10::OperatorHandle &op, const Stack &stack)
      : op_(op), values_(stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()),
                         stack.end()) {
    for (const auto &value : values_)
      replaced(value, [&](const at::Tensor &t) {
        tensors_.push_back(t);
        return t;
      });
  }

  const std::vector<at::Tensor> &tensors() const { return tensors_; }
  const std::vector<c10::IValue> &values() const { return values_; }

  /// Numbers as tensors, which the code of an op has made of its arguments: a check of a range.
  bool is_constant() const {
    if (op_.schema().name() == "aten::lift_fresh" || op_.schema().name() == "aten::lift")
      return false;
    for (const at::Tensor &t : tensors_)
      if (is_fake_tensor(t) || t.is_meta() || t.numel() > 1)
        return false;
    return !tensors_.empty();
  }

  bool any_sparse() const {
    for (const at::Tensor &t : tensors_)
      if (is_sparse(t))
        return true;
    return false;
  }

  /// The device of the results: the device that the op is given, or the device of its tensors. A
  /// 0-dim tensor on the CPU goes with any device.
  c10::Device device() const {
    for (const c10::IValue &value : values_)
      if (value.isDevice())
        return with_index(value.toDevice());
    std::optional<c10::Device> found;
    bool scalar = false;
    for (const at::Tensor &t : tensors_) {
      const bool any = t.dim() == 0 && t.device().is_cpu();
      if (!found || (found->is_cpu() && scalar && !any)) {
        scalar = any;
        found = t.device();
      } else if (!any && *found != t.device() && !takes_mixed()) {
        TORCH_CHECK(false,
                    "Expected all tensors to be on the same device, but found at least two "
                    "devices, ",
                    *found, " and ", t.device(), "! (", op_.schema().name(), ")");
      }
    }
    return found.value_or(c10::kCPU);
  }

  /// The device of the tensors alone.
  c10::Device device_of_tensors() const {
    for (const at::Tensor &t : tensors_)
      if (!t.is_cpu() || t.dim() > 0)
        return t.device();
    return tensors_.empty() ? c10::Device(c10::kCPU) : tensors_.front().device();
  }

  /// The arguments with `f` of each tensor; kept, so that results are known again.
  Stack with(const Replace &f, bool to_meta) {
    counterparts_.clear();
    Stack stack;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::string &name = op_.schema().arguments()[i].name();
      const bool makes_all = tensors_.empty() && name == "device";
      if (to_meta && (values_[i].isDevice() || makes_all))
        stack.emplace_back(c10::Device(c10::kMeta));
      else if (to_meta && name == "pin_memory")
        stack.emplace_back();
      else
        stack.push_back(replaced(values_[i], [&](const at::Tensor &t) {
          counterparts_.push_back(f(t));
          return counterparts_.back();
        }));
    }
    return stack;
  }

  /// The argument that `result` is, or shares memory with.
  at::Tensor same(const at::Tensor &result) const {
    for (std::size_t i = 0; i < counterparts_.size(); ++i)
      if (counterparts_[i].is_same(result))
        return tensors_[i];
    return {};
  }
  at::Tensor base(const at::Tensor &result) const {
    for (std::size_t i = 0; i < counterparts_.size(); ++i)
      if (is_fake_tensor(tensors_[i]) && counterparts_[i].is_alias_of(result))
        return tensors_[i];
    return {};
  }
  void take_over_sizes() const {
    for (std::size_t i = 0; i < counterparts_.size(); ++i)
      if (is_fake_tensor(tensors_[i]))
        take_over(tensors_[i], counterparts_[i]);
  }

private:
  bool takes_mixed() const {
    const std::string_view name = op_.schema().name();
    return name.starts_with("aten::index") || name.starts_with("aten::_index") ||
           name.starts_with("aten::copy") || name.starts_with("aten::_foreach") ||
           name.starts_with("aten::_fused");
  }

  const c10::OperatorHandle &op_;
  std::vector<c10::IValue> values_;
  std::vector<at::Tensor> tensors_, counterparts_;
};

} // namespace tracehost::shapes
