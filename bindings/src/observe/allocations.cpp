#include "observe/allocations.h"

#include "trace/eager_region.h"

#include <pybind11/pybind11.h>

namespace tracehost::python {
namespace {

Allocations *active = nullptr; // under the GIL

} // namespace

PyObject *note_allocation(PyTypeObject *type, Py_ssize_t items) {
  PyObject *object = PyType_GenericAlloc(type, items);
  for (Allocations *b = active; b; b = b->next_)
    [[unlikely]] b->note(object);
  return object;
}

/// The address may have been another's before.
void Allocations::note(PyObject *tensor) {
  const bool aside = trace::in_eager_region() && thread_ == std::this_thread::get_id();
  (aside ? born_ : aside_).erase(tensor);
  (aside ? aside_ : born_).insert(tensor);
}

bool Allocations::made_aside(PyObject *tensor) {
  for (const Allocations *b = active; b; b = b->next_)
    if (b->thread_ == std::this_thread::get_id() && b->aside_.contains(tensor))
      return true;
  return false;
}

bool Allocations::any_made_aside() {
  for (const Allocations *b = active; b; b = b->next_)
    if (b->thread_ == std::this_thread::get_id() && !b->aside_.empty())
      return true;
  return false;
}

Allocations::Allocations() : next_(active) { active = this; }

Allocations::~Allocations() {
  Allocations **link = &active;
  while (*link != this)
    link = &(*link)->next_;
  *link = next_;
}

bool Allocations::notes(PyTypeObject *type) { return type->tp_alloc == note_allocation; }

void Allocations::install() {
  namespace py = pybind11;
  const py::object tensor = py::module_::import("torch").attr("Tensor");
  const py::object nn = py::module_::import("torch.nn");
  for (const py::object &type : {tensor, py::object(nn.attr("Parameter"))}) {
    auto *t = reinterpret_cast<PyTypeObject *>(type.ptr());
    if (t->tp_alloc != PyType_GenericAlloc)
      throw std::runtime_error("tracehost: another library has replaced the allocation of " +
                               std::string(t->tp_name) + "; import tracehost before it");
    t->tp_alloc = note_allocation;
  }
}

} // namespace tracehost::python
