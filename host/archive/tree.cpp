#include "archive/tree.h"

#include "archive/archive.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tracehost::archive {
namespace {

constexpr int kDeepest = 64;              ///< containers in each other
constexpr std::size_t kMostDigits = 4300; ///< of an integer: what Python reads

/// How a literal that is no string is written: under a tag, as it is or in hex digits.
struct LiteralForm {
  const char *tag;
  Literal::Type type;
  bool in_hex;
};
constexpr std::array<LiteralForm, 5> kLiterals = {{{"bytes", Literal::Type::bytes, true},
                                                   {"integer", Literal::Type::big_integer, false},
                                                   {"complex", Literal::Type::complex, true},
                                                   {"torch", Literal::Type::torch, false},
                                                   {"member", Literal::Type::member, false}}};

Json literal_json(const Literal &literal) {
  for (const auto &[tag, type, in_hex] : kLiterals)
    if (literal.type() == type)
      return {{tag, in_hex ? hex(literal.value()) : literal.value()}};
  return literal.value();
}

Json leaf_json(const Node &node) {
  switch (node.kind) {
  case Kind::tensor: {
    Json json{{"tensor", node.payload.slot}};
    if (node.reserved[1] == kComputed)
      json["as"] = "int";
    return json;
  }
  case Kind::boolean:
    return node.payload.integer != 0;
  case Kind::integer:
    return node.payload.integer;
  case Kind::real:
    if (std::isfinite(node.payload.real))
      return node.payload.real;
    return {{"real", std::isnan(node.payload.real) ? "nan"
                     : node.payload.real < 0       ? "-inf"
                                                   : "inf"}};
  case Kind::ellipsis:
    return {{"ellipsis", true}};
  case Kind::absent:
    return {{"absent", true}};
  case Kind::device:
    return {{"device", device_of(node).str()}};
  case Kind::atom:
    return literal_json(dynamic_cast<const Literal &>(*node.payload.atom));
  default:
    return nullptr;
  }
}

constexpr std::array<const char *, 5> kForms = {"tuple", "list", "dict", "namedtuple", "record"};

// ---- reading ------------------------------------------------------------------------------------

/// What of torch an argument or a result may be.
bool is_torch_constant(const std::string &name) {
  static const std::unordered_set<std::string_view> others = {
      "strided",           "sparse_coo",      "sparse_csr",    "sparse_csc",
      "sparse_bsr",        "sparse_bsc",      "_mkldnn",       "jagged",
      "contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  return others.contains(name) || c10::getStringToDtypeMap().contains(name);
}

/// `module:Class.Name`
bool is_class_name(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == std::string_view::npos)
    return false;
  for (std::string_view part : {name.substr(0, colon), name.substr(colon + 1)})
    for (bool more = true; more;) {
      const auto dot = part.find('.');
      std::string_view own = part.substr(0, dot);
      if (own ==
          "<locals>") // of a class in a function: nothing finds it, it is a name all the same
        own = "locals";
      if (!is_identifier(own))
        return false;
      more = dot != std::string_view::npos;
      part.remove_prefix(more ? dot + 1 : part.size());
    }
  return true;
}

bool is_integer(std::string_view digits) {
  if (digits.starts_with('-'))
    digits.remove_prefix(1);
  return !digits.empty() && digits.size() <= kMostDigits &&
         digits.find_first_not_of("0123456789") == std::string_view::npos;
}

class Reader {
public:
  Reader(std::size_t tensors, std::vector<Node> &nodes, std::vector<AtomRef> &atoms)
      : tensors_(tensors), nodes_(nodes), atoms_(atoms) {}

  void value(const Json &json, int depth) {
    if (depth > kDeepest)
      wrong_manifest("containers in more than 64 others");
    if (json.is_object() && !json.empty())
      for (std::size_t form = 0; form < kForms.size(); ++form)
        if (json.begin().key() == kForms[form])
          return container(json, static_cast<ContainerClass::Form>(form), depth);
    Node node = leaf(json);
    node.end = static_cast<std::uint32_t>(nodes_.size() + 1);
    nodes_.push_back(node);
  }

private:
  void container(const Json &json, ContainerClass::Form form, int depth) {
    using Form = ContainerClass::Form;
    const bool named = form == Form::named_tuple || form == Form::record;
    const Json &items = named ? member(json, "items") : json.begin().value();
    if (!items.is_array())
      wrong_manifest("the items of a container are no list");
    auto type = named ? std::make_shared<ContainerClass>(
                            form, json.begin()->get<std::string>(),
                            member(json, "fields").get<std::vector<std::string>>())
                      : std::make_shared<ContainerClass>(form);
    if (named && type->fields().size() != items.size())
      wrong_manifest("a container has other items than fields");
    if (named && (!is_class_name(type->name()) ||
                  !std::all_of(type->fields().begin(), type->fields().end(), is_identifier)))
      wrong_manifest("a container is of no class");
    const std::size_t at = nodes_.size();
    nodes_.push_back(tracehost::container(std::move(type), atoms_));
    for (const Json &item : items) {
      if (form == Form::dict && (!item.is_array() || item.size() != 2))
        wrong_manifest("an item of a dict is no pair");
      if (form == Form::dict)
        value(item[0], depth + 1);
      value(form == Form::dict ? item[1] : item, depth + 1);
    }
    nodes_[at].end = static_cast<std::uint32_t>(nodes_.size());
  }

