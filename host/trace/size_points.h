#pragma once

#include "trace/tracer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <vector>

namespace tracehost::trace {

/// A set of dynamic dimensions, a bit each; those from the 64th on share the last bit.
using LeafSet = std::uint64_t;

/// The dynamic dimensions of a trace's slots and captures, and the sizes at which each op is tried
/// beside the trace.
///
/// Dimensions that had equal sizes at the trace are of one *symbol*: they get equal sizes at the
/// other points too, as `x + y` needs it.
///
///     x[8, 5], y[8], all dynamic     symbols  s: x.0, y.0    t: x.1
///     real    as at the trace        8      5
///     near    a little above, odd    11     7     ops must hold here: else the dimension
///     far     a little below, even   6      4     stays exact
///     large   about 1000             1006   1018  may fail: the body's ops then do as well
///     ones    1                      1      1     may fail
///     lead    x.0 as near, y.0 1                  may fail: are equal sizes needed?
///     rest    x.0 1, y.0 as near                  may fail
class SizePoints {
public:
  enum Point : std::size_t { real, near, far, large, ones, lead, rest };
  static constexpr std::size_t kMust = 3;     ///< the points before this one have to hold
  static constexpr std::size_t kTogether = 5; ///< before this one a symbol has one size
  static constexpr int kAttempts = 4;

  struct Leaf {
    DynamicDimensions::Dimension dimension;
    std::int64_t size = 0; ///< at the trace
    std::size_t symbol = 0;
    bool specialized = false;
  };

  SizePoints(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic);

  /// Leaf::dimension.slot of capture `index` of the dynamic dimensions until the body has met the
  /// tensor.
  static constexpr std::uint32_t unmet(std::size_t index) {
    return kUnmet + static_cast<std::uint32_t>(index);
  }
  static bool is_unmet(std::uint32_t slot) { return slot >= kUnmet; }
  /// The body has met it: `input` is its place among the graph's inputs.
  void meet(std::size_t index, std::uint32_t input);

  const std::vector<Leaf> &leaves() const { return leaves_; }
  std::size_t symbols() const { return symbols_.size(); }
  /// How many points differ from each other: lead and rest only where a symbol has two leaves.
  std::size_t count() const;
  std::int64_t size(std::size_t leaf, std::size_t point) const;
  /// The size of a symbol that is not specialized; `point` < kTogether.
  std::int64_t symbol_size(std::size_t symbol, std::size_t point) const;
  /// The leaf at that dimension, or -1.
  int leaf_at(std::uint32_t slot, std::int64_t dimension) const;

  static LeafSet bit(std::size_t leaf) { return LeafSet{1} << (leaf < 63 ? leaf : 63); }
  bool contains(LeafSet set, std::size_t leaf) const { return set & bit(leaf); }
  /// The leaves of `symbol` that are not specialized.
  std::vector<std::size_t> open_leaves(std::size_t symbol) const;
  /// The symbols of the leaves in `set` that are not specialized.
  std::vector<std::size_t> open_symbols(LeafSet set) const;

  void specialize(std::size_t leaf) { leaves_[leaf].specialized = true; }
  void unspecialize(std::size_t leaf) { leaves_[leaf].specialized = false; }
  /// Other near and far sizes of a symbol: 0 around the real one, 1 below, 2 above, 3 multiples.
  /// Returns false where there are none.
  bool attempt(std::size_t symbol, int which);
  int attempt(std::size_t symbol) const { return symbols_[symbol].attempt; }
  /// The large sizes become far larger than `n`. False if they are.
  bool grow_beyond(std::int64_t n);

private:
  static constexpr std::uint32_t kUnmet = 1U << 30;
  struct Symbol {
    std::int64_t size = 0;
    std::int64_t near = 0, far = 0, large = 0;
    int attempt = 0;
  };
  void set_large(Symbol &symbol, std::int64_t half);
  std::int64_t free_below(std::int64_t size, std::int64_t step) const;
  std::int64_t free_above(std::int64_t size, bool even) const;
  std::int64_t free_multiple(std::int64_t size, std::int64_t from) const;

  std::vector<Leaf> leaves_;
  std::vector<Symbol> symbols_;
  std::int64_t beyond_ = 0;      ///< the large sizes are larger
  std::set<std::int64_t> taken_; ///< sizes that occur in the signature or stand for a symbol
};

} // namespace tracehost::trace
