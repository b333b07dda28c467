#include "program/numbers.h"

#include "program/ops.h"
#include "program/program.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

/// The ops in graphs; that they are equal to Python's is held by
/// tests/python/numbers/test_number_table.py.

namespace tracehost {
namespace {

namespace jit = torch::jit;

using Values = std::vector<c10::IValue>;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

std::unique_ptr<Program> number_program(const std::string &text) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  return std::make_unique<Program>(std::move(graph), "numbers", 1);
}

std::unique_ptr<Program> number_program(const NumberOp &op) {
  const std::string name(op.name);
  return number_program(op.arity == 2
                            ? "graph(%a : Scalar, %b : Scalar):\n  %c : Scalar = tracehost::py_" +
                                  name + "(%a, %b)\n  return (%c)"
                            : "graph(%a : Scalar):\n  %c : Scalar = tracehost::py_" + name +
                                  "(%a)\n  return (%c)");
}

/// What came out, as text that shows the kind and each bit; or what was thrown.
template <class Evaluate> std::string outcome(const Evaluate &evaluate) {
  try {
    const c10::IValue result = evaluate();
    if (result.isDouble())
      return std::isnan(result.toDouble())
                 ? "nan"
                 : "float " + std::to_string(std::bit_cast<std::uint64_t>(result.toDouble()));
    return result.isBool() ? "bool " + std::to_string(result.toBool())
                           : "int " + std::to_string(result.toInt());
  } catch (const Raised &e) {
    return e.type() + " " + e.what();
  } catch (const LeavesNumbers &e) {
    return std::string("leaves ") + e.what();
  }
}

c10::IValue run_numbers(const Program &program, Values values) {
  jit::Stack stack = std::move(values);
  program.run(stack);
  EXPECT_EQ(stack.size(), 1u);
  return stack.at(0);
}

std::string call_text(const NumberOp &op, const Values &values) {
  std::ostringstream text;
  text << op.name;
  for (const c10::IValue &value : values)
    text << ' ' << value;
  return text.str();
}

const Values kValues = {
    false, true, std::int64_t{0}, std::int64_t{7}, std::int64_t{-3}, kLargest, 0.0,
    -2.5,  0.5,  1e308,           std::nan("")};

/// All combinations of `count` of kValues.
std::vector<Values> operands(std::size_t count) {
  std::vector<Values> found;
  for (const c10::IValue &a : kValues) {
    if (count == 1)
      found.push_back({a});
    else
      for (const c10::IValue &b : kValues)
        found.push_back({a, b});
  }
  return found;
}

NumberKind number_kind(const c10::IValue &value) {
  return value.isBool()  ? NumberKind::boolean
         : value.isInt() ? NumberKind::integer
                         : NumberKind::real;
}

TEST(Numbers, EachOpInAGraphGivesWhatItGivesAlone) {
  for (const NumberOp *op : number_ops()) {
    const auto program = number_program(*op);
    for (const Values &values : operands(op->arity))
      EXPECT_EQ(outcome([&] { return run_numbers(*program, values); }),
                outcome([&] { return apply_number_op(*op, values); }))
          << call_text(*op, values);
  }
}

TEST(Numbers, AKindThatIsKnownIsTheResults) {
  for (const NumberOp *op : number_ops())
    for (const Values &values : operands(op->arity)) {
      std::vector<NumberKind> kinds;
      for (const c10::IValue &value : values)
        kinds.push_back(number_kind(value));
      const auto kind = kind_of_result(*op, kinds);
      try {
        const c10::IValue result = apply_number_op(*op, values);
        if (kind) {
          EXPECT_EQ(number_kind(result), *kind) << call_text(*op, values);
        }
      } catch (const Raised &) {
        EXPECT_TRUE(op->raises) << call_text(*op, values);
      } catch (const LeavesNumbers &) {
        EXPECT_TRUE(op->raises) << call_text(*op, values);
      }
    }
}

TEST(Numbers, NamesAreDistinctAndFound) {
  for (const NumberOp *op : number_ops())
    EXPECT_EQ(find_number_op(op->name), op);
  EXPECT_EQ(find_number_op("math_dist"), nullptr);
}

TEST(Numbers, AnOpThatRaisesStaysThoughNothingUsesIt) {
  const auto program = number_program(R"(graph(%a : Scalar, %b : Scalar):
  %unused : Scalar = tracehost::py_floordiv(%a, %b)
  %dropped : Scalar = tracehost::py_lt(%a, %b)
  return (%a))");
  EXPECT_EQ(program->ops(), 1u);
  try {
    run_numbers(*program, {std::int64_t{1}, std::int64_t{0}});
    FAIL() << "nothing was raised";
  } catch (const Raised &e) {
    EXPECT_EQ(e.type(), "builtins:ZeroDivisionError");
    EXPECT_STREQ(e.what(), "integer division or modulo by zero");
  }
}

TEST(Numbers, OpsFollowOnOneAnother) {
  const auto program = number_program(R"(graph(%a : Scalar, %b : Scalar):
  %power : Scalar = tracehost::py_pow(%a, %b)
  %rest : Scalar = tracehost::py_mod(%power, %a)
  %less : Scalar = tracehost::py_lt(%rest, %power)
  %sum : Scalar = tracehost::py_add(%less, %power)
  return (%sum))");
  EXPECT_EQ(run_numbers(*program, {std::int64_t{3}, std::int64_t{4}}),
            c10::IValue(std::int64_t{82}));
  EXPECT_EQ(run_numbers(*program, {std::int64_t{2}, std::int64_t{-1}}), c10::IValue(0.5));
}

TEST(Numbers, AComparisonDecidesBranchesAndLoops) {
  const auto program = number_program(R"(graph(%a : Scalar, %b : Scalar):
  %most : int = prim::Constant[value=100]()
  %on : Scalar = tracehost::py_lt(%a, %b)
  %r : Scalar = prim::Loop(%most, %on, %a)
    block0(%i : int, %x : Scalar):
      %y : Scalar = tracehost::py_add(%x, %x)
      %more : Scalar = tracehost::py_lt(%y, %b)
      -> (%more, %y)
  %large : Scalar = tracehost::py_gt(%r, %b)
  %result : Scalar = prim::If(%large)
    block0():
      %n : Scalar = tracehost::py_neg(%r)
      -> (%n)
    block1():
      -> (%r)
  return (%result))");
  EXPECT_EQ(run_numbers(*program, {std::int64_t{3}, std::int64_t{20}}),
            c10::IValue(std::int64_t{-24}));
  EXPECT_EQ(run_numbers(*program, {0.5, 2.0}), c10::IValue(2.0));
}

TEST(Numbers, WhatLeavesThemSaysWhichOpAndOperands) {
  const auto message = [](const char *name, const Values &values) {
    try {
      apply_number_op(*find_number_op(name), values);
    } catch (const LeavesNumbers &e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("mul", {kLargest, std::int64_t{2}}),
            "mul(9223372036854775807, 2) is an int past 64 bits, which a graph's number can't be");
  EXPECT_EQ(message("pow", {-8.0, 0.5}),
            "pow(-8.0, 0.5) is a complex number, which a graph's number can't be");
  EXPECT_EQ(message("int", {1e300}),
            "int(1e+300) is an int past 64 bits, which a graph's number can't be");
}

TEST(Numbers, WhetherAnOpRaises) {
  const auto raises = number_program("graph(%a : Scalar, %b : Scalar):\n"
                                     "  %op : str = prim::Constant[value=\"truediv\"]()\n"
                                     "  %c : Scalar = tracehost::py_raises(%op, %a, %b)\n"
                                     "  return (%c)");
  EXPECT_EQ(run_numbers(*raises, {std::int64_t{1}, std::int64_t{0}}), c10::IValue(true));
  EXPECT_EQ(run_numbers(*raises, {std::int64_t{1}, 2.0}), c10::IValue(false));
}

TEST(Numbers, TheirTexts) {
  EXPECT_EQ(text_of_number(1.0, ""), "1.0");
  EXPECT_EQ(text_of_number(-1.5, "08.2f"), "-0001.50");
  EXPECT_EQ(text_of_number(std::int64_t{-255}, "x"), "-ff");
  EXPECT_EQ(text_of_number(true, ""), "True");
  EXPECT_EQ(text_of_number(true, "d"), "1");
  EXPECT_EQ(text_of_number(1.5, "d"), std::nullopt);
  EXPECT_EQ(text_of_number(1.5, ",.1f"), std::nullopt);
}

TEST(Numbers, AnythingElseIsRejected) {
  const NumberOp &neg = *find_number_op("neg");
  EXPECT_THROW(apply_number_op(neg, {c10::IValue("1")}), c10::TypeError);
  EXPECT_THROW(apply_number_op(neg, {}), c10::TypeError);
}

} // namespace
} // namespace tracehost
