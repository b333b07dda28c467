#pragma once

#include "environment/code.h"
#include "environment/graph.h"
#include "environment/recorder.h"

#include <Python.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// Builds the Graph of what code can reach: a worklist over objects and names. Runs no user code.
/// Everything it meets is held until it goes, so pointers identify objects meanwhile.
///
/// Bounds: of a dict, list or tuple the first kElements elements and its length; kDepth of them
/// inside each other; kSlots slots in all. What lies beyond is not watched and has no path.
class Walker {
public:
  static constexpr Py_ssize_t kElements = 1000;
  static constexpr int kDepth = 50;
  static constexpr std::size_t kSlots = 200'000;

  Walker();
  ~Walker();
  Walker(const Walker &) = delete;
  Walker &operator=(const Walker &) = delete;

  /// An object that paths start from. Typed: see Root.
  void root(const Root &root);
  /// A function whose cells and defaults count. Weak: found running, held by something unknown.
  void function(PyObject *function, std::string name, bool weak);
  /// Some names of the globals of code in `file`.
  void globals(PyObject *dict, PyObject *file, const std::vector<PyObject *> &names);
  /// A module that the body imports by name.
  void imported(PyObject *name);
  /// Attribute names that count from now on, for all objects known and to come.
  void names(std::vector<PyObject *> names);
  /// Every attribute of every object counts from now on.
  void every_name();

  struct Position {
    int container, slot;
  };
  /// The slot through which a tensor is reached, or null.
  const Position *tensor(PyObject *object) const;

  /// Whether a function is held by a slot that has been recorded.
  bool knows(PyObject *function) const {
    return objects_.contains(function) || functions_.contains(function);
  }

  Graph &graph() { return graph_; }
  const Graph &graph() const { return graph_; }
  PyObject *name_set() const { return names_; }
  /// Whether a name of an instance, class or module counts.
  bool counts(const Container &container, PyObject *key) const;

private:
  int add_object(PyObject *object, int container, int slot, int depth);
  int root_object(PyObject *object, std::string name);
  Container &add_container(int object, Place place);
  void record(int container, PyObject *key, int index, PyObject *value);
  void classify(int container, int slot);
  void lead_on(int container, int slot, Expect expect);
  void drain();
  void expand(int object);
  void expand_function(int object);
  void reach_class(PyTypeObject *type);
  void members(int object);
  void take_names(int container, const std::vector<PyObject *> *fresh);
  void take_all(int container);
  bool has_slot(const Container &container, PyObject *key) const;

  /// What of a class matters for its instances; looked up once a class.
  struct Class {
    bool attributes; ///< has_user_attributes()
    bool members;    ///< it, or a base, has `__slots__`
  };
  Class class_of(PyTypeObject *type);

  Graph graph_;
  PyObject *names_; ///< set of the names that count; strong
  bool every_name_ = false;
  std::size_t slots_ = 0;
  std::unordered_map<PyObject *, int> objects_;        ///< Graph::objects by pointer
  std::unordered_map<PyObject *, Position> functions_; ///< functions seen in slots, not yet entered
  std::unordered_map<PyObject *, Position> tensors_;
  std::unordered_map<PyObject *, int> globals_;           ///< containers by dict
  std::unordered_set<PyTypeObject *> classes_;            ///< reached
  std::unordered_map<PyTypeObject *, Class> class_facts_; ///< of types that objects_ keep
  std::vector<int> pending_;                              ///< objects to expand
};

/// Values without parts and without a path through them, told by their type alone.
inline bool is_plain(PyTypeObject *type, PyObject *value) {
  return value == Py_None || type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyUnicode_Type || type == &PyBool_Type || type == &PyBytes_Type ||
         type == &PyCFunction_Type;
}

} // namespace tracehost::python
