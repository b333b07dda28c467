#pragma once

#include "guards/graph.h"
#include "guards/number_slots.h"

#include <Python.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tracehost::python {

/// The objects that were there before a trace, and the slots that the body was seen to read or
/// store. Each object has the path by which a later call finds it again.
///
/// Roots come first: arguments, the function, dicts of globals, classes. A read of an object that
/// has a path gives what it finds there a path, one step longer. An object without a path was made
/// by the body: a read of one needs no guard. Each slot holds what was there at its first read or
/// store. That is what was there before the trace, because a store is reported before it happens.
///
/// Runs no user code but the `==` of keys. Holds everything that it meets until it goes, so
/// pointers identify objects. Requires for every member: GIL held, on the thread that traces.
class Paths {
public:
  /// `history`: of numbers that vary from call to call; null: none.
  explicit Paths(const TraceHistory *history = nullptr) : numbers_(graph_, history) {}
  ~Paths();
  Paths(const Paths &) = delete;
  Paths &operator=(const Paths &) = delete;

  /// A slot, or none: slot -1; or nothing at all: container -1, too.
  struct Position {
    int container = -1, slot = -1;
  };

  /// An object that paths start from.
  void root(const Root &root);
  /// A function that is called: its defaults are read, its cells have paths from now on. Weak:
  /// found running, held by something unknown.
  void function(PyObject *function, std::string name, bool weak);
  /// A class of which the body has objects.
  void reach_class(PyTypeObject *type) { classes_.insert(type); }
  bool reaches(PyTypeObject *type) const { return classes_.contains(type); }
  /// A module that the body imports by name. `replaced`: another one may come in its place.
  void imported(PyObject *name, bool replaced);

  // Where things are: each records what is there, if that was not done before.

  // One slot. Each returns where it is; no slot where the body has added it to what was all read.
  Position attribute(PyObject *owner, PyObject *name);
  /// What a store to the attribute changes.
  Position stored_attribute(PyObject *owner, PyObject *name);
  /// What the class gives for a name, without a look at the instance.
  void class_attribute(PyTypeObject *type, PyObject *name);
  void class_attribute(PyTypeObject *type, const char *name) {
    class_attribute(type, Owned(PyUnicode_InternFromString(name)).get());
  }
  /// As `super(type, self).name` does.
  void super_attribute(PyObject *type, PyObject *self, PyObject *name);
  /// `file`: of the code that reads, for the text of the path.
  Position global(PyObject *dict, PyObject *file, PyObject *name);
  /// The dict itself, which the body holds from now on.
  int globals(PyObject *dict, PyObject *file);
  Position cell(PyObject *cell);
  Position item(PyObject *container, PyObject *key);

  /// The body asks whether two objects are one.
  void identify(PyObject *a, PyObject *b);
  /// A tensor among the arguments: another one at each call, so it has no path.
  void given(PyObject *tensor) { given_.insert(tensor); }
  /// What a weak reference refers to.
  Position referent_of(PyObject *reference);
  /// The object behind a weakref.proxy, borrowed; any other object itself.
  PyObject *behind(PyObject *object);
  /// The code of a function that runs.
  void code_of(PyObject *function);
  /// What C code says, which a later call asks again: an attribute of `object`, a method or the
  /// object itself called with nothing. Requires: the answer is a plain value, or nothing is
  /// recorded.
  void ask(PyObject *object, PyObject *name, Asked how);
  /// Dict that an object of C code keeps, or null: borrowed. What the body reads of it has a path.
  PyObject *inner(PyObject *object);
  /// The body uses an object in a way that shows which one it is: as a key, or given to C code.
  void identified(PyObject *object);
  /// The body reads something that no later call can compare: the trace serves its own call.
  void unguarded(const std::string &what) { serves_once("reads " + what + kCannotCompare); }
  /// What the body does and a later call can't, in words that follow "the body".
  void serves_once(std::string what);

  /// The body asks of which class the object is, or of a class what its bases are.
  void class_of(PyObject *object);
  /// All that pickling the object reads: attributes and elements at any depth.
  void everything(PyObject *object);
  /// The dicts in its cells say what such a function calls: functools.singledispatch.
  void registry_of(PyObject *function);

  // All slots of an object, which the body reads. Those of a container return it, or -1.
  void every_attribute(PyObject *owner);
  /// What a class and its bases have, which dir() of an object shows.
  void every_name(PyTypeObject *type);
  /// The length, order and elements of a container, view or iterator. Deep: and those of the
  /// containers in it, also where the body has made it.
  int whole(PyObject *container, bool deep);
  int length(PyObject *container);
  /// The same slots, before the body changes any of them.
  int before_change(PyObject *container);
  /// What a functools.partial or a bound method calls.
  void callee(PyObject *callable);

  /// Whether something was there before.
  bool is_there(Position at) const {
    return graph_.containers[at.container].slots[at.slot].value != nullptr;
  }
  /// The body reads what it found there: the slot, or all slots of the container.
  void read(Position at);
  /// From here on tracehost reads or sets the state of a block, which is nothing that the body
  /// does. end_state() returns the slots that were read: the graph reads them if it has the block.
  void begin_state() { state_.emplace(); }
  std::vector<Position> end_state();
  void read_state(const std::vector<Position> &slots);
  bool in_state() const { return state_.has_value(); }
  /// The same of an element; one without a slot is not in a container that was recorded whole.
  void read_item(Position at);
  /// The body asks a tensor for its metadata: dtype, shape, device ...
  void read_metadata(PyObject *tensor);
  /// The first thing that the body does and no later call can, in words that follow "the body"; or
  /// empty.
  const std::string &once() const { return once_; }

