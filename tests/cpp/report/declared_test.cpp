#include "report/declared.h"

#include "support/records.h"

#include <gtest/gtest.h>

namespace tracehost::report {
namespace {

using namespace test;
using test::Value; // the public API has one as well
using PK = Parameters::Kind;

/// The text of the signature that takes all of them; empty if there is none.
std::string declared(const std::vector<Signature> &calls) {
  const auto found = declare(traces(calls));
  return found ? found->text : "";
}

TEST(Declare, WritesNoneForSizesThatDiffer) {
  const auto step = [](std::int64_t length) {
    return call({{"x", sized({32, length})}, {"n", sized({}, 1, at::kLong)}});
  };
  EXPECT_EQ(declared({step(12), step(15), step(17)}),
            "[TensorSpec([32, None], torch.float32), TensorSpec([], torch.int64)]");
}

TEST(Declare, WritesNoneForAShapeWhoseRankDiffers) {
  EXPECT_EQ(declared({call({{"x", sized({3})}}), call({{"x", sized({2, 3})}})}),
            "[TensorSpec(None, torch.float32)]");
}

TEST(Declare, MakesTensorsOfNumbersThatVary) {
  const auto step = [](Value a, Value b) {
    return call({{"x", sized({2})}, {"a", std::move(a)}, {"b", std::move(b)}});
  };
  EXPECT_EQ(declared({step(integer(1), real(0.5)), step(integer(2), real(1))}),
            "[TensorSpec([2], torch.float32), TensorSpec([], torch.int64), "
            "TensorSpec([], torch.float32)]");
  EXPECT_EQ(declared({step(integer(1), integer(1)), step(real(2), integer(2))}),
            "[TensorSpec([2], torch.float32), TensorSpec([], torch.float32), "
            "TensorSpec([], torch.int64)]");
  EXPECT_EQ(declared({step(integer(1), real(1)), step(sized({}, 1, at::kLong), real(2))}),
            "[TensorSpec([2], torch.float32), TensorSpec([], torch.int64), "
            "TensorSpec([], torch.float32)]");
  EXPECT_EQ(declared({step(real(1), real(1)), step(sized({}, 1, at::kLong), real(2))}), "")
      << "a float is not taken for an integer";
}

TEST(Declare, WritesContainersAsTheyAre) {
  const auto step = [](std::int64_t n) {
    return call({{"a", list({sized({n}), sized({2}, 1)})},
                 {"b", tuple({sized({n}, 2)})},
                 {"c", dict({{"image", sized({n, 3}, 3)}, {"label", sized({}, 4, at::kLong)}})}});
  };
  EXPECT_EQ(declared({step(1), step(2)}),
            "[[TensorSpec([None], torch.float32), TensorSpec([2], torch.float32)], "
            "(TensorSpec([None], torch.float32),), "
            "{'image': TensorSpec([None, 3], torch.float32), "
            "'label': TensorSpec([], torch.int64)}]");
}

TEST(Declare, RefusesWhatNoSpecDescribes) {
  const auto with_value = [](Value value) {
    const auto step = [&](std::int64_t n) { return call({{"x", sized({n})}, {"v", value}}); };
    return declared({step(1), step(2)});
  };
  EXPECT_EQ(with_value(string("relu")), "");
  EXPECT_EQ(with_value(integer(3)), "") << "it never varies: a tensor would gain nothing";
  EXPECT_EQ(with_value(boolean(true)), "");
  EXPECT_EQ(with_value(none()), "");
  EXPECT_EQ(with_value(object("Config")), "");
  EXPECT_EQ(with_value(container(Kind::record, "Batch", {sized({2}, 1)}, {".x"})), "");
  EXPECT_EQ(with_value(container(Kind::tuple, "Batch", {sized({2}, 1)}, {".x"})), "")
      << "a namedtuple";
  EXPECT_EQ(declared({call({{"x", sized({1})}}), call({{"x", sized({2}, 0, at::kDouble)}})}), "");
  EXPECT_EQ(declared({call({{"x", list({sized({1})})}}), call({{"x", list({})}})}), "");
  EXPECT_EQ(declared({call({{"x", dict({{"a", sized({1})}})}}),
                      call({{"x", dict({{"b", sized({1})}})}})}),
            "");
}

TEST(Declare, LeavesOutParametersAtTheirDefaults) {
  const auto step = [](std::int64_t n, Value mode, std::string other = "'sum'") {
    return with(call({{"x", sized({n})}, {"mode", std::move(mode)}}),
                {PK::positional, PK::positional}, {"", std::move(other)});
  };
  EXPECT_EQ(declared({step(1, string("sum")), step(2, string("sum"))}),
            "[TensorSpec([None], torch.float32)]");
  EXPECT_EQ(declared({step(1, string("mean")), step(2, string("mean"))}), "");
  EXPECT_EQ(declared({step(1, string("sum")), step(2, string("mean"))}), "");
  EXPECT_EQ(declared({step(1, integer(2), "2"), step(2, integer(2), "2")}),
            "[TensorSpec([None], torch.float32)]");
  EXPECT_EQ(declared({step(1, integer(2), "2"), step(2, integer(3), "2")}),
            "[TensorSpec([None], torch.float32), TensorSpec([], torch.int64)]");
}

TEST(Declare, ConsumesSpecsFromLeftToRight) {
  const auto step = [](std::int64_t n) {
    return with(call({{"x", sized({n})}, {"k", integer(2)}, {"y", sized({n}, 1)}}),
                {PK::positional, PK::positional, PK::positional}, {"", "2", "None"});
  };
  EXPECT_EQ(declared({step(1), step(2)}), "") << "y has no spec unless k has one";
}

TEST(Declare, SkipsSelfAndKeywordOnlyDefaults) {
  const auto step = [](std::int64_t n, bool training) {
    return with(call({{"self", object("Model")}, {"x", sized({n})}, {"t", boolean(training)}}),
                {PK::positional, PK::positional, PK::keyword}, {"", "", "False"});
  };
  EXPECT_EQ(declared({step(1, false), step(2, false)}), "[TensorSpec([None], torch.float32)]");
  EXPECT_EQ(declared({step(1, true), step(2, true)}), "");
}

TEST(Declare, GivesTheRestOfTheSpecsToArgs) {
  const auto step = [](std::vector<Value> items, std::vector<std::pair<std::string, Value>> named) {
    return with(call({{"x", sized({2})},
                      {"args", tuple(std::move(items))},
                      {"kwargs", dict(std::move(named))}}),
                {PK::positional, PK::var_positional, PK::var_keyword}, {"", "", ""});
  };
  EXPECT_EQ(declared({step({sized({1}, 1)}, {}), step({sized({2}, 1)}, {})}),
            "[TensorSpec([2], torch.float32), TensorSpec([None], torch.float32)]");
  EXPECT_EQ(declared({step({sized({1}, 1)}, {}), step({}, {})}), "");
  EXPECT_EQ(declared({step({}, {{"k", sized({1}, 1)}}), step({}, {{"k", sized({2}, 1)}})}), "");
}

TEST(Declare, KeepsToSizesThatTheBodyNeedsAsNumbers) {
  auto records = traces({call({{"x", sized({1, 3})}}), call({{"x", sized({2, 4})}})});
  EXPECT_TRUE(declare(records));
  records[1].specialized = {{"x", 1, "int() of the size", {"train.py", 13}}};
  EXPECT_FALSE(declare(records));
}

TEST(Declare, TellsWhichNumbersItMakesTensors) {
  const auto step = [](std::int64_t n) {
    return call({{"x", sized({2})}, {"cfg", dict({{"k", integer(n)}})}});
  };
  const auto found = declare(traces({step(1), step(2)}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "[TensorSpec([2], torch.float32), {'k': TensorSpec([], torch.int64)}]");
  EXPECT_EQ(found->numbers, std::set<std::string>{"cfg['k']"});
}

TEST(Declare, HasNothingToSayOfCallsThatAreTooLargeToKeep) {
  const auto step = [](std::int64_t n) {
    std::vector<Value> items;
    for (std::uint32_t i = 0; i < 300; ++i)
      items.push_back(sized({n}, i));
    return call({{"x", list(std::move(items))}});
  };
  EXPECT_EQ(declared({step(1), step(2)}), "");
}

} // namespace
} // namespace tracehost::report
