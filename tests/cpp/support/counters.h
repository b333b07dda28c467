#pragma once

#include "event/event.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace tracehost::test {

/// The counters of a Function defined at train.py:12.
inline std::shared_ptr<Counters> function(std::string name = "step", std::uint64_t site = 1) {
  auto counters = std::make_shared<Counters>();
  counters->identity = {.name = std::move(name), .definition = {"train.py", 12}, .site_key = site};
  return counters;
}

} // namespace tracehost::test
