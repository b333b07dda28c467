#include "trace/size_rules.h"

#include <algorithm>

/// Ops that take a tensor apart or join several, and ops that choose elements by an index.

namespace tracehost::trace {

namespace {

// ---- Parts

/// `self` with other sizes of one dimension.
Parts pieces_along(const SizeCall &call, std::size_t dimension, const Dims &sizes) {
  Parts result;
  for (const Size &size : sizes) {
    result.push_back(call.dims("self"));
    result.back().at(dimension) = size;
  }
  return result;
}

/// `count` pieces of `step` each; the last one has what is left.
Parts equal_pieces(const SizeCall &call, std::size_t dimension, const Size &step) {
  const std::size_t count = call.items();
  Dims sizes(count, step);
  if (count)
    sizes.back() = call.dims("self").at(dimension) - step * static_cast<std::int64_t>(count - 1);
  return pieces_along(call, dimension, sizes);
}

std::size_t split_dimension(const SizeCall &call) {
  return call.dimension("dim", call.dims("self").size());
}

Parts split_sizes(const SizeCall &call) {
  for (const char *name : {"split_sizes", "split_size"})
    if (call.is_list(name))
      return pieces_along(call, split_dimension(call), call.numbers(name));
  return equal_pieces(call, split_dimension(call), call.number("split_size"));
}

Parts chunk_sizes(const SizeCall &call) {
  const std::size_t d = split_dimension(call);
  return equal_pieces(call, d, ceil_divide(call.dims("self").at(d), call.constant("chunks")));
}

Parts unbind_sizes(const SizeCall &call) {
  Dims one = call.dims("self");
  one.erase(one.begin() + static_cast<std::ptrdiff_t>(call.dimension("dim", one.size())));
  return Parts(call.items(), one);
}

Parts tensor_split_sizes(const SizeCall &call) {
  const std::size_t d = split_dimension(call);
  const Size n = call.dims("self").at(d);
  Dims sizes;
  if (call.has("sections")) {
    const std::int64_t sections = call.constant("sections");
    for (std::int64_t i = 0; i < sections; ++i)
      sizes.push_back(floor_divide(n + sections - 1 - i, sections));
    return pieces_along(call, d, sizes);
  }
  Size last(0);
  for (const Size &index : call.numbers("indices")) {
    if (!index.is_at_least(0))
      throw NoRule();
    sizes.push_back(larger(smaller(index, n) - smaller(last, n), 0));
    last = index;
  }
  sizes.push_back(larger(n - last, 0));
  return pieces_along(call, d, sizes);
}

Parts meshgrid_sizes(const SizeCall &call) {
  Dims grid;
  for (const Dims &one : call.tensors("tensors"))
    grid.push_back(product_of(one));
  const Parts tensors = call.tensors("tensors");
  if (call.has("indexing") && call.text("indexing") == "xy" && grid.size() >= 2)
    std::swap(grid[0], grid[1]);
  return Parts(tensors.size(), grid);
}

Parts broadcast_tensors_sizes(const SizeCall &call) {
  const Parts tensors = call.tensors("tensors");
  Dims result;
  for (const Dims &one : tensors)
    result = call.broadcast(result, one);
  return Parts(tensors.size(), result);
}

// ---- Joins

Dims joined_along(const Parts &tensors, std::size_t dimension) {
  Dims result = tensors.at(0);
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].size() != result.size())
      throw NoRule(); // an empty vector, which cat leaves out
    result.at(dimension) = result.at(dimension) + tensors[i][dimension];
    for (std::size_t d = 0; d < result.size(); ++d)
      if (d != dimension && (tensors[i][d].constant() || !result[d].known()))
        result[d] = tensors[i][d]; // the op has them equal
  }
  return result;
}

Parts cat_sizes(const SizeCall &call) {
  const Parts tensors = call.tensors("tensors");
  return {joined_along(tensors, call.dimension("dim", tensors.at(0).size()))};
}

Parts stack_sizes(const SizeCall &call) {
  const Parts tensors = call.tensors("tensors");
  Dims result = tensors.at(0);
  const std::size_t d = call.dimension("dim", result.size() + 1);
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(d),
                Size(static_cast<std::int64_t>(tensors.size())));
  return {result};
}

/// Each of at least `rank` dimensions, joined along one.
Parts stacked(const SizeCall &call, std::size_t rank, bool in_front, std::size_t dimension) {
  Parts tensors = call.tensors("tensors");
  for (Dims &one : tensors) {
    if (one.empty())
      one.emplace_back(1);
    if (rank >= 2 && one.size() == 1)
      one.insert(in_front ? one.begin() : one.end(), Size(1));
    if (rank == 3 && one.size() == 2)
      one.emplace_back(1);
  }
  return {joined_along(tensors, dimension)};
}

Parts hstack_sizes(const SizeCall &call) {
  return stacked(call, 1, true, call.tensors("tensors").at(0).size() > 1 ? 1 : 0);
}
Parts vstack_sizes(const SizeCall &call) { return stacked(call, 2, true, 0); }
Parts dstack_sizes(const SizeCall &call) { return stacked(call, 3, true, 2); }
Parts column_stack_sizes(const SizeCall &call) { return stacked(call, 2, false, 1); }

Parts block_diag_sizes(const SizeCall &call) {
  Size rows(0), columns(0);
  for (const Dims &one : call.tensors("tensors")) {
    rows = rows + (one.size() == 2 ? one[0] : Size(1));
    columns = columns + (one.empty() ? Size(1) : one.back());
  }
  return {Dims{rows, columns}};
}

