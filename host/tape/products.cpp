#include "tape/products.h"

#include "tape/guards.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

namespace tracehost::tape {
namespace {

template <class T>
using Gemm = void (*)(const char *transa, const char *transb, const int *m, const int *n,
                      const int *k, const T *alpha, const T *a, const int *lda, const T *b,
                      const int *ldb, const T *beta, T *c, const int *ldc);

/// Of libtorch's own BLAS. Null: it has none of this name.
template <class T> Gemm<T> find_gemm() {
  void *const library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  const char *name = sizeof(T) == sizeof(float) ? "sgemm_" : "dgemm_";
  return library ? reinterpret_cast<Gemm<T>>(dlsym(library, name)) : nullptr;
}

/// A matrix as BLAS reads it, by columns.
struct Operand {
  char transposed = 'n';
  int leading = 1;
};

/// The operand of a product whose result has `rows` rows or columns on its side.
std::optional<Operand> operand(std::int64_t along, std::int64_t across, std::int64_t rows,
                               std::int64_t inner) {
  if (along == 1 && across >= std::max<std::int64_t>(1, rows))
    return Operand{'n', static_cast<int>(across)};
  if (across == 1 && along >= std::max<std::int64_t>(1, inner))
    return Operand{'t', static_cast<int>(along)};
  return std::nullopt; // ATen makes a copy
}

struct Shape {
  int m, n, k;
  Operand a, b;
  int ldc;
};

/// As cpublas::gemm(): a leading dimension that no element depends on.
void normalize(Shape &s) {
  if (s.n == 1)
    s.ldc = s.m;
  if (s.a.transposed == 't' ? s.m == 1 : s.k == 1)
    s.a.leading = s.a.transposed == 't' ? s.k : s.m;
  if (s.b.transposed == 't' ? s.k == 1 : s.n == 1)
    s.b.leading = s.b.transposed == 't' ? s.n : s.k;
}

/// The transposed product: the result's rows are BLAS's columns.
std::optional<Shape> shape_of(const at::Tensor &x, const at::Tensor &y, const at::Tensor &out) {
  const std::int64_t m = out.size(1), n = out.size(0), k = x.size(1);
  const bool by_columns =
      out.stride(0) == 1 && (m == 1 || out.stride(1) >= std::max<std::int64_t>(1, n));
  if (by_columns || !out.is_contiguous() || std::min({m, n, k}) == 0 ||
      std::max({m, n, k}) > INT_MAX / 2)
    return std::nullopt;
  const auto a = operand(y.stride(1), y.stride(0), m, k),
             b = operand(x.stride(1), x.stride(0), k, n);
  if (!a || !b || a->leading > INT_MAX / 2 || b->leading > INT_MAX / 2)
    return std::nullopt;
  Shape shape{static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), *a, *b,
              static_cast<int>(m)};
  normalize(shape);
  return shape;
}

template <class T>
OutKernel bind(const at::Tensor &x, const at::Tensor &y, const at::Tensor &bias,
               const at::Tensor &out, const Shape &s) {
  const Gemm<T> gemm = find_gemm<T>();
  if (!gemm)
    return nullptr;
  OutKernel product = [=]() {
    T *const result = static_cast<T *>(out.mutable_data_ptr());
    if (bias.defined())
      for (int row = 0; row < s.n; ++row)
        std::memcpy(result + static_cast<std::ptrdiff_t>(row) * s.m, bias.const_data_ptr(),
                    static_cast<std::size_t>(s.m) * sizeof(T));
    const T one = 1, beta = bias.defined() ? 1 : 0;
    gemm(&s.a.transposed, &s.b.transposed, &s.m, &s.n, &s.k, &one,
         static_cast<const T *>(y.const_data_ptr()), &s.a.leading,
         static_cast<const T *>(x.const_data_ptr()), &s.b.leading, &beta, result, &s.ldc);
  };
  product.dispatches = false;
  return product;
}

} // namespace

OutKernel bind_product(const at::Tensor &x, const at::Tensor &y, const at::Tensor &bias,
                       const at::Tensor &out) {
  const auto dtype = out.scalar_type();
  if (x.dim() != 2 || y.dim() != 2 || x.scalar_type() != dtype || y.scalar_type() != dtype)
    return nullptr;
  if (bias.defined() && (bias.scalar_type() != dtype || bias.dim() != 1 ||
                         bias.numel() != out.size(1) || !bias.is_contiguous()))
    return nullptr;
  if (!are_products_ieee()) // oneDNN computes it then
    return nullptr;
  const auto shape = shape_of(x, y, out);
  if (!shape)
    return nullptr;
  if (dtype == at::kFloat)
    return bind<float>(x, y, bias, out, *shape);
  return dtype == at::kDouble ? bind<double>(x, y, bias, out, *shape) : nullptr;
}

} // namespace tracehost::tape
