#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <functional>
#include <unordered_map>

/// Tensors without data.
///
/// A *fake tensor* has the device, the dtype, the sizes, the strides and the dispatch keys of a
/// tensor that an op would make, and no memory. tracehost makes its storage: the storage has no
/// pointer, and any read of the pointer raises. Beside that storage lies a second one on the device
/// "meta", which torch's meta kernels work on. Two fake tensors that share memory share both.
///
///     fake tensor   cpu float32 [8, 3], strides [3, 1]     keys: CPU, AutogradCPU, ADInplaceOrView
///       storage  cpu, 96 bytes, no pointer
///         meta   meta, 96 bytes

namespace tracehost::shapes {

/// Only of a strided tensor a fake tensor can be made.
bool can_fake_tensor(const at::Tensor &t);
/// A sparse tensor has no fake tensor, and needs none: one without elements takes little room.
bool is_sparse(const at::Tensor &t);

bool is_fake_tensor(const at::Tensor &t);

/// What a read of a fake tensor's memory raises, as a c10::Error.
inline constexpr const char *kNoMemory = "the memory of a tensor without data was read";

struct Layout {
  c10::IntArrayRef sizes, strides;
  std::int64_t offset = 0; ///< in elements
};

/// A new one, a leaf that requires no gradient.
at::Tensor fake_tensor(const Layout &layout, at::ScalarType dtype, c10::Device device);
/// The same, contiguous.
at::Tensor contiguous_fake_tensor(c10::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);

/// One for a tensor with data, without its history, on `device`.
at::Tensor alike(const at::Tensor &t, c10::Device device);

/// What a meta kernel gets in place of `t`: a tensor on "meta" of the same sizes and strides. It
/// shares memory with those of other fake tensors as `t` does with them. A tensor with data gets
/// one of its own.
at::Tensor as_meta(const at::Tensor &t);
/// The fake tensor for what a meta kernel has made of arguments on `device`. `base`: a fake tensor
/// with which it shares memory; undefined: none.
at::Tensor from_meta(const at::Tensor &meta, c10::Device device, const at::Tensor &base);
/// After a kernel that may have resized `meta`, which is as_meta(t): `t` gets its sizes.
void take_over(const at::Tensor &t, const at::Tensor &meta);

using Replace = std::function<at::Tensor(const at::Tensor &)>;
/// `value` with `f` of each defined tensor in the tensor's place, in copies of lists too.
c10::IValue replaced(const c10::IValue &value, const Replace &f);

/// The fake tensors for tensors with data: one for each, which requires gradients as that one does.
/// Tensors that share memory get fake tensors that share memory. The tensors are held.
class Twins {
public:
  /// The twin of a sparse tensor is a sparse one without elements. Throws NotImplementedError for
  /// what is neither sparse nor strided. Requires: no op is recorded.
  at::Tensor of(const at::Tensor &t);

private:
  at::Tensor make(const at::Tensor &t);

  std::unordered_map<const c10::TensorImpl *, std::pair<at::Tensor, at::Tensor>> twins_;
  std::unordered_map<const c10::StorageImpl *, c10::intrusive_ptr<c10::StorageImpl>> storages_;
};

} // namespace tracehost::shapes
