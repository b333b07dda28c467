#include "validate/check.h"

#include "support/frontend.h"
#include "trace/tracer.h"
#include "validate/compare.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace tracehost::validate {
namespace {

namespace jit = torch::jit;

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using Kind = Verdict::Kind;

Policy first() { return {Policy::When::first, 0}; }

/// A body, traced, and what its graph is found to be.
struct Traced {
  using Body = std::function<Tensors()>;
  Traced(Tensors inputs, const Body &body, const Policy &policy = first())
      : originals(policy), slots(std::move(inputs)) {
    auto traced = trace::trace(
        slots, {}, frontend, [&] { return results = body(); }, &originals);
    graph = std::move(traced.graph);
  }

  /// The node of this kind, the first.
  jit::Node *node(const char *kind) {
    for (jit::Node *node : graph->nodes())
      if (node->kind() == c10::Symbol::fromQualString(kind))
        return node;
    ADD_FAILURE() << "no " << kind << " in " << *graph;
    throw std::runtime_error("no node");
  }

  Verdict check(bool alone = true) {
    OutputSpec outputs;
    outputs.tensors = results.size();
    for (std::uint32_t i = 0; i < results.size(); ++i) {
      Node leaf;
      leaf.kind = tracehost::Kind::tensor;
      leaf.end = i + 1;
      leaf.payload.slot = i;
      outputs.nodes.push_back(leaf);
    }
    if (results.size() > 1) {
      Node tuple;
      tuple.kind = tracehost::Kind::tuple;
      outputs.nodes.insert(outputs.nodes.begin(), tuple);
      for (std::uint32_t i = 0; i < outputs.nodes.size(); ++i)
        outputs.nodes[i].end = i + 1;
      outputs.nodes[0].end = static_cast<std::uint32_t>(outputs.nodes.size());
    }
    const Program program(graph, "f", results.size());
    return validate::check(originals, {program, outputs, results,
                                       [](std::size_t i) { return "in" + std::to_string(i); },
                                       [this](const std::function<void()> &f) {
                                         ++unlocked;
                                         f();
                                       },
                                       alone});
  }
  std::string wrong() {
    const Verdict verdict = check();
    EXPECT_EQ(verdict.kind, Kind::wrong) << verdict.why;
    culprit = verdict.culprit;
    return verdict.why;
  }

  Originals originals;
  test::FakeFrontend frontend;
  Tensors slots, results;
  std::shared_ptr<jit::Graph> graph;
  std::string culprit;
  int unlocked = 0;
};

void expect_right(Traced traced) {
  const Verdict verdict = traced.check();
  EXPECT_EQ(verdict.kind, Kind::right) << verdict.why << "; " << verdict.culprit;
}

// ---- Graphs that are right

TEST(Validate, AGraphThatDoesWhatItsBodyDidIsRight) {
  const auto x = at::rand({2, 3});
  expect_right({{x}, [&] { return Tensors{x * 2 + 1, x.t(), x}; }});
}

TEST(Validate, NaNEqualsItself) {
  const auto x = at::full({2}, std::nan(""));
  expect_right({{x}, [&] { return Tensors{x * 2}; }});
}

TEST(Validate, AnInputWrittenInPlaceIsCheckedOnACopyOfWhatItWas) {
  const auto x = at::full({2}, 3.0);
  const auto version = x._version();
  expect_right({{x}, [&] { return Tensors{x.mul_(2)}; }});
  EXPECT_TRUE(at::equal(x, at::full({2}, 6.0))) << "as the body left it";
  EXPECT_EQ(x._version(), version + 1);
}

TEST(Validate, ViewsOfOneBaseSeeEachOthersWrites) {
  const auto base = at::rand({3, 2});
  const auto row = base[1], column = base.select(1, 0);
  expect_right({{row, base, column}, [&] {
                  row.add_(1);
                  column.mul_(row.sum());
                  return Tensors{base * 1, row, column};
                }});
}

TEST(Validate, ACaptureMetAfterItsMemoryWasWrittenIsWhatItWasBefore) {
  const auto x = at::ones({2});
  const auto other = x.detach();
  expect_right({{x}, [&] {
                  x.add_(1);
                  return Tensors{other * 3};
                }});
}

TEST(Validate, HistoryOfGradientsIsComparedAsSuch) {
  const auto w = at::ones({2}).set_requires_grad(true);
  const auto x = at::ones({2});
  const auto h = w * 2; // no leaf
  expect_right({{x, h}, [&] {
                  x.mul_(w);
                  h.add_(1);
                  return Tensors{x, h};
                }});
  EXPECT_TRUE(x.requires_grad());
}

TEST(Validate, RunningStatisticsMoveOnce) {
  const auto x = at::rand({4, 3}), mean = at::zeros({3}), variance = at::ones({3});
  Traced traced({x, mean, variance}, [&] {
    return Tensors{at::batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5, false)};
  });
  const auto after = mean.clone();
  EXPECT_TRUE(traced.originals.is_written(1) && traced.originals.is_written(2));
  EXPECT_FALSE(traced.originals.is_written(0));
  EXPECT_EQ(traced.check().kind, Kind::right);
  EXPECT_TRUE(at::equal(mean, after));
  EXPECT_TRUE(at::allclose(mean, x.mean(0) * 0.1));
}

