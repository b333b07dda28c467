#include "guards/graph_guards.h"
#include "pytree/leaf.h"

/// What the garbage collector must see: a Function whose body reaches the Function again (recursion
/// by a closure, `self.step = tracehost.function(self.work)`) is a cycle through its own
/// Specializations. The members and their order are those of ~GraphGuards.

namespace tracehost::python {

int PyAtom::traverse(visitproc visit, void *arg) const {
  Py_VISIT(object_);
  Py_VISIT(function_);
  return 0;
}

int traverse(const std::vector<AtomRef> &atoms, visitproc visit, void *arg,
             std::unordered_set<const Atom *> &seen) {
  for (const AtomRef &atom : atoms) {
    const auto *own = dynamic_cast<const PyAtom *>(atom.get());
    if (!own || !seen.insert(own).second)
      continue;
    if (const int stop = own->traverse(visit, arg))
      return stop;
  }
  return 0;
}

int GraphGuards::traverse(visitproc visit, void *arg,
                          std::unordered_set<const Atom *> &seen) const {
  for (const Container &c : graph_.containers)
    for (const Slot &s : c.slots) {
      Py_VISIT(s.key);
      Py_VISIT(s.keep);
      Py_VISIT(s.answer);
      Py_VISIT(reinterpret_cast<PyObject *>(s.type));
      if (const int stop = python::traverse({s.atom}, visit, arg, seen))
        return stop;
    }
  for (const Object &o : graph_.objects) {
    if (o.container < 0 && o.argument < 0)
      Py_VISIT(o.object);
    Py_VISIT(reinterpret_cast<PyObject *>(o.type));
  }
  for (const auto &list : items_)
    for (const Item &item : list) {
      Py_VISIT(item.key);
      if (const int stop = python::traverse({item.atom}, visit, arg, seen))
        return stop;
    }
  for (PyObject *tensor : held_)
    Py_VISIT(tensor);
  for (const Rebinding &r : rebindings_)
    Py_VISIT(r.key.get());
  return python::traverse(root_atoms_, visit, arg, seen);
}

} // namespace tracehost::python
