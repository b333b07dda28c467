#include "call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

namespace standin {

namespace {

void check_device(const c10::OperatorHandle &op, std::size_t position, const at::Tensor &tensor,
                  c10::Device device) {
  const bool number = tensor.is_cpu() && (tensor.dim() == 0 || tensor.numel() == 0);
  const bool index = tensor.is_cpu() && traits_of(op).takes_host_index;
  TORCH_CHECK(number || index || tensor.device() == device,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              device, " and ", tensor.device(), "! (when checking argument for argument ",
              op.schema().arguments()[position].name(), " in method ", op.schema().name(), ")");
}

/// Like the arguments of a real launch, a CPU tensor has the value that it had at the launch.
at::Tensor value_of(const at::Tensor &tensor) {
  at::Tensor copied = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    copied.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copied;
}

} // namespace

Call::Call(const c10::OperatorHandle &op, const Stack &arguments, c10::Device device)
    : op_(op), traits_(traits_of(op)) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    add_argument(i, arguments[i], device);
  storages_.clear();
  if (!traits_.is_random)
    return;
  numbers_ = take_numbers(traits_.generator ? arguments[*traits_.generator] : c10::IValue(),
                          device.index());
  for (const Span &span : spans_of(*numbers_))
    touches_.push_back(span);
}

void Call::add_argument(std::size_t position, const c10::IValue &argument, c10::Device device) {
  if (traits_.generator == position)
    forms_.emplace_back();
  else if (argument.isDevice() && argument.toDevice().is_cuda())
    forms_.emplace_back(c10::Device(c10::kCPU));
  else
    forms_.push_back(with_tensors(argument, [&](const at::Tensor &tensor) {
      return form_of_argument(position, tensor, device);
    }));
}

at::Tensor Call::form_of_argument(std::size_t position, const at::Tensor &tensor,
                                  c10::Device device) {
  check_device(op_, position, tensor, device);
  originals_.push_back(tensor);
  is_out_.push_back(traits_.is_out[position]);
  Plainly plainly;
  if (tensor.is_cpu())
    return value_of(tensor);
  touches_.push_back(span_of(tensor));
  if (traits_.is_written[position])
    writes_.push_back(span_of(tensor));
  return form_of(tensor, storages_);
}

void Call::forget_originals() { originals_.clear(); }

Stack Call::run(Memory &memory, std::vector<at::Tensor> *placed_arguments) const {
  Plainly plainly;
  Storages storages;
  Stack stack;
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    const bool is_out = traits_.is_out[i];
    stack.push_back(with_tensors(forms_[i], [&](const at::Tensor &form) {
      // The kernel may resize it. Its elements are copied to the program's tensor afterwards.
      at::Tensor tensor = is_out ? at::empty({0}, at::TensorOptions().dtype(form.dtype()))
                                 : placed(form, memory, storages);
      if (placed_arguments)
        placed_arguments->push_back(tensor);
      return tensor;
    }));
  }
  const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  std::optional<DefaultSeed> seeded;
  if (numbers_ && traits_.generator)
    stack[*traits_.generator] = at::detail::createCPUGenerator(seed_of(*numbers_, memory));
  else if (numbers_)
    seeded.emplace(seed_of(*numbers_, memory));
  op_.redispatchBoxed(cpu, &stack);
  return stack;
}

} // namespace standin
