#pragma once

#include "archive/container.h"
#include "archive/pickle.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <unordered_map>

/// Tensors of a pickle, over the records that hold their data.
///
/// What a pickle says of a tensor (dtype, sizes, strides, offset) is compared with the bytes of its
/// record before there is a tensor. None reaches beyond its data, and no index of a sparse one
/// beyond its sizes. A bool is 0 or 1. Tensors of one record share it, as at the save.

namespace tracehost::archive {

/// What is on one device goes to another, and the rest stays.
struct DeviceMove {
  c10::Device from, to;
  bool needed() const { return from != to; }
  c10::Device operator()(c10::Device device) const { return device == from ? to : device; }
};

class StoredTensors {
public:
  /// `folder`: of the records, `data/`.
  StoredTensors(const Container &container, std::string folder, DeviceMove move)
      : container_(container), folder_(std::move(folder)), move_(move) {}

  /// The tensor that an item stands for. Throws Error.
  at::Tensor make(const Pickle &pickle, const PickleItem &item);
  /// The same, where it must not have more elements than its data, as a view of `expand` has.
  at::Tensor make_constant(const Pickle &pickle, const PickleItem &item);

private:
  const at::Tensor &storage(const Pickle &pickle, const PickleItem &id);
  at::Tensor strided(const Pickle &pickle, const PickleItem &arguments);
  at::Tensor quantized(const Pickle &pickle, const PickleItem &arguments);
  at::Tensor sparse(const Pickle &pickle, const PickleItem &arguments);

  const Container &container_;
  const std::string folder_;
  const DeviceMove move_;
  /// By key: all of the data, in one dimension.
  std::unordered_map<std::string, at::Tensor> storages_;
};

} // namespace tracehost::archive
