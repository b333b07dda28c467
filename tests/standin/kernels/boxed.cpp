#include "boxed.h"

#include "call.h"
#include "results.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace standin {

namespace {

/// The device of the first CUDA tensor; of an argument `device` for ops without one.
c10::Device device_of(const Stack &arguments) {
  std::optional<c10::Device> found;
  for (const c10::IValue &argument : arguments)
    each_tensor(argument, [&](const at::Tensor &tensor) {
      if (!found && tensor.is_cuda())
        found = tensor.device();
    });
  for (const c10::IValue &argument : arguments)
    if (!found && argument.isDevice() && argument.toDevice().has_index())
      found = argument.toDevice();
  return found.value_or(c10::Device(c10::kCUDA, c10::cuda::current_device()));
}

Kind kind_of(const c10::OperatorHandle &op, bool waiting) {
  if (op.schema().name() == "aten::_local_scalar_dense")
    return Kind::read;
  return waiting ? Kind::wait : Kind::kernel;
}

std::vector<Span> joined(std::vector<Span> spans, const std::vector<Span> &others) {
  spans.insert(spans.end(), others.begin(), others.end());
  return spans;
}

} // namespace

void run_boxed(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *stack) {
  const std::size_t count = op.schema().arguments().size();
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);

  const c10::Device device = device_of(arguments);
  const c10::cuda::CUDAGuard guard(device);
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
  const bool waiting = waits(op, arguments);
  auto call = std::make_shared<Call>(op, arguments, device);
  if (waiting)
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  Launch launch(stream, kind_of(op, waiting));
  C10_CUDA_CHECK(launch.status());

  Stack results;
  std::vector<at::Tensor> placed;
  launch.first([&](Memory &memory) { results = call->run(memory, &placed); });
  Results program(*call, device);
  for (const c10::IValue &value : program.adopt(results, placed))
    stack->push_back(value);
  launch.first([&](Memory &memory) { fill(program.targets(), results, memory); });

  if (!launch.runs_later()) {
    for (const Span &span : joined(call->writes(), program.fresh()))
      settle(span);
    return;
  }
  for (const Span &span : program.fresh())
    spoil(span);
  call->forget_originals();
  launch.later({[call, targets = program.targets()](Memory &memory) {
                  fill(targets, call->run(memory), memory);
                },
                joined(call->touches(), program.fresh())});
}

} // namespace standin
