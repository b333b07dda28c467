#pragma once

#include <Python.h>

#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tracehost::python {

/// The sides of staged `if`s and the bodies of staged loops that run now, from the outermost to the
/// innermost.
///
/// Problem: both sides of a staged `if` run at the trace, and the call takes only one. A side that
/// does more than to compute (stores an attribute, prints, ends the program) would do so wrongly.
/// Answer: each instruction is known before it runs (observe/reads.h), and what is not pure is
/// noted here.
///
///     if acc > best:                   the side runs on fake tensors: the instruction is rejected
///         torch.save(net, "best.pt")   it runs for real: before it, the `if` stops to be staged,
///                                      and the graph checks its condition (Branch::check, open)
///
/// A rejected instruction raises ImpureSide, and so does each later one that is not pure: in an
/// `except`, a `finally`, an `__exit__` as well. After kMostRefused of them, every instruction
/// does.
///
/// The body of a loop is an *attempt*: it runs once or more at the trace, for any number of turns.
/// Stores to slots and containers are undone behind it, and what it prints happens at the trace.
/// What nothing undoes is rejected as in a side, and the loop is no loop of the graph:
///
///     for _ in range(n):
///         log.append("a")       undone
///         x = x + next(rates)   rejected before it takes
///
/// Requires for every member: GIL held, on the thread that traces.
class Sides {
public:
  static constexpr int kMostRefused = 100;

  /// Objects that the body has made before a side or an attempt; borrowed.
  using Held = std::unordered_set<PyObject *>;

  struct Side {
    bool real = false;
    bool checkable = false;      ///< the graph may check the condition
    bool rest = false;           ///< what follows an early exit: no side to the user
    std::string where;           ///< `if at train.py:8`
    Held held;                   ///< by variables around it
    std::function<void()> check; ///< inserts the check. May throw
    std::function<void()> open;  ///< what is recorded from now on is part of no block
    std::function<void(const std::string &)> reject; ///< the condition can't be checked. Throws
    bool attempt = false;                            ///< a loop's body
    std::string impure = {}; ///< the first such thing, `calls print() at train.py:9`
    bool in_side = false;    ///< of an attempt: this was in a side of an `if` in it
    bool opened = false;
  };

  /// What an instruction does to what was there before the call.
  enum class Kind {
    store, ///< hits may repeat it, or the trace is not reused
    call,  ///< the same, of C code
    once,  ///< no hit repeats it: prints, writes a file
    lost,  ///< the same, and nothing undoes it: takes from an iterator, changes an array
    own,   ///< as lost, of an object that the body has made: hits need not repeat it
  };

  void begin(Side side) {
    attempts_ += side.attempt;
    sides_.push_back(std::move(side));
  }
  void begin_attempt(Held held);
  /// Ends what began last. Its `impure` is what it did, or was kept from doing.
  Side end();
  bool under_way() const { return !sides_.empty(); }
  /// Whether a side of an `if` runs.
  bool has_sides() const { return static_cast<int>(sides_.size()) > attempts_; }
  bool has_attempts() const { return attempts_ > 0; }

  /// The instruction that comes is not pure. `what`: `stores self.best`. Throws what a check
  /// throws.
  void note(Kind kind, const std::string &what);
  /// The side stores a number in place of a number: as an input of the graph, the slot would be
  /// joined.
  void note_number(int container, int slot) { numbers_.emplace_back(container, slot); }
  const std::vector<std::pair<int, int>> &numbers() const { return numbers_; }
  /// Whether the instruction that comes must not run. Asked once for each that was noted.
  bool refuses();
  /// Whether the side catches what it raises: then no instruction of it runs any more.
  bool ends() const { return refusals_ >= kMostRefused; }
  bool is_refused() const { return refused_; }
  const std::string &why_refused() const { return why_; }
  /// What a real side did that no hit repeats, a sentence; or empty.
  const std::string &once() const { return once_; }
  /// Whether a side runs that the user wrote as one.
  bool in_side() const;
  /// Whether the body made the object before a side or attempt that runs now.
  bool holds(PyObject *object) const;
  /// Whether a side runs of whose `if` the graph checks the condition.
  bool is_checked() const;
  /// The graph checks the condition of an `if`.
  void note_check() { has_checks_ = true; }
  bool has_checks() const { return has_checks_; }

private:
  Side *innermost_side();

  std::vector<Side> sides_;
  int attempts_ = 0;                         ///< of these
  std::vector<std::pair<int, int>> numbers_; ///< containers and slots
  bool has_checks_ = false;
  bool refused_ = false;
  int refusals_ = 0; ///< since the outermost side began that may not run
  std::string why_, once_;
};

} // namespace tracehost::python
