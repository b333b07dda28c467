#include "tape/build.h"

#include "tape/ops.h"

#include <ATen/ops/scalar_tensor.h>

#include <cstring>

/// Steps of a tape that is being made: ops that are kernels. A kernel runs at once, and an op whose
/// bits it does not have is none.

namespace tracehost::tape {

bool same_bits(const at::Tensor &a, const at::Tensor &b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

namespace {

/// Of float32 or float64: as eager's of the same operands. None: eager would make a copy.
std::optional<at::TensorIterator> iterator_over(at::Tensor &out,
                                                const std::vector<at::Tensor> &operands) {
  switch (operands.size()) {
  case 1:
    if (out.sizes() != operands[0].sizes())
      return std::nullopt;
    return at::TensorIterator::unary_op(out, operands[0]);
  case 2:
    return at::TensorIterator::borrowing_binary_op(out, operands[0], operands[1]);
  default:
    at::TensorIteratorConfig config;
    config.add_output(out);
    for (const at::Tensor &operand : operands)
      config.add_const_input(operand);
    return config.promote_inputs_to_common_dtype(true)
        .cast_common_dtype_to_outputs(true)
        .enforce_safe_casting_to_output(true)
        .build();
  }
}

} // namespace

/// The number that an argument was at the recording; none: it is no number.
std::optional<c10::Scalar> Recording::number(const jit::Value &value) const {
  const c10::IValue &found = found_.values.at(&value);
  return found.isScalar() ? std::optional(found.toScalar()) : std::nullopt;
}

/// An operand of a kernel; undefined: none.
at::Tensor Recording::operand(const jit::Value &value) const {
  if (found_.values.at(&value).isTensor())
    return memories_.fixed(value).toTensor();
  const auto given = number(value);
  if (!given)
    return {};
  at::Tensor tensor = at::scalar_to_tensor(*given);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// A kernel for an op with a result of its own, or for one that writes to its first argument.
bool Recording::build_kernel(const jit::Node &node) {
  const Kernel *kernel = find_kernel(full_name(node.schema()));
  if (!kernel)
    return false;
  const at::Tensor result = found_.result(*node.output());
  const auto dtype = result.scalar_type();
  if (!has_kernels(dtype))
    return false;
  std::vector<at::Tensor> operands;
  std::vector<SlotArgument> slots;
  for (std::size_t i = 0; i < kernel->operands; ++i) {
    const jit::Value &argument = *node.input(kernel->first + i);
    operands.push_back(operand(argument));
    const at::Tensor &t = operands.back();
    // A number is cast to the dtype; a tensor would be cast from the memory of this recording.
    const bool is_number = !found_.values.at(&argument).isTensor();
    if (!t.defined() || (t.scalar_type() != dtype && !is_number))
      return false;
    if (found_.varies(argument))
      slots.push_back({i + 1, slot_of_.at(&argument)});
  }
  const std::size_t next = kernel->first + kernel->operands;
  const jit::Value *last = node.inputs().size() > next ? node.input(next) : nullptr;
  const auto alpha = last ? number(*last) : c10::Scalar(1);
  if (!alpha)
    return false;
  const std::size_t root = root_of(*node.output());
  place(root);
  memories_.fix(*node.output());
  at::Tensor out = memories_.fixed(*node.output()).toTensor();
  auto iterator = iterator_over(out, operands);
  if (!iterator)
    return false;
  auto step = std::make_unique<Tape::KernelStep>(*kernel, *alpha, std::move(*iterator));
  step->numbers = slots;
  if (last && found_.varies(*last))
    step->alpha_slot = slot_of_.at(last);
  // A step that is dropped leaves what it wrote to as it was.
  const at::Tensor before = writes(node) ? out.clone() : at::Tensor();
  step->run_kernel(step->iterator, *alpha);
  if (!same_bits(out, result)) {
    if (before.defined())
      out.copy_(before);
    return false;
  }
  patch(step->iterator, 0, out, root);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const c10::IValue &value = found_.values.at(node.input(kernel->first + i));
        value.isTensor())
      patch(step->iterator, static_cast<int>(i) + 1, operands[i], found_.root_of(value.toTensor()));
  tape_->kept_.push_back(std::move(out));
  for (at::Tensor &t : operands)
    tape_->kept_.push_back(std::move(t));
  ++tape_->kernels_;
  if (!step->numbers.empty() || step->alpha_slot) // a number may be complex
    last_to_end_ = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  tape_->steps_.push_back(std::move(step));
  return true;
}

void Recording::patch(at::TensorIteratorBase &iterator, int operand, const at::Tensor &t,
                      std::size_t root) {
  if (found_.roots[root].is_external())
    tape_->roots_[root].patches.push_back({&iterator, operand, bytes_before(t)});
}

namespace {

/// Whether the op computes products of matrices, by BLAS or by oneDNN.
bool is_product(const jit::Node &node) {
  const auto kind = node.kind();
  return kind == c10::aten::mm || kind == c10::aten::addmm || kind == c10::aten::linear ||
         kind == c10::aten::matmul || kind == c10::aten::bmm;
}

/// Whether the op makes a copy in another dtype.
bool converts(const jit::Node &node) {
  const std::string name = full_name(node.schema());
  return name == "aten::to.dtype" || name == "aten::_to_copy";
}

} // namespace

bool Recording::build_out_kernel(const jit::Node &node) {
  if (!has_only_floats(node) && !converts(node))
    return false;
  const at::Tensor result = found_.result(*node.output());
  const std::size_t root = root_of(*node.output());
  std::vector<c10::IValue> arguments;
  for (const jit::Value *input : node.inputs())
    arguments.push_back(memories_.fixed(*input));
  place(root);
  memories_.fix(*node.output());
  const at::Tensor out = memories_.fixed(*node.output()).toTensor();
  OutKernel kernel = bind_out_kernel(full_name(node.schema()), arguments, out);
  if (!kernel)
    return false;
  kernel();
  if (!same_bits(out, result))
    return false;
  if (is_product(node) && are_products_ieee())
    tape_->guards().need_ieee_products();
  tape_->roots_[root].has_tensors = true;
  note_reads(node);
  ++tape_->kernels_;
  tape_->steps_.push_back(std::make_unique<Tape::OutStep>(std::move(kernel)));
  return true;
}

bool Recording::has_only_floats(const jit::Node &node) const {
  bool floats = true;
  for (const jit::Value *input : node.inputs())
    each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
      floats &= !t.defined() || has_kernels(t.scalar_type());
    });
  return floats;
}

} // namespace tracehost::tape
