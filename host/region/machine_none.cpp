#include "region/machine.h"

/// What a build without xbyak has.

namespace tracehost::region {

std::unique_ptr<RegionMachineCode> RegionMachineCode::make(const RegionSchedule &, c10::ScalarType,
                                                           RegionIsa, std::string &why) {
  why = "tracehost was built without xbyak";
  return nullptr;
}

} // namespace tracehost::region
