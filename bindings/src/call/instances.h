#pragma once

#include <Python.h>

#include <unordered_map>

namespace tracehost::python {

/// The Functions of a decorated method, one for each instance that it was accessed on.
///
/// Kept by the method's Function, by identity: equal instances do not share, and an instance needs
/// no hash. An instance is held weakly; its Function goes when it goes, by the weak reference's
/// callback.
///
/// Requires for every member: GIL held.
class Instances {
public:
  Instances() = default;
  ~Instances() { clear(); }
  Instances(const Instances &) = delete;
  Instances &operator=(const Instances &) = delete;

  /// Whether an instance can have a Function of its own: it can be referred to weakly, and it is no
  /// tensor, container or number, which are compared by what they hold.
  static bool may_have_one(PyObject *instance);

  /// Hot. The Function of `instance`, borrowed, or null.
  PyObject *find(PyObject *instance) {
    if (instance != last_ || !is_alive(last_entry_, instance)) [[unlikely]]
      return find_other(instance);
    return last_entry_.function;
  }

  /// A new weak reference to `instance`, whose callback removes its entry from `method`'s
  /// Instances. Null with an error set.
  static PyObject *watch(PyObject *method, PyObject *instance);
  /// Adds an entry; steals both references.
  void add(PyObject *instance, PyObject *weak, PyObject *function);

  void clear();
  int traverse(visitproc visit, void *arg) const;
  /// Calls `visit` with each Function.
  template <class F> void each(const F &visit) const {
    for (const auto &[instance, entry] : entries_)
      visit(entry.function);
  }

private:
  struct Entry {
    PyObject *weak;
    PyObject *function;
  };
  /// An address may have been taken by another instance, if the callback is still to come.
  static bool is_alive(const Entry &entry, PyObject *instance) {
    return reinterpret_cast<PyWeakReference *>(entry.weak)->wr_object == instance;
  }
  static PyObject *on_death(PyObject *self, PyObject *weak);
  PyObject *find_other(PyObject *instance);
  void remove(PyObject *instance, PyObject *weak);

  std::unordered_map<PyObject *, Entry> entries_; ///< by the instance's address
  PyObject *last_ = nullptr;                      ///< the instance found last; borrowed
  Entry last_entry_{};                            ///< borrowed from entries_
};

/// The Instances of a Function; null if it has none, or `object` is none. In function_type.cpp.
Instances *instances_of(PyObject *object);

} // namespace tracehost::python
