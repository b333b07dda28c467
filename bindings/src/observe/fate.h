#pragma once

#include <array>
#include <cstdint>

namespace tracehost::python {

/// What becomes of a slot that changed while the body ran. Two tables decide: the first row whose
/// facts hold. finish.cpp collects the facts.
///
///     self.h = y              kRebound: each run can store a tensor           -> repeated
///     seen.append(len(seen))  kRebound: appended to a list that was read      -> once
///     self.last = Thing(y)    kChanges: a tensor is stored                    -> once
///     self.opened = Thing()   kChanges: the last row                          -> warned
enum class Fate : std::uint8_t {
  guarded,  ///< later calls compare the slot with what it held before the trace
  repeated, ///< the same, and each run stores what the body has stored
  once,     ///< the trace serves its own call alone: no later call could do what this one did
  warned,   ///< only the trace did it, which is reported; later calls serve any value
  given_up, ///< later calls serve any value
  change,   ///< of kRebound alone: kChanges decides
};

template <class Facts> struct FateRow {
  const char *facts; ///< for readers
  bool (*hold)(const Facts &);
  Fate fate;
  const char *why; ///< of `once`: a sentence with {path} and {where}, ` at net.py:12`
};

/// Of a slot that the body emptied, or rebound to a tensor, a number, a string, None or a list,
/// tuple or dict of such (observe/changes.h).
struct ReboundFacts {
  bool is_value = false;    ///< a Python value, neither None nor with a tensor in it
  bool has_tensors = false; ///< tensors or numbers of the graph, or a list that is rewritten
  bool can_be_told = false; ///< a guard sees whether the slot holds what it held before
  bool repeatable = false;  ///< a run can make what is stored
  bool by_call = false;     ///< code that the graph calls reads the slot, or stores to it
  bool unchanged = false;   ///< the body has stored what was there before
  bool grows_read = false;  ///< it is appended to a list that the body has read
  bool number_moved =
      false; ///< an entry of a dict, with a number that calls give, has moved behind others
};

inline constexpr std::array<FateRow<ReboundFacts>, 8> kRebound{{
    {"a value that no guard can compare",
     [](const ReboundFacts &f) { return f.is_value && !f.can_be_told; }, Fate::change, nullptr},
    {"no tensor, and no run can make it",
     [](const ReboundFacts &f) { return !f.has_tensors && !f.repeatable; }, Fate::change, nullptr},
    {"code that the graph calls uses it; it is as before",
     [](const ReboundFacts &f) { return f.by_call && f.unchanged; }, Fate::change, nullptr},
    {"code that the graph calls uses it", [](const ReboundFacts &f) { return f.by_call; },
     Fate::once,
     "code that the graph calls reads or stores {path}, which the body stores: it is traced "
     "again"},
    {"appended to a list that the body has read",
     [](const ReboundFacts &f) { return f.grows_read; }, Fate::once,
     "the body reads {path}, which grows{where}"},
    {"no run can make it, or no guard can compare it",
     [](const ReboundFacts &f) { return !f.repeatable || !f.can_be_told; }, Fate::once,
     "the body creates {path}{where}"},
    {"an entry with a number that calls give has moved",
     [](const ReboundFacts &f) { return f.number_moved; }, Fate::once,
     "the body moves {path}{where}, a number that differs between calls"},
    {"else", [](const ReboundFacts &) { return true; }, Fate::repeated, nullptr},
}};

/// Of any other change.
struct ChangeFacts {
  bool unchanged = false;  ///< the body has stored what was there before
  bool eager = false;      ///< an init_scope has made what is stored
  bool of_library = false; ///< in a library's globals or classes
  bool needed =
      false; ///< the path of a capture, of a result or of a repeated store goes through it
  bool of_facts = false;   ///< no slot of an object: what the body asked of it, or what kind it is
  bool by_body = false;    ///< code of the body stored it
  bool by_call = false;    ///< code that the graph calls stored it, or may have
  bool was_read = false;   ///< the body has read it, or what it was has a part in what it becomes
  bool has_tensor = false; ///< a tensor or a number of the graph is in what is stored
  bool in_side = false;    ///< stored in a side of an `if` that the graph checks
};

inline constexpr std::array<FateRow<ChangeFacts>, 12> kChanges{{
    {"as before", [](const ChangeFacts &f) { return f.unchanged; }, Fate::guarded, nullptr},
    {"an init_scope has made it", [](const ChangeFacts &f) { return f.eager; }, Fate::once,
     "the body creates {path} in an init_scope"},
    {"a library's, on the path of a capture",
     [](const ChangeFacts &f) { return f.of_library && f.needed; }, Fate::guarded, nullptr},
    {"a library's", [](const ChangeFacts &f) { return f.of_library; }, Fate::given_up, nullptr},
    {"what the body asked of an object", [](const ChangeFacts &f) { return f.of_facts; },
     Fate::once, "the body changes {path}"},
    {"nobody was seen to store it", [](const ChangeFacts &f) { return !f.by_body && !f.by_call; },
     Fate::once,
     "{path} changed while the body ran, and no code of the body stored there, as another thread "
     "may have: the next call is traced again"},
    {"the body has read and stored it",
     [](const ChangeFacts &f) { return f.by_body && f.was_read; }, Fate::once,
     "the body changes {path}{where}"},
    {"the body stores a tensor", [](const ChangeFacts &f) { return f.by_body && f.has_tensor; },
     Fate::once, "the body changes {path}{where}"},
    {"in a side of an `if`", [](const ChangeFacts &f) { return f.in_side; }, Fate::once,
     "the body changes {path}{where} in a side of an `if`, which no hit repeats"},
    {"on the path of a capture", [](const ChangeFacts &f) { return f.needed; }, Fate::guarded,
     nullptr},
    {"code that the graph calls stores it", [](const ChangeFacts &f) { return f.by_call; },
     Fate::given_up, nullptr},
    {"else", [](const ChangeFacts &) { return true; }, Fate::warned, nullptr},
}};

/// The row that decides: never null, since the last row of each table holds for all facts.
template <class Rows, class Facts>
constexpr const FateRow<Facts> *fate_of(const Rows &rows, const Facts &facts) {
  for (const FateRow<Facts> &row : rows)
    if (row.hold(facts))
      return &row;
  return &rows.back();
}

} // namespace tracehost::python
