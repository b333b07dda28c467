#include "trace/size_rules.h"

#include <algorithm>

/// Ops that move, add and remove dimensions.

namespace tracehost::trace {

namespace {

Parts permute_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  Dims result;
  for (const std::size_t d : call.dimensions("dims", own.size()))
    result.push_back(own.at(d));
  return {result};
}

Parts swap_sizes(const SizeCall &call, const char *first, const char *second) {
  Dims result = call.dims("self");
  if (!result.empty())
    std::swap(result.at(call.dimension(first, result.size())),
              result.at(call.dimension(second, result.size())));
  return {result};
}

Parts transpose_sizes(const SizeCall &call) { return swap_sizes(call, "dim0", "dim1"); }

Parts swapaxes_sizes(const SizeCall &call) { return swap_sizes(call, "axis0", "axis1"); }

Parts reversed_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  std::reverse(result.begin(), result.end());
  return {result};
}

Parts matrix_transposed_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  if (result.size() >= 2)
    std::swap(result[result.size() - 1], result[result.size() - 2]);
  return {result};
}

Parts movedim_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  const auto places = [&](const char *name) {
    return call.is_list(name) ? call.dimensions(name, own.size())
                              : std::vector{call.dimension(name, own.size())};
  };
  const auto from = places("source"), to = places("destination");
  std::vector<std::size_t> order(own.size(), own.size());
  std::vector<bool> moved(own.size(), false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    order.at(to.at(i)) = from[i];
    moved[from[i]] = true;
  }
  std::size_t next = 0;
  Dims result;
  for (std::size_t &place : order) {
    if (place == own.size()) {
      while (moved[next])
        ++next;
      place = next++;
    }
    result.push_back(own[place]);
  }
  return {result};
}

Parts unsqueeze_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  insert_dim(result, call.dimension("dim", result.size() + 1), 1);
  return {result};
}

/// Dimensions of size 1 at the trace go. Each call has them of size 1 as well (DynamicSizes).
Parts squeeze_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  auto gone = squeezed(call, result.size());
  std::sort(gone.rbegin(), gone.rend());
  for (const std::size_t d : gone)
    if (!result.empty() && call.at_trace(result[d]) == 1)
      erase_dim(result, d);
  return {result};
}

Parts diagonal_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::size_t a = call.has("dim1") ? call.dimension("dim1", result.size()) : 0,
                    b = call.has("dim2") ? call.dimension("dim2", result.size()) : 1;
  const Size offset = call.number(call.has("diagonal") ? "diagonal" : "offset");
  const std::int64_t k = offset.constant() ? *offset.constant() : throw NoRule();
  const Size rows = result.at(a), columns = result.at(b);
  const Size length = k >= 0 ? smaller(rows, columns - k) : smaller(rows + k, columns);
  erase_dim(result, std::max(a, b));
  erase_dim(result, std::min(a, b));
  result.push_back(larger(length, 0));
  return {result};
}

Parts diag_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  if (own.size() == 2)
    return diagonal_sizes(call);
  const Size side = own.at(0) + std::abs(call.constant("diagonal"));
  return {Dims{side, side}};
}

Parts diag_embed_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::size_t rank = result.size() + 1;
  const Size side = result.back() + std::abs(call.constant("offset"));
  const std::size_t a = call.dimension("dim1", rank), b = call.dimension("dim2", rank);
  result.pop_back();
  insert_dim(result, std::min(a, b), side);
  insert_dim(result, std::max(a, b), side);
  return {result};
}

Parts unfold_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::int64_t step = call.constant("step");
  const Size window = call.number("size");
  if (step < 1)
    throw NoRule();
  if (!result.empty()) {
    Size &size = result[call.dimension("dimension", result.size())];
    size = floor_divide(size - window, step) + 1;
  }
  result.push_back(window);
  return {result};
}

Parts as_real_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  result.emplace_back(2);
  return {result};
}

Parts as_complex_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  result.pop_back();
  return {result};
}

Parts rot90_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const auto dims = call.dimensions("dims", result.size());
  if (call.constant("k") % 2 != 0)
    std::swap(result.at(dims.at(0)), result.at(dims.at(1)));
  return {result};
}

/// At least that many dimensions.
Parts padded_rank(const SizeCall &call, std::size_t rank) {
  Dims result = call.first();
  if (result.empty())
    result.emplace_back(1);
  if (rank >= 2 && result.size() == 1)
    insert_dim(result, 0, 1);
  if (rank == 3 && result.size() == 2)
    result.emplace_back(1);
  return {result};
}

Parts atleast_1d_sizes(const SizeCall &call) { return padded_rank(call, 1); }
Parts atleast_2d_sizes(const SizeCall &call) { return padded_rank(call, 2); }
Parts atleast_3d_sizes(const SizeCall &call) { return padded_rank(call, 3); }

} // namespace

std::vector<std::size_t> squeezed(const SizeCall &call, std::size_t rank) {
  if (call.has("dim"))
    return call.is_list("dim") ? call.dimensions("dim", rank)
                               : std::vector{call.dimension("dim", rank)};
  std::vector<std::size_t> all(rank);
  for (std::size_t d = 0; d < rank; ++d)
    all[d] = d;
  return all;
}

const std::vector<NamedSizeRule> kMoveSizes = {
    {"permute", permute_sizes},
    {"transpose swapdims", transpose_sizes},
    {"swapaxes", swapaxes_sizes},
    {"t numpy_T", reversed_sizes},
    {"mT mH adjoint matrix_H", matrix_transposed_sizes},
    {"movedim moveaxis", movedim_sizes},
    {"unsqueeze", unsqueeze_sizes},
    {"squeeze", squeeze_sizes},
    {"diagonal linalg_diagonal", diagonal_sizes},
    {"diag", diag_sizes},
    {"diag_embed", diag_embed_sizes},
    {"unfold", unfold_sizes},
    {"view_as_real", as_real_sizes},
    {"view_as_complex", as_complex_sizes},
    {"rot90", rot90_sizes},
    {"atleast_1d", atleast_1d_sizes},
    {"atleast_2d", atleast_2d_sizes},
    {"atleast_3d", atleast_3d_sizes},
};

} // namespace tracehost::trace
