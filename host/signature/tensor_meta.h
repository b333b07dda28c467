#pragma once

#include "signature/node.h"
#include "signature/size_condition.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <string>

namespace tracehost {

/// What a tensor is compared by (docs/rules/signature.md). Sizes in elements.
struct TensorMeta {
  c10::DispatchKeySet keys; ///< backend, layout, conj and neg bits, inference tensor
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  bool requires_grad = false;
  bool is_leaf = true;                       ///< compared where the body read it (Signature::reads)
  const void *type = nullptr;                ///< the front end's class of the tensor; null in C++
  const char *type_name = "Tensor";          ///< for messages; lives as long as `type`
  bool contiguous = true;                    ///< of what it was made from
  bool dynamic = false;                      ///< some of `sizes` are kAnySize
  c10::SmallVector<std::int64_t, 4> sizes;   ///< kAnySize: a dynamic dimension
  c10::SmallVector<std::int64_t, 4> strides; ///< compared where the body read them

  static TensorMeta of(const at::Tensor &t, const void *type = nullptr,
                       const char *type_name = "Tensor");
  /// Whether `given` fits `sizes`: the same rank, and equal where they are not kAnySize.
  bool takes(c10::IntArrayRef given) const;
  /// Makes dimension `dimension` dynamic.
  void make_dynamic(std::size_t dimension) {
    sizes[dimension] = kAnySize;
    dynamic = true;
  }
  /// All fields but type_name, strides and is_leaf included.
  bool operator==(const TensorMeta &other) const;
  /// `float32[8, 3]`, `float32[None, 3]` for a dynamic dimension. What is not the default follows:
  /// `, requires_grad`, `, cuda:0`, `, sparse`.
  std::string text() const;
  /// `strided`, `sparse`, `strided, conj` ...: what of `keys` a user has a name for.
  std::string layout() const;
};

/// `8, None, 3`: kAnySize as None.
std::string sizes_text(c10::IntArrayRef sizes);
/// `float32` for at::kFloat: the name that Python's torch gives a dtype.
std::string dtype_name(at::ScalarType dtype);

} // namespace tracehost
