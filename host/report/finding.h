#pragma once

#include "event/event.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::report {

/// What is kept of a TraceEvent.
struct TraceRecord {
  static constexpr std::size_t most_differences = 32;
  enum class Origin {
    initial, ///< the first trace of its definition site
    again,   ///< the first of a further Function of the site
    emptied, ///< the Function had traced before, and had nothing left to compare with
    differs, ///< as `differences` say
  };
  std::vector<Difference> differences; ///< at most most_differences
  Site call;
  Origin origin = Origin::differs;
  bool complete = true; ///< `differences` are all
  bool evicted = false; ///< an evicted Specialization would have served
  std::string once{};   ///< TraceEvent::once
  /// Of the trace before for this signature: why it served its own call alone.
  std::string was_once{};
  bool seen = false; ///< the site had traced this signature before
  // For replays, as in TraceEvent:
  std::uint64_t function = 0; ///< Counters::number
  std::uint64_t number = 0;
  Sketch request;
  std::vector<std::uint64_t> alike;
  std::vector<SpecializedSize> specialized;
};

/// One cause, and the traces that it was found in. Causes are read off the differences and origins
/// that the events carry, never guessed by other means.
struct Finding {
  enum class Kind {
    difference,
    again,
    emptied,
    evicted,
    once,    ///< `values`: why an earlier trace served its own call alone
    unnamed, ///< no difference was found: an object's `__eq__` changed its mind
  };
  Kind kind = Kind::difference;
  Cause cause = Cause::value;       ///< for Kind::difference, as all down to dimension
  std::vector<std::string> paths{}; ///< more than one where arguments changed hand in hand
  std::vector<int> ranks{};         ///< of the tensors at `paths`, for Cause::shape
  int dimension = -1;
  std::string where{};               ///< for Cause::read: the line that read it
  std::vector<std::string> values{}; ///< distinct, in order of appearance; sizes only
  std::vector<std::size_t> traces{}; ///< indices of records, ascending
  std::vector<std::pair<Site, std::size_t>> calls{}; ///< and how often, most frequent first
};

/// Of one difference, with no trace yet.
Finding finding_of(const Difference &difference);
/// How sentences speak of a cause: `took 2 dtypes`, `has dtype int64`.
struct Words {
  Cause cause;
  const char *took, *forms, *has;
};
const Words &words_of(Cause cause);

/// Most frequent first; equals in order of appearance.
std::vector<Finding> findings(std::span<const TraceRecord> records);

/// A word for metrics: `shape`, `value`, `decorated_again`.
const char *cause_label(const Finding &finding);

/// `argument 'x', dimension 1, took 5 values (12, 15, 17, 20, 31), from train.py:40`.
std::string sentence(const Finding &finding, const Identity &function, std::size_t limit);
/// The cause of one trace: `argument 'x', dimension 1, was 12, is 15`.
std::string cause_of_one(const Finding &finding, const Identity &function, std::size_t limit);
/// `dimension 0 of 'x' stays exact: int() of the size at train.py:12`.
std::string sentence(const SpecializedSize &specialized);
/// `argument 'x', dimension 1,`: what a Finding of a difference is about.
std::string subject(const Finding &finding);
/// For the table: `'x' dimension 1`, `'lr' value`, `decorated again`.
std::string brief(const Finding &finding);

/// As Python would quote it: `'x'`, `"batch['image']"`.
std::string quoted(const std::string &path);
/// `1 trace`, `2 traces`.
std::string counted(std::size_t count, const char *noun);

} // namespace tracehost::report