  /// What the body has read so far.
  struct Met {
    struct OfSlot {
      bool read, stored, aside;
    };
    struct Of {
      bool read, read_later, stored, rewritten;
      std::vector<OfSlot> slots;
    };
    std::vector<Of> containers;
    std::string once;
  };
  Met met() const;
  /// What was read and stored since then has no part in the graph: a side of an `if` that is left
  /// out of it.
  void leave_out(const Met &before);
  /// Names of attributes that no tensor among the arguments had when the body asked; they live as
  /// long as the process.
  const std::unordered_set<PyObject *> &absent() const { return absent_; }
  /// Tensors with a path that were asked for their metadata, in that order.
  const std::vector<PyObject *> &asked() const { return asked_; }

  /// Whether the body was given the object, or reached it by a path: it did not make it.
  bool knows(PyObject *object) const {
    return objects_.contains(object) || leaves_.contains(object);
  }
  /// The same of a tensor, which may be among the arguments.
  bool is_from_outside(PyObject *tensor) const { return knows(tensor) || given_.contains(tensor); }
  /// A list or dict among the arguments: the caller holds it, too.
  void given_container(PyObject *container) { given_containers_.insert(container); }
  bool is_given_container(PyObject *object) const { return given_containers_.contains(object); }
  /// Whether a variable of an enclosing function holds the object, also before the body reads it.
  bool is_enclosed(PyObject *object) const {
    return std::any_of(cells_.begin(), cells_.end(),
                       [object](const auto &cell) { return PyCell_GET(cell.first) == object; });
  }
  /// Whether the body gets hold of what print() writes to `file`, or to sys.stdout for null or
  /// None: a StringIO that the body has made. Elsewhere the text is for people.
  bool keeps_print(PyObject *file) const;
  /// What is known of it in the graph: its place among the objects, or -1.
  int number_of(PyObject *object);
  /// The slot through which a tensor is reached, or null.
  const Position *tensor(PyObject *object) const;
  /// The path by which the body can reach this tensor object, or empty when there is none.
  std::string path_of(PyObject *tensor) const;

  const std::unordered_set<PyObject *> &given() const { return given_; }

  NumberSlots &numbers() { return numbers_; }
  const NumberSlots &numbers() const { return numbers_; }
  Graph &graph() { return graph_; }
  const Graph &graph() const { return graph_; }

private:
  static constexpr const char *kCannotCompare = ", which a later call can't compare";

  int new_object(PyObject *object);
  int add_object(PyObject *object, int container, int slot);
  int root_object(PyObject *object, std::string name);
  int class_object(PyTypeObject *type);
  int collection(PyObject *object);
  int elements(PyObject *container);
  int container(int object, Place place);
  Position named(int container, PyObject *key, PyObject *value);
  Position numbered(int container, int index, PyObject *key, PyObject *value);
  Position add_slot(int container, int index, PyObject *key, PyObject *value);
  PyObject *slot_numbers(int container);
  static bool may_be_left(const Slot &slot);
  void classify(int container, int slot);
  void lead_on(int container, int slot, Expect expect);
  int tensor_object(PyObject *tensor);
  Position tensor_attribute(PyObject *tensor, PyObject *name, bool stores);
  Position position_of(PyObject *object) const;
  Position instance(int object, PyObject *name);
  Position type_attribute(PyTypeObject *type, PyObject *name);
  Position function_attribute(int object, PyObject *name);
  void inherits(PyTypeObject *type);
  void kept(PyTypeObject *type, Kept what, const char *name, PyObject *value);
  void find_module(PyObject *module);
  void c_field(PyObject *owner, PyObject *name, PyObject *descriptor);
  std::pair<PyObject *, Position> in_class(PyTypeObject *type, PyObject *name);
  Position member(int object, PyObject *descriptor, PyObject *name);
  void close(int container);
  void use(PyObject *object);
  void read_memory(Slot &slot);

  Graph graph_;
  NumberSlots numbers_;
  std::unordered_map<PyObject *, int> objects_; ///< Graph::objects by pointer
  /// Seen in slots, and not yet led on from: functions, objects of C code.
  std::unordered_map<PyObject *, Position> leaves_;
  std::unordered_map<PyObject *, Position> tensors_;
  std::vector<PyObject *> asked_; ///< tensors, borrowed from slots
  std::unordered_set<PyObject *> asked_set_;
  std::unordered_set<PyTypeObject *> asked_access_; ///< classes: for their `__getattribute__`
  std::unordered_set<PyTypeObject *> asked_stores_; ///< the same for `__setattr__`
  std::unordered_set<PyTypeObject *> inherits_;     ///< classes whose bases were asked for
  std::unordered_map<PyObject *, Position> opaque_; ///< what may change unseen
  std::unordered_set<PyObject *> given_, given_containers_;
  std::unordered_set<PyObject *> absent_;
  std::optional<std::vector<Position>> state_; ///< between begin_state() and end_state()
  std::string once_;
  std::unordered_map<PyObject *, int> globals_; ///< containers by dict
  std::unordered_map<PyObject *, int> dicts_;   ///< containers of instances by `__dict__`
  std::unordered_set<int> called_;              ///< functions, by their numbers
  std::unordered_map<PyObject *, std::pair<int, int>> cells_; ///< a function's container, its index
  PyObject *const stdout_ = PySys_GetObject("stdout");        ///< at the call; compared alone
  std::unordered_set<PyTypeObject *> classes_;                ///< reached: those of known objects
  std::unordered_map<std::uint64_t, int> containers_;         ///< by object and place
  std::unordered_map<std::uint64_t, int> numbered_;           ///< slots by container and index
  std::vector<PyObject *> by_key_; ///< by container: a dict from keys to slots, strong, or null
};

} // namespace tracehost::python
