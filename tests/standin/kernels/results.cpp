#include "results.h"

#include <ATen/cuda/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/copy_native.h>

namespace standin {

Stack Results::adopt(const Stack &results, const std::vector<at::Tensor> &placed) {
  Stack adopted;
  for (const c10::IValue &result : results)
    adopted.push_back(with_tensors(
        result, [&](const at::Tensor &tensor) { return adopt_tensor(tensor, placed); }));
  return adopted;
}

at::Tensor Results::adopt_tensor(const at::Tensor &result, const std::vector<at::Tensor> &placed) {
  Plainly plainly;
  const std::vector<at::Tensor> &originals = call_.originals();
  at::Tensor adopted;
  for (std::size_t i = 0; i < originals.size() && !adopted.defined(); ++i)
    if (placed[i].is_same(result))
      adopted = adopt_argument(originals[i], result, call_.is_out(i));
  for (std::size_t i = 0; i < originals.size() && !adopted.defined(); ++i)
    if (originals[i].is_cuda() && result.numel() &&
        placed[i].storage().data() == result.storage().data())
      adopted = originals[i].as_strided(result.sizes(), result.strides(), result.storage_offset());
  if (!adopted.defined()) {
    adopted = make(result);
    add_target(adopted);
    fresh_.push_back(span_of(adopted));
  }
  ++number_;
  return adopted;
}

at::Tensor Results::adopt_argument(const at::Tensor &original, const at::Tensor &result,
                                   bool is_out) {
  c10::TensorImpl &impl = *original.unsafeGetTensorImpl();
  if (is_out) {
    if (at::native::resize_output(original, result.sizes()) &&
        result.is_non_overlapping_and_dense())
      impl.set_sizes_and_strides(result.sizes(), result.strides());
    add_target(original);
  } else if (original.sizes() != result.sizes() || original.strides() != result.strides()) {
    impl.set_sizes_and_strides(result.sizes(), result.strides());
  }
  return original;
}

at::Tensor Results::make(const at::Tensor &result) const {
  const at::ScalarType dtype = result.scalar_type();
  if (result.is_non_overlapping_and_dense())
    return at::detail::empty_strided_cuda(result.sizes(), result.strides(), dtype, device_);
  return at::detail::empty_cuda(result.sizes(), dtype, device_, std::nullopt);
}

void Results::add_target(const at::Tensor &tensor) {
  Storages storages;
  targets_.push_back({number_, form_of(tensor, storages)});
}

void fill(const std::vector<Results::Target> &targets, const Stack &results, Memory &memory) {
  if (targets.empty())
    return;
  Plainly plainly;
  std::vector<at::Tensor> all;
  for (const c10::IValue &result : results)
    each_tensor(result, [&](const at::Tensor &tensor) { all.push_back(tensor); });
  Storages storages;
  for (const Results::Target &target : targets) {
    at::Tensor to = placed(target.form, memory, storages);
    at::native::copy_(to, all.at(target.number));
  }
}

} // namespace standin
