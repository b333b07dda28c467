#include "validate/compare.h"

#include "capture/effects.h"
#include "signature/signature.h"
#include "signature/tensor_meta.h"
#include "trace/op_hook.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/zeros.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <sstream>

namespace tracehost::validate {
namespace {

struct Tolerance {
  double relative = 0, absolute = 0;
};

/// As torch.testing.assert_close.
Tolerance tolerance(at::ScalarType dtype) {
  switch (dtype) {
  case at::kHalf:
  case at::kComplexHalf:
    return {1e-3, 1e-5};
  case at::kBFloat16:
    return {1.6e-2, 1e-5};
  case at::kFloat:
  case at::kComplexFloat:
    return {1.3e-6, 1e-5};
  case at::kDouble:
  case at::kComplexDouble:
    return {1e-7, 1e-7};
  default:
    return {};
  }
}

template <class T> std::string text_of(const T &value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string text_of(bool value) { return value ? "True" : "False"; }

std::string text_of(const c10::Scalar &element) {
  if (element.isBoolean())
    return text_of(element.toBool());
  if (element.isFloatingPoint())
    return text(Signature(), {.kind = Kind::real, .payload = {.real = element.toDouble()}});
  if (element.isComplex()) {
    const auto z = element.toComplexDouble();
    return fmt::format("({}{:+}j)", z.real(), z.imag());
  }
  return std::to_string(element.toLong());
}

std::string both(const std::string &graph, const std::string &body) {
  return graph + " in the graph, " + body + " in the body";
}

template <class T> std::string told(const char *what, const T &graph, const T &body) {
  if (graph == body)
    return {};
  return fmt::format("{} {}", what, both(text_of(graph), text_of(body)));
}

bool same_bits(const at::Tensor &graph, const at::Tensor &body) {
  if (!graph.is_cpu())
    return at::equal(capture::bytes_of(graph), capture::bytes_of(body));
  const at::Tensor a = graph.contiguous(), b = body.contiguous();
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

/// What has the values of `t`, one element each; undefined where they can't be compared.
at::Tensor dense(const at::Tensor &t) {
  if (t.is_nested() || t.is_meta())
    return {};
  // Zeros without memory, as the gradient of torch.sgn.
  at::Tensor result = t._is_zerotensor() ? at::zeros(t.sizes(), t.options()) : t;
  if (result.is_quantized())
    result = result.int_repr();
  if (result.layout() != at::kStrided)
    result = result.to_dense();
  return result.resolve_conj().resolve_neg();
}

/// `element (1, 2): 3.0 in the graph, 1.0 in the body`.
std::string first_of(const at::Tensor &differs, const at::Tensor &graph, const at::Tensor &body) {
  const at::Tensor index = differs.nonzero()[0].cpu();
  at::Tensor a = graph, b = body;
  std::vector<std::int64_t> at;
  for (std::int64_t d = 0; d < index.numel(); ++d) {
    at.push_back(index[d].item<std::int64_t>());
    a = a.select(0, at.back());
    b = b.select(0, at.back());
  }
  const std::string values = both(text_of(a.item()), text_of(b.item()));
  if (at.empty())
    return "value " + values;
  return fmt::format("element ({}{}): {}", fmt::join(at, ", "), at.size() == 1 ? "," : "", values);
}

std::string difference_of_values(const at::Tensor &graph, const at::Tensor &body) {
  at::Tensor a = dense(graph), b = dense(body);
  if (!a.defined() || !b.defined() || a.numel() == 0 || same_bits(a, b))
    return {};
  const auto [relative, absolute] = tolerance(a.scalar_type());
  a = a.cpu();
  b = b.cpu();
  if (relative == 0 && a.is_floating_point()) { // eight bits
    a = a.to(at::kFloat);
    b = b.to(at::kFloat);
  }
  const at::Tensor differs = at::isclose(a, b, relative, absolute, true).logical_not();
  return differs.any().item<bool>() ? first_of(differs, a, b) : std::string();
}

} // namespace

std::string difference_of_kind(const at::Tensor &graph, const at::Tensor &body) {
  if (!graph.defined() || !body.defined())
    return told("a tensor", graph.defined(), body.defined());
  for (std::string what :
       {told("dtype", dtype_name(graph.scalar_type()), dtype_name(body.scalar_type())),
        told("device", graph.device(), body.device()),
        told("layout", graph.layout(), body.layout())})
    if (!what.empty())
      return what;
  if (!graph.is_nested())
    if (std::string what = told("shape", graph.sizes(), body.sizes()); !what.empty())
      return what;
  if (graph.layout() == at::kStrided && !graph.is_nested())
    if (std::string what = told("strides", graph.strides(), body.strides()); !what.empty())
      return what;
  for (std::string what : {told("requires_grad", graph.requires_grad(), body.requires_grad()),
                           told("is_conj()", graph.is_conj(), body.is_conj()),
                           told("is_neg()", graph.is_neg(), body.is_neg())})
    if (!what.empty())
      return what;
  return {};
}

bool same_values(const at::Tensor &a, const at::Tensor &b) {
  const trace::Aside aside;
  const at::Tensor x = dense(a.cpu()), y = dense(b.cpu());
  return !x.defined() || !y.defined() || same_bits(x, y);
}

bool nearly_same(const at::Tensor &a, const at::Tensor &b) {
  const trace::Aside aside;
  if (!a.defined())
    return true;
  const at::Tensor x = dense(a.cpu()), y = dense(b.cpu());
  if (!x.defined() || !y.defined() || same_bits(x, y))
    return true;
  const auto [relative, absolute] = tolerance(x.scalar_type());
  return at::isclose(x, y, 1e3 * relative, 1e3 * absolute, true).all().item<bool>();
}

std::string difference(const at::Tensor &graph, const at::Tensor &body) {
  std::string kind = difference_of_kind(graph, body);
  if (!kind.empty() || !graph.defined())
    return kind;
  const trace::Aside aside;
  return difference_of_values(graph, body);
}

} // namespace tracehost::validate
