#include "tracehost/value.h"

#include "signature/native_atoms.h"
#include "signature/tensor_meta.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

namespace tracehost {
inline namespace TRACEHOST_ABI {
namespace {

std::string joined(const std::vector<Value> &items) {
  std::string result;
  for (const Value &item : items)
    result += (result.empty() ? "" : ", ") + text(item);
  return result;
}

std::string quoted(const std::string &content) {
  return Literal(Literal::Type::string, content).text();
}

std::string real_text(double value) {
  const std::string shortest = fmt::format("{}", value);
  return shortest.find_first_not_of("-0123456789") == std::string::npos ? shortest + ".0"
                                                                        : shortest;
}

void check_keys(const std::vector<Map::Item> &items) {
  std::set<std::string_view> seen;
  for (const Map::Item &item : items)
    if (!seen.insert(item.first).second)
      throw Error(fmt::format("the dict has the key {} twice", quoted(item.first)));
}

} // namespace

Map::Map(std::initializer_list<Item> values) : items(values) { check_keys(items); }
Map::Map(std::vector<Item> values) : items(std::move(values)) { check_keys(items); }

const Value *Map::find(std::string_view key) const {
  for (const Item &item : items)
    if (item.first == key)
      return &item.second;
  return nullptr;
}

const Value &Value::operator[](std::size_t index) const {
  const auto &items = detail::items_of(*this);
  if (index >= items.size())
    throw Error(fmt::format("no item {} in {}, which has {}", index, text(*this), items.size()));
  return items[index];
}

const Value &Value::operator[](std::string_view key) const {
  if (const Value *found = map().find(key))
    return *found;
  throw Error(fmt::format("no key {} in {}", quoted(std::string(key)), text(*this)));
}

std::size_t Value::size() const {
  return kind() == Kind::map ? map().items.size() : detail::items_of(*this).size();
}

void Value::fail(const char *expected) const { fail(expected, text(*this)); }
void Value::fail(const char *expected, const std::string &got) {
  throw Error(fmt::format("expected {}, got {}", expected, got));
}

std::string text(const Value &value) {
  switch (value.kind()) {
  case Value::Kind::none:
    return "None";
  case Value::Kind::tensor:
    return value.tensor().defined() ? TensorMeta::of(value.tensor()).text() : "undefined tensor";
  case Value::Kind::integer:
    return fmt::format("{}", value.integer());
  case Value::Kind::real:
    return real_text(value.real());
  case Value::Kind::boolean:
    return value.boolean() ? "True" : "False";
  case Value::Kind::string:
    return quoted(value.string());
  case Value::Kind::dtype:
    return "torch." + dtype_name(value.dtype());
  case Value::Kind::device:
    return fmt::format("device '{}'", value.device().str());
  case Value::Kind::list:
    return "[" + joined(value.list().items) + "]";
  case Value::Kind::tuple:
    return "(" + joined(value.tuple().items) + (value.tuple().items.size() == 1 ? ",)" : ")");
  case Value::Kind::map:
    break;
  }
  std::string result;
  for (const auto &[key, item] : value.map().items)
    result += (result.empty() ? "" : ", ") + quoted(key) + ": " + text(item);
  return "{" + result + "}";
}

namespace detail {

const std::vector<Value> &items_of(const Value &value, std::size_t count) {
  const auto &items = value.kind() == Value::Kind::list ? value.list().items : value.tuple().items;
  if (count != std::string::npos && items.size() != count)
    throw Error(fmt::format("expected {} items, got {}", count, text(value)));
  return items;
}

} // namespace detail
} // namespace TRACEHOST_ABI
} // namespace tracehost
