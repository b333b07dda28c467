#include "archive/graph_values.h"

#include "archive/limits.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/Device.h>

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::archive {
namespace {

/// Numbers of a file: each is kept by later versions.
enum class TypeKind : std::uint8_t {
  tensor,
  integer,
  real,
  complex,
  boolean,
  text,
  number,
  none,
  device,
  generator,
  list,
  optional,
  tuple,
  dict,
  count
};

struct SimpleType {
  TypeKind kind;
  c10::TypePtr type;
};

const std::array<SimpleType, 10> &simple_types() {
  static const std::array<SimpleType, 10> all = {
      {{TypeKind::tensor, c10::TensorType::get()},
       {TypeKind::integer, c10::IntType::get()},
       {TypeKind::real, c10::FloatType::get()},
       {TypeKind::complex, c10::ComplexType::get()},
       {TypeKind::boolean, c10::BoolType::get()},
       {TypeKind::text, c10::StringType::get()},
       {TypeKind::number, c10::NumberType::get()},
       {TypeKind::none, c10::NoneType::get()},
       {TypeKind::device, c10::DeviceObjType::get()},
       {TypeKind::generator, c10::GeneratorType::get()}}};
  return all;
}

std::optional<TypeKind> container_kind(const c10::TypePtr &type) {
  switch (type->kind()) {
  case c10::TypeKind::ListType:
    return TypeKind::list;
  case c10::TypeKind::OptionalType:
    return TypeKind::optional;
  case c10::TypeKind::TupleType:
    return TypeKind::tuple;
  case c10::TypeKind::DictType:
    return TypeKind::dict;
  default:
    return std::nullopt;
  }
}

bool may_be_key(const c10::TypePtr &type) {
  switch (type->kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::DeviceObjType:
    return true;
  default:
    return false;
  }
}

bool write_type(ByteWriter &to, const c10::TypePtr &type, int depth) {
  if (type->isSubtypeOf(*c10::TensorType::get())) {
    to.number(static_cast<std::uint64_t>(TypeKind::tensor));
    return true;
  }
  for (const SimpleType &simple : simple_types())
    if (*simple.type == *type) {
      to.number(static_cast<std::uint64_t>(simple.kind));
      return true;
    }
  const auto kind = container_kind(type);
  if (!kind || depth == kDeepestType)
    return false;
  to.number(static_cast<std::uint64_t>(*kind));
  const auto inside = type->containedTypes();
  if (*kind == TypeKind::tuple)
    to.number(inside.size());
  for (const c10::TypePtr &one : inside)
    if (!write_type(to, one, depth + 1))
      return false;
  return true;
}

c10::TypePtr read_type(ByteReader &from, int depth) {
  const auto kind =
      static_cast<TypeKind>(from.below(static_cast<std::size_t>(TypeKind::count), "a type"));
  for (const SimpleType &simple : simple_types())
    if (simple.kind == kind)
      return simple.type;
  if (depth == kDeepestType)
    wrong_file(fmt::format("a graph has types nested to more than {}", kDeepestType));
  if (kind == TypeKind::tuple) {
    std::vector<c10::TypePtr> inside(from.count());
    for (c10::TypePtr &one : inside)
      one = read_type(from, depth + 1);
    return c10::TupleType::create(std::move(inside));
  }
  c10::TypePtr first = read_type(from, depth + 1);
  if (kind == TypeKind::list)
    return c10::ListType::create(std::move(first));
  if (kind == TypeKind::optional)
    return c10::OptionalType::create(std::move(first));
  if (!may_be_key(first))
    wrong_file("a graph has a dict whose key type cannot be a key");
  return c10::DictType::create(std::move(first), read_type(from, depth + 1));
}

/// Numbers of a file, too.
enum class ValueKind : std::uint8_t {
  none,
  no,
  yes,
  integer,
  real,
  complex,
  text,
  device,
  tensor,
  number_tensor, ///< 0-dim, stands for a number
  list,
  tuple,
  dict,
  generator,
  count
};

bool is_number(const at::Tensor &t) {
  return t.defined() && t.unsafeGetTensorImpl()->is_wrapped_number();
}

bool write_value(ByteWriter &to, const c10::IValue &value, const NumbersInFile &numbers, int depth);

bool write_items(ByteWriter &to, c10::ArrayRef<c10::IValue> items, const NumbersInFile &numbers,
                 int depth) {
  to.number(items.size());
  for (const c10::IValue &item : items)
    if (!write_value(to, item, numbers, depth + 1))
      return false;
  return true;
}

bool write_container(ByteWriter &to, const c10::IValue &value, const NumbersInFile &numbers,
                     int depth) {
  const auto kind = [&](ValueKind kind) { to.number(static_cast<std::uint64_t>(kind)); };
  if (depth == kDeepestLists)
    return false;
  if (value.isList()) {
    kind(ValueKind::list);
    const auto list = value.toListRef().vec();
    return write_type(to, value.toList().elementType(), 0) && write_items(to, list, numbers, depth);
  }
  if (value.isTuple()) {
    kind(ValueKind::tuple);
    return !value.toTupleRef().type<c10::TupleType>()->schema() &&
           write_items(to, value.toTupleRef().elements().asArrayRef(), numbers, depth);
  }
  if (!value.isGenericDict())
    return false;
  kind(ValueKind::dict);
  const auto dict = value.toGenericDict();
  if (!write_type(to, dict.keyType(), 0) || !write_type(to, dict.valueType(), 0))
    return false;
  std::vector<c10::IValue> items;
  for (const auto &entry : dict) {
    items.push_back(entry.key());
    items.push_back(entry.value());
  }
  return write_items(to, items, numbers, depth);
}

bool write_value(ByteWriter &to, const c10::IValue &value, const NumbersInFile &numbers,
                 int depth) {
  const auto kind = [&](ValueKind kind) { to.number(static_cast<std::uint64_t>(kind)); };
  if (value.isNone()) {
    kind(ValueKind::none);
  } else if (value.isBool()) {
    kind(value.toBool() ? ValueKind::yes : ValueKind::no);
  } else if (value.isInt()) {
    kind(ValueKind::integer);
    to.integer(value.toInt());
  } else if (value.isDouble()) {
    kind(ValueKind::real);
    to.bits(value.toDouble());
  } else if (value.isComplexDouble()) {
    kind(ValueKind::complex);
    to.bits(value.toComplexDouble().real());
    to.bits(value.toComplexDouble().imag());
  } else if (value.isString()) {
    kind(ValueKind::text);
    to.text(value.toStringRef());
  } else if (value.isDevice()) {
    kind(ValueKind::device);
    to.text(value.toDevice().str());
  } else if (value.isTensor() && is_number(value.toTensor())) {
    kind(ValueKind::number_tensor);
    return write_value(to, c10::IValue(value.toTensor().item()), numbers, kDeepestLists);
  } else if (value.isTensor()) {
    kind(ValueKind::tensor);
    to.number(numbers.tensor(value.toTensor()));
  } else if (value.isGenerator()) {
    if (value.toGenerator().device().type() != at::kCPU)
      return false; // its state is a device's
    kind(ValueKind::generator);
    to.number(numbers.generator(value.toGenerator()));
  } else {
    return write_container(to, value, numbers, depth);
  }
  return true;
}

c10::IValue read_value(ByteReader &from, const ValuesOfFile &values, int depth);

/// Of the type that a list or a dict holds.
c10::IValue read_item(ByteReader &from, const ValuesOfFile &values, const c10::TypePtr &type,
                      int depth) {
  c10::IValue item = read_value(from, values, depth + 1);
  if (!item.type()->isSubtypeOf(*type))
    wrong_file("a constant of a graph holds a value of another type");
  return item;
}

c10::IValue read_list(ByteReader &from, const ValuesOfFile &values, int depth) {
  const c10::TypePtr type = archive::read_type(from);
  c10::impl::GenericList list(type);
  const std::size_t count = from.count();
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(read_item(from, values, type, depth));
  return list;
}

c10::IValue read_dict(ByteReader &from, const ValuesOfFile &values, int depth) {
  const c10::TypePtr key = archive::read_type(from), type = archive::read_type(from);
  if (!may_be_key(key))
    wrong_file("a graph has a dict whose key type cannot be a key");
  c10::impl::GenericDict dict(key, type);
  const std::size_t count = from.count();
  if (count % 2 != 0)
    wrong_file("a dict of a graph has a key without a value");
  for (std::size_t i = 0; i < count; i += 2) {
    c10::IValue name = read_item(from, values, key, depth);
    dict.insert(std::move(name), read_item(from, values, type, depth));
  }
  return dict;
}

c10::IValue read_tuple(ByteReader &from, const ValuesOfFile &values, int depth) {
  std::vector<c10::IValue> items(from.count());
  for (c10::IValue &item : items)
    item = read_value(from, values, depth + 1);
  return c10::ivalue::Tuple::create(std::move(items));
}

/// Of a kind that holds no other.
c10::IValue read_plain(ByteReader &from, ValueKind kind) {
  switch (kind) {
  case ValueKind::no:
  case ValueKind::yes:
    return kind == ValueKind::yes;
  case ValueKind::integer:
    return from.integer();
  case ValueKind::real:
    return from.bits();
  case ValueKind::complex: {
    const double real = from.bits();
    return c10::complex<double>(real, from.bits());
  }
  case ValueKind::text:
    return std::string(from.text());
  case ValueKind::device:
    return read_device(from);
  default:
    return {};
  }
}

ValueKind read_kind(ByteReader &from) {
  return static_cast<ValueKind>(
      from.below(static_cast<std::size_t>(ValueKind::count), "a constant"));
}

at::Tensor read_number_tensor(ByteReader &from) {
  const c10::IValue number = read_plain(from, read_kind(from));
  if (!number.isScalar() && !number.isBool())
    wrong_file("a graph has a constant that is not a number");
  const at::Scalar scalar = number.toScalar();
  at::Tensor made = at::scalar_tensor(scalar, at::TensorOptions(scalar.type()));
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

c10::IValue read_value(ByteReader &from, const ValuesOfFile &values, int depth) {
  const ValueKind kind = read_kind(from);
  const bool holds_others =
      kind == ValueKind::list || kind == ValueKind::tuple || kind == ValueKind::dict;
  if (holds_others && depth == kDeepestLists)
    wrong_file(fmt::format("a graph has constants nested to more than {}", kDeepestLists));
  switch (kind) {
  case ValueKind::tensor:
    return values.tensor(from.number());
  case ValueKind::number_tensor:
    return read_number_tensor(from);
  case ValueKind::list:
    return read_list(from, values, depth);
  case ValueKind::tuple:
    return read_tuple(from, values, depth);
  case ValueKind::dict:
    return read_dict(from, values, depth);
  case ValueKind::generator:
    return values.generator(from.number());
  default:
    return read_plain(from, kind);
  }
}

} // namespace

c10::TypePtr plain_type(const c10::TypePtr &type) {
  if (type->isSubtypeOf(*c10::TensorType::get()))
    return c10::TensorType::get();
  const auto kind = container_kind(type);
  if (!kind)
    return type;
  std::vector<c10::TypePtr> inside;
  bool is_plain = true;
  for (const c10::TypePtr &one : type->containedTypes()) {
    inside.push_back(plain_type(one));
    is_plain &= inside.back() == one;
  }
  return is_plain ? type : type->withContained(std::move(inside));
}

c10::Device read_device(ByteReader &from) {
  const std::string text(from.text());
  try {
    return c10::Device(text);
  } catch (const c10::Error &) {
    wrong_file(fmt::format("'{}' is no device", text.c_str())); // to the first NUL
  }
}

std::size_t size_of(const c10::Type &type) {
  std::size_t size = 1;
  for (const c10::TypePtr &one : type.containedTypes())
    size += size_of(*one);
  return size;
}

bool write_type(ByteWriter &to, const c10::TypePtr &type) {
  return size_of(*type) <= kLargestType && write_type(to, type, 0);
}

c10::TypePtr read_type(ByteReader &from) {
  c10::TypePtr type = read_type(from, 0);
  if (size_of(*type) > kLargestType)
    wrong_file("a graph has a type that is too large");
  return type;
}

bool write_constant(ByteWriter &to, const c10::IValue &value, const NumbersInFile &numbers) {
  return write_value(to, value, numbers, 0);
}

c10::IValue read_constant(ByteReader &from, const ValuesOfFile &values) {
  return read_value(from, values, 0);
}

} // namespace tracehost::archive
