#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Checks of a graph, and what a check that fails says about other graphs.
///
///     tracehost::check_kind(Scalar number, int kind) -> ()           throws CheckFailed
///     tracehost::check_number(Scalar number, Scalar expected) -> ()  throws CheckFailed
///
/// Problem: a check fails after most of the graph has run, and up to 16 graphs for other numbers
/// fit the call. If they ran in turn, each would run the start that all of them have. Answer: the
/// number that the check has found chooses the next graph.
///
///     graph 1: check 7 at net.py:3, True at net.py:5
///     graph 2: check 7 at net.py:3, False at net.py:5
///     graph 3: check 8 at net.py:3
///
/// A run of graph 1 finds 8 at net.py:3. Graph 3 is next; graph 2 would fail and does not run. A
/// run of graph 1 that finds False at net.py:5 leads to graph 2.
///
/// A body runs the same Python up to a check, as guards and earlier checks say what it has read. So
/// graphs whose checks before were equal compute one number there. Were this ever wrong, the chosen
/// graph would still check its numbers: the choice costs time, never the result.

namespace tracehost {

/// What the checks compare: of one type and equal to the bit; of one kind, a NumberKind.
bool is_number(const c10::IValue &number, const c10::IValue &expected);
bool is_of_kind(const c10::IValue &number, const c10::IValue &kind);

/// Whether the op of this qualified name is one of the two checks.
bool is_check(std::string_view op);

/// One of the two checks.
struct Check {
  bool of_kind = false; ///< check_kind, not check_number
  c10::IValue expected; ///< None: no constant of the graph
  std::string place;    ///< `net.py:12`

  bool holds(const c10::IValue &number) const {
    return of_kind ? is_of_kind(number, expected) : is_number(number, expected);
  }
  /// How `number` differs from what is expected.
  std::string told(const c10::IValue &number) const;
};

class Checks;

/// A check that has ended a run, and the number that it found.
struct Found {
  const Checks *graph = nullptr; ///< whose run it was; its Program lives as long as this is used
  std::size_t check = 0;         ///< counts the checks of the graph
  c10::IValue number;
};

/// A number is another one than the graph was made for. All is as it was before the call (undo.h):
/// another graph may serve the call.
class CheckFailed : public std::runtime_error {
public:
  CheckFailed(const Check &check, Found found);
  const Found &found() const { return found_; }
  /// `net.py:12`; empty where it is not known.
  const std::string &place() const { return place_; }

private:
  std::string place_;
  Found found_;
};

/// `a number ... has another value: 3, not 2, at net.py:12`; without a line where none is known.
std::string told(const CheckFailed &check);

/// What an op of a check throws, for Program alone, which throws CheckFailed in its place. No
/// std::exception: the interpreter would catch that, and print all of its stack (15 us).
struct FailedCheck {
  const torch::jit::Source *at; ///< which check, as Checks knows it; null: outside of a graph
  c10::IValue number;
};

/// The checks of one graph. Immutable.
class Checks {
public:
  Checks() = default;
  /// `early`: so many at the start are evaluated before a run (early_checks.h), and not compared.
  /// The SourceRange of each check becomes its own, by which failed() knows it.
  Checks(torch::jit::Graph &graph, std::size_t early);

  CheckFailed failed(const FailedCheck &check) const;

  enum class Serves : std::uint8_t {
    unknown, ///< it has other checks
    no,      ///< one of its checks expects another number: a run would fail
    yes,     ///< all its checks up to there hold
  };
  /// Whether this graph serves a call for which the run of another one has ended so.
  Serves serves(const Found &found) const;

private:
  std::vector<Check> all_; ///< of the outermost block: a block has none
  std::vector<std::shared_ptr<torch::jit::Source>> sources_; ///< of each
  std::size_t early_ = 0;
};

} // namespace tracehost
