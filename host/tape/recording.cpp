#include "tape/recording.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <fmt/format.h>

#include <cstring>

namespace tracehost::tape {

constinit thread_local const TimeLimit *TimeLimit::current = nullptr;

namespace {

template <class T, class F> c10::IValue list_of(c10::ArrayRef<c10::IValue> items, F get) {
  c10::List<T> list;
  for (const c10::IValue &item : items)
    list.push_back(get(item));
  return list;
}

} // namespace

std::vector<at::Tensor> integers_of(c10::ArrayRef<c10::IValue> values, bool bools) {
  std::vector<at::Tensor> integers;
  for (const c10::IValue &value : values)
    each_tensor(value, [&](const at::Tensor &t) {
      if (t.defined() && at::isIntegralType(t.scalar_type(), bools))
        integers.push_back(t);
    });
  return integers;
}

bool moves_by_value(c10::ArrayRef<c10::IValue> arguments, bool varies) {
  return varies || !integers_of(arguments.slice(arguments.empty() ? 0 : 1), false).empty();
}

c10::Storage borrowed(const void *data, std::size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      at::DataPtr(const_cast<void *>(data), c10::DeviceType::CPU));
}

at::Tensor over(const c10::Storage &storage, const at::Tensor &like, std::int64_t offset) {
  const c10::InferenceMode as_given(like.is_inference());
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), like.key_set(), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), offset);
  if (like.unsafeGetTensorImpl()->is_wrapped_number())
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (like.requires_grad()) // matmul() folds a batch by this, in no_grad(), too
    made.unsafeGetTensorImpl()->set_requires_grad(true);
  return made;
}

at::Tensor over_memory_of(const at::Tensor &t) {
  const auto bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  return over(borrowed(t.const_data_ptr(), bytes), t, 0);
}

void check_size_of_copies(c10::ArrayRef<c10::IValue> inputs) {
  constexpr std::size_t kMost = 64 << 20;
  std::size_t bytes = 0;
  for (const c10::IValue &input : inputs)
    bytes += input.isTensor() ? input.toTensor().nbytes() : 0;
  if (bytes > kMost)
    give_up("it writes, and its inputs hold over 64 MB");
}

at::Tensor copy_of(const at::Tensor &t) {
  const c10::InferenceMode as_given(t.is_inference());
  const at::AutoGradMode no_grad(false);
  // With the gaps and overlaps that it has.
  const auto bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes / t.itemsize())},
                                t.options().requires_grad(false));
  const at::AutoDispatchBelowADInplaceOrView no_view;
  if (bytes > 0 && t.device().is_cpu())
    std::memcpy(memory.mutable_data_ptr(), t.const_data_ptr(), bytes);
  else if (bytes > 0)
    memory.copy_(t.as_strided(memory.sizes(), {1}, t.storage_offset()));
  return memory.as_strided(t.sizes(), t.strides(), 0);
}

std::size_t Recorded::claim(const at::Tensor &t, Memory::Kind kind) {
  const auto [found, is_new] = by_storage.emplace(t.storage().unsafeGetStorageImpl(), roots.size());
  if (is_new) {
    roots.push_back({kind, t.storage().nbytes(), nullptr, nullptr, {}});
    if (kind == Memory::Kind::planned && (made_bytes += t.storage().nbytes()) > kMostMadeBytes)
      give_up(fmt::format("its ops make over {} MB of results", kMostMadeBytes >> 20));
  }
  return found->second;
}

c10::IValue construct_list(const jit::Node &node, c10::ArrayRef<c10::IValue> items) {
  const auto type = node.output()->type()->expectRef<c10::ListType>().getElementType();
  switch (type->kind()) {
  case c10::TypeKind::IntType:
    return list_of<std::int64_t>(items, [](const c10::IValue &v) { return v.toInt(); });
  case c10::TypeKind::FloatType:
    return list_of<double>(items, [](const c10::IValue &v) { return v.toDouble(); });
  case c10::TypeKind::BoolType:
    return list_of<bool>(items, [](const c10::IValue &v) { return v.toBool(); });
  case c10::TypeKind::TensorType:
    return list_of<at::Tensor>(items, [](const c10::IValue &v) { return v.toTensor(); });
  case c10::TypeKind::OptionalType:
    return list_of<std::optional<at::Tensor>>(items, [](const c10::IValue &v) {
      return v.isNone() ? std::nullopt : std::optional(v.toTensor());
    });
  default:
    give_up("a list of " + type->str());
  }
}

} // namespace tracehost::tape
