#include "trace/size_rules.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

/// The arguments of a node, for a rule.

namespace tracehost::trace {

namespace jit = torch::jit;

jit::Value *SizeCall::argument(std::string_view name) const {
  const auto &arguments = schema_.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < node_.inputs().size(); ++i)
    if (arguments[i].name() == name)
      return const_cast<jit::Value *>(node_.inputs()[i]);
  return nullptr;
}

jit::Value *SizeCall::required(std::string_view name) const {
  jit::Value *value = argument(name);
  return value ? value : throw NoRule();
}

bool SizeCall::has(std::string_view name) const {
  const jit::Value *value = argument(name);
  return value && !value->type()->isSubtypeOf(*c10::NoneType::get());
}

const Dims &SizeCall::dims(jit::Value *tensor) const {
  const Dims *found = rules_.dims(tensor);
  return found ? *found : throw NoRule();
}

const Dims &SizeCall::dims(std::string_view name) const { return dims(required(name)); }

const Dims &SizeCall::first() const {
  for (const jit::Value *input : node_.inputs())
    if (trace::is_tensor(input))
      return dims(const_cast<jit::Value *>(input));
  throw NoRule();
}

Parts SizeCall::all() const {
  Parts result;
  for (const jit::Value *input : node_.inputs())
    if (trace::is_tensor(input))
      result.push_back(dims(const_cast<jit::Value *>(input)));
  if (result.empty())
    throw NoRule();
  return result;
}

Parts SizeCall::tensors(std::string_view name) const {
  const Parts *found = rules_.parts(required(name));
  return found ? *found : throw NoRule();
}

std::vector<jit::Value *> SizeCall::elements(std::string_view name) const {
  const jit::Value *list = required(name);
  if (list->node()->kind() != c10::prim::ListConstruct)
    throw NoRule();
  std::vector<jit::Value *> result;
  for (const jit::Value *item : list->node()->inputs())
    result.push_back(const_cast<jit::Value *>(item));
  return result;
}

bool SizeCall::is_mask(jit::Value *tensor) const {
  const Shadow::Entry &entry = rules_.entry(tensor);
  if (!entry.has(SizePoints::real) || !entry.at[0].isTensor() || !entry.at[0].toTensor().defined())
    throw NoRule();
  const auto type = entry.at[0].toTensor().scalar_type();
  return type == at::kBool || type == at::kByte;
}

Size SizeCall::number(std::string_view name) const {
  const Size result = rules_.integer(required(name));
  return result.known() ? result : throw NoRule();
}

Dims SizeCall::numbers(std::string_view name) const {
  jit::Value *list = required(name);
  Dims result;
  if (const auto constant = jit::toIValue(list)) {
    if (constant->isInt())
      return {Size(constant->toInt())};
    if (!constant->isIntList())
      throw NoRule();
    for (const std::int64_t n : constant->toIntVector())
      result.emplace_back(n);
    return result;
  }
  if (list->node()->kind() != c10::prim::ListConstruct)
    throw NoRule();
  for (jit::Value *item : list->node()->inputs())
    result.push_back(rules_.integer(item)); // one that is not known leaves the others known
  return result;
}

std::int64_t SizeCall::constant(std::string_view name) const {
  if (const auto value = jit::toIValue(required(name)); value && value->isBool())
    return value->toBool();
  const auto found = number(name).constant();
  return found ? *found : throw NoRule();
}

double SizeCall::real(std::string_view name) const {
  const auto value = jit::toIValue(required(name));
  if (!value || !(value->isDouble() || value->isInt()))
    throw NoRule();
  return value->toScalar().toDouble();
}

std::vector<std::int64_t> SizeCall::constants(std::string_view name) const {
  std::vector<std::int64_t> result;
  for (const Size &size : numbers(name)) {
    const auto found = size.constant();
    result.push_back(found ? *found : throw NoRule());
  }
  return result;
}

std::vector<double> SizeCall::reals(std::string_view name) const {
  const jit::Value *list = required(name);
  if (const auto constant = jit::toIValue(list); constant && constant->isDoubleList())
    return constant->toDoubleVector();
  if (list->node()->kind() != c10::prim::ListConstruct)
    throw NoRule();
  std::vector<double> result;
  for (const jit::Value *item : list->node()->inputs()) {
    const auto value = jit::toIValue(item);
    result.push_back(value && value->isDouble() ? value->toDouble() : throw NoRule());
  }
  return result;
}

std::string SizeCall::text(std::string_view name) const {
  const auto value = jit::toIValue(required(name));
  return value && value->isString() ? value->toStringRef() : throw NoRule();
}

bool SizeCall::is_list(std::string_view name) const {
  const jit::Value *value = argument(name);
  return value && value->type()->cast<c10::ListType>();
}

bool SizeCall::is_text(std::string_view name) const {
  const jit::Value *value = argument(name);
  return value && value->type()->kind() == c10::TypeKind::StringType;
}

bool SizeCall::is_tensor(std::string_view name) const {
  const jit::Value *value = argument(name);
  return value && trace::is_tensor(value);
}

namespace {

std::size_t wrapped(std::int64_t dimension, std::size_t rank) {
  const auto limit = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  const std::int64_t result = dimension < 0 ? dimension + limit : dimension;
  return result >= 0 && result < limit ? static_cast<std::size_t>(result) : throw NoRule();
}

} // namespace

std::size_t SizeCall::dimension(std::string_view name, std::size_t rank) const {
  return wrapped(constant(name), rank);
}

std::vector<std::size_t> SizeCall::dimensions(std::string_view name, std::size_t rank) const {
  std::vector<std::size_t> result;
  for (const std::int64_t d : constants(name))
    result.push_back(wrapped(d, rank));
  return result;
}

std::size_t SizeCall::items() const {
  const Shadow::Entry &entry = rules_.entry(const_cast<jit::Value *>(node_.output()));
  if (!entry.has(SizePoints::real) || !entry.at[0].isList())
    throw NoRule();
  return entry.at[0].toListRef().size();
}

std::int64_t SizeCall::at_trace(const Size &size) const {
  const auto found = rules_.at_trace(size);
  return found ? *found : throw NoRule();
}

/// Of two sizes one of which may be 1: at the trace it was, or they were equal. Each call then has
/// to be so, too.
Size SizeCall::broadcast(const Size &a, const Size &b) const {
  if (a.is(1))
    return b;
  if (b.is(1) || a == b)
    return a;
  if (a.constant())
    return a;
  if (b.constant())
    return b;
  if (!a.known() || !b.known())
    return {};
  const auto needs = [](const Size &x, const Size &y) {
    SizeExpression expression = x.expression();
    const SizeExpression right = y.expression();
    expression.insert(expression.end(), right.begin(), right.end());
    expression.push_back({Size::Op::equal, -1, -1, 0});
    return Size::Need{std::move(expression), true};
  };
  const std::int64_t x = at_trace(a), y = at_trace(b);
  if (x == y)
    return a.with(needs(a, b));
  return x == 1 ? b.with(needs(a, 1)) : a.with(needs(b, 1));
}

Dims SizeCall::broadcast(const Dims &a, const Dims &b) const {
  const Dims &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i)
    result[offset + i] = broadcast(longer[offset + i], shorter[i]);
  return result;
}

} // namespace tracehost::trace
