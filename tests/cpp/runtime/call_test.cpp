#include "support/entries.h"

#include "tracehost/tracehost.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace tracehost {
namespace {

using runtime::Loaded;
using test::call;
using test::graph_for;
using test::integer;
using test::meta;
using test::tensor;
using test::Tensors;
using test::word;
using testing::ElementsAre;
using testing::HasSubstr;
using Form = ContainerClass::Form;

class RuntimeCall : public testing::Test {
protected:
  /// f(x, n) = x * n for float32[2] and this n.
  static SpecializationRef times(std::int64_t n) {
    return graph_for(call({{"x", tensor(0, meta({2}))}, {"n", integer(n)}}), {at::ones(2)},
                     [n](const Tensors &in) -> Tensors { return {in[0] * n}; });
  }
  static TensorMeta any_rows(std::int64_t columns) {
    TensorMeta made = meta({3, columns});
    made.make_dynamic(0);
    return made;
  }
  SignatureError rejected(const std::function<void()> &act) {
    try {
      act();
    } catch (const SignatureError &e) {
      return e;
    }
    ADD_FAILURE() << "was served";
    return {"", "", "", "", ""};
  }

  test::FakeSink sink;
  const at::Tensor x = at::full(2, 3.0);
};

TEST_F(RuntimeCall, RunsTheGraphThatServes) {
  const auto f = test::loaded({times(2), times(5)}, sink);
  EXPECT_TRUE(at::equal(f(x, 2), x * 2));
  EXPECT_TRUE(at::equal(f(x, 5), x * 5));
  EXPECT_TRUE(at::equal(f(x, kw("n", 5)), x * 5));
  EXPECT_TRUE(at::equal(f(kw("n", 2), kw("x", x)), x * 2));
  EXPECT_EQ(f.stats().hits, 4);
  EXPECT_EQ(f.stats().misses, 0);
  EXPECT_EQ(f.stats().specializations, 2);
  EXPECT_EQ(f.name(), "f");
  EXPECT_THAT(f.signatures(), ElementsAre("(x: float32[2], n=2)", "(x: float32[2], n=5)"));
}

TEST_F(RuntimeCall, TellsWhatDiffersFromTheNearest) {
  const auto f = test::loaded({times(2), times(5)}, sink);
  const auto e = rejected([&] { f(at::ones(7), 5); });
  EXPECT_EQ(e.parameter(), "x");
  EXPECT_EQ(e.expected(), "2");
  EXPECT_EQ(e.got(), "7");
  EXPECT_EQ(e.nearest(), "(x: float32[2], n=5)");
  EXPECT_STREQ(e.what(), "f: none of 2 graphs serves this call.\n"
                         "  why      argument 'x', dimension 0, is 7, not 2\n"
                         "  call     (x: float32[7], n=5)\n"
                         "  nearest  (x: float32[2], n=5)");
  EXPECT_EQ(f.stats().misses, 1);
  EXPECT_THAT(sink.take(), testing::Contains(HasSubstr("fail ? SignatureError: f: none of 2")));
}

TEST_F(RuntimeCall, TellsBoolIntAndFloatApart) {
  const auto f = test::loaded({times(1)}, sink);
  EXPECT_TRUE(at::equal(f(x, 1), x));
  EXPECT_EQ(rejected([&] { f(x, true); }).got(), "bool");
  EXPECT_EQ(rejected([&] { f(x, 1.0); }).got(), "float");
  EXPECT_EQ(rejected([&] { f(x.to(at::kDouble), 1); }).got(), "float64");
  EXPECT_EQ(rejected([&] { f(x, std::nullopt); }).got(), "None");
}

TEST_F(RuntimeCall, BindsAsPythonDoes) {
  const auto f =
      test::loaded({times(2), times(5)}, sink, {std::nullopt, test::default_of(integer(5))});
  EXPECT_TRUE(at::equal(f(x), x * 5));
  EXPECT_TRUE(at::equal(f(x, 2), x * 2));
  EXPECT_STREQ(rejected([&] { f(); }).what(),
               "f: argument 'x' is missing. Its parameters are (x, n).");
  EXPECT_STREQ(rejected([&] { f(x, kw("m", 2)); }).what(),
               "f: it has no parameter 'm'. Its parameters are (x, n).");
  EXPECT_STREQ(rejected([&] { f(x, 2, kw("n", 2)); }).what(),
               "f: argument 'n' was given twice. Its parameters are (x, n).");
  EXPECT_STREQ(rejected([&] { f(x, 2, 3); }).what(),
               "f: it takes 2 arguments by place, more were given. Its parameters are (x, n).");
}

TEST_F(RuntimeCall, RunsTheGraphForTheNumberThatTheTensorHolds) {
  const auto plus = [](std::int64_t n) {
    auto graph = std::make_shared<torch::jit::Graph>();
    torch::jit::parseIR(fmt::format(R"IR(graph(%x : Tensor):
      %one : int = prim::Constant[value=1]()
      %n : int = prim::Constant[value={}]()
      %y : Tensor = aten::exp(%x)
      %s : Scalar = aten::item(%x)
      tracehost::check_number(%s, %n)
      %z : Tensor = aten::add(%y, %n, %one)
      return (%z))IR",
                                    n),
                        graph.get());
    auto made = graph_for(call({{"x", tensor(0, meta({}))}}), {at::ones({})},
                          [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
    made->program = std::make_unique<Program>(std::move(graph), "f", 1);
    made->signature.checked = {{"net.py:3", std::to_string(n)}};
    made->signature.slots[0] = TensorMeta::of(at::scalar_tensor(1, at::kLong));
    return made;
  };
  const auto f = test::loaded({plus(1), plus(2)}, sink);
  for (const std::int64_t n : {1, 2, 2, 1}) {
    const at::Tensor number = at::scalar_tensor(n, at::kLong);
    EXPECT_TRUE(at::equal(f(number), number.exp() + n));
  }
  EXPECT_EQ(f.stats().hits, 4);
  EXPECT_EQ(f.stats().misses, 0);
  const auto rejection = [&] { return rejected([&] { f(at::scalar_tensor(3, at::kLong)); }); };
  const std::string why =
      "f: none of 2 graphs serves this call.\n"
      "  why      a number that the graph was made for has another value: 3, not ";
  EXPECT_EQ(rejection().what(),
            why + "1\n  call     (x: int64[])\n  nearest  (x: int64[]) with 1 at net.py:3");
  f(at::scalar_tensor(2, at::kLong)); // the graph for 2 is the one that runs
  EXPECT_EQ(rejection().what(),
            why + "2\n  call     (x: int64[])\n  nearest  (x: int64[]) with 2 at net.py:3");
  EXPECT_EQ(f.stats().misses, 2);
}

TEST_F(RuntimeCall, TakesTheMostSpecific) {
  const auto wide = graph_for(call({{"x", tensor(0, any_rows(2))}}), {at::ones({3, 2})},
                              [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
  const auto exact = graph_for(call({{"x", tensor(0, meta({4, 2}))}}), {at::ones({4, 2})},
                               [](const Tensors &in) -> Tensors { return {in[0] + 2}; });
  const auto f = test::loaded({wide, exact}, sink);
  EXPECT_EQ(at::Tensor(f(at::zeros({9, 2})))[0][0].item<float>(), 1);
  EXPECT_EQ(at::Tensor(f(at::zeros({4, 2})))[0][0].item<float>(), 2);
  EXPECT_EQ(at::Tensor(f(at::zeros({9, 2})))[0][0].item<float>(), 1);
}

TEST_F(RuntimeCall, ChecksConditionsOnSizes) {
  auto graph = graph_for(call({{"x", tensor(0, any_rows(2))}}), {at::ones({3, 2})},
                         [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
  using Op = SizeTerm::Op;
  graph->signature.conditions.push_back(
      {{{Op::size, 0, 0, 0}, {Op::constant, -1, -1, 4}, {Op::less, -1, -1, 0}}, true, "net.py:3"});
  const auto f = test::loaded({graph}, sink);
  EXPECT_EQ(at::Tensor(f(at::zeros({3, 2}))).size(0), 3);
  EXPECT_THAT(rejected([&] { f(at::zeros({5, 2})); }).what(), HasSubstr("net.py:3"));
}

TEST_F(RuntimeCall, TakesStructures) {
  const auto signature =
      call({{"batch", test::dict_of({{"image", tensor(0, meta({2}))}, {"name", word("a")}})},
            {"pair", test::contained(Form::named_tuple, {tensor(1, meta({2})), integer(1)},
                                     {"left", "right"})},
            {"rest",
             test::contained(Form::list, {test::contained(Form::tuple, {tensor(0, meta({2}))})})}});
  const auto f =
      test::loaded({graph_for(signature, {at::ones(2), at::ones(2)},
                              [](const Tensors &in) -> Tensors { return {in[0] - in[1]}; })},
                   sink);
  const at::Tensor y = at::full(2, 1.0);
  const Value rest = List{Tuple{x}};
  const Value pair = Map{{"right", 1}, {"left", y}};
  EXPECT_TRUE(at::equal(f(Map{{"image", x}, {"name", "a"}}, pair, rest), x - y));
  EXPECT_TRUE(at::equal(f(Map{{"name", "a"}, {"image", x}}, pair, rest), x - y));
  EXPECT_EQ(rejected([&] {
              f(Map{{"image", x}, {"name", "b"}}, pair, rest);
            }).parameter(),
            "batch['name']");
  EXPECT_EQ(rejected([&] { f(Map{{"image", x}}, pair, rest); }).parameter(), "batch");
  EXPECT_EQ(rejected([&] {
              f(Map{{"image", x}, {"name", "a"}}, Tuple{y, 1}, rest);
            }).parameter(),
            "pair");
  EXPECT_EQ(rejected([&] {
              f(Map{{"image", x}, {"name", "a"}}, pair, List{Tuple{y}});
            }).parameter(),
            "rest[0][0]");
}

TEST_F(RuntimeCall, ComparesWhichTensorsAreTheSame) {
  const auto one =
      graph_for(call({{"a", tensor(0, meta({2}))}, {"b", tensor(0, meta({2}))}}), {at::ones(2)},
                [](const Tensors &in) -> Tensors { return {in[0] * 2}; });
  const auto f = test::loaded({one}, sink);
  EXPECT_TRUE(at::equal(f(x, x), x * 2));
  EXPECT_EQ(rejected([&] { f(x, x.clone()); }).parameter(), "b");
}

TEST_F(RuntimeCall, GivesResultsByStructure) {
  const auto f = test::loaded(
      {graph_for(
          call({{"x", tensor(0, meta({2}))}}), {at::ones(2)},
          [](const Tensors &in) -> Tensors {
            return {in[0] + 1, in[0] + 2};
          },
          test::contained(Form::tuple, {tensor(0, {}), tensor(1, {}),
                                        test::dict_of({{"n", integer(7)}}), word("ok")}))},
      sink);
  const auto [a, b, c, d] =
      f.call<std::tuple<at::Tensor, at::Tensor, std::map<std::string, int>, std::string>>(x);
  EXPECT_TRUE(at::equal(a, x + 1));
  EXPECT_TRUE(at::equal(b, x + 2));
  EXPECT_EQ(c.at("n"), 7);
  EXPECT_EQ(d, "ok");
}

TEST_F(RuntimeCall, RunsInInferenceModeUnlessTold) {
  const at::Tensor w = at::ones(2).requires_grad_();
  const auto f =
      test::loaded({graph_for(call({{"x", tensor(0, meta({2}))}}), {at::ones(2)},
                              [&](const Tensors &in) -> Tensors { return {in[0] * w}; })},
                   sink);
  EXPECT_TRUE(at::Tensor(f(x)).is_inference());
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
  {
    const c10::InferenceMode on;
    EXPECT_TRUE(at::equal(f(at::ones(2)), at::ones(2))) << "an inference tensor is as any";
  }
  const at::Tensor y = f.with_inference_mode(false)(x);
  y.sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), x));
}

TEST_F(RuntimeCall, LeavesGradModeAsItWas) {
  const at::AutoGradMode restores(true);
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"IR(graph(%x : Tensor):
    %no : bool = prim::Constant[value=0]()
    aten::set_grad_enabled(%no)
    %y : Tensor = aten::neg(%x)
    return (%y))IR",
                      graph.get());
  auto made = graph_for(call({{"x", tensor(0, meta({2}))}}), {at::ones(2)},
                        [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
  made->program = std::make_unique<Program>(std::move(graph), "f", 1);
  const auto f = test::loaded({made}, sink);
  EXPECT_TRUE(at::equal(at::Tensor(f.with_inference_mode(false)(x)), -x));
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST_F(RuntimeCall, ThrowsWhatAnOpThrowsWithoutABacktrace) {
  const auto f = test::loaded(
      {graph_for(call({{"x", tensor(0, any_rows(2))}}), {at::ones({3, 2})},
                 [](const Tensors &in) -> Tensors {
                   return {at::mm(in[0], at::ones({2, 2})).add(in[0])};
                 }),
       graph_for(
           call({{"i", tensor(0, meta({1}, at::kLong))}}), {at::zeros(1, at::kLong)},
           [](const Tensors &in) -> Tensors { return {at::arange(3).index_select(0, in[0])}; })},
      sink);
  try {
    f(at::full(1, 9, at::kLong));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OpError &e) {
    EXPECT_EQ(e.code(), ErrorCode::op);
    EXPECT_EQ(e.type(), "IndexError");
    EXPECT_EQ(e.message(), "index out of range in self");
    EXPECT_EQ(e.function(), "f");
    EXPECT_EQ(e.place(), "net.py:12");
    EXPECT_STREQ(e.what(), "index out of range in self\nat net.py:12, in f");
  }
  EXPECT_EQ(at::Tensor(f(at::full(1, 2, at::kLong))).item<std::int64_t>(), 2);
}

TEST_F(RuntimeCall, CountsWhatThrowsAsFailures) {
  const auto f = test::loaded(
      {graph_for(
          call({{"i", tensor(0, meta({1}, at::kLong))}}), {at::zeros(1, at::kLong)},
          [](const Tensors &in) -> Tensors { return {at::arange(3).index_select(0, in[0])}; })},
      sink);
  EXPECT_THROW(f(at::full(1, 9, at::kLong)), OpError);
  f(at::full(1, 2, at::kLong));
  EXPECT_THROW(f(1.5), SignatureError);
  EXPECT_THROW(f(), SignatureError);
  EXPECT_EQ(f.stats().hits, 1);
  EXPECT_EQ(f.stats().failures, 1);
  EXPECT_EQ(f.stats().misses, 2);
}

TEST_F(RuntimeCall, ThrowsWhatTheGraphRaisesByPythonsName) {
  const auto raising = [](const char *type) {
    auto graph = std::make_shared<torch::jit::Graph>();
    torch::jit::parseIR(fmt::format(R"IR(graph(%x : Tensor):
      %of : str = prim::Constant[value="{}"]()
      %why : str = prim::Constant[value="no real root"]()
      %more : str = prim::Constant[value=""]()
      tracehost::raise_error(%of, %why, %more)
      return (%x))IR",
                                    type),
                        graph.get());
    auto made = graph_for(call({{"x", tensor(0, meta({2}))}}), {at::ones(2)},
                          [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
    made->program = std::make_unique<Program>(std::move(graph), "f", 1);
    return made;
  };
  for (const auto &[type, name] :
       {std::pair("builtins:ValueError", "ValueError"), std::pair("net:Bad.Root", "net.Bad.Root")})
    try {
      test::loaded({raising(type)}, sink)(x);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PythonError &e) {
      EXPECT_EQ(e.type(), name);
      EXPECT_EQ(e.message(), "no real root");
      EXPECT_STREQ(e.what(), "no real root");
      EXPECT_EQ(e.traceback(), "");
    }
}

TEST_F(RuntimeCall, NamesTheFieldThatIsMissingOrTooMany) {
  const auto record = [](Form form) {
    return test::contained(form, {tensor(0, meta({2})), integer(1)}, {"image", "scale"});
  };
  const auto f = test::loaded(
      {graph_for(call({{"batch", test::contained(Form::list, {record(Form::record)})},
                       {"options", test::dict_of({{"top", integer(3)}})}}),
                 {at::ones(2)}, [](const Tensors &in) -> Tensors { return {in[0] + 1}; })},
      sink);
  const Value options = Map{{"top", 3}};
  f(List{Map{{"image", x}, {"scale", 1}}}, options);
  auto e = rejected([&] { f(List{Map{{"image", x}}}, options); });
  EXPECT_EQ(e.parameter(), "batch[0]");
  EXPECT_EQ(e.expected(), "the field 'scale'");
  EXPECT_EQ(e.got(), "no such field");
  EXPECT_THAT(e.what(), HasSubstr("\n  why      argument 'batch[0]' lacks the field 'scale'\n"));
  e = rejected([&] { f(List{Map{{"image", x}, {"scale", 1}, {"blur", true}}}, options); });
  EXPECT_EQ(e.expected(), "no field 'blur'");
  EXPECT_EQ(e.got(), "True");
  EXPECT_THAT(e.what(), HasSubstr("\n  why      argument 'batch[0]' has the field 'blur', which "
                                  "the graph does not take\n"));
  e = rejected([&] { f(List{Map{{"image", x}, {"scale", 1}}}, Map{{"tpo", 3}}); });
  EXPECT_EQ(e.parameter(), "options");
  EXPECT_EQ(e.expected(), "the field 'top'");
}

TEST_F(RuntimeCall, DoesNotWriteInferenceAsIfItWereAnArgument) {
  const auto f = test::loaded({times(2)}, sink);
  at::Tensor made;
  {
    const c10::InferenceMode on;
    made = at::ones(3);
  }
  EXPECT_THAT(rejected([&] { f(made, 2); }).what(),
              HasSubstr("  call     (x: float32[3] (inference), n=2)\n"));
}

TEST_F(RuntimeCall, DescribesGraphsAsData) {
  const auto signature = call(
      {{"batch", test::contained(Form::record, {tensor(0, any_rows(2)), test::word("a")},
                                 {"image", "name"})},
       {"pair", test::contained(Form::tuple, {integer(1), test::dict_of({{"k", integer(2)}})})},
       {"n", integer(5)}});
  auto graph = graph_for(
      signature, {at::ones({3, 2})},
      [](const Tensors &in) -> Tensors {
        return {in[0] + 1, in[0].sum()};
      },
      test::contained(Form::list, {tensor(0, {}), tensor(1, {})}));
  auto state = std::make_shared<archive::State>(archive::state(*graph));
  state->outputs = {any_rows(2), meta({}, at::kLong)};
  graph->front_end = state;
  graph->outputs.nodes.back().reserved[1] = archive::kComputed;
  const auto f =
      test::loaded({graph}, sink, {std::nullopt, std::nullopt, test::default_of(integer(5))});
  const auto parameters = f.parameters();
  ASSERT_EQ(parameters.size(), 3);
  EXPECT_EQ(parameters[0].name, "batch");
  EXPECT_FALSE(parameters[0].default_value);
  EXPECT_EQ(parameters[2].default_value->integer(), 5);
  ASSERT_EQ(f.graphs().size(), 1);
  const GraphSpec spec = f.graphs()[0];
  ASSERT_EQ(spec.arguments.size(), 3);
  const Spec &batch = spec.arguments[0];
  EXPECT_EQ(batch.kind, Value::Kind::map);
  EXPECT_THAT(batch.keys, ElementsAre("image", "name"));
  EXPECT_EQ(batch.items[0].kind, Value::Kind::tensor);
  EXPECT_EQ(batch.items[0].dtype, at::kFloat);
  EXPECT_THAT(batch.items[0].sizes, ElementsAre(Spec::kAnySize, 2));
  EXPECT_EQ(batch.items[1].value->string(), "a");
  const Spec &pair = spec.arguments[1];
  EXPECT_EQ(pair.kind, Value::Kind::tuple);
  EXPECT_EQ(pair.items[0].value->integer(), 1);
  EXPECT_THAT(pair.items[1].keys, ElementsAre("k"));
  EXPECT_EQ(pair.items[1].items[0].value->integer(), 2);
  EXPECT_EQ(spec.result.kind, Value::Kind::list);
  EXPECT_EQ(spec.result.items[0].dtype, at::kFloat);
  EXPECT_EQ(spec.result.items[1].kind, Value::Kind::integer) << "a number that the graph computes";
  EXPECT_FALSE(spec.result.items[1].value);
}

TEST_F(RuntimeCall, ComparesGradientsWhereTheGraphsDiffer) {
  auto off = times(2);
  off->signature.context.grad = false;
  auto on = graph_for(call({{"x", tensor(0, meta({2}))}, {"n", integer(2)}}), {at::ones(2)},
                      [](const Tensors &in) -> Tensors { return {in[0] * 100}; });
  const auto f = test::loaded({on, off}, sink);
  EXPECT_TRUE(at::equal(f(x, 2), x * 2)) << "inference is without gradients";
  EXPECT_TRUE(at::equal(f.with_inference_mode(false)(x, 2), x * 100));
}

TEST_F(RuntimeCall, ComparesOtherModes) {
  const auto f = test::loaded({times(2)}, sink);
  at::globalContext().setDeterministicAlgorithms(true, true);
  const auto e = rejected([&] { f(x, 2); });
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_THAT(e.what(), HasSubstr("deterministic"));
}

TEST_F(RuntimeCall, IsServedAsynchronously) {
  const auto f = test::loaded({times(2)}, sink);
  auto right = f.async<at::Tensor>(x, 2);
  auto wrong = f.async(x, 3);
  EXPECT_TRUE(at::equal(right.get(), x * 2));
  EXPECT_THROW(wrong.get(), SignatureError);
}

TEST_F(RuntimeCall, WarmsUpBySignatures) {
  const auto f = test::loaded({times(2), times(5)}, sink);
  f.warm_up({"f32[2], 2", "float32[2], n=5"});
  EXPECT_EQ(f.stats().hits, 2);
  f.warm_up();
  EXPECT_EQ(f.stats().hits, 2) << "not counted as calls";
  EXPECT_THROW(f.warm_up({"f32[3], 2"}), SignatureError);
  for (const char *bad : {"f32[?], 2", "g32[2], 2", "f32[2, 2", "f32[2],", "f32[2]cuda"})
    EXPECT_THROW(f.warm_up({bad}), Error) << bad;
}

TEST_F(RuntimeCall, ServesManyThreads) {
  const auto f = test::loaded({times(1), times(2), times(3), times(4)}, sink);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        right += at::equal(f(x, 1 + (t + i) % 4), x * (1 + (t + i) % 4));
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(right, 1600);
  EXPECT_EQ(f.stats().hits, 1600);
}

TEST_F(RuntimeCall, SaysThatAnEmptyHandleWasCalled) {
  EXPECT_FALSE(Function());
  EXPECT_THROW(Function()(x), Error);
  EXPECT_THROW(test::loaded({times(2)}, sink)(at::Tensor(), 2), SignatureError);
}

} // namespace
} // namespace tracehost
