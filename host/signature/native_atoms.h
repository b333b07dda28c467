#pragma once

#include "signature/node.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Atoms without Python: what a Signature that was read from an archive, or made by a C++ caller,
/// holds in place of strings and types. They print as Python's do.

namespace tracehost {

/// As Python's repr() of a str, or of bytes.
std::string string_repr(std::string_view content, bool bytes = false);

/// Bytes of an atom's text.
inline constexpr std::size_t kLongestText = 60;
/// UTF-8 of at most so many bytes, cut between two characters: `aaa...`
std::string shortened(std::string text, std::size_t longest = kLongestText);

/// A value by its type and content.
class Literal final : public Atom {
public:
  enum class Type : std::uint8_t {
    string,      ///< UTF-8
    bytes,       ///<
    big_integer, ///< beyond 64 bits, in decimal
    complex,     ///< real part, imaginary part: the bytes of two doubles, NaN canonical
    torch,       ///< a constant of torch by name: `float32`, `strided`, `channels_last`
    member,      ///< of an enum class: `module:Class.Name`
  };
  Literal(Type type, std::string value) : type_(type), value_(std::move(value)) {}

  bool same(const Atom &other) const override;
  std::string text() const override;
  Type type() const { return type_; }
  const std::string &value() const { return value_; }

private:
  Type type_;
  std::string value_;
};

/// The class of a container.
class ContainerClass final : public Atom {
public:
  enum class Form : std::uint8_t { tuple, list, dict, named_tuple, record };
  explicit ContainerClass(Form form) : form_(form) {} ///< of Python's own
  /// A class of the user's, a namedtuple or dataclass: `module:Qualified.Name` and its fields.
  ContainerClass(Form form, std::string name, std::vector<std::string> fields)
      : form_(form), name_(std::move(name)), fields_(std::move(fields)) {}

  bool same(const Atom &other) const override;
  std::string text() const override;
  std::string field(std::size_t index) const override;
  Form form() const { return form_; }
  Kind kind() const;
  const std::string &name() const { return name_; }
  const std::vector<std::string> &fields() const { return fields_; }

private:
  Form form_;
  std::string name_; ///< empty: Python's own
  std::vector<std::string> fields_;
};

/// A device as the payload of a node, and back.
inline std::int64_t device_code(const c10::Device &device) {
  return static_cast<std::int64_t>(device.type()) << 8 | (device.index() + 1);
}
inline c10::Device device_of(const Node &node) {
  return {static_cast<c10::DeviceType>(node.payload.integer >> 8),
          static_cast<c10::DeviceIndex>((node.payload.integer & 0xff) - 1)};
}

/// `relu` -> the leaf 'relu'; its atom is appended to `atoms`.
Node literal(Literal::Type type, std::string value, std::vector<AtomRef> &atoms);
/// A container's node without its extent.
Node container(std::shared_ptr<const ContainerClass> type, std::vector<AtomRef> &atoms);

} // namespace tracehost
