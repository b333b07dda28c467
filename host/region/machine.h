#pragma once

#include "region/pieces.h"

/// The machine code of a region's pieces.
///
/// The code is written to memory that is not executable, and that is not writable once it is. It is
/// x86-64, made with xbyak; without xbyak another file stands in (machine_none.cpp).

namespace tracehost::region {

class RegionMachineCode {
public:
  /// Null, and `why`: executable memory is not to be had, or this build has no xbyak.
  static std::unique_ptr<RegionMachineCode>
  make(const RegionSchedule &schedule, c10::ScalarType dtype, RegionIsa isa, std::string &why);
  virtual ~RegionMachineCode() = default;

  /// Hot. The piece of a stage over values 0 to n - 1 of its arrays.
  void run(std::size_t stage, const void *const *arrays, std::int64_t n) const {
    if (const Entry entry = entries_[stage])
      entry(arrays, n);
  }

protected:
  using Entry = void (*)(const void *const *arrays, std::int64_t n);
  std::vector<Entry> entries_; ///< by stage; null: the piece is empty
};

} // namespace tracehost::region
