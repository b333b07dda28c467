#include "shapes/fake_tensor.h"

#include "shapes/device.h"
#include "shapes/without_data.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

namespace tracehost::shapes {
namespace {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

c10::Storage meta_storage(std::size_t bytes) {
  c10::Allocator *allocator = c10::GetAllocator(c10::DeviceType::Meta);
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, true};
}

/// A storage without data, and the one that meta kernels work on.
struct NoData final : c10::StorageImpl {
  NoData(c10::Storage meta_side, c10::Device device)
      : StorageImpl(use_byte_size_t(), static_cast<std::int64_t>(meta_side.nbytes()),
                    at::DataPtr(nullptr, device), nullptr, false),
        meta(std::move(meta_side)) {
    release_data_and_set_meta_custom_data_ptr_error_msg_(kNoMemory);
  }
  c10::Storage meta;
};

NoData *no_data(const at::Tensor &t) {
  const auto *impl = t.unsafeGetTensorImpl();
  return impl->has_storage() ? dynamic_cast<NoData *>(impl->unsafe_storage().unsafeGetStorageImpl())
                             : nullptr;
}

at::Tensor make_tensor(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype,
                       const Layout &layout) {
  auto t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  return t;
}

c10::DispatchKeySet keys_of(at::ScalarType dtype, c10::Device device) {
  return c10::DispatchKeySet(c10::computeDispatchKey(dtype, c10::kStrided, device));
}

void copy_bits(const at::Tensor &from, const at::Tensor &to) {
  if (from.is_conj())
    to.unsafeGetTensorImpl()->_set_conj(true);
  if (from.is_neg())
    to.unsafeGetTensorImpl()->_set_neg(true);
}

Layout layout_of(const at::Tensor &t) { return {t.sizes(), t.strides(), t.storage_offset()}; }

std::size_t bytes_for(const Layout &layout, std::size_t item) {
  auto last = static_cast<std::size_t>(layout.offset);
  for (std::size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0)
      return 0;
    last += static_cast<std::size_t>((layout.sizes[d] - 1) * layout.strides[d]);
  }
  return (last + 1) * item;
}

/// `leaf` with a history, as if an op had made it.
at::Tensor with_history(const at::Tensor &leaf) {
  const at::AutoGradMode grad(true);
  torch::autograd::DelayedError node("a tensor without data has no gradient from before the trace",
                                     1);
  return node.apply({leaf}).front();
}

} // namespace

bool can_fake_tensor(const at::Tensor &t) {
  return t.layout() == at::kStrided && !t.is_quantized() && !t.is_nested() &&
         !t.unsafeGetTensorImpl()->is_python_dispatch() && t.unsafeGetTensorImpl()->has_storage();
}

bool is_sparse(const at::Tensor &t) {
  return t.layout() == at::kSparse || at::sparse_csr::is_sparse_compressed(t);
}

bool is_fake_tensor(const at::Tensor &t) { return t.defined() && no_data(t) != nullptr; }

at::Tensor fake_tensor(const Layout &layout, at::ScalarType dtype, c10::Device of) {
  const c10::Device device = with_index(of);
  const auto type = c10::scalarTypeToTypeMeta(dtype);
  auto storage =
      c10::make_intrusive<NoData>(meta_storage(bytes_for(layout, type.itemsize())), device);
  return make_tensor(c10::Storage(std::move(storage)), keys_of(dtype, device), type, layout);
}

at::Tensor contiguous_fake_tensor(c10::IntArrayRef sizes, at::ScalarType dtype,
                                  c10::Device device) {
  return fake_tensor({sizes, c10::contiguous_strides(sizes)}, dtype, device);
}

at::Tensor alike(const at::Tensor &t, c10::Device device) {
  at::Tensor made = fake_tensor(layout_of(t), t.scalar_type(), device);
  copy_bits(t, made);
  return made;
}

