#pragma once

#include "archive/write.h"
#include "event/event.h"
#include "tracehost/function.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

/// What C++ callers (embed/) ask of Python. The extension module `_tracehost` implements it
/// (bindings/src/export/bridge.cpp) and has it in a capsule; neither includes anything of the
/// other.

namespace tracehost::runtime {

/// One Function of Python's. Requires for every member but name(): GIL held. They throw PythonError
/// and its kin.
class PythonCallee {
public:
  virtual ~PythonCallee() = default; ///< GIL held
  virtual const std::string &name() const = 0;
  /// As Python calls it: traces if need be.
  virtual Value call(std::span<const Argument> arguments) = 0;
  /// Changes with each trace and each eviction.
  virtual std::uint64_t state() const = 0;
  /// The Function's own: calls from C++ are counted there, too.
  virtual std::shared_ptr<Counters> counters() const = 0;
  /// What of it can run without Python, with captures as they are now: specializations whose
  /// guarded slots still hold what they held. May have none.
  virtual archive::SourceFunction sources() = 0;
};

class Bridge {
public:
  static constexpr const char *kCapsule = "tracehost._tracehost.bridge";
  static constexpr int kVersion = 2;
  int version = kVersion; ///< of this interface: the first member in each version

  virtual ~Bridge() = default;
  virtual std::unique_ptr<PythonCallee> find(const std::string &module,
                                             const std::string &name) = 0;
  virtual std::string report() = 0;
};

} // namespace tracehost::runtime
