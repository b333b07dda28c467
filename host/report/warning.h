#pragma once

#include "report/record.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tracehost::report {

/// A warning that is due, as facts: the words are the front end's.
struct Due {
  enum class Kind {
    first,    ///< the first of the two of a site
    second,   ///< the other one
    eviction, ///< a Specialization was evicted, for the first time
    news,     ///< a cause that neither of the two has named; it is shown as an error only
  };
  Kind kind = Kind::first;
  Account account{};
  std::uint64_t traces = 0, calls = 0; ///< "`traces` out of the last `calls` calls"
  std::string evicted{};               ///< text(Signature) of the one that went; Kind::eviction
  Site call;         ///< to attribute it to: the caller's line, else the function's
  Site first_call{}; ///< of the first warning; Kind::second
};
const char *name(Due::Kind kind); ///< "first", "second" ...

} // namespace tracehost::report