TEST(Validate, StatisticsThatAreOnlyReadAreNotCopied) {
  const auto x = at::rand({4, 3}), mean = at::zeros({3}), variance = at::ones({3});
  Traced traced({x, mean, variance}, [&] {
    return Tensors{at::batch_norm(x, {}, {}, mean, variance, false, 0.1, 1e-5, false)};
  });
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_FALSE(traced.originals.is_written(i));
  EXPECT_EQ(traced.check().kind, Kind::right);
}

/// Every op of torch that has running statistics and does not say that it writes them.
TEST(Validate, OpsThatWriteUndeclaredAreSeenToWrite) {
  std::vector<std::string> found;
  for (const auto &name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !std::string_view(name.name).starts_with("aten::") || !name.overload_name.empty())
      continue;
    for (const auto &argument : op->schema().arguments())
      if (argument.name() == "running_mean" && !argument.alias_info())
        found.push_back(name.name);
  }
  for (const char *op : {"aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm",
                         "aten::_batch_norm_impl_index", "aten::cudnn_batch_norm",
                         "aten::batch_norm_update_stats", "aten::batch_norm_gather_stats"})
    EXPECT_THAT(found, testing::Contains(op));
}

TEST(Validate, RandomOpsAreDrawnAgainAndTheGeneratorStays) {
  at::manual_seed(7);
  const auto x = at::rand({8});
  Traced traced({x}, [&] { return Tensors{at::dropout(x, 0.5, true), at::rand_like(x)}; });
  const auto after = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_EQ(traced.check().kind, Kind::right);
  EXPECT_TRUE(at::equal(after, at::detail::getDefaultCPUGenerator().get_state()));
}

TEST(Validate, ABodyWithoutRandomOpsLeavesTheGeneratorAlone) {
  const auto x = at::rand({8});
  Traced traced({x}, [&] { return Tensors{x * 2}; });
  EXPECT_TRUE(traced.originals.draws().empty());
}

TEST(Validate, NothingIsCopiedThatIsNotWritten) {
  const auto x = at::rand({2}), y = at::rand({2});
  Traced traced({x, y}, [&] {
    auto own = x * 1;
    own.add_(y);
    return Tensors{own};
  });
  EXPECT_FALSE(traced.originals.is_written(0));
  EXPECT_FALSE(traced.originals.is_written(1));
  EXPECT_TRUE(traced.originals.inputs(false)[0].is_same(x));
}

TEST(Validate, LongGraphsRunWithoutTheFrontEndsLock) {
  const auto x = at::rand({2});
  Traced traced({x}, [&] {
    auto y = x;
    for (int i = 0; i < 20; ++i)
      y = y + x;
    return Tensors{y};
  });
  EXPECT_EQ(traced.check().kind, Kind::right);
  EXPECT_EQ(traced.unlocked, 1);
}

// ---- Graphs made wrong

TEST(Validate, AnotherConstantIsFound) {
  const auto x = at::ones({2, 3});
  Traced traced({x}, [&] { return Tensors{x * 1}; });
  jit::Node *multiply = traced.node("aten::mul");
  const jit::WithInsertPoint here(multiply);
  multiply->replaceInput(1, traced.graph->insertConstant(3.0));
  EXPECT_EQ(traced.wrong(), "output, element (0, 0): 3.0 in the graph, 1.0 in the body");
  EXPECT_THAT(traced.culprit, HasSubstr("aten::mul"));
}

TEST(Validate, TheFirstElementThatDiffersIsNamed) {
  const auto x = at::ones({2, 3});
  auto factors = at::ones({2, 3});
  Traced traced({x, factors}, [&] { return Tensors{x * factors}; });
  traced.results[0] = at::ones({2, 3});
  traced.results[0][1][2] = 4.0;
  EXPECT_EQ(traced.wrong(), "output, element (1, 2): 1.0 in the graph, 4.0 in the body");
}

