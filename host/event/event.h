#pragma once

#include "event/graph_news.h"
#include "event/optimize.h"
#include "event/sketch.h"
#include "event/tally.h"
#include "signature/difference.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tracehost {

/// A place in a user's source.
struct Site {
  std::string file;
  int line = 0;
  /// Where that line has led to in an installed package: `text()` of the package's line. Empty if
  /// the user's own line is what runs.
  std::string inside{};
  bool operator==(const Site &) const = default;
};
/// `train.py:12`, the file's last component; `timm/layers/drop.py:30` for a file of an installed
/// package; `train.py:12 (in timm/layers/drop.py:30)`; `?` when unknown.
std::string text(const Site &site);

/// Who a Function is. Immutable. Functions decorated at one definition site share `site_key`.
struct Identity {
  std::string name;           ///< `step`
  std::string qualified{};    ///< `train.Trainer.step`; empty: not known
  Site definition;            ///< of the innermost wrapped function
  std::uint64_t site_key = 0; ///< one number a definition site (code object), process-wide
  std::string archive{};      ///< of a function of an archive: the start of its hash, `1a2b3c4d`
  bool declared = false;      ///< has an input_signature
  bool reduces = false;       ///< reduce_retracing is set
  Optimize optimize = Optimize::off;
};

/// A number that no two Functions of the process share.
std::uint64_t next_function_number();

/// What a Function counts while it runs. Calls write the counters (`memory_order_relaxed`), reports
/// read them.
struct Counters {
  Identity identity;
  const std::uint64_t number = next_function_number();
  std::atomic<std::uint64_t> hits{0};     ///< calls that a graph served to their end
  std::atomic<std::uint64_t> failed{0};   ///< calls whose graph threw: an op, a `raise`
  std::atomic<std::uint64_t> rejected{0}; ///< calls that ended in a SignatureError
  std::atomic<std::uint64_t> traces{0};   ///< ever, evicted ones included, inlined ones not
  std::atomic<std::uint64_t> inlined{0};  ///< calls traced into another Function
  std::atomic<std::uint64_t> evicted{0};
  std::atomic<std::uint64_t> cleared{0};  ///< calls of clear()
  std::atomic<std::uint64_t> eager{0};    ///< calls run without a graph
  std::atomic<std::uint64_t> live{0};     ///< specializations now
  std::atomic<std::uint64_t> trace_ns{0}; ///< time spent in traces
  // Checks of graphs against their bodies, at traces and at hits: those that came to an end, those
  // that were not made, and those that found a wrong graph.
  std::atomic<std::uint64_t> validated{0};
  std::atomic<std::uint64_t> unvalidated{0};
  Tally unvalidated_because;
  std::atomic<std::uint64_t> mismatches{0};
  // CUDA graphs, as in GraphNews, and the device memory that they have now.
  std::atomic<std::uint64_t> captured{0};
  std::atomic<std::uint64_t> uncaptured{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::int64_t> device_bytes{0};
};

/// A dimension that was requested as dynamic, but had to be specialized (docs/rules/signature.md).
struct SpecializedSize {
  std::string path; ///< the argument's
  int dimension = 0;
  std::string why; ///< `int() of the size`
  Site where;      ///< the line that needs it
};

/// A trace has been published.
struct TraceEvent {
  std::shared_ptr<const Counters> function;
  Site call;                           ///< where the call stands that traced
  std::vector<Difference> differences; ///< from the nearest Specialization; empty for a first trace
  bool first = false;                  ///< the Function had no live Specialization to compare with
  bool was_evicted = false;            ///< an evicted Specialization would have served
  std::string signature;               ///< text(Signature)
  std::string lock;                    ///< call_text() of the call, or of a graph for more sizes
  const Signature *full = nullptr;     ///< the same with all it is made of; good while on() runs
  std::uint64_t number = 0;            ///< Specialization::number
  Sketch request;                      ///< the call's own Signature, with exact sizes
  /// Numbers of the live Specializations that differ from the call in sizes, ranks and Python
  /// numbers alone: a declaration could make them one with it.
  std::vector<std::uint64_t> alike;
  /// Paths of other objects, by which reduce_retracing compares nothing but the class.
  std::vector<std::string> exchangeable;
  std::vector<SpecializedSize> specialized; ///< sizes that could not be dynamic
  std::string once; ///< why the trace serves its own call alone, a sentence; empty: it does not
  std::vector<std::string> notes; ///< what a check at a second size found, a sentence each
  std::uint64_t nanoseconds = 0;  ///< body, passes and publishing
  std::uint32_t ops = 0;          ///< nodes of the graph
  bool counted = true;            ///< made by a call; the detector ignores a requested trace
};
/// A Specialization has left the cache, after the trace that took its place was published.
struct EvictEvent {
  std::shared_ptr<const Counters> function;
  Site call; ///< of that trace
  std::string signature;
  std::uint64_t hits = 0;
  std::size_t limit = 0;
  bool dead = false; ///< it could never match again
};
/// A trace that was unsupported or raised. The cache is unchanged.
struct FailEvent {
  std::shared_ptr<const Counters> function;
  Site call;
  std::string error;     ///< type and message
  bool went_on = false;  ///< the body continued without a graph: the call itself did not fail
  bool rejected = false; ///< a SignatureError, which Counters::rejected counts
  std::string lock{};    ///< call_text() of the call; empty: no trace was begun
};

/// A graph did not do what its body did. Nothing of it is kept, and calls with this signature run
/// the body.
struct MismatchEvent {
  std::shared_ptr<const Counters> function;
  Site call;
  std::string signature;  ///< text(Signature) of the graph
  std::string what;       ///< `output, element (1, 2): 3.0 in the graph, 1.0 in the body`
  std::string culprit;    ///< `aten::mul at net.py:12`; may be empty
  std::uint64_t hits = 0; ///< that it had served; 0: it was found at its trace
  std::string lock{};     ///< call_text() of the call
};

/// A CUDA graph was captured, rejected or dropped.
struct GraphEvent {
  std::shared_ptr<const Counters> function;
  std::string signature; ///< text(Signature) of the traced graph
  GraphNews news;
};

/// Receives the events of calls. Called without any lock of tracehost held; must not run user code.
class Sink {
public:
  virtual ~Sink() = default;
  virtual void created(std::shared_ptr<const Counters> function) = 0;
  virtual void on(const TraceEvent &event) = 0;
  virtual void on(const EvictEvent &event) = 0;
  virtual void on(const FailEvent &event) = 0;
  virtual void on(const MismatchEvent &event) = 0;
  virtual void on(const GraphEvent &event) = 0;
};

} // namespace tracehost
