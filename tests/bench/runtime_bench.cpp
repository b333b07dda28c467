// A call from C++ against the bare interpreter: `called / bare` of one run is what the API costs.

#include "runtime/loaded.h"
#include "support/entries.h"

#include "tracehost/function.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <vector>

namespace {

using namespace tracehost;

/// Two ops on 64 numbers, or a classifier of digits: 64 -> 64 -> 10, one image.
struct Model {
  explicit Model(bool classifier, Optimize optimize = Optimize::off) {
    const at::Tensor w1 = at::rand({64, 64}), b1 = at::rand(64), w2 = at::rand({64, 10}),
                     b2 = at::rand(10);
    x = at::rand({1, 64});
    graph = test::graph_for(test::call({{"x", test::tensor(0, test::meta({1, 64}))}}), {x},
                            [&](const test::Tensors &in) -> test::Tensors {
                              if (!classifier)
                                return {in[0] * in[0] + 1};
                              const auto hidden = at::addmm(b1, in[0], w1).relu();
                              return {at::addmm(b2, hidden, w2).softmax(1)};
                            });
    graph->program = std::make_unique<Program>(graph->program->copy_graph(), "f", 1,
                                               ProgramOptions{.optimize = optimize});
    function = test::loaded({graph}, sink);
    captures = static_cast<const archive::State &>(*graph->front_end).captures;
    code = std::make_unique<torch::jit::Code>(graph->program->copy_graph(), "bare");
  }
  test::FakeSink sink;
  at::Tensor x;
  SpecializationRef graph;
  Function function;
  std::vector<at::Tensor> captures;
  std::unique_ptr<torch::jit::Code> code;
};

void bare(benchmark::State &state) {
  at::set_num_threads(1);
  const Model model(state.range(0) != 0);
  torch::jit::Stack stack;
  for (auto _ : state) {
    const c10::InferenceMode on;
    stack.emplace_back(model.x);
    for (const at::Tensor &capture : model.captures)
      stack.emplace_back(capture);
    torch::jit::InterpreterState(*model.code).run(stack);
    benchmark::DoNotOptimize(stack);
    stack.clear();
  }
}
BENCHMARK(bare)->Arg(0)->Arg(1);

void called(benchmark::State &state, Optimize optimize) {
  at::set_num_threads(1);
  const Model model(state.range(0) != 0, optimize);
  for (auto _ : state) {
    const at::Tensor y = model.function(model.x);
    benchmark::DoNotOptimize(y);
  }
}
BENCHMARK_CAPTURE(called, interpreter, Optimize::off)->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(called, tape, Optimize::exact)->Arg(0)->Arg(1); // as archives are loaded

/// Each thread its own function.
void called_from_threads(benchmark::State &state) {
  at::set_num_threads(1);
  const Model model(true);
  for (auto _ : state) {
    const at::Tensor y = model.function(model.x);
    benchmark::DoNotOptimize(y);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(called_from_threads)->ThreadRange(1, 8)->UseRealTime();

} // namespace