at::Tensor as_meta(const at::Tensor &t) {
  const NoData *storage = no_data(t);
  if (!storage && t.is_meta())
    return t;
  const Layout layout = layout_of(t);
  const c10::Storage meta =
      storage ? storage->meta : meta_storage(bytes_for(layout, t.dtype().itemsize()));
  at::Tensor made = make_tensor(meta, keys_of(t.scalar_type(), c10::kMeta), t.dtype(), layout);
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  copy_bits(t, made);
  return made;
}

at::Tensor from_meta(const at::Tensor &meta, c10::Device device, const at::Tensor &base) {
  if (device.is_meta() || is_fake_tensor(meta)) // the kernel has made it of ops
    return meta;
  StoragePtr storage;
  if (base.defined())
    storage = base.storage().getWeakStorageImpl().lock();
  else
    storage = c10::make_intrusive<NoData>(meta.storage(), device);
  at::Tensor made = make_tensor(c10::Storage(std::move(storage)),
                                keys_of(meta.scalar_type(), device), meta.dtype(), layout_of(meta));
  copy_bits(meta, made);
  return made;
}

void take_over(const at::Tensor &t, const at::Tensor &meta) {
  if (t.is_same(meta))
    return;
  if (t.sizes() != meta.sizes() || t.strides() != meta.strides() ||
      t.storage_offset() != meta.storage_offset())
    t.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(),
                                                   meta.storage_offset());
  NoData *storage = no_data(t);
  TORCH_CHECK_NOT_IMPLEMENTED(storage, "an op would resize a tensor with data");
  if (storage->meta.unsafeGetStorageImpl() != meta.storage().unsafeGetStorageImpl())
    t.unsafeGetTensorImpl()->set_storage_keep_dtype(
        c10::Storage(c10::make_intrusive<NoData>(meta.storage(), t.device())));
  else if (storage->nbytes() != storage->meta.nbytes())
    storage->set_nbytes(static_cast<std::int64_t>(storage->meta.nbytes()));
}

c10::IValue replaced(const c10::IValue &value, const Replace &f) {
  if (value.isTensor())
    return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (!value.isList() || value.isIntList() || value.isBoolList() || value.isDoubleList())
    return value;
  const auto items = value.toList().copy();
  for (std::size_t i = 0; i < items.size(); ++i)
    items.set(i, replaced(items.get(i), f));
  return items;
}

at::Tensor Twins::of(const at::Tensor &t) {
  if (is_fake_tensor(t) || t.is_meta())
    return t;
  const auto *impl = t.unsafeGetTensorImpl();
  if (const auto found = twins_.find(impl); found != twins_.end())
    return found->second.second;
  at::Tensor twin = make(t);
  return twins_.emplace(impl, std::pair{t, std::move(twin)}).first->second.second;
}

at::Tensor Twins::make(const at::Tensor &t) {
  const c10::InferenceMode inference(t.is_inference());
  if (is_sparse(t)) {
    const WithData for_real;
    return at::zeros(t.sizes(), t.options()).set_requires_grad(t.requires_grad());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(can_fake_tensor(t), "a tensor of layout ", t.layout(),
                              " does not run without data");
  const WithoutData mode;
  const at::Tensor whole = t.is_view() ? at::Tensor(t._base()) : at::Tensor();
  if (whole.defined() && can_fake_tensor(whole) && t.requires_grad()) {
    const at::AutoGradMode grad(true);
    at::Tensor view = at::as_strided(of(whole), t.sizes(), t.strides(), t.storage_offset());
    if (view.scalar_type() == t.scalar_type() && view.requires_grad())
      return view;
  }
  auto &storage = storages_[t.storage().unsafeGetStorageImpl()];
  if (!storage)
    storage = c10::make_intrusive<NoData>(meta_storage(t.storage().nbytes()), t.device());
  at::Tensor twin = make_tensor(c10::Storage(storage), keys_of(t.scalar_type(), t.device()),
                                t.dtype(), layout_of(t));
  copy_bits(t, twin);
  if (!t.requires_grad())
    return twin;
  twin.set_requires_grad(true);
  return t.is_leaf() ? twin : with_history(twin);
}

} // namespace tracehost::shapes
