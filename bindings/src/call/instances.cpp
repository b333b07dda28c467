#include "call/instances.h"

#include "base/known.h"
#include "base/object.h"

#include <utility>

namespace tracehost::python {

bool Instances::may_have_one(PyObject *instance) {
  return Py_TYPE(instance)->tp_weaklistoffset && !is_tensor(instance) && !PyTuple_Check(instance) &&
         !PyList_Check(instance) && !PyDict_Check(instance) && !PyAnySet_Check(instance) &&
         !PyUnicode_Check(instance) && !PyBytes_Check(instance) && !PyLong_Check(instance) &&
         !PyFloat_Check(instance) && !PyComplex_Check(instance);
}

PyObject *Instances::watch(PyObject *method, PyObject *instance) {
  static constinit PyMethodDef callback{"forget_instance", on_death, METH_O, nullptr};
  // The callback may come after the method's Function is gone, if somebody else holds the weak
  // reference.
  const Owned holder(PyWeakref_NewRef(method, nullptr));
  const Owned address(PyLong_FromVoidPtr(instance));
  const Owned known(holder && address ? PyTuple_Pack(2, holder.get(), address.get()) : nullptr);
  const Owned called(known ? PyCFunction_New(&callback, known.get()) : nullptr);
  return called ? PyWeakref_NewRef(instance, called.get()) : nullptr;
}

PyObject *Instances::on_death(PyObject *self, PyObject *weak) {
  PyObject *method =
      reinterpret_cast<PyWeakReference *>(PyTuple_GET_ITEM(self, 0))->wr_object; // or None
  if (Instances *instances = instances_of(method))
    instances->remove(static_cast<PyObject *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(self, 1))), weak);
  Py_RETURN_NONE;
}

PyObject *Instances::find_other(PyObject *instance) {
  const auto found = entries_.find(instance);
  if (found == entries_.end() || !is_alive(found->second, instance))
    return nullptr;
  last_ = instance;
  last_entry_ = found->second;
  return last_entry_.function;
}

void Instances::add(PyObject *instance, PyObject *weak, PyObject *function) {
  const auto known = entries_.find(instance);
  if (known != entries_.end())
    remove(instance, known->second.weak);
  entries_.emplace(instance, Entry{weak, function});
}

void Instances::remove(PyObject *instance, PyObject *weak) {
  const auto found = entries_.find(instance);
  if (found == entries_.end() || found->second.weak != weak)
    return; // the address has a new owner
  const Entry gone = found->second;
  entries_.erase(found);
  if (last_ == instance)
    last_ = nullptr;
  Py_DECREF(gone.function);
  Py_DECREF(gone.weak);
}

void Instances::clear() {
  last_ = nullptr;
  for (const auto &[instance, entry] : std::exchange(entries_, {})) {
    Py_DECREF(entry.weak);
    Py_DECREF(entry.function);
  }
}

int Instances::traverse(visitproc visit, void *arg) const {
  // Not the weak references: the collector calls back only those that it does not collect.
  for (const auto &[instance, entry] : entries_)
    Py_VISIT(entry.function);
  return 0;
}

} // namespace tracehost::python
