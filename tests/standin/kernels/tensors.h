#pragma once

#include "launch.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <unordered_map>
#include <vector>

/// How CPU kernels reach device memory.
///
/// Work may run long after its launch, and on copies of memory. So it keeps no tensor of the
/// program, but a form of each: a CPU tensor of the same dtype, sizes, strides and bits, whose
/// storage names the device's address. A form is never read. When work runs, placed() makes a
/// tensor like the form over the bytes that Memory::at gives for that address.
///
///     x on cuda:0, address 0x7000   ->   form: CPU, 0x7000   ->   placed: CPU, at(0x7000)
///
/// Tensors of one storage get forms of one storage, so kernels see which arguments overlap.
namespace standin {

using Storages = std::unordered_map<c10::StorageImpl *, c10::Storage>;

/// `storages`: the forms' storages of this call.
at::Tensor form_of(const at::Tensor &tensor, Storages &storages);
/// `storages`: the placed storages of this run.
at::Tensor placed(const at::Tensor &form, Memory &memory, Storages &storages);

/// The bytes from the first to the last element.
Span span_of(const at::Tensor &tensor);

using Visit = std::function<void(const at::Tensor &)>;
using Change = std::function<at::Tensor(const at::Tensor &)>;

/// All defined tensors of a value, those in lists too, in their order.
void each_tensor(const c10::IValue &value, const Visit &visit);
/// The value with its defined tensors changed, in the same order.
c10::IValue with_tensors(const c10::IValue &value, const Change &change);

/// In its scope ops go to their kernels, without the modes of the thread that happens to run them.
class Plainly {
  static constexpr c10::DispatchKeySet kIncluded{c10::DispatchKey::BackendSelect};
  static constexpr c10::DispatchKeySet kExcluded =
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView;

  c10::impl::ForceDispatchKeyGuard keys_{kIncluded, kExcluded};
  at::DisableRecordFunctionGuard unobserved_;
};

} // namespace standin
