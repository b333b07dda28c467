#include "trace/size_rules.h"

#include <algorithm>

/// Slices, and ops that give the elements of one tensor in another shape.

namespace tracehost::trace {

namespace {

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
  const auto open =
      std::find_if(sizes.begin(), sizes.end(), [](const Size &s) { return s.is(-1); });
  if (open == sizes.end())
    return sizes;
  *open = 1;
  *open = exact_quotient(all, product_of(sizes));
  return sizes;
}

Parts view_sizes(const SizeCall &call) {
  if (!call.has("size") && !call.has("shape"))
    throw NoRule(); // as another dtype
  return {
      inferred(call.numbers(call.has("size") ? "size" : "shape"), product_of(call.dims("self")))};
}

Parts sizes_as_other(const SizeCall &call) { return {call.dims("other")}; }

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

} // namespace

const std::vector<NamedSizeRule> kViewSizes = {
    {"slice slice_copy", slice_sizes},
    {"narrow narrow_copy", narrow_sizes},
    {"select select_copy", select_sizes},
    {"view _unsafe_view view_copy reshape _reshape_alias", view_sizes},
    {"view_as reshape_as expand_as", sizes_as_other},
    {"as_strided resize sum_to_size", sizes_given},
    {"expand broadcast_to", expand_sizes},
    {"repeat tile", repeated_sizes},
    {"repeat_interleave", repeat_interleave_sizes},
    {"flatten", flatten_sizes},
    {"ravel", ravel_sizes},
    {"unflatten", unflatten_sizes},
};

} // namespace tracehost::trace
