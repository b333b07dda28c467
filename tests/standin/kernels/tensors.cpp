#include "tensors.h"

namespace standin {

namespace {

/// A storage that does not own its bytes.
c10::Storage borrow(void *address, std::size_t bytes) {
  return {c10::Storage::use_byte_size_t(), bytes, at::DataPtr(address, c10::Device(c10::kCPU)),
          /*allocator=*/nullptr, /*resizable=*/false};
}

at::Tensor like(const at::Tensor &tensor, c10::Storage storage) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl &impl = *made.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj())
    impl._set_conj(true);
  if (tensor.is_neg())
    impl._set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    impl.set_wrapped_number(true);
  return made;
}

bool holds_tensors(const c10::IValue &value) {
  return value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList();
}

} // namespace

at::Tensor form_of(const at::Tensor &tensor, Storages &storages) {
  const c10::Storage &storage = tensor.storage();
  auto [found, is_new] = storages.try_emplace(storage.unsafeGetStorageImpl());
  if (is_new)
    found->second = borrow(const_cast<void *>(storage.data()), storage.nbytes());
  return like(tensor, found->second);
}

at::Tensor placed(const at::Tensor &form, Memory &memory, Storages &storages) {
  const c10::Storage &storage = form.storage();
  auto [found, is_new] = storages.try_emplace(storage.unsafeGetStorageImpl());
  if (is_new)
    found->second = borrow(memory.at(storage.data()), storage.nbytes());
  return like(form, found->second);
}

Span span_of(const at::Tensor &tensor) {
  if (!tensor.numel())
    return {nullptr, 0};
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto *storage = static_cast<const char *>(tensor.storage().data());
  const auto bytes = static_cast<std::int64_t>(tensor.itemsize());
  return {storage + tensor.storage_offset() * bytes, static_cast<std::size_t>((last + 1) * bytes)};
}

void each_tensor(const c10::IValue &value, const Visit &visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      visit(value.toTensor());
  } else if (holds_tensors(value)) {
    for (const c10::IValue &element : value.toListRef())
      each_tensor(element, visit);
  }
}

c10::IValue with_tensors(const c10::IValue &value, const Change &change) {
  if (value.isTensor())
    return value.toTensor().defined() ? c10::IValue(change(value.toTensor())) : value;
  if (!holds_tensors(value))
    return value;
  auto changed = value.toList().copy();
  for (std::size_t i = 0; i < changed.size(); ++i)
    changed.set(i, with_tensors(changed.get(i), change));
  return changed;
}

} // namespace standin
