#pragma once

#include "capture/captures.h"
#include "capture/pool.h"
#include "capture/static_inputs.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::capture {

namespace jit = torch::jit;

/// A device in host memory that records calls as text. It fails where a test says so.
///
/// A capture runs the graph once and undoes it: writes are undone, and results become NaN. A replay
/// runs it on the same tensors, and copies what it gives to the results of the capture.
class FakeDevice final : public GraphDevice {
public:
  std::vector<std::string> calls;
  bool captures_elsewhere = false, pools = true, breaking = true;
  std::size_t pool_bytes = 0;
  int unbreaking = 0;        ///< so often set_breaking(false)
  bool lacks_memory = false; ///< what fails in a capture
  /// Fails at the n-th call from now of `begin`, `op`, `end` or `replay`: 1 is the next.
  std::map<std::string, int> fails_at;
  /// Runs in a replay, before the graph does.
  std::function<void()> in_replay;
  bool replays_wrongly = false;
  c10::Stream now = stream(0);

  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU, 0), id);
  }
  static std::string name(c10::Stream s) { return "s" + std::to_string(s.id()); }

  c10::DeviceType type() const override { return c10::kCPU; }
  bool is_capturing(c10::DeviceIndex) override { return captures_elsewhere; }
  bool has_pools() override { return pools; }
  c10::Stream side_stream(c10::DeviceIndex) override { return stream(9); }
  c10::Stream current(c10::DeviceIndex) override { return now; }
  void set_current(c10::Stream s) override { now = s; }
  void wait(c10::Stream waits, c10::Stream awaited) override {
    calls.push_back(name(waits) + " waits for " + name(awaited));
  }
  void used_on(const at::Tensor &, c10::Stream s) override {
    calls.push_back("result used on " + name(s));
  }
  PoolId new_pool() override {
    calls.push_back("pool " + std::to_string(++pools_));
    return {pools_, 0};
  }
  void drop(PoolId pool) noexcept override {
    calls.push_back("drop " + std::to_string(pool.first));
  }
  std::size_t bytes_of(PoolId, c10::DeviceIndex) override { return pool_bytes; }
  void free_unused() override { calls.emplace_back("free unused"); }
  void begin(c10::Stream s, PoolId) override {
    calls.push_back("begin on " + name(s));
    fail("begin");
    work_ = std::make_unique<Work>();
  }
  std::unique_ptr<Captured> end() override {
    calls.push_back("end");
    fail("end");
    work_->calls = &calls;
    return std::move(work_);
  }
  void abandon() noexcept override {
    calls.push_back("abandon");
    work_.reset();
  }
  void replay(Captured &captured, c10::Stream s) override {
    calls.push_back("replay on " + name(s));
    fail("replay");
    if (const auto meanwhile = in_replay) // a copy: it may end itself
      meanwhile();
    const Work &work = dynamic_cast<Work &>(captured);
    jit::Stack stack = work.inputs;
    work.run(stack);
    for (std::size_t i = 0; i < stack.size(); ++i)
      if (stack[i].isTensor() && !stack[i].toTensor().is_alias_of(work.results[i].toTensor()))
        work.results[i].toTensor().copy_(stack[i].toTensor() + (replays_wrongly ? 1 : 0));
  }

  bool set_breaking(bool breaks) override {
    unbreaking += breaks ? 0 : 1;
    return std::exchange(breaking, breaks);
  }

  /// The graph runs, in a capture or not.
  void run(const std::function<void(jit::Stack &)> &graph, jit::Stack &stack) {
    if (!work_)
      return graph(stack);
    fail("op");
    work_->run = graph;
    work_->inputs = stack;
    std::vector<at::Tensor> before;
    for (const c10::IValue &input : stack)
      before.push_back(input.isTensor() ? without_repeats(input.toTensor()).clone() : at::Tensor());
    const auto generator = at::globalContext().defaultGenerator(c10::kCPU);
    const at::Tensor state = generator.get_state();
    graph(stack);
    at::Generator(generator).set_state(state);
    work_->results = stack;
    for (const c10::IValue &result : stack)
      if (result.isTensor() && result.toTensor().is_floating_point())
        result.toTensor().fill_(NAN);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i].defined())
        without_repeats(work_->inputs[i].toTensor()).copy_(before[i]);
  }

  /// How many calls start with that text.
  int count(const std::string &text) const {
    int sum = 0;
    for (const std::string &call : calls)
      sum += call.starts_with(text) ? 1 : 0;
    return sum;
  }

private:
  struct Work final : Captured {
    Work() = default;
    ~Work() override {
      if (calls)
        calls->push_back("free");
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    std::vector<std::string> *calls = nullptr; ///< null: still captured
    std::function<void(jit::Stack &)> run;
    jit::Stack inputs, results;
  };
  void fail(const std::string &step) {
    const auto found = fails_at.find(step);
    if (found == fails_at.end() || --found->second != 0)
      return;
    TORCH_CHECK_WITH(OutOfMemoryError, !lacks_memory, step, " has too little memory");
    throw std::runtime_error(step + " failed\nmore");
  }

  std::unique_ptr<Work> work_; ///< of the capture under way
  std::uint64_t pools_ = 0;
};

/// A graph whose calls may be captured by a fake device.
class Program {
public:
  explicit Program(const std::string &text, std::size_t arguments = 1,
                   std::size_t least_launches = 1, std::shared_ptr<Pools> pools = nullptr) {
    jit::parseIR(text, graph.get());
    code = jit::Code(graph, "f");
    Options options;
    options.interpret = [this](jit::Stack &stack, bool captured) {
      plain += captured ? 0 : 1;
      device.run([this](jit::Stack &s) { jit::InterpreterState(code).run(s); }, stack);
    };
    options.place_of = [](const jit::Node &) -> std::string { return "net.py:12"; };
    options.find_device = [this](std::string &why) -> GraphDevice * {
      why = no_device;
      return no_device.empty() ? &device : nullptr;
    };
    options.arguments = arguments;
    options.least_launches = least_launches;
    options.pools = std::move(pools);
    options.report = [this](const GraphNews &one) { news.push_back(shown(one)); };
    captures = std::make_unique<Captures>(*graph, std::move(options));
  }

  /// Runs a call; by the interpreter where no capture serves it.
  jit::Stack call(jit::Stack stack) {
    served = captures->run(stack);
    if (!served)
      jit::InterpreterState(code).run(stack);
    return stack;
  }
  at::Tensor call(const at::Tensor &x) { return call(jit::Stack{x}).back().toTensor(); }
  /// So many calls with tensors of their own: the third is captured.
  void settle(const jit::Stack &inputs, int calls = 3) {
    for (int i = 0; i < calls; ++i)
      call(inputs);
  }
  void settle(const at::Tensor &x, int calls = 3) {
    for (int i = 0; i < calls; ++i)
      call(x.clone());
  }

  static std::string shown(const GraphNews &news) {
    const char *what[] = {"captured", "rejected", "dropped"};
    return what[static_cast<std::size_t>(news.what)] + (" " + std::to_string(news.bytes)) +
           (news.why.empty() ? "" : ": " + news.why);
  }

  std::vector<std::string> news; ///< what has been reported
  std::shared_ptr<jit::Graph> graph = std::make_shared<jit::Graph>();
  jit::Code code;
  FakeDevice device;
  std::string no_device;
  int plain = 0; ///< runs of the interpreter that Captures has made
  bool served = false;
  std::unique_ptr<Captures> captures;
};

} // namespace tracehost::capture
