#include "trace/written_collectives.h"

#include "trace/op_tensors.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/jit/frontend/tracer.h>

#include <chrono>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracehost::trace {
namespace writing {
namespace {

namespace tracer = torch::jit::tracer;

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Values = c10::ArrayRef<c10::IValue>;

/// What `async_op=True` returns: the collective is done.
class Done : public c10d::Work {
public:
  explicit Done(std::vector<at::Tensor> results) : results_(std::move(results)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results_));
    return future;
  }

private:
  std::vector<at::Tensor> results_;
};

at::Tensor call(const char *op, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(&stack);
  return stack.back().toTensor();
}

at::Tensor wait(const at::Tensor &t) { return call("_c10d_functional::wait_tensor", {t}); }

/// The schema of wait_tensor does not say that its result is its argument. What is written to the
/// tensor later is written to what the collective has written.
void wait_in_place(const at::Tensor &t) {
  torch::jit::Value *written = tracer::getValueTrace(t);
  wait(t);
  tracer::setValueTrace(t, written);
}

/// "" where the functional collectives have no name for it.
std::string_view name_of(const c10d::ReduceOp &op) {
  constexpr std::string_view names[] = {"sum", "avg",  "product", "min",
                                        "max", "band", "bor",     "bxor"};
  const auto index = static_cast<std::size_t>(op.op_);
  return index < std::size(names) ? names[index] : "";
}

std::string reduction(const c10::IValue &op) {
  return std::string(name_of(*op.toCustomClass<c10d::ReduceOp>()));
}

Group group(const c10::IValue &value) { return value.toCustomClass<c10d::ProcessGroup>(); }

std::vector<std::int64_t> splits(const c10::IValue &given, const at::Tensor &t, std::int64_t of) {
  auto sizes = given.toIntVector();
  if (sizes.empty() && t.dim() > 0 && t.size(0) % of == 0)
    sizes.assign(static_cast<std::size_t>(of), t.size(0) / of);
  return sizes;
}

/// Of one op: what it leaves on the stack beside a Work, or false where it can't be made.
using Run = bool (*)(Values, std::vector<at::Tensor> &written);

bool all_reduce(Values given, std::vector<at::Tensor> &written) {
  written = given[0].toTensorVector();
  const std::string how = reduction(given[2]);
  if (written.size() != 1 || how.empty() || !given[3].isNone())
    return false;
  call("_c10d_functional::all_reduce_", {written[0], how, group(given[1])->getGroupName()});
  wait_in_place(written[0]);
  return true;
}

bool broadcast(Values given, std::vector<at::Tensor> &written) {
  written = given[0].toTensorVector();
  if (written.size() != 1)
    return false;
  call("_c10d_functional::broadcast_", {written[0], given[2], group(given[1])->getGroupName()});
  wait_in_place(written[0]);
  return true;
}

bool all_gather_base(Values given, std::vector<at::Tensor> &written) {
  written = {given[0].toTensor()};
  const Group of = group(given[2]);
  const at::Tensor gathered = wait(call("_c10d_functional::all_gather_into_tensor",
                                        {given[1], of->getSize(), of->getGroupName()}));
  written[0].copy_(gathered.view_as(written[0])); // stacked, or joined
  return true;
}

bool all_gather(Values given, std::vector<at::Tensor> &written) {
  const auto outputs = given[0].toList();
  const auto inputs = given[1].toTensorVector();
  if (outputs.size() != 1 || inputs.size() != 1)
    return false;
  written = c10::IValue(outputs.get(0)).toTensorVector();
  for (const at::Tensor &output : written)
    if (output.sizes() != inputs[0].sizes())
      return false;
  const Group of = group(given[2]);
  const at::Tensor gathered =
      wait(call("_c10d_functional::all_gather_into_tensor",
                {inputs[0].unsqueeze(0), of->getSize(), of->getGroupName()}));
  for (std::size_t i = 0; i < written.size(); ++i)
    written[i].copy_(gathered.select(0, static_cast<std::int64_t>(i)));
  return true;
}

bool reduce_scatter_base(Values given, std::vector<at::Tensor> &written) {
  written = {given[0].toTensor()};
  at::Tensor input = given[1].toTensor();
  const Group of = group(given[2]);
  const std::string how = reduction(given[3]);
  if (how.empty())
    return false;
  if (input.dim() != written[0].dim()) // stacked
    input = input.flatten(0, 1);
  const at::Tensor part = wait(call("_c10d_functional::reduce_scatter_tensor",
                                    {input, how, of->getSize(), of->getGroupName()}));
  written[0].copy_(part.view_as(written[0]));
  return true;
}

bool all_to_all_base(Values given, std::vector<at::Tensor> &written) {
  written = {given[0].toTensor()};
  const at::Tensor input = given[1].toTensor();
  const Group of = group(given[2]);
  const auto out = splits(given[3], written[0], of->getSize());
  const auto in = splits(given[4], input, of->getSize());
  if (out.empty() || in.empty())
    return false;
  const at::Tensor exchanged =
      wait(call("_c10d_functional::all_to_all_single", {input, out, in, of->getGroupName()}));
  written[0].copy_(exchanged);
  return true;
}

constexpr std::pair<std::string_view, Run> kRuns[] = {
    {"c10d::allreduce_", all_reduce},
    {"c10d::broadcast_", broadcast},
    {"c10d::_allgather_base_", all_gather_base},
    {"c10d::allgather_", all_gather},
    {"c10d::_reduce_scatter_base_", reduce_scatter_base},
    {"c10d::alltoall_base_", all_to_all_base},
};

} // namespace
} // namespace writing

bool run_functional(const c10::OperatorHandle &op, torch::jit::Stack &stack) {
  const std::string_view name = op.schema().name();
  for (const auto &[known, run] : writing::kRuns) {
    if (name != known)
      continue;
    const auto count = op.schema().arguments().size();
    std::vector<at::Tensor> written;
    {
      const at::NoGradGuard as_in_eager;
      if (!run(arguments_of(op, stack), written))
        return false;
    }
    const c10::IValue first = stack[stack.size() - count];
    torch::jit::drop(stack, count);
    if (op.schema().returns().size() == 2)
      stack.push_back(first);
    c10::intrusive_ptr<c10d::Work> work = c10::make_intrusive<writing::Done>(std::move(written));
    stack.emplace_back(std::move(work));
    return true;
  }
  return false;
}

} // namespace tracehost::trace
