#pragma once

#include "guards/graph_guards.h"
#include "observe/changes.h"
#include "observe/paths.h"
#include "observe/stores.h"

#include <Python.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// What became of the slots while the body ran, and the Guards made of those that can be
/// guarded.
///
/// Unchanged slots are guarded. fate.h has a table of what becomes of the others, and of what a
/// trace that serves once says. Recorder::finish() adds those of sides, of reads that nothing
/// observes, and of paths.
///
/// `self.h` that held None is another trace than one that holds a tensor: what each run stores
/// stays guarded as it was before. A number that the body read is compared, or is an input
/// (number_slots.h). What is given up stays guarded where a capture's path goes through it, so that
/// a later call sees the difference.
class Finish {
public:
  /// `calls`: nodes of the graph call code, which may store to anything.
  Finish(Paths &paths, const Stores &stores, bool calls, std::span<PyObject *const> captured,
         std::span<PyObject *const> handed_out);

  std::shared_ptr<GraphGuards> run(bool watch_values, const std::vector<Change> &changes,
                                   std::vector<Rebound> &rebound,
                                   std::vector<SideEffect> &side_effects);

  /// After run(): why the trace serves once, a sentence; empty: it does not.
  const std::string &once() const { return once_; }

private:
  void mark_captures();
  void mark_handed_out(std::span<PyObject *const> objects);
  void mark_way(int object);
  void tie_to_object(int object);
  void changed(const Change &change);
  bool is_guarded(int container) const;
  bool was_read(const Change &change) const;
  bool is_read_later(const Change &change) const;
  bool is_rewritten(const Change &change) const;
  bool repeat(const Change &change, Rebound &rebound);
  bool leads_on(const Slot &slot) const;
  static void compare_kept(Container &container, PyObject *again);
  void side_effect(const Change &change, SideEffect effect);
  void give_up(const Change &change);
  void drop_unread(int container);
  void mark_ways_of_aside();
  void drop_aside();
  void drop_below();
  std::shared_ptr<GraphGuards> guards();

  Paths &paths_;
  Graph &graph_;
  const Stores &stores_;
  const bool calls_;
  bool watch_values_ = true;
  std::span<PyObject *const> captured_;
  std::vector<PyObject *> held_; ///< captures without a path; else null
  std::vector<Rebinding> rebindings_;
  std::vector<std::int32_t> handed_out_; ///< objects of the graph that the result holds
  std::unordered_set<int> must_lack_;    ///< containers to which each run adds what was not there
  std::vector<SideEffect> effects_;
  std::vector<SideEffect> gone_; ///< of attributes that are there no more
  bool eager_ = false;
  std::string once_;
  std::vector<bool> has_parts_; ///< objects of which the body has read something
  std::vector<bool> dropped_;   ///< objects whose path goes through a slot that is given up
};

} // namespace tracehost::python
