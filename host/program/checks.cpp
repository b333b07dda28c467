#include "program/checks.h"

#include "program/numbers.h"
#include "program/places.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <bit>

namespace tracehost {

namespace jit = torch::jit;

namespace {

std::string_view name_of(const jit::Node &node) { return node.kind().toQualString(); }

/// A bool is made a number by an op: a trace's is tracehost::number, an archive's aten::item. None
/// if it is no constant.
c10::IValue expected_by(const jit::Node &check) {
  const jit::Value *expected = check.input(1);
  const jit::Node &made = *expected->node();
  if (name_of(made) == "tracehost::number" || name_of(made) == "aten::item")
    expected = made.input(0);
  const c10::IValue constant = jit::toIValue(expected).value_or(c10::IValue());
  return constant.isTensor() ? c10::IValue(constant.toTensor().item()) : constant;
}

/// The Source of the line of the op that runs on this thread. The interpreter has one closure for
/// all nodes of an op, so the closure can't know its node.
const jit::Source *running() {
  const auto stack = jit::currentCallstack();
  return stack.empty() ? nullptr : stack.back().range.source().get();
}

template <bool of_kind> void check(jit::Stack &stack) {
  const c10::IValue expected = jit::pop(stack);
  c10::IValue number = jit::pop(stack);
  if (!(of_kind ? is_of_kind : is_number)(number, expected))
    throw FailedCheck{running(), std::move(number)};
}

const jit::RegisterOperators registered_checks(
    {jit::Operator("tracehost::check_number(Scalar number, Scalar expected) -> ()", check<false>,
                   c10::AliasAnalysisKind::CONSERVATIVE),
     jit::Operator("tracehost::check_kind(Scalar number, int kind) -> ()", check<true>,
                   c10::AliasAnalysisKind::CONSERVATIVE)});

} // namespace

bool is_number(const c10::IValue &number, const c10::IValue &expected) {
  if (number.isBool())
    return expected.isBool() && number.toBool() == expected.toBool();
  if (number.isInt())
    return expected.isInt() && number.toInt() == expected.toInt();
  // To the bit, so that a nan is itself.
  return number.isDouble() && expected.isDouble() &&
         std::bit_cast<std::uint64_t>(number.toDouble()) ==
             std::bit_cast<std::uint64_t>(expected.toDouble());
}

bool is_of_kind(const c10::IValue &number, const c10::IValue &kind) {
  return kind_of(number) == static_cast<NumberKind>(kind.toInt());
}

bool is_check(std::string_view op) {
  return op == "tracehost::check_number" || op == "tracehost::check_kind";
}

std::string Check::told(const c10::IValue &number) const {
  if (of_kind)
    return "a number is of another type than the graph was made for";
  const std::string has = "a number that the graph was made for has another value: " +
                          text_of_number(number, "").value();
  return expected.isNone() ? has : has + ", not " + text_of_number(expected, "").value();
}

CheckFailed::CheckFailed(const Check &check, Found found)
    : std::runtime_error(check.told(found.number)), place_(check.place), found_(std::move(found)) {}

std::string told(const CheckFailed &check) {
  const std::string &place = check.place();
  return place.empty() ? std::string(check.what()) : check.what() + (", at " + place);
}

Checks::Checks(jit::Graph &graph, std::size_t early) : early_(early) {
  for (jit::Node *node : graph.nodes()) {
    const auto name = name_of(*node);
    if (!is_check(name))
      continue;
    all_.push_back({name == "tracehost::check_kind", expected_by(*node), place_of(*node)});
    node->setSourceRange(place_range(all_.back().place));
    sources_.push_back(node->sourceRange().source());
  }
}

CheckFailed Checks::failed(const FailedCheck &check) const {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const auto &source) { return source.get() == check.at; });
  const auto index = static_cast<std::size_t>(found - sources_.begin());
  return {found == sources_.end() ? Check{} : all_[index], {this, index, check.number}};
}

Checks::Serves Checks::serves(const Found &found) const {
  const Checks &ran = *found.graph;
  if (found.check < ran.early_ || found.check >= ran.all_.size())
    return Serves::unknown;
  for (std::size_t theirs = ran.early_, own = early_; theirs <= found.check; ++theirs, ++own) {
    if (own >= all_.size())
      return Serves::unknown;
    const Check &a = all_[own], &b = ran.all_[theirs];
    if (a.of_kind != b.of_kind || a.place != b.place || a.expected.isNone() || b.expected.isNone())
      return Serves::unknown;
    // The checks before have held: the run found what they expect.
    const bool holds =
        theirs == found.check ? a.holds(found.number) : is_number(a.expected, b.expected);
    if (!holds)
      return Serves::no;
  }
  return Serves::yes;
}

} // namespace tracehost