Parts cartesian_sizes(const SizeCall &call) {
  const Parts tensors = call.tensors("tensors");
  Size rows(1);
  for (const Dims &one : tensors)
    rows = rows * one.at(0);
  if (tensors.size() == 1)
    return {Dims{rows}};
  return {Dims{rows, Size(static_cast<std::int64_t>(tensors.size()))}};
}

// ---- Choices

/// Of a vector or a number that says which.
Size count_of_index(const Dims &index) { return index.empty() ? Size(1) : index[0]; }

Parts index_select_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  if (!result.empty())
    result.at(call.dimension("dim", result.size())) = count_of_index(call.dims("index"));
  return {result};
}

Parts sizes_of_index(const SizeCall &call) { return {call.dims("index")}; }

Parts take_along_sizes(const SizeCall &call) {
  if (!call.has("dim"))
    return {Dims{product_of(call.dims("indices"))}};
  const Dims &self = call.dims("self"), &indices = call.dims("indices");
  const std::size_t d = call.dimension("dim", self.size());
  Dims result = call.broadcast(self, indices);
  result.at(d) = indices.at(d);
  return {result};
}

/// x[i, :, j]: the indices are broadcast, and stand where the first of them is if they are side by
/// side, else in front.
Parts index_sizes(const SizeCall &call) {
  const Dims &self = call.dims("self");
  const auto indices = call.elements("indices");
  Dims broadcast, before, after;
  bool any = false, ended = false, apart = false;
  for (std::size_t d = 0; d < self.size(); ++d) {
    const bool index =
        d < indices.size() && indices[d]->type()->isSubtypeOf(*c10::TensorType::get());
    if (!index) {
      (any ? after : before).push_back(self[d]);
      ended |= any;
      continue;
    }
    if (call.is_mask(indices[d]))
      throw NoRule();
    apart |= ended;
    any = true;
    broadcast = call.broadcast(broadcast, call.dims(indices[d]));
  }
  if (!any || indices.size() > self.size())
    throw NoRule();
  Dims result;
  if (!apart)
    result = before;
  result.insert(result.end(), broadcast.begin(), broadcast.end());
  if (apart)
    result.insert(result.end(), before.begin(), before.end());
  result.insert(result.end(), after.begin(), after.end());
  return {result};
}

Parts embedding_sizes(const SizeCall &call) {
  Dims result = call.dims("indices");
  result.push_back(call.dims("weight").at(1));
  return {result};
}

Parts topk_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  if (!result.empty())
    result.at(call.dimension("dim", result.size())) = call.number("k");
  return {result, result};
}

Parts one_hot_sizes(const SizeCall &call) {
  const Size classes = call.number("num_classes");
  if (!classes.is_at_least(0))
    throw NoRule();
  Dims result = call.dims("self");
  result.push_back(classes);
  return {result};
}

Parts bins_sizes(const SizeCall &call) { return {Dims{call.number("bins")}}; }

Parts diff_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::size_t d = call.dimension("dim", result.size());
  for (const char *more : {"prepend", "append"})
    if (call.has(more))
      result.at(d) = result.at(d) + call.dims(more).at(d);
  result.at(d) = larger(result.at(d) - call.constant("n"), 0);
  return {result};
}

} // namespace

Size count_of_parts(std::string_view op, const SizeCall &call) {
  const bool sizes = call.is_list("split_size") || call.is_list("split_sizes");
  if (op == "unbind") {
    const Dims &self = call.dims("self");
    return self.at(call.dimension("dim", self.size()));
  }
  if ((op == "split" || op == "unsafe_split") && !sizes) {
    const Size n = call.dims("self").at(split_dimension(call)), step = call.number("split_size");
    return larger(ceil_divide(n, step), 1);
  }
  if (op == "chunk" || op == "unsafe_chunk") {
    const Size n = call.dims("self").at(split_dimension(call));
    const std::int64_t chunks = call.constant("chunks");
    if (chunks <= 2) // two, but of one row
      return chunks == 1 ? Size(1) : Size(2) - Size::made(Size::Op::equal, n, 1);
    // Of no rows there are as many as were asked for.
    const Size empty = Size::made(Size::Op::equal, n, 0);
    return floor_divide(n + ceil_divide(n, chunks) - 1, larger(ceil_divide(n, chunks), 1)) +
           empty * chunks;
  }
  throw NoRule();
}

const std::vector<NamedSizeRule> kPartSizes = {
    {"split split_with_sizes unsafe_split unsafe_split_with_sizes", split_sizes},
    {"chunk unsafe_chunk", chunk_sizes},
    {"unbind", unbind_sizes},
    {"tensor_split", tensor_split_sizes},
    {"meshgrid", meshgrid_sizes},
    {"broadcast_tensors", broadcast_tensors_sizes},
};

const std::vector<NamedSizeRule> kJoinSizes = {
    {"cat concat concatenate", cat_sizes},
    {"stack", stack_sizes},
    {"hstack", hstack_sizes},
    {"vstack row_stack", vstack_sizes},
    {"dstack", dstack_sizes},
    {"column_stack", column_stack_sizes},
    {"block_diag", block_diag_sizes},
    {"cartesian_prod", cartesian_sizes},
};

const std::vector<NamedSizeRule> kIndexSizes = {
    {"index_select", index_select_sizes},
    {"gather take", sizes_of_index},
    {"take_along_dim", take_along_sizes},
    {"index _unsafe_index", index_sizes},
    {"embedding", embedding_sizes},
    {"topk", topk_sizes},
    {"one_hot", one_hot_sizes},
    {"histc", bins_sizes},
    {"diff", diff_sizes},
};

} // namespace tracehost::trace
