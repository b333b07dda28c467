#include "support/entries.h"

#include "tape/operands.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

/// Calls of an archive from Python (nodes and tensors) and from C++ (values) are served by the same
/// graphs.

namespace tracehost {
namespace {

using test::call;
using test::graph_for;
using test::meta;
using test::Tensors;

struct Made {
  std::string name;
  SpecializationRef graph;
};

/// f(x) = x * 2 for float32[2, 3], changed by `change` as a trace might have.
Made made(std::string name, const std::function<void(Specialization &)> &change = {}) {
  const auto graph = graph_for(call({{"x", test::tensor(0, meta({2, 3}))}}), {at::ones({2, 3})},
                               [](const Tensors &in) -> Tensors { return {in[0] * 2}; });
  graph->signature.slots[0].is_leaf = true;
  if (change)
    change(*graph);
  return {std::move(name), graph};
}

std::vector<Made> graphs() {
  std::vector<Made> all;
  all.push_back(made("plain"));
  all.push_back(made("without grad", [](auto &s) { s.signature.context.grad = false; }));
  all.push_back(made("switches grad", [](auto &s) {
    static_cast<archive::State &>(*s.front_end).sets_modes = true;
  }));
  all.push_back(made("deterministic", [](auto &s) { s.signature.context.deterministic = true; }));
  all.push_back(
      made("autocast", [](auto &s) { s.signature.context.autocast_cpu = at::kBFloat16; }));
  all.push_back(
      made("double by default", [](auto &s) { s.signature.context.default_dtype = at::kDouble; }));
  all.push_back(made("grad of x", [](auto &s) { s.signature.slots[0].requires_grad = true; }));
  all.push_back(made("any rows", [](auto &s) { s.signature.slots[0].make_dynamic(0); }));
  all.push_back(made("reads strides", [](auto &s) { s.signature.reads_strides = true; }));
  all.push_back(made("reads leaf", [](auto &s) { s.signature.reads_leaf = true; }));
  all.push_back(made("reads .grad", [](auto &s) {
    s.signature.grads = {{0, grad_state(at::ones({2, 3}))}};
  }));
  return all;
}

std::vector<at::Tensor> tensors() {
  const at::Tensor leaf = at::ones({2, 3}).requires_grad_();
  at::Tensor with_grad = at::ones({2, 3}).requires_grad_();
  with_grad.mutable_grad() = at::ones({2, 3});
  const auto in_inference_mode = [] {
    const c10::InferenceMode on;
    return at::ones({2, 3});
  };
  return {at::ones({2, 3}),
          at::zeros({2, 3}),
          at::ones({5, 3}),
          at::ones({2, 4}),
          at::ones({2, 3}, at::kDouble),
          at::ones({3, 2}).t(),
          leaf,
          leaf * 1,
          with_grad,
          in_inference_mode(),
          at::ones({2, 3}).conj().to(at::kComplexFloat).conj(),
          at::ones({2, 3}).to_sparse()};
}

/// Runs `act` in each mode that a thread may be in.
void in_each_mode(const std::function<void(const std::string &)> &act) {
  act("as usual");
  {
    const at::NoGradGuard off;
    act("no grad");
  }
  {
    const c10::InferenceMode on;
    act("inference mode");
  }
  at::globalContext().setDeterministicAlgorithms(true, false);
  act("deterministic");
  at::globalContext().setDeterministicAlgorithms(false, false);
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  act("double by default");
  c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  at::autocast::set_autocast_enabled(at::kCPU, true);
  act("autocast");
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

/// f(x), flattened as Python's calls are.
class FlatCall final : public runtime::Call {
public:
  explicit FlatCall(const at::Tensor &x)
      : Call(Context::now()),
        request_(call({{"x", test::tensor(0, TensorMeta::of(x))}})), tensors_{x} {}
  bool matches(const Signature &signature, bool requires_grad,
               runtime::Slots &slots) const override {
    return runtime::matches(signature, request_.nodes, tensors_, requires_grad, slots);
  }
  void run(const Specialization &graph, Operands &operands) const override {
    graph.program->run(operands);
  }
  Signature signature(const Signature &, std::vector<at::Tensor> &slots) const override {
    slots = tensors_;
    return request_;
  }

private:
  Signature request_;
  std::vector<at::Tensor> tensors_;
};

bool serves_python(runtime::Loaded &function, const at::Tensor &x) {
  FlatCall call(x);
  PooledOperands operands;
  return function.serve(call, *operands) != nullptr;
}

TEST(Serving, isTheSameForPythonAndForCpp) {
  test::FakeSink sink;
  int served = 0, rejected = 0;
  for (const Made &made : graphs()) {
    const Function f = test::loaded({made.graph}, sink).with_inference_mode(false);
    runtime::Loaded flat({"f", made.graph->signature.parameters, {}, {made.graph}}, "f.pt", sink);
    const std::vector<at::Tensor> given = tensors();
    in_each_mode([&](const std::string &mode) {
      for (std::size_t i = 0; i < given.size(); ++i) {
        bool cpp = true;
        try {
          f(given[i]);
        } catch (const SignatureError &) {
          cpp = false;
        }
        EXPECT_EQ(cpp, serves_python(flat, given[i]))
            << "graph: " << made.name << ", mode: " << mode << ", tensor " << i;
        ++(cpp ? served : rejected);
      }
    });
  }
  EXPECT_GT(served, 100);
  EXPECT_GT(rejected, 100);
}

TEST(Serving, ofAGraphThatSwitchesGradModeNeedsItsModeUnlessNoGradientsAreRecorded) {
  test::FakeSink sink;
  const auto graph = made("switches", [](auto &s) {
                       static_cast<archive::State &>(*s.front_end).sets_modes = true;
                     }).graph;
  const Function f = test::loaded({graph}, sink, {std::nullopt});
  const at::Tensor x = at::ones({2, 3});
  const at::NoGradGuard off;
  EXPECT_NO_THROW(f(x));
  try {
    f.with_inference_mode(false)(x);
    ADD_FAILURE() << "was served";
  } catch (const SignatureError &e) {
    EXPECT_STREQ(e.what(), "f: none of 1 graph serves this call.\n"
                           "  why      grad mode is off, not on\n"
                           "  call     (x: float32[2, 3])\n"
                           "  nearest  (x: float32[2, 3])");
  }
}

} // namespace
} // namespace tracehost
