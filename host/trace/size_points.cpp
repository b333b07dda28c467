#include "trace/size_points.h"

#include <algorithm>

namespace tracehost::trace {
namespace {

bool is_prime(std::int64_t n) {
  if (n < 2)
    return false;
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0)
      return false;
  return true;
}

} // namespace

SizePoints::SizePoints(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic) {
  for (const at::Tensor &t : slots)
    taken_.insert(t.sizes().begin(), t.sizes().end());
  for (const auto &capture : dynamic.captures)
    taken_.insert(capture.tensor.sizes().begin(), capture.tensor.sizes().end());
  const auto add = [&](DynamicDimensions::Dimension dimension, std::int64_t size) {
    const auto same = std::find_if(symbols_.begin(), symbols_.end(),
                                   [&](const Symbol &s) { return s.size == size; });
    leaves_.push_back({dimension, size, static_cast<std::size_t>(same - symbols_.begin())});
    if (same == symbols_.end())
      symbols_.push_back({size});
  };
  for (const auto &dimension : dynamic.dimensions)
    add(dimension, slots[dimension.slot].size(dimension.dimension));
  for (std::size_t i = 0; i < dynamic.captures.size(); ++i)
    for (const std::int32_t dimension : dynamic.captures[i].dimensions)
      add({unmet(i), dimension}, dynamic.captures[i].tensor.size(dimension));
  for (std::size_t s = 0; s < symbols_.size(); ++s) {
    attempt(s, 0);
    constexpr std::int64_t least = 503;
    set_large(symbols_[s], std::max(least, symbols_[s].size));
  }
}

void SizePoints::set_large(Symbol &symbol, std::int64_t half) {
  while (!is_prime(half) || taken_.contains(2 * half))
    ++half;
  symbol.large = 2 * half; // even, as far may be odd
  taken_.insert(symbol.large);
}

bool SizePoints::grow_beyond(std::int64_t n) {
  constexpr std::int64_t strides = 16; // that pools and convolutions divide by in between
  if (n <= beyond_)
    return false;
  beyond_ = n;
  bool grown = false;
  for (Symbol &symbol : symbols_)
    if (symbol.large < 4 * n) {
      taken_.erase(symbol.large);
      set_large(symbol, strides * n);
      grown = true;
    }
  return grown;
}

void SizePoints::meet(std::size_t index, std::uint32_t input) {
  for (Leaf &leaf : leaves_)
    if (leaf.dimension.slot == unmet(index))
      leaf.dimension.slot = input;
}

std::size_t SizePoints::count() const {
  for (std::size_t s = 0; s < symbols_.size(); ++s)
    if (open_leaves(s).size() > 1)
      return rest + 1;
  return ones + 1;
}

std::int64_t SizePoints::symbol_size(std::size_t symbol, std::size_t point) const {
  const Symbol &s = symbols_[symbol];
  return point == real    ? s.size
         : point == near  ? s.near
         : point == far   ? s.far
         : point == large ? s.large
                          : 1;
}

std::int64_t SizePoints::size(std::size_t leaf, std::size_t point) const {
  const Leaf &l = leaves_[leaf];
  if (l.specialized)
    return l.size;
  if (point < kTogether)
    return symbol_size(l.symbol, point);
  const bool first = open_leaves(l.symbol).front() == leaf;
  return first == (point == lead) ? symbols_[l.symbol].near : 1;
}

int SizePoints::leaf_at(std::uint32_t slot, std::int64_t dimension) const {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].dimension.slot == slot && leaves_[i].dimension.dimension == dimension)
      return static_cast<int>(i);
  return -1;
}

std::vector<std::size_t> SizePoints::open_leaves(std::size_t symbol) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].symbol == symbol && !leaves_[i].specialized)
      found.push_back(i);
  return found;
}

std::vector<std::size_t> SizePoints::open_symbols(LeafSet set) const {
  std::set<std::size_t> found;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (contains(set, i) && !leaves_[i].specialized)
      found.insert(leaves_[i].symbol);
  return {found.begin(), found.end()};
}

/// The nearest free size below, of at least 2; 0 if there is none.
std::int64_t SizePoints::free_below(std::int64_t size, std::int64_t step) const {
  for (std::int64_t n = size - 1; n >= 2; --n)
    if (!taken_.contains(n) && (step == 1 || n % step == 0))
      return n;
  return 0;
}

std::int64_t SizePoints::free_above(std::int64_t size, bool even) const {
  std::int64_t n = std::max<std::int64_t>(size + 1, 2);
  while (taken_.contains(n) || (even ? n % 2 != 0 : !is_prime(n) || n == 2))
    ++n;
  return n;
}

std::int64_t SizePoints::free_multiple(std::int64_t size, std::int64_t from) const {
  while (taken_.contains(from * size))
    ++from;
  return from * size;
}

bool SizePoints::attempt(std::size_t symbol, int which) {
  Symbol &s = symbols_[symbol];
  const Symbol before = s;
  if (s.near)
    taken_.erase(s.near), taken_.erase(s.far);
  const auto take = [&](std::int64_t &place, std::int64_t n) {
    place = n;
    if (n)
      taken_.insert(n);
  };
  if (which == 1) {
    take(s.near, free_below(s.size, 1));
    take(s.far, free_below(s.near ? s.near : s.size, 1));
    if (!s.far)
      take(s.far, s.near); // one size below is better than none
  } else if (which == 3) {
    take(s.near, s.size > 1 ? free_multiple(s.size, 3) : 0);
    take(s.far, s.size > 1 ? free_multiple(s.size, 2) : 0);
  } else {
    take(s.near, free_above(s.size, false));
    take(s.far, which == 0 ? free_below(s.size, 2) : 0);
    if (!s.far)
      take(s.far, free_above(s.size, true));
  }
  if (s.near && s.far) {
    s.attempt = which;
    return true;
  }
  if (s.near)
    taken_.erase(s.near);
  s = before;
  taken_.insert({s.near, s.far});
  return false;
}

} // namespace tracehost::trace
