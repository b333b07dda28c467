#include "tracehost/function.h"
#include "tracehost/value.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tracehost {
namespace {

using Kind = Value::Kind;

std::string error_of(const std::function<void()> &act) {
  try {
    act();
  } catch (const Error &e) {
    return e.what();
  }
  return "no error";
}

TEST(Value, IsOfTheKindOfItsCppType) {
  EXPECT_EQ(Value().kind(), Kind::none);
  EXPECT_EQ(Value(std::nullopt).kind(), Kind::none);
  EXPECT_EQ(Value(true).kind(), Kind::boolean);
  EXPECT_EQ(Value(3).kind(), Kind::integer);
  EXPECT_EQ(Value(std::size_t{3}).kind(), Kind::integer);
  EXPECT_EQ(Value(0.5F).kind(), Kind::real);
  EXPECT_EQ(Value("relu").kind(), Kind::string);
  EXPECT_EQ(Value(at::ones(2)).kind(), Kind::tensor);
  EXPECT_EQ(Value(at::kHalf).kind(), Kind::dtype);
  EXPECT_EQ(Value(at::Device("cpu")).kind(), Kind::device);
  EXPECT_EQ(Value(std::vector<int>{1, 2}).kind(), Kind::list);
  EXPECT_EQ(Value(std::vector<bool>{true}).to<std::vector<bool>>(), std::vector<bool>{true});
  EXPECT_EQ(Value(std::make_tuple(1, "a")).kind(), Kind::tuple);
  EXPECT_EQ(Value(std::map<std::string, int>{{"a", 1}}).kind(), Kind::map);
  EXPECT_EQ(Value(std::optional<int>()).kind(), Kind::none);
  EXPECT_EQ(Value(std::optional<int>(1)).kind(), Kind::integer);
}

TEST(Value, ComesBackAsItWas) {
  const auto t = at::ones(2);
  const Value value = std::make_tuple(t, std::vector<double>{0.5}, std::optional<std::string>());
  const auto [a, b, c] =
      value.to<std::tuple<at::Tensor, std::vector<double>, std::optional<std::string>>>();
  EXPECT_TRUE(a.is_same(t));
  EXPECT_EQ(b, std::vector<double>{0.5});
  EXPECT_EQ(c, std::nullopt);
  const at::Tensor implicit = Value(t);
  EXPECT_TRUE(implicit.is_same(t));
  EXPECT_EQ((Value(Map{{"a", 1}, {"b", 2}}).to<std::map<std::string, int>>().at("b")), 2);
  EXPECT_EQ((Value(Tuple{1, 2}).to<std::pair<int, int>>().second), 2);
  EXPECT_EQ(Value(3).to<double>(), 3.0);
}

TEST(Value, SaysWhatItIsInstead) {
  EXPECT_EQ(error_of([] { Value(3).tensor(); }), "expected a tensor, got 3");
  EXPECT_EQ(error_of([] {
              (void)Value(at::ones({2, 3})).to<int>();
            }),
            "expected an int, got float32[2, 3]");
  EXPECT_EQ(error_of([] { (void)Value(1.0).to<int>(); }), "expected an int, got 1.0");
  EXPECT_EQ(error_of([] { (void)Value(Tuple{1}).to<std::tuple<int, int>>(); }),
            "expected 2 items, got (1,)");
  EXPECT_EQ(error_of([] { (void)Value(300).to<std::int8_t>(); }),
            "expected an int of 8 bits, got 300");
  EXPECT_EQ(error_of([] { (void)Value(Map{{"a", 1}})["b"]; }), "no key 'b' in {'a': 1}");
  EXPECT_EQ(error_of([] { Value v(std::numeric_limits<std::uint64_t>::max()); }),
            "expected an int of 64 bits, got 18446744073709551615");
}

TEST(Value, TakesNoKeyTwiceAndNoEmptyName) {
  const auto message = [](const auto &act) {
    try {
      act();
    } catch (const Error &e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message([] { Map{{"a", 1}, {"b", 2}, {"a", 3}}; }), "the dict has the key 'a' twice");
  EXPECT_EQ(
      message([] { kw("", 3); }),
      "kw(\"\", 3): the name of an argument is empty. Give the parameter's name, or the value "
      "alone.");
}

TEST(Value, PrintsAsPythonDoes) {
  EXPECT_EQ(text(Value(List{1, 2.0, true, {}, "it's"})), R"([1, 2.0, True, None, "it's"])");
  EXPECT_EQ(text(Value(Map{{"a", Tuple{1}}})), "{'a': (1,)}");
  EXPECT_EQ(text(Value(at::kHalf)), "torch.float16");
}

} // namespace
} // namespace tracehost
