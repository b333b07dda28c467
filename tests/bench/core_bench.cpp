// The parts of a call that need no Python: running a Program, looking up among Specializations, a
// trace.

#include "function/function.h"
#include "signature/tensor_fit.h"
#include "trace/tracer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <benchmark/benchmark.h>

#include <deque>
#include <functional>
#include <stdexcept>
#include <utility>

namespace {

using namespace tracehost;

class Silent final : public Sink {
public:
  void created(std::shared_ptr<const Counters>) override {}
  void on(const TraceEvent &) override {}
  void on(const EvictEvent &) override {}
  void on(const FailEvent &) override {}
  void on(const MismatchEvent &) override {}
  void on(const GraphEvent &) override {}
};

class Frontend final : public trace::Frontend {
public:
  Site here() override { return {"bench.cpp", 1}; }
  std::string capture_path(const at::Tensor &) override { return "captured"; }
  [[noreturn]] void reject(trace::Rejection, const std::string &message) override {
    throw std::runtime_error(message);
  }
};

using Op = std::function<at::Tensor(const std::vector<at::Tensor> &)>;

at::Tensor multiply_add(const std::vector<at::Tensor> &x) { return x[0] * x[1] + 1; }

/// Calls with tensors only: what bindings/ does for Python, without Python.
class Tensors final : public Body, public TraceSession {
public:
  Tensors(Op op, std::vector<at::Tensor> given) : arguments(std::move(given)), op_(std::move(op)) {
    context = Context::now();
  }

  bool verify(Specialization &specialization, Operands &operands) override {
    const Signature &signature = specialization.signature;
    if (!(signature.context == context) || signature.slots.size() != arguments.size())
      return false;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (!fits(signature.slots[i], arguments[i]))
        return false;
    for (const auto &t : arguments)
      operands.lend(t);
    return true;
  }
  Signature flatten(std::vector<at::Tensor> &slots) override {
    slots = arguments;
    Signature signature;
    auto parameters = std::make_shared<Parameters>();
    signature.context = context;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      parameters->names.push_back("x" + std::to_string(i));
      Node node;
      node.kind = Kind::tensor;
      node.payload.slot = static_cast<std::uint32_t>(i);
      node.end = static_cast<std::uint32_t>(i + 1);
      signature.nodes.push_back(node);
      signature.slots.push_back(TensorMeta::of(slots[i]));
    }
    signature.parameters = std::move(parameters);
    return signature;
  }
  void current_guards(const Specialization &, Signature &) override {}
  BodyResult run() override {
    BodyResult result;
    result.tensors.push_back(op_(arguments));
    result.outputs.tensors = 1;
    return result;
  }
  std::shared_ptr<FrontEndState> finish(Signature &, const trace::Traced &) override {
    return nullptr;
  }
  TraceSession &session() override { return *this; }
  trace::Frontend &frontend() override { return frontend_; }
  Site caller() override { return {"bench.cpp", 1}; }
  std::string current_error() override { return "error"; }

  const std::vector<at::Tensor> arguments;

private:
  Op op_;
  Frontend frontend_;
};

std::vector<at::Tensor> pair(std::int64_t size = 8) {
  return {at::rand({8, size}), at::rand({8, size})};
}

void one_thread() { at::set_num_threads(1); }

void eager(benchmark::State &state) {
  one_thread();
  const at::NoGradGuard no_grad;
  const auto x = pair();
  for (auto _ : state)
    benchmark::DoNotOptimize(multiply_add(x));
}
BENCHMARK(eager);

void program_run(benchmark::State &state) {
  one_thread();
  const at::NoGradGuard no_grad;
  const auto x = pair();
  Frontend frontend;
  const auto traced = trace::trace(x, {}, frontend, [&] { return std::vector{multiply_add(x)}; });
  const Program program(traced.graph, "bench", 1);
  torch::jit::Stack stack;
  for (auto _ : state) {
    stack.assign(x.begin(), x.end());
    program.run(stack);
    benchmark::DoNotOptimize(stack);
    stack.clear();
  }
}
BENCHMARK(program_run);

/// A hit through Function::call, with `range(0)` live Specializations, each called in turn.
void function_hit(benchmark::State &state) {
  one_thread();
  const at::NoGradGuard no_grad;
  Silent sink;
  FunctionCore function({"bench", {}, 1}, 64, sink);
  std::deque<Tensors> calls;
  Operands stack;
  SpecializationRef served;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    function.call(calls.emplace_back(multiply_add, pair(i + 8)), stack, served);
  std::size_t next = 0;
  for (auto _ : state) {
    stack.clear();
    function.call(calls[next], stack, served);
    next = next + 1 == calls.size() ? 0 : next + 1;
  }
}
BENCHMARK(function_hit)->Arg(1)->Arg(2)->Arg(64);

/// A miss: trace, passes, publishing.
void function_trace(benchmark::State &state) {
  one_thread();
  const at::NoGradGuard no_grad;
  Silent sink;
  FunctionCore function({"bench", {}, 2}, 64, sink);
  const auto ops = state.range(0);
  const auto steps = [ops](const std::vector<at::Tensor> &x) {
    at::Tensor y = x[0];
    for (std::int64_t i = 0; i < ops; i += 2)
      y = y * x[1] + 1;
    return y;
  };
  Tensors call(steps, pair());
  Operands stack;
  SpecializationRef served;
  for (auto _ : state) {
    function.clear();
    stack.clear();
    function.call(call, stack, served);
  }
}
BENCHMARK(function_trace)->Arg(2)->Arg(150)->Unit(benchmark::kMicrosecond);

void context_probe(benchmark::State &state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(Context::now());
}
BENCHMARK(context_probe);

void tensor_matches(benchmark::State &state) {
  const at::Tensor t = at::rand({8, 8});
  const TensorMeta meta = TensorMeta::of(t);
  for (auto _ : state)
    benchmark::DoNotOptimize(fits(meta, t));
}
BENCHMARK(tensor_matches);

} // namespace
