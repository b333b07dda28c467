#include "runtime/rows.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <concepts>
#include <utility>
#include <variant>

namespace tracehost::runtime {
namespace {

bool has_rows(const at::Tensor &t) { return t.defined() && t.dim() > 0; }

/// Of a list, tuple or dict, in order; null for a leaf.
std::vector<const Value *> children(const Value &value) {
  std::vector<const Value *> result;
  const auto all = [&](const std::vector<Value> &items) {
    for (const Value &item : items)
      result.push_back(&item);
  };
  if (value.kind() == Value::Kind::list)
    all(value.list().items);
  else if (value.kind() == Value::Kind::tuple)
    all(value.tuple().items);
  else if (value.kind() == Value::Kind::map)
    for (const auto &[key, item] : value.map().items)
      result.push_back(&item);
  return result;
}

bool is_container(const Value &value) { return value.kind() >= Value::Kind::list; }

/// A container as `value`, of other items.
Value rebuilt(const Value &value, std::vector<Value> items) {
  if (value.kind() == Value::Kind::list)
    return List(std::move(items));
  if (value.kind() == Value::Kind::tuple)
    return Tuple(std::move(items));
  Map map;
  for (std::size_t i = 0; i < items.size(); ++i)
    map.items.emplace_back(value.map().items[i].first, std::move(items[i]));
  return map;
}

/// nullopt: none so far; -1: they differ.
void count_rows(const Value &value, std::optional<std::int64_t> &count) {
  if (value.is_tensor() && has_rows(value.tensor())) {
    const std::int64_t own = value.tensor().size(0);
    count = count.value_or(own) == own ? own : -1;
  }
  for (const Value *child : children(value))
    count_rows(*child, count);
}

bool same_leaf(const Value &a, const Value &b) {
  return std::visit(
      [&]<class T>(const T &own) {
        if constexpr (std::equality_comparable<T>)
          return own == *std::get_if<T>(&b.data());
        return false; // a container
      },
      a.data());
}

bool can_join(const at::Tensor &a, const at::Tensor &b) {
  if (!has_rows(a) || !has_rows(b))
    return a.is_same(b);
  return a.dim() == b.dim() && a.sizes().slice(1) == b.sizes().slice(1) && a.dtype() == b.dtype() &&
         a.device() == b.device() && a.layout() == b.layout() &&
         a.requires_grad() == b.requires_grad();
}

bool can_join(const Value &a, const Value &b) {
  if (a.kind() != b.kind())
    return false;
  if (a.is_tensor())
    return can_join(a.tensor(), b.tensor());
  if (!is_container(a))
    return same_leaf(a, b);
  const auto ours = children(a), theirs = children(b);
  if (ours.size() != theirs.size())
    return false;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if ((a.kind() == Value::Kind::map && a.map().items[i].first != b.map().items[i].first) ||
        !can_join(*ours[i], *theirs[i]))
      return false;
  return true;
}

Value joined(const std::vector<const Value *> &values) {
  const Value &first = *values.front();
  if (first.is_tensor() && has_rows(first.tensor())) {
    std::vector<at::Tensor> tensors;
    for (const Value *value : values)
      tensors.push_back(value->tensor());
    return at::cat(tensors);
  }
  if (!is_container(first))
    return first;
  std::vector<Value> items;
  for (std::size_t i = 0; i < children(first).size(); ++i) {
    std::vector<const Value *> same;
    for (const Value *value : values)
      same.push_back(children(*value)[i]);
    items.push_back(joined(same));
  }
  return rebuilt(first, std::move(items));
}

} // namespace

std::optional<std::int64_t> rows_of(const Arguments &request) {
  std::optional<std::int64_t> count;
  for (const Argument &argument : request)
    count_rows(argument.value, count);
  return count && *count < 0 ? std::nullopt : count;
}

bool can_join(const Arguments &a, const Arguments &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
    return x.name == y.name && can_join(x.value, y.value);
  });
}

Arguments joined(std::span<const Arguments *const> requests) {
  Arguments result;
  for (std::size_t i = 0; i < requests.front()->size(); ++i) {
    std::vector<const Value *> values;
    for (const Arguments *request : requests)
      values.push_back(&(*request)[i].value);
    result.emplace_back((*requests.front())[i].name, joined(values));
  }
  return result;
}

std::optional<Value> rows(const Value &result, std::int64_t start, std::int64_t count,
                          std::int64_t total) {
  if (result.is_tensor()) {
    if (!has_rows(result.tensor()) || result.tensor().size(0) != total)
      return std::nullopt;
    return result.tensor().narrow(0, start, count);
  }
  if (result.kind() == Value::Kind::integer) // may be a number of rows
    return std::nullopt;
  if (!is_container(result))
    return result;
  std::vector<Value> items;
  for (const Value *child : children(result)) {
    auto part = rows(*child, start, count, total);
    if (!part)
      return std::nullopt;
    items.push_back(std::move(*part));
  }
  return rebuilt(result, std::move(items));
}

} // namespace tracehost::runtime
