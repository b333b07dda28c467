#pragma once

#include "guards/graph.h"
#include "guards/guards.h"

#include <Python.h>

#include <vector>

namespace tracehost::python {

/// The Guards over a Graph.
///
/// Two ways to verify. Fast: every container is as the last full pass left it. A dict's version tag
/// shows so, or a comparison of pointers. The tag is unique in the process: the same tag is the
/// same dict with the same items. The pointers are borrowed, so an address may have been freed and
/// taken again. Where no tag covers a pointer, Slot::keep does: the value itself if it can't hold
/// others, else a weak reference. Full: containers in order, holders first. All names of each
/// container whose tag moved are read again, and what they lead to is settled in turn. So every
/// pointer used was reached in this call. A pass that fails leaves each container either settled or
/// to be read again.
class GraphGuards final : public Guards {
public:
  /// `graph`: slots hold references of their own on key and type, objects on their type; roots that
  /// are not arguments on the object (a weak reference if weak). `watches`: else only captures
  /// count. `captured`: tensors without a path, null for those with one; strong.
  /// `handed_out`: objects of the graph.
  GraphGuards(Graph graph, bool watches, std::vector<PyObject *> captured,
              std::vector<Rebinding> rebindings, std::vector<std::int32_t> handed_out);
  ~GraphGuards() override;
  GraphGuards(const GraphGuards &) = delete;
  GraphGuards &operator=(const GraphGuards &) = delete;

  bool verify(PyObject *const *arguments) override {
    if (settled_) [[likely]] {
      const std::size_t at = first_changed(arguments, 0);
      return at == checks_.size() || follow(arguments, at);
    }
    return settle(arguments);
  }
  std::span<PyObject *const> captures() const override { return captures_; }
  std::vector<std::string> unguarded() const override;
  std::span<const Rebinding> rebindings() const override { return rebindings_; }
  std::vector<Owned> holders(PyObject *const *arguments) const override;
  std::vector<Owned> handed_out(PyObject *const *arguments) const override;
  std::size_t hands_out() const override { return handed_out_.size(); }
  bool store(const std::vector<Owned> &holders, torch::jit::Stack &outputs) const override;
  std::vector<GuardedSlot> recorded(std::vector<AtomRef> &atoms) const override;
  int traverse(visitproc visit, void *arg, std::unordered_set<const Atom *> &seen) const override;
  std::vector<GuardedSlot> current(PyObject *const *arguments,
                                   std::vector<AtomRef> &atoms) override;
  std::vector<PyObject *> current_captures(PyObject *const *arguments) override;

private:
  /// One comparison of the fast way. Small: there are thousands in a large model.
  struct Check {
    enum Kind : std::uint8_t { argument, weak_root, dict_only, instance, slots, order, items } kind;
    std::int16_t anchor; ///< instance: where it keeps its dict, in words from its address
    std::int32_t index;  ///< the container; argument: which; weak_root: the Object
    PyObject *object;    ///< what must be found: the argument, the owner of the container
    PyTypeObject *type;  ///< its type
    PyObject *dict;
    std::uint64_t tag;
  };
  /// One item of a dict, in order: which slot is it, or none.
  struct Item {
    PyObject *key; ///< strong; null: compared by node
    std::int32_t slot;
    Node node;
    AtomRef atom;
  };

  std::size_t first_changed(PyObject *const *arguments, std::size_t from) const;
  bool follow(PyObject *const *arguments, std::size_t at);
  bool settle(PyObject *const *arguments);
  bool ties_hold() const;
  bool are_apart() const;
  bool settle(std::size_t container);
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
  bool moved_ = false; ///< matches() found an object in another place than the checks have
};

} // namespace tracehost::python
