#pragma once

#include "region/pieces.h"

#include <cstddef>
#include <unordered_map>
#include <vector>

/// The numbers of a region's ops in memory that the code reads.
///
/// Line 0 has masks for AVX2: as many -1 as a vector has lanes, then as many 0. A number is there
/// once for AVX512, whose instructions repeat it, and fills a vector for AVX2.

namespace tracehost::region {

using NumberBits = std::uint64_t;

class RegionNumbers {
public:
  RegionNumbers(const RegionSchedule &schedule, c10::ScalarType dtype, RegionIsa isa);

  const void *table() const { return lines_.data(); }
  /// In bytes from the table's start. Requires: of() or implied_by() gave the number.
  int offset(NumberBits bits) const { return offsets_.at(bits); }
  /// Its bits in the dtype.
  NumberBits of(double value) const;
  /// The number that an instruction reads besides its operands: the sign of `neg`, the mask of
  /// `abs`.
  std::optional<NumberBits> implied_by(RegionCode code) const;

private:
  void add(NumberBits bits);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  bool doubles_, wide_;
  std::size_t used_ = sizeof(Line);
  std::vector<Line> lines_;
  std::unordered_map<NumberBits, int> offsets_;
};

} // namespace tracehost::region
