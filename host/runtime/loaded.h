#pragma once

#include "archive/archive.h"
#include "cache/cache.h"
#include "event/event.h"
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

/// What counts the calls of an archive's function. `path` and `hash` (`xxh3:0123...`): the
/// archive's. Throws ArchiveError where it has no graphs.
std::shared_ptr<Counters> counters_of(const archive::Entry &entry, const std::string &path,
                                      const std::string &hash);

/// One function of an archive: its graphs, which never change. Nothing is locked by a call. A hit
/// is what it is in Python; a miss throws, with the nearest difference.
class Loaded final : public detail::Callable {
public:
  /// `path`: of the archive, for messages and reports; `hash`: of the archive. `sink`
  /// outlives it.
  Loaded(const archive::Entry &entry, const std::string &path, Sink &sink,
         const std::string &hash = {});
  /// Calls are counted in `counters`, whose owner reports what happens.
  Loaded(const archive::Entry &entry, std::shared_ptr<Counters> counters, Sink &sink);

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
  struct Call;
  /// nullopt: no graph serves; then `failed_check` describes the last check that has ended a run.
  std::optional<Value> run(const Bound &bound, bool inference, std::string &failed_check);
  const Specialization *serving(Call &call);
  void bind(std::span<const Argument> arguments, Bound &bound);
  [[noreturn]] void refuse(const Bound &bound, bool inference, const std::string &failed_check);

  Binder binder_;
  std::shared_ptr<Counters> counters_;
  Sink &sink_;
  std::shared_ptr<const Cache::List> graphs_; ///< most specific first
  std::atomic<std::size_t> last_{0};          ///< index of the graph that served last; a hint
  /// The Specializations differ in grad mode or requires_grad: those of the call's are tried first.
  bool by_gradients_ = false;
};

} // namespace tracehost::runtime
