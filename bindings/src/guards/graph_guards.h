#pragma once

#include "guards/graph.h"

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tracehost::python {

struct RunValues;

/// A slot that the body rebound: to a tensor or a container of tensors (`self.h = h * 0.5 + x`), to
/// another object, to None or a number, or to nothing. Tensors in it are hidden outputs of the
/// graph. Each run stores the value.
///
/// A list or deque that lost elements, or in which they moved, is one Rebinding for all of it:
///
///     h.append(y); h.pop(0)     of three:   from 1, 2, -1; the tree is the tuple (y,)
struct Rebinding {
  std::int32_t container = -1; ///< in the Graph of the Guards
  Owned key;                   ///< as Slot's, and so is `index`
  std::int32_t index = -1;
  bool appends = false;   ///< to the end of a list or deque
  bool moves = false;     ///< an entry: to the end of its dict
  std::uint32_t tree = 0; ///< the value (RunValues); 0: nothing is there afterwards
  bool rewrites = false;  ///< all elements of a list or deque
  /// rewrites: of each element afterwards, where it was before, or -1 for the next of the tree's.
  std::vector<int> from;
  std::string what; ///< for messages: `self.h at net.py:12`
};

/// What one Specialization depends on beyond its arguments: guarded slots and captures, each with
/// the path to read it again. Made by Recorder, owned by the Specialization.
///
/// Two ways to verify. Fast: every container is as the last full pass left it. DictSeen shows so of
/// a dict: the same dict with the same values under the names that were read. The dict keeps these
/// alive, so captures are borrowed pointers. Nothing reports changes of lists, cells, __slots__, an
/// object's class and its `__dict__`, an OrderedDict's order: their few pointers are compared each
/// time. So are the names in a dict that is not followed (Container::by_name), and in globals that
/// have changed: a loop at module level stores its variable there. Such an address may have been
/// freed and taken again. Where no dict vouches for a pointer, Slot::keep does: the value itself if
/// it can't hold others, else a weak reference. Full: containers in order, holders first. All names
/// of each dict that has changed are read again, and what they lead to is settled in turn. So every
/// pointer used was reached in this call. A pass that fails leaves each container either settled or
/// to be read again.
///
/// Holds no strong reference to an argument, nor to what is reached through one. Class, function
/// and module objects, cells and globals dicts may be held strongly as the function itself holds
/// them; a captured tensor without a path is held.
///
/// Requires for every member: GIL held.
class GraphGuards {
public:
  /// `graph`: slots hold references of their own on key and type, objects on their type; roots that
  /// are not arguments on the object (a weak reference if weak). `watches`: else only captures
  /// count. `captured`: tensors without a path, null for those with one; strong.
  /// `handed_out`: objects of the graph.
  GraphGuards(Graph graph, bool watches, std::vector<PyObject *> captured,
              std::vector<Rebinding> rebindings, std::vector<std::int32_t> handed_out);
  ~GraphGuards();
  GraphGuards(const GraphGuards &) = delete;
  GraphGuards &operator=(const GraphGuards &) = delete;

  /// Hot: no allocation while nothing changed, no exception, no Python `__eq__` unless a guarded
  /// value's pointer differs. `arguments`: the bound arguments, as the roots were given.
  /// True if each guarded slot holds what the trace read. A capture rebound to another tensor is
  /// still true here: its metadata is compared by the caller (captures()).
  bool verify(PyObject *const *arguments) {
    if (settled_) [[likely]] {
      const std::size_t at = first_changed(arguments, 0);
      return at == checks_.size() || follow(arguments, at);
    }
    return settle(arguments);
  }

  /// The tensor objects to append as hidden inputs, in graph order; borrowed, valid until the next
  /// Python code runs. Requires: verify() just returned true.
  std::span<PyObject *const> captures() const { return captures_; }

  /// What each run of the graph stores to slots again; in the order of the stores.
  std::span<const Rebinding> rebindings() const { return rebindings_; }
  /// What holds those slots: to ask before the run, which may run other code. `arguments`: reads
  /// the paths again, null where one is broken; without: verify() just returned true.
  std::vector<Owned> holders(PyObject *const *arguments) const;
  /// Objects from outside that the result holds, in the order of Recorder::finish's `handed_out`:
  /// to ask before the run, too. `arguments`: as for holders().
  std::vector<Owned> handed_out(PyObject *const *arguments) const;
  std::size_t hands_out() const { return handed_out_.size(); } ///< how many these are
  /// After the run. False with an error set.
  bool store(const std::vector<Owned> &holders, RunValues &values) const;

  /// Each guarded slot with what it held before the trace, for the Signature; atoms are appended.
  std::vector<GuardedSlot> recorded(std::vector<AtomRef> &atoms) const;
  /// The same slots, as they are now (absent where the path is broken). For differences only: slow.
  std::vector<GuardedSlot> current(PyObject *const *arguments, std::vector<AtomRef> &atoms);
  /// Paths to what may change unseen, with its class: objects of libraries that are compared by
  /// identity alone (`ROWS (net.py): list_iterator`), and what is too long to be guarded whole.
  std::vector<std::string> unguarded() const;
  /// For the garbage collector: each strong reference once. `seen`: the atoms visited already,
  /// which a Specialization's parts share.
  int traverse(visitproc visit, void *arg, std::unordered_set<const Atom *> &seen) const;
  /// The captures' tensors as they are now, null where the path is broken. For differences only.
  std::vector<PyObject *> current_captures(PyObject *const *arguments);

private:
  /// One comparison of the fast way. Small: there are thousands in a large model.
  struct Check {
    enum Kind : std::uint8_t {
      argument,
      weak_root,
      dict_only,
      globals, ///< as dict_only, or by name
      names,   ///< by name
      instance,
      slots,
      order,
      items
    } kind;
    std::int16_t anchor; ///< instance: where it keeps its dict, in words from its address
    std::int32_t index;  ///< the container; argument: which; weak_root: the Object
    PyObject *object;    ///< what must be found: the argument, the owner of the container
    PyTypeObject *type;  ///< its type
    PyObject *dict;
    DictSeen seen;
  };
  /// One item of a dict, in order: which slot is it, or none.
  struct Item {
    PyObject *key; ///< strong; null: compared by node
    std::int32_t slot;
    Node node;
    AtomRef atom;
  };

  std::size_t first_changed(PyObject *const *arguments, std::size_t from);
  bool holds_names(std::size_t container, PyObject *dict) const;
  bool follow(PyObject *const *arguments, std::size_t at);
  bool settle(PyObject *const *arguments);
  bool ties_hold() const;
  bool are_apart() const;
  bool settle(std::size_t container);
  bool settle(const Container &container, Slot &slot, PyObject *now);
  /// Whether Slot::keep vouches for what the slots hold.
  static bool is_kept(const Container &c) {
    return !has_dict(c.place) || c.by_name || c.place == Place::globals;
  }
  void follow_dict(Container &container, PyObject *dict);
  bool keeps_order(std::size_t container, PyObject *owner) const;
  bool is_in_order(std::size_t container, PyObject *owner) const;
  static bool holds_key(const Item &item, PyObject *key);
  bool settle_entries(std::size_t container, PyObject *dict);
  bool settle_names(std::size_t container, PyObject *dict);
  bool settle_keys(Container &container, PyObject *dict);
  bool learn_names(std::size_t container, PyObject *dict);
  bool matches(Slot &slot, PyObject *now);
  bool set_number(std::int32_t capture, PyObject *now);
  void free_replaced();
  bool vouched(const Container &container) const;
  bool are_own_defaults(const Container &container, const Slot &slot) const;
  void keep(const Container &container, Slot &slot);
  void compile();

  bool put(const Rebinding &r, PyObject *holder, PyObject *value) const;
  struct Reader;
  std::vector<GuardedSlot> report(const Reader *now, const std::vector<PyObject *> &captured,
                                  std::vector<AtomRef> &atoms) const;

  Graph graph_;
  bool watches_;
  std::vector<std::vector<Item>> items_; ///< by container
  std::vector<Node> root_nodes_;         ///< by object: arguments
  std::vector<AtomRef> root_atoms_;
  std::vector<PyObject *> captures_;
  std::vector<PyObject *> held_; ///< captures without a path, and numbers as tensors; strong
  /// Numbers that set_number() replaced. To free a tensor gives up the GIL, and another thread may
  /// then verify this very GraphGuards: they are freed before a pass reads anything, never within
  /// one.
  std::vector<Owned> replaced_;
  std::vector<Owned> shown_; ///< numbers as tensors, by current_captures()
  std::vector<Rebinding> rebindings_;
  std::vector<std::int32_t> handed_out_; ///< objects of graph_
  std::vector<std::pair<std::int32_t, std::int32_t>>
      ties_;                        ///< slots that must equal another's value
  std::vector<std::int32_t> alike_; ///< objects in whose place others may come
  std::vector<Check> checks_;
  bool settled_ = false;
  bool moved_ = false; ///< the checks are not those that compile() would make now
};

/// Visits those of `atoms` that are PyAtoms and not in `seen`, and adds them.
int traverse(const std::vector<AtomRef> &atoms, visitproc visit, void *arg,
             std::unordered_set<const Atom *> &seen);

} // namespace tracehost::python
