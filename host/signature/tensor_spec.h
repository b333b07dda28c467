#pragma once

#include "signature/tensor_meta.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// What tensors a declared parameter takes (docs/guides/input-signature.md), and tf's relations of
/// such specs.
///
///     (2, 3)  <=  (None, 3)  <=  (None, None)  <=  None          dynamic; any rank
///     cuda:0  <=  cuda       <=  none given
///     unnamed <=  named                                          other names are not related

namespace tracehost {

struct TensorSpec {
  using Shape = std::vector<std::int64_t>;

  std::optional<Shape> shape = Shape{}; ///< kAnySize: dynamic; nullopt: any rank
  at::ScalarType dtype = at::kFloat;
  std::optional<c10::Device> device; ///< nullopt: any; without an index: any of that type
  std::string name;                  ///< empty: none

  /// As exact as a spec can be.
  static TensorSpec of(const at::Tensor &tensor, std::string name = {});
  static TensorSpec of(const TensorMeta &meta, std::string name = {});

  /// `cpu` and `cpu:0` are equal, because they are one device.
  bool operator==(const TensorSpec &other) const;
  /// `TensorSpec(shape=(2, None), dtype=torch.float32, name=None)`, to be pasted back; the device
  /// is in it where one is given.
  std::string text() const;
};

/// Whether some tensor fits both; names take no part. Symmetric, not transitive.
bool is_compatible_with(const TensorSpec &a, const TensorSpec &b);
/// Whether `tensor` fits.
bool is_compatible_with(const TensorSpec &spec, const at::Tensor &tensor);

/// Whether each tensor of `a` is one of `b`, as a partial order.
bool is_subtype_of(const TensorSpec &a, const TensorSpec &b);

/// The least spec above all of `specs` (their names, where they differ, apart: it has none then).
/// nullopt: there is none, as dtypes differ. Requires: `specs` is not empty.
std::optional<TensorSpec> most_specific_common_supertype(const std::vector<TensorSpec> &specs);
/// The same for two; throws std::invalid_argument where there is none.
TensorSpec most_specific_compatible_type(const TensorSpec &a, const TensorSpec &b);

} // namespace tracehost

/// The name takes no part, as in tf.
template <> struct std::hash<tracehost::TensorSpec> {
  std::size_t operator()(const tracehost::TensorSpec &spec) const noexcept;
};
