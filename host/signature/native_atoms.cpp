#include "signature/native_atoms.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace tracehost {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Where character `count` begins; npos: there are no more.
std::size_t character(std::string_view utf8, std::size_t count) {
  for (std::size_t i = 0; i < utf8.size(); ++i)
    if (!is_continuation(utf8[i]) && count-- == 0)
      return i;
  return std::string_view::npos;
}

std::string string_text(std::string_view content, bool bytes) {
  const std::size_t end =
      bytes ? std::string_view::npos : character(content, kLongestText); // longer than that
  if (end != std::string_view::npos)
    return shortened(string_repr(content.substr(0, character(content, kLongestText - 5))) + "...");
  return shortened(string_repr(content, bytes));
}

std::string complex_text(const std::string &value) {
  std::array<double, 2> parts{};
  if (value.size() != sizeof parts)
    return "complex";
  std::memcpy(parts.data(), value.data(), sizeof parts);
  if (std::bit_cast<std::uint64_t>(parts[0]) == 0)
    return fmt::format("{}j", parts[1]);
  return fmt::format("({}{:+}j)", parts[0], parts[1]);
}

std::string_view after_last(std::string_view name, std::string_view separators) {
  const auto at = name.find_last_of(separators);
  return at == std::string_view::npos ? name : name.substr(at + 1);
}

/// `Color.RED` of `module:Outer.Color.RED`.
std::string member_text(std::string_view value) {
  const auto dot = value.rfind('.');
  if (dot == std::string_view::npos)
    return std::string(value);
  return std::string(after_last(value.substr(0, dot), ".:")) + std::string(value.substr(dot));
}

} // namespace

std::string string_repr(std::string_view content, bool bytes) {
  const bool single = content.find('\'') != std::string_view::npos;
  const char quote = single && content.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result = bytes ? "b" : "";
  result += quote;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\')
      result += {'\\', c};
    else if (c == '\n' || c == '\r' || c == '\t')
      result += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    else if (byte < 0x20 || byte == 0x7f || (bytes && byte > 0x7f))
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + quote;
}

std::string shortened(std::string text, std::size_t longest) {
  if (text.size() <= longest)
    return text;
  std::size_t cut = longest - 3;
  while (cut > 0 && is_continuation(text[cut]))
    --cut;
  return text.substr(0, cut) + "...";
}

bool Literal::same(const Atom &other) const {
  const auto *that = dynamic_cast<const Literal *>(&other);
  return that && that->type_ == type_ && that->value_ == value_;
}

std::string Literal::text() const {
  switch (type_) {
  case Type::string:
    return string_text(value_, false);
  case Type::bytes:
    return string_text(value_, true);
  case Type::big_integer:
    return shortened(value_);
  case Type::complex:
    return complex_text(value_);
  case Type::torch:
    return "torch." + value_;
  case Type::member:
    return member_text(value_);
  }
  return {};
}

bool ContainerClass::same(const Atom &other) const {
  const auto *that = dynamic_cast<const ContainerClass *>(&other);
  return that && that->form_ == form_ && that->name_ == name_ && that->fields_ == fields_;
}

std::string ContainerClass::text() const {
  constexpr std::array<const char *, 5> own = {"tuple", "list", "dict", "tuple", "record"};
  const std::string_view name = name_.empty()
                                    ? std::string_view(own[static_cast<std::size_t>(form_)])
                                    : after_last(name_, ".:");
  return fmt::format("<class {}>", name);
}

std::string ContainerClass::field(std::size_t index) const {
  return index < fields_.size() ? "." + fields_[index] : std::string();
}

Kind ContainerClass::kind() const {
  constexpr std::array<Kind, 5> kinds = {Kind::tuple, Kind::list, Kind::dict, Kind::tuple,
                                         Kind::record};
  return kinds[static_cast<std::size_t>(form_)];
}

Node literal(Literal::Type type, std::string value, std::vector<AtomRef> &atoms) {
  atoms.push_back(std::make_shared<Literal>(type, std::move(value)));
  return {.kind = Kind::atom, .payload = {.atom = atoms.back().get()}};
}

Node container(std::shared_ptr<const ContainerClass> type, std::vector<AtomRef> &atoms) {
  const Node node{.kind = type->kind(), .payload = {.atom = type.get()}};
  atoms.push_back(std::move(type));
  return node;
}

} // namespace tracehost