TEST(Validate, AMissingWriteIsFound) {
  const auto x = at::ones({2});
  Traced traced({x}, [&] {
    x.add_(1);
    return Tensors{at::zeros({1})};
  });
  traced.node("aten::add_")->output()->replaceAllUsesWith(traced.graph->inputs()[0]);
  traced.node("aten::add_")->destroy();
  EXPECT_EQ(traced.wrong(),
            "what is left in 'in0', element (0,): 1.0 in the graph, 2.0 in the body");
}

TEST(Validate, AWriteThatTheBodyDoesNotDoIsFound) {
  const auto x = at::ones({2});
  Traced traced({x}, [&] { return Tensors{at::relu(x)}; });
  jit::Node *relu = traced.node("aten::relu");
  const jit::WithInsertPoint here(relu);
  jit::Value *written =
      traced.graph->insert(c10::Symbol::fromQualString("aten::relu_"), {traced.graph->inputs()[0]});
  relu->output()->replaceAllUsesWith(written);
  EXPECT_EQ(traced.wrong(), "the graph writes into 'in0', the body does not");
  EXPECT_THAT(traced.culprit, HasSubstr("aten::relu_"));
}

TEST(Validate, ALostNoGradIsFound) {
  const auto w = at::ones({2}).set_requires_grad(true);
  Traced traced({w}, [&] {
    const at::NoGradGuard off;
    return Tensors{w * 2};
  });
  while (true) {
    jit::Node *found = nullptr;
    for (jit::Node *node : traced.graph->nodes())
      if (node->kind() == c10::Symbol::fromQualString("aten::set_grad_enabled"))
        found = node;
    if (!found)
      break;
    found->destroy();
  }
  EXPECT_EQ(traced.wrong(), "output, requires_grad True in the graph, False in the body");
}

TEST(Validate, SwappedOutputsAreFound) {
  const auto x = at::ones({2});
  Traced traced({x}, [&] { return Tensors{x * 2, x * 3}; });
  jit::Value *first = traced.graph->outputs()[0], *second = traced.graph->outputs()[1];
  traced.graph->return_node()->replaceInput(0, second);
  traced.graph->return_node()->replaceInput(1, first);
  EXPECT_EQ(traced.wrong(), "output[0], element (0,): 3.0 in the graph, 2.0 in the body");
}

TEST(Validate, OtherStridesAreFound) {
  const auto x = at::rand({2, 3});
  Traced traced({x}, [&] { return Tensors{x.t() * 1}; });
  traced.results[0] = traced.results[0].contiguous();
  EXPECT_EQ(traced.wrong(), "output, strides [1, 3] in the graph, [2, 1] in the body");
}

TEST(Validate, AnotherDtypeAndShapeAreFound) {
  const auto x = at::ones({2});
  Traced dtype({x}, [&] { return Tensors{x * 1}; });
  dtype.results[0] = dtype.results[0].to(at::kDouble);
  EXPECT_EQ(dtype.wrong(), "output, dtype float32 in the graph, float64 in the body");
  Traced shape({x}, [&] { return Tensors{x * 1}; });
  shape.results[0] = shape.results[0].view({1, 2});
  EXPECT_EQ(shape.wrong(), "output, shape [2] in the graph, [1, 2] in the body");
}

TEST(Validate, ALostAliasIsFound) {
  const auto x = at::ones({2, 3});
  Traced view({x}, [&] { return Tensors{x[1]}; });
  jit::Value *output = view.graph->outputs()[0];
  {
    const jit::WithInsertPoint here(view.graph->return_node());
    view.graph->return_node()->replaceInput(0, view.graph->insert(c10::aten::clone, {output}));
  }
  EXPECT_EQ(view.wrong(), "output, it has memory of its own (offset 0) in the graph, and shares "
                          "memory with 'in0' (offset 3) in the body");
  Traced itself({x}, [&] { return Tensors{x}; });
  {
    const jit::WithInsertPoint here(itself.graph->return_node());
    itself.graph->return_node()->replaceInput(
        0, itself.graph->insert(c10::aten::detach, {itself.graph->inputs()[0]}));
  }
  EXPECT_EQ(itself.wrong(), "output, it is not 'in0' itself in the graph, as it is in the body");
}

TEST(Validate, OutputsThatShareNoMemoryAnyMoreAreFound) {
  const auto x = at::ones({4});
  Traced traced({x}, [&] {
    const auto y = x * 2;
    return Tensors{y, y.slice(0, 1)};
  });
  const jit::WithInsertPoint here(traced.graph->return_node());
  jit::Value *second = traced.graph->outputs()[1];
  traced.graph->return_node()->replaceInput(1, traced.graph->insert(c10::aten::clone, {second}));
  EXPECT_EQ(traced.wrong(), "output[1], it has memory of its own (offset 0) in the graph, and "
                            "shares memory with output[0] (offset 1) in the body");
}

