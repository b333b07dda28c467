#pragma once

#include "tracehost/value.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a function takes and gives, as data.
///
///     for (const tracehost::GraphSpec &graph : predict.graphs()) {
///       const tracehost::Spec &images = graph.arguments[0]; // of predict.parameters()[0]
///       if (images.kind == tracehost::Value::Kind::tensor)
///         allocate(images.dtype, images.sizes);             // {-1, 64}: any number of rows
///     }

namespace tracehost {
inline namespace TRACEHOST_ABI {

/// An argument or a result of one graph: a tensor, a value, or a container of such.
struct Spec {
  Value::Kind kind = Value::Kind::none;

  // Of a tensor.
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<std::int64_t> sizes{}; ///< kAnySize where any will do
  c10::Device device{c10::DeviceType::CPU};

  /// Of a number, string, dtype or device: the one that the graph is for, or gives. Nothing where
  /// the graph computes a number.
  std::optional<Value> value{};

  // Of a list, tuple or map.
  std::vector<Spec> items{};
  std::vector<std::string> keys{}; ///< of a map, also of a dataclass or named tuple: by item

  static constexpr std::int64_t kAnySize = -1;
};

struct Parameter {
  enum class Kind : std::uint8_t { positional, var_positional, keyword, var_keyword };
  std::string name{}; ///< `x`, `*args`, `**kwargs`
  Kind kind = Kind::positional;
  std::optional<Value> default_value{};
};

/// One graph of a function.
struct GraphSpec {
  std::vector<Spec> arguments{}; ///< one for each parameter
  Spec result{};
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
