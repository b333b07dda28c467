#pragma once

#include "program/program.h"
#include "tape/tape.h"
#include "tape/tapes.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tracehost::tape {

using Tensors = std::vector<at::Tensor>;

inline std::shared_ptr<jit::Graph> parse(const std::string &text) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  return graph;
}

inline jit::Stack stack_of(const Tensors &inputs) { return {inputs.begin(), inputs.end()}; }

inline Tensors tensors_of(const jit::Stack &stack) {
  Tensors tensors;
  for (const c10::IValue &value : stack)
    tensors.push_back(value.toTensor());
  return tensors;
}

/// One graph, its tape for some inputs, and its runs by the interpreter.
class Beside {
public:
  Beside(const std::string &text, const jit::Stack &inputs)
      : graph_(parse(text)), program_(parse(text), "f", graph_->outputs().size()),
        tape(Tape::record(*graph_, inputs, why)) {}

  Tensors by_tape(const Tensors &inputs) const { return tensors_of(by_tape(stack_of(inputs))); }
  jit::Stack by_tape(const jit::Stack &inputs) const {
    jit::Stack outputs;
    EXPECT_TRUE(tape->run(inputs, outputs, nullptr));
    return outputs;
  }
  jit::Stack by_interpreter(jit::Stack stack) const {
    program_.run(stack);
    return stack;
  }

  /// Values, sizes, strides, versions; twice, as no result may share memory with an earlier one.
  void expect_same(const jit::Stack &inputs) const {
    const jit::Stack expected = by_interpreter(inputs), first = by_tape(inputs);
    const jit::Stack second = by_tape(inputs);
    for (const jit::Stack &found : {first, second}) {
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        expect_same(found[i], expected[i]);
    }
  }

  /// The same of a graph that writes to its inputs or draws. Gives the inputs after the run.
  jit::Stack expect_same_effects(const jit::Stack &inputs) const {
    const jit::Stack before = clones(inputs), after = clones(inputs);
    const at::Tensor state = generator();
    const jit::Stack expected = by_interpreter(before);
    const at::Tensor drawn = generator();
    at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state);
    const jit::Stack found = by_tape(after);
    EXPECT_TRUE(generator().equal(drawn));
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_same(found[i], expected[i]);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_same(after[i], before[i]);
    return after;
  }
  static jit::Stack clones(const jit::Stack &inputs) {
    jit::Stack made;
    for (const c10::IValue &input : inputs)
      made.push_back(input.isTensor() ? c10::IValue(input.toTensor().clone()) : input);
    return made;
  }
  static at::Tensor generator() { return at::detail::getDefaultCPUGenerator().get_state(); }

private:
  static void expect_same(const c10::IValue &found, const c10::IValue &expected) {
    if (!expected.isTensor()) {
      EXPECT_EQ(found, expected);
      return;
    }
    const at::Tensor &t = found.toTensor(), &then = expected.toTensor();
    EXPECT_EQ(t.sizes(), then.sizes());
    EXPECT_EQ(t.strides(), then.strides());
    EXPECT_EQ(t.storage_offset(), then.storage_offset());
    EXPECT_EQ(t.storage().nbytes(), then.storage().nbytes());
    EXPECT_EQ(t.scalar_type(), then.scalar_type());
    ASSERT_EQ(t.is_view(), then.is_view());
    if (t.is_view()) {
      EXPECT_EQ(t._base().sizes(), then._base().sizes());
      EXPECT_EQ(t._base().strides(), then._base().strides());
    }
    EXPECT_EQ(t._version(), then._version());
    const at::Tensor a = t.contiguous(), b = then.contiguous();
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0) << a << b;
  }

  std::shared_ptr<jit::Graph> graph_;
  Program program_;

public:
  std::string why;
  std::unique_ptr<Tape> tape;
};

} // namespace tracehost::tape
