#pragma once

#include "archive/bytes.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

/// The tensors of an archive: a table of forms, over the records that hold the data.
///
///     form    name, kind, and of each of its parts: number of the record `data/<n>`, dtype,
///     device,
///             sizes, strides, offset (in elements), requires_grad, conj, neg
///     kind    strided; quantized (scale, zero point, or those of each channel); sparse
///
/// Tensors of one storage name one record, and share it once they are read. Records are those of
/// TorchScript's pickle, which numbers storages in the order in which it meets them.
///
/// A reader compares what a form says with the bytes of its record before there is a tensor. None
/// reaches beyond its data, and no index of a sparse one beyond its sizes. A bool is 0 or 1.

namespace tracehost::archive {

/// What is on one device goes to another, and the rest stays.
struct DeviceMove {
  c10::Device from, to;
  bool needed() const { return from != to; }
  c10::Device operator()(c10::Device device) const { return device == from ? to : device; }
};

/// The tensors that a save writes, in the order of the module's attributes.
class TensorTable {
public:
  /// Its number. Requires: each tensor is added once.
  std::uint64_t add(const std::string &name, const at::Tensor &tensor);

  /// Throws Error for a tensor of no form above.
  void write(ByteWriter &to) const;

private:
  struct Named {
    std::string name;
    at::Tensor tensor;
  };
  std::vector<Named> tensors_;
};

/// The bytes of a record, in memory that they keep. Throws Error: there is none of that name.
using RecordData = std::function<std::pair<c10::DataPtr, std::size_t>(const std::string &record)>;

/// Throws Error for a strided tensor of more elements than its data, as a view of expand() is: what
/// goes through the elements ends.
void check_unexpanded(const at::Tensor &tensor);

class StoredTensors {
public:
  /// Reads the table, and all tensors of it. They share the memory of the file. Throws Error.
  StoredTensors(ByteReader &from, const RecordData &data, DeviceMove move);

  /// Throws Error if there is none of that number, or name.
  const at::Tensor &at(std::uint64_t number) const;
  const at::Tensor &of(const std::string &name) const;

private:
  std::vector<at::Tensor> tensors_;
  std::unordered_map<std::string, std::size_t> names_;
};

} // namespace tracehost::archive
