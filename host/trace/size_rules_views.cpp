#include "trace/size_rules.h"

#include <algorithm>

/// Views and other ops that give the elements of one tensor in another shape, and ops that take a
/// tensor apart.

namespace tracehost::trace {

namespace {

Size product_of(const Dims &dims) {
  Size result(1);
  for (const Size &size : dims)
    result = result * size;
  return result;
}

void erase_dim(Dims &dims, std::size_t d) { dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d)); }

void insert_dim(Dims &dims, std::size_t d, Size size) {
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(d), std::move(size));
}

/// A bound of a slice from its front on: `n` is added to a negative one.
Size from_front(const Size &bound, const Size &n) {
  if (bound.is_at_least(0))
    return bound;
  if ((Size(0) - bound).is_at_least(1))
    return n + bound;
  return bound + Size::made(Size::Op::less, bound, 0) * n;
}

/// The length of x[start:end:step] for a dimension of size `n`.
Size slice_length(const Size &n, const Size &start, const Size &end, const Size &step) {
  const Size first = smaller(larger(start, 0), n);
  const Size last = smaller(larger(end, 0), n);
  Size length;
  if (first.is(0))
    length = last;
  else if (last == n && first == smaller(start, n))
    length = larger(n - start, 0); // n - min(start, n)
  else if (last == n && first == larger(start, 0))
    length = smaller(n - start, n); // n - max(start, 0)
  else
    length = larger(last - first, 0);
  return step.is(1) ? length : ceil_divide(length, step);
}

Parts slice_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::size_t d = call.dimension("dim", result.size());
  const Size n = result.at(d), step = call.number("step");
  if (!step.is_at_least(1))
    throw NoRule();
  const Size start = call.has("start") ? from_front(call.number("start"), n) : Size(0);
  constexpr std::int64_t unbounded = INT64_MAX;
  const Size given = call.has("end") ? call.number("end") : Size(unbounded);
  const Size end = given.is(unbounded) ? n : from_front(given, n);
  result[d] = slice_length(n, start, end, step);
  return {result};
}

Parts narrow_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  result.at(call.dimension("dim", result.size())) = call.number("length");
  return {result};
}

Parts select_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  erase_dim(result, call.dimension("dim", result.size()));
  return {result};
}

/// One of `sizes` may be -1: what is left of `all` elements.
Dims inferred(Dims sizes, const Size &all) {
  const auto open = std::find_if(sizes.begin(), sizes.end(), [](const Size &s) { return s.is(-1); });
  if (open == sizes.end())
    return sizes;
  *open = 1;
  *open = exact_quotient(all, product_of(sizes));
  return sizes;
}

Parts view_sizes(const SizeCall &call) {
  if (!call.has("size") && !call.has("shape"))
    throw NoRule(); // as another dtype
  return {inferred(call.numbers(call.has("size") ? "size" : "shape"),
                   product_of(call.dims("self")))};
}

Parts sizes_as_other(const SizeCall &call) { return {call.dims("other")}; }

Parts given_sizes(const SizeCall &call) { return {call.numbers("size")}; }

Parts expand_sizes(const SizeCall &call) {
  Dims result = call.numbers("size");
  const Dims &own = call.dims("self");
  for (std::size_t i = 0; i < own.size() && i < result.size(); ++i)
    if (Size &size = result[result.size() - 1 - i]; size.is(-1))
      size = own[own.size() - 1 - i];
  return {result};
}

Parts repeated_sizes(const SizeCall &call) {
  Dims times = call.numbers(call.has("repeats") ? "repeats" : "dims"), own = call.dims("self");
  while (times.size() < own.size())
    insert_dim(times, 0, 1); // tile
  while (own.size() < times.size())
    insert_dim(own, 0, 1);
  for (std::size_t d = 0; d < own.size(); ++d)
    own[d] = own[d] * times[d];
  return {own};
}

Parts repeat_interleave_sizes(const SizeCall &call) {
  if (!call.has("self") || call.is_tensor("repeats"))
    throw NoRule();
  const Dims &own = call.dims("self");
  const Size times = call.number("repeats");
  if (!call.has("dim"))
    return {Dims{product_of(own) * times}};
  Dims result = own;
  Size &size = result.at(call.dimension("dim", own.size()));
  size = size * times;
  return {result};
}

Parts flatten_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  if (own.empty())
    return {Dims{1}};
  const std::size_t start = call.dimension("start_dim", own.size()),
                    end = call.dimension("end_dim", own.size());
  if (end < start)
    throw NoRule();
  Dims result(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(start));
  Size merged(1);
  for (std::size_t d = start; d <= end; ++d)
    merged = merged * own[d];
  result.push_back(merged);
  result.insert(result.end(), own.begin() + static_cast<std::ptrdiff_t>(end) + 1, own.end());
  return {result};
}

Parts ravel_sizes(const SizeCall &call) { return {Dims{product_of(call.dims("self"))}}; }

Parts unflatten_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::size_t d = call.dimension("dim", result.size());
  const Dims parts = inferred(call.numbers("sizes"), result.at(d));
  erase_dim(result, d);
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(d), parts.begin(), parts.end());
  return {result};
}

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

const std::vector<NamedSizeRule> kViewSizes = {
    {"slice", slice_sizes},
    {"slice_copy", slice_sizes},
    {"narrow", narrow_sizes},
    {"narrow_copy", narrow_sizes},
    {"select", select_sizes},
    {"select_copy", select_sizes},
    {"view", view_sizes},
    {"_unsafe_view", view_sizes},
    {"view_copy", view_sizes},
    {"reshape", view_sizes},
    {"_reshape_alias", view_sizes},
    {"view_as", sizes_as_other},
    {"reshape_as", sizes_as_other},
    {"expand_as", sizes_as_other},
    {"as_strided", given_sizes},
    {"resize", given_sizes},
    {"sum_to_size", given_sizes},
    {"expand", expand_sizes},
    {"broadcast_to", expand_sizes},
    {"repeat", repeated_sizes},
    {"tile", repeated_sizes},
    {"repeat_interleave", repeat_interleave_sizes},
    {"flatten", flatten_sizes},
    {"ravel", ravel_sizes},
    {"unflatten", unflatten_sizes},
    {"permute", permute_sizes},
    {"transpose", transpose_sizes},
    {"swapdims", transpose_sizes},
    {"swapaxes", swapaxes_sizes},
    {"t", reversed_sizes},
    {"numpy_T", reversed_sizes},
    {"mT", matrix_transposed_sizes},
    {"mH", matrix_transposed_sizes},
    {"adjoint", matrix_transposed_sizes},
    {"matrix_H", matrix_transposed_sizes},
    {"movedim", movedim_sizes},
    {"moveaxis", movedim_sizes},
    {"unsqueeze", unsqueeze_sizes},
    {"squeeze", squeeze_sizes},
    {"diagonal", diagonal_sizes},
    {"linalg_diagonal", diagonal_sizes},
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
