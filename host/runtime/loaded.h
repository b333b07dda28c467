#pragma once

#include "archive/archive.h"
#include "function/function.h"
#include "runtime/bind.h"
#include "runtime/callable.h"

#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tracehost::runtime {

/// One function of an archive: a FunctionCore whose cache is filled once. A hit is what it is in
/// Python; a miss throws, with the nearest difference.
class Loaded final : public detail::Callable {
public:
  /// `path`: of the archive, for messages and reports. `sink` outlives it.
  Loaded(const archive::Entry &entry, const std::string &path, Sink &sink);

  Value call(std::span<const Argument> arguments, bool inference) override;
  /// As call(); nullopt where no graph serves.
  std::optional<Value> served(std::span<const Argument> arguments, bool inference);
  void warm_up(bool inference) override;
  const std::string &name() const override { return core_.counters()->identity.name; }
  std::vector<std::string> signatures() const override;
  Stats stats() const override;

private:
  class Call;
  std::optional<Value> run(const Bound &bound, bool inference);
  [[noreturn]] void refuse(const Bound &bound, bool inference);

  Binder binder_;
  FunctionCore core_;
  Sink &sink_;
  /// The Specializations differ in grad mode or requires_grad: those of the call's are tried first.
  bool by_gradients_ = false;
  std::atomic<std::uint64_t> misses_{0};
};

} // namespace tracehost::runtime