  Node leaf(const Json &json) {
    if (json.is_null())
      return {};
    if (json.is_boolean())
      return {.kind = Kind::boolean, .payload = {.integer = json.get<bool>()}};
    if (json.is_number_integer()) {
      if (json.is_number_unsigned() &&
          json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        wrong_manifest("an integer is too large");
      return {.kind = Kind::integer, .payload = {.integer = json.get<std::int64_t>()}};
    }
    if (json.is_number_float())
      return {.kind = Kind::real, .payload = {.real = json.get<double>()}};
    if (json.is_string())
      return literal(Literal::Type::string, json.get<std::string>(), atoms_);
    if (json.is_object() && !json.empty())
      return tagged(json);
    wrong_manifest("a value is of no known form");
  }

  Node tagged(const Json &json) {
    using Type = Literal::Type;
    const std::string tag = json.begin().key();
    const Json &content = json.begin().value();
    if (tag == "tensor") {
      const std::int64_t slot = integer(content, 0, std::numeric_limits<std::uint32_t>::max());
      if (static_cast<std::size_t>(slot) >= tensors_)
        wrong_manifest("a tensor that is not there");
      Node node{.kind = Kind::tensor, .payload = {.slot = static_cast<std::uint32_t>(slot)}};
      node.reserved[1] = json.contains("as") ? kComputed : 0;
      return node;
    }
    if (tag == "ellipsis" || tag == "absent")
      return {.kind = tag == "absent" ? Kind::absent : Kind::ellipsis};
    const auto text = content.get<std::string>();
    if (tag == "real") {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      if (text != "inf" && text != "-inf" && text != "nan")
        wrong_manifest("a real number must be inf, -inf or nan as text");
      const double real = text == "inf"    ? infinity
                          : text == "-inf" ? -infinity
                                           : std::numeric_limits<double>::quiet_NaN();
      return {.kind = Kind::real, .payload = {.real = real}};
    }
    if (tag == "device")
      return {.kind = Kind::device, .payload = {.integer = device_code(c10::Device(text))}};
    for (const auto &[known, type, in_hex] : kLiterals) {
      if (tag != known)
        continue;
      std::string value = in_hex ? from_hex(text) : text;
      if (type == Type::complex && value.size() != 2 * sizeof(double))
        wrong_manifest("a complex number has no two parts");
      if ((type == Type::big_integer && !is_integer(text)) ||
          (type == Type::torch && !is_torch_constant(text)) ||
          (type == Type::member && !is_class_name(text)))
        wrong_manifest("a value is not of its kind");
      return literal(type, std::move(value), atoms_);
    }
    wrong_manifest("'" + tag + "' is no kind of value");
  }

  const std::size_t tensors_;
  std::vector<Node> &nodes_;
  std::vector<AtomRef> &atoms_;
};

} // namespace

const Json &member(const Json &json, const char *key) {
  if (!json.is_object())
    wrong_manifest(fmt::format("'{}' is looked for in what is no object", key));
  const auto found = json.find(key);
  if (found == json.end())
    wrong_manifest(fmt::format("it has no '{}'", key));
  return *found;
}

const Json &list(const Json &json, const char *key) {
  const Json &found = member(json, key);
  if (!found.is_array())
    wrong_manifest(fmt::format("'{}' is no list", key));
  return found;
}

std::int64_t integer(const Json &json, std::int64_t least, std::int64_t most) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > largest) ||
      json.get<std::int64_t>() < least || json.get<std::int64_t>() > most)
    wrong_manifest("a number is not an integer, or out of range");
  return json.get<std::int64_t>();
}

bool is_identifier(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), fits);
}

std::string hex(std::string_view bytes) {
  std::string result;
  for (const char c : bytes)
    result += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return result;
}

std::string from_hex(const std::string &digits) {
  constexpr std::string_view all = "0123456789abcdef";
  if (digits.size() % 2 || digits.find_first_not_of(all) != std::string::npos)
    wrong_manifest("bytes are no hex digits");
  std::string result;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    result += static_cast<char>(all.find(digits[i]) << 4 | all.find(digits[i + 1]));
  return result;
}

Json tree_json(const std::vector<Node> &nodes, std::size_t &at) {
  const Node &node = nodes[at++];
  if (!node.is_container())
    return leaf_json(node);
  const auto &type = dynamic_cast<const ContainerClass &>(*node.payload.atom);
  Json items = Json::array();
  while (at < node.end) {
    Json item = tree_json(nodes, at);
    if (node.kind == Kind::dict)
      item = Json::array({std::move(item), tree_json(nodes, at)});
    items.push_back(std::move(item));
  }
  const char *form = kForms[static_cast<std::size_t>(type.form())];
  if (type.name().empty())
    return {{form, std::move(items)}};
  return {{form, type.name()}, {"fields", type.fields()}, {"items", std::move(items)}};
}

void add_tree(const Json &json, std::size_t tensors, std::vector<Node> &nodes,
              std::vector<AtomRef> &atoms) {
  Reader(tensors, nodes, atoms).value(json, 0);
}

} // namespace tracehost::archive
