#include "region/functions.h"

#include "region/pieces.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Activation.h>
#include <ATen/native/UnaryOps.h>

#include <array>
#include <optional>

namespace tracehost::region {
namespace {

constexpr auto kOnCpu = c10::DeviceType::CPU;
using RunFunction = void (*)(at::TensorIteratorBase &);

template <auto &stub> void call(at::TensorIteratorBase &it) { stub(kOnCpu, it); }
void gelu(at::TensorIteratorBase &it) {
  at::native::GeluKernel(kOnCpu, it, at::native::GeluType::None);
}
void gelu_tanh(at::TensorIteratorBase &it) {
  at::native::GeluKernel(kOnCpu, it, at::native::GeluType::Tanh);
}

/// By code, from `sin` on.
constexpr std::array<RunFunction, 15> kFunctions{call<at::native::sin_stub>,
                                                 call<at::native::cos_stub>,
                                                 call<at::native::tan_stub>,
                                                 call<at::native::tanh_stub>,
                                                 call<at::native::exp_stub>,
                                                 call<at::native::log_stub>,
                                                 call<at::native::sqrt_stub>,
                                                 call<at::native::erf_stub>,
                                                 call<at::native::sigmoid_stub>,
                                                 call<at::native::silu_stub>,
                                                 call<at::native::log1p_stub>,
                                                 call<at::native::expm1_stub>,
                                                 call<at::native::atan_stub>,
                                                 gelu,
                                                 gelu_tanh};

/// An iterator over n contiguous values. Its memory and length are set for each call, which takes a
/// few stores; building an iterator takes 300 ns.
class TileIterator final : public at::TensorIteratorBase {
public:
  explicit TileIterator(c10::ScalarType dtype) : tensor_(at::detail::empty_cpu({2}, dtype)) {
    build_unary_op(tensor_, tensor_);
  }
  const at::Tensor &maybe_get_output(std::int64_t) override { return tensor_; }
  void set(std::int64_t n, const void *in, void *out) {
    shape_[0] = n;
    operands_[0].data = out;
    operands_[1].data = const_cast<void *>(in);
  }

private:
  at::Tensor tensor_;
};

thread_local std::array<std::optional<TileIterator>, 2> tile_iterators; // float32, float64

} // namespace

bool has_function(RegionCode function, c10::ScalarType dtype) {
  // Eager's float32 gelu() is oneDNN's, and depends on a setting.
  return is_function(function) &&
         (function != RegionCode::gelu || dtype == c10::ScalarType::Double);
}

void run_function(RegionCode function, c10::ScalarType dtype, std::int64_t n, const void *in,
                  void *out) {
  std::optional<TileIterator> &tile = tile_iterators[dtype == c10::ScalarType::Double];
  if (!tile)
    tile.emplace(dtype);
  tile->set(n, in, out);
  kFunctions[static_cast<std::size_t>(function) - static_cast<std::size_t>(RegionCode::sin)](*tile);
}

void split_as_eager(std::int64_t n, c10::function_ref<void(std::int64_t, std::int64_t)> f) {
  if (n < at::internal::GRAIN_SIZE || at::get_num_threads() == 1)
    return f(0, n);
  // The iterator's own loop splits; over bytes at 0, 1, 2, ... an address is an index.
  TileIterator bytes(c10::ScalarType::Byte);
  bytes.set(n, nullptr, nullptr);
  bytes.for_each([&](char **data, const std::int64_t *, std::int64_t length, std::int64_t) {
    const auto begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data[0]));
    f(begin, begin + length);
  });
}

} // namespace tracehost::region