TEST(Validate, AGraphThatRaisesIsFound) {
  const auto x = at::ones({2, 3});
  Traced traced({x}, [&] { return Tensors{x.reshape({3, 2})}; });
  jit::Node *reshape = traced.node("aten::reshape");
  const jit::WithInsertPoint here(reshape);
  reshape->replaceInput(1, traced.graph->insertConstant(std::vector<std::int64_t>{4, 2}));
  EXPECT_THAT(traced.wrong(), HasSubstr("the graph raises what the body does not: "));
}

TEST(Validate, AMissingDrawIsFound) {
  at::manual_seed(7);
  const auto x = at::rand({4});
  const auto drops_one = [&](bool alone) {
    Traced traced({x}, [&] {
      at::rand_like(x);
      return Tensors{x * 2};
    });
    traced.node("tracehost::keep")->destroy();
    traced.node("aten::rand_like")->destroy();
    return traced.check(alone);
  };
  const Verdict verdict = drops_one(true);
  EXPECT_EQ(verdict.kind, Kind::wrong);
  EXPECT_EQ(verdict.why, "the random generator is elsewhere after the graph than after the body");
  EXPECT_EQ(drops_one(false).kind, Kind::skipped) << "another thread may have drawn";
}

// ---- What is not checked

std::string skipped(Traced traced) {
  const Verdict verdict = traced.check();
  EXPECT_EQ(verdict.kind, Kind::skipped) << verdict.why;
  return verdict.why;
}

TEST(Validate, ResizedInputsAreLeftOut) {
  const auto x = at::rand({4});
  Originals originals(first());
  originals.met(x);
  {
    const Watching watching(originals);
    x.resize_({2});
  }
  EXPECT_EQ(originals.problem(), "the body resizes an input's memory");
}

TEST(Validate, MemoryAsItHappensToBeIsNoMismatch) {
  const auto x = at::rand({4});
  Traced traced({x}, [&] { return Tensors{at::empty({4})}; });
  traced.results[0] = at::full({4}, 12345.0);
  EXPECT_EQ(traced.check().why.substr(0, 58),
            "values come from memory that is not initialised (aten::emp");
}

TEST(Validate, WhatCostsTooMuchIsLeftOut) {
  const auto x = at::rand({1});
  EXPECT_EQ(skipped({{x},
                     [&] {
                       return Tensors{at::zeros({65 << 20}), x * 1};
                     }}),
            "its tensors take over 256 MiB");
  const auto once = [&](const Policy &policy) {
    Traced traced(
        {x}, [&] { return Tensors{x * 1}; }, policy);
    traced.originals.took(Policy::kMostTime + std::chrono::nanoseconds(1));
    return traced.check().why;
  };
  EXPECT_EQ(once(first()), "its ops take over 1 s");
  EXPECT_EQ(once({Policy::When::every, 10}), "") << "it was asked for expressly";
}

// ---- Comparison

TEST(Compare, ToleratesWhatTorchTestingTolerates) {
  const auto one = at::ones({1});
  EXPECT_EQ(difference(one + 1e-6, one), "");
  EXPECT_THAT(difference(one + 1e-4, one), HasSubstr("element (0,): 1.0001"));
  EXPECT_EQ(difference((one + 1e-2).to(at::kBFloat16), one.to(at::kBFloat16)), "");
  EXPECT_NE(difference((one.to(at::kDouble) + 1e-6), one.to(at::kDouble)), "");
  EXPECT_NE(difference(at::full({}, 2), at::full({}, 3)), "");
  const auto nan = at::full({1}, std::nan(""));
  EXPECT_EQ(difference(at::cat({nan, one + 1e-6}), at::cat({nan, one})), "");
  EXPECT_NE(difference(at::cat({nan, one}), at::cat({one, one})), "");
}

TEST(Compare, NamesNumbersAsPythonDoes) {
  EXPECT_EQ(difference(at::full({}, 2, at::kLong), at::full({}, 3, at::kLong)),
            "value 2 in the graph, 3 in the body");
  EXPECT_EQ(difference(at::full({1}, true, at::kBool), at::full({1}, false, at::kBool)),
            "element (0,): True in the graph, False in the body");
  const auto inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(difference(at::full({}, inf), at::full({}, std::nan(""))),
            "value inf in the graph, nan in the body");
}

TEST(Compare, SparseTensorsByTheirValues) {
  const auto sparse = at::eye(3).to_sparse();
  EXPECT_EQ(difference(sparse, sparse.clone()), "");
  EXPECT_EQ(difference(sparse * 2, sparse), "element (0, 0): 2.0 in the graph, 1.0 in the body");
}

} // namespace
} // namespace tracehost::validate
