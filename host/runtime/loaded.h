#pragma once

#include "archive/archive.h"
#include "cache/cache.h"
#include "event/event.h"
#include "runtime/bind.h"
#include "runtime/callable.h"
#include "runtime/fields.h"
#include "runtime/walk.h"

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tracehost::runtime {

/// A call, as it is compared with graphs and as they run for it: C++ values here, Python's objects
/// in bindings/src/export/archives.cpp. A Python object says more than a C++ value does: the class
/// of a dataclass, a dict or a named tuple.
class Call {
public:
  /// `context`: the modes of the thread. `inference`: graphs run in an InferenceMode of their own.
  explicit Call(Context context, bool inference = false);
  virtual ~Call() = default;

  /// Hot. As runtime::matches().
  virtual bool matches(const Signature &signature, bool requires_grad, Slots &slots) const = 0;
  /// Runs the graph with its inputs; `operands` then has its results. CheckFailed passes through.
  virtual void run(const Specialization &graph, Operands &operands) const = 0;
  /// As signature_like().
  virtual Signature signature(const Signature &guide, std::vector<at::Tensor> &slots) const = 0;
  /// As misfit_of_fields().
  virtual std::optional<FieldMisfit> misfit(const Signature &) const { return std::nullopt; }

protected:
  const bool inference_;

private:
  friend class Loaded;
  Context context_;                                    ///< as the graph will see it
  bool exact_ = false;                                 ///< grad mode and requires_grad take part
  Slots slots_;                                        ///< of the graph that was asked last
  c10::SmallVector<const Specialization *, 2> failed_; ///< those that a check has ended
  std::optional<Found> found_;                         ///< by the last of those checks
  std::string why_;                                    ///< that check
};

class ValueCall;

/// One function of an archive: its graphs, which never change. Nothing is locked by a call. A hit
/// is what it is in Python; a miss throws, with the nearest difference.
class Loaded final : public detail::Callable {
public:
  /// `path`: of the archive, for messages and reports; `hash` (`xxh3:0123...`): of the archive.
  /// `sink` outlives it. Throws ArchiveError where the function has no graphs.
  Loaded(const archive::Entry &entry, const std::string &path, Sink &sink,
         const std::string &hash = {});
  /// Calls are counted in `counters`, whose owner reports what happens.
  Loaded(const archive::Entry &entry, std::shared_ptr<Counters> counters, Sink &sink);

  /// The one place that finds the graph for a call, runs it, tries the next one after a failed
  /// check, and counts. `operands` then has the results. Null: no graph serves.
  const Specialization *serve(Call &call, Operands &operands);
  /// Why no graph serves; counts it.
  SignatureError rejection(const Call &call);
  /// Counts a call whose arguments no graph can have.
  void count_rejection() { counters_->rejected.fetch_add(1, std::memory_order_relaxed); }

  Value call(std::span<const Argument> arguments, bool inference) override;
  /// As call(); nullopt where no graph serves.
  std::optional<Value> served(std::span<const Argument> arguments, bool inference);
  void warm_up(bool inference) override;
  const std::string &name() const override { return counters_->identity.name; }
  std::vector<std::string> signatures() const override;
  std::vector<GraphSpec> graphs() const override;
  std::vector<Parameter> parameters() const override;
  Stats stats() const override;

private:
  /// serve(). C: Call; or ValueCall, whose members are then called directly.
  template <class C> const Specialization *run(C &call, Operands &operands);
  template <class C> const Specialization *find(C &call);
  /// Hot. Whether the graph serves; then the call's slots_ are its inputs before the captures.
  template <class C> static bool fits(C &call, const Specialization &specialization);
  void bind(std::span<const Argument> arguments, Bound &bound);
  void log_failure(std::uint64_t number) const;
  std::optional<Value> value(ValueCall &call);

  Binder binder_;
  std::shared_ptr<Counters> counters_;
  Sink &sink_;
  std::shared_ptr<const Cache::List> graphs_; ///< most specific first
  std::atomic<std::size_t> last_{0};          ///< index of the graph that served last; a hint
  /// The Specializations differ in grad mode or requires_grad: those of the call's are tried first.
  bool by_gradients_ = false;
};

} // namespace tracehost::runtime
