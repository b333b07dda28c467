#pragma once

#include "guards/graph_guards.h"

#include <vector>

namespace tracehost::python {

/// Reads all paths afresh, and leaves no trace in the Guards.
struct GraphGuards::Reader {
  const GraphGuards &watch;
  std::vector<PyObject *> objects;

  Reader(const GraphGuards &w, PyObject *const *arguments)
      : watch(w), objects(w.graph_.objects.size()) {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const Object &o = w.graph_.objects[i];
      if (o.argument >= 0)
        objects[i] = arguments[o.argument];
      else if (o.container < 0)
        objects[i] = present(o);
    }
  }

  PyObject *owner(const Container &c) const {
    PyObject *object = objects[c.object];
    return object && Py_TYPE(object) == watch.graph_.objects[c.object].type ? object : nullptr;
  }

  /// Must be called for all slots in order.
  PyObject *value(const Container &c, const Slot &s) {
    PyObject *from = owner(c);
    PyObject *dict = from ? dict_of(c.place, from) : nullptr;
    PyObject *now = nullptr;
    if (from && !s.key && c.place == Place::entries) {
      Entries entries(dict); // a key that is not kept: by position
      for (int i = 0; i <= s.index && entries.next(); ++i)
        now = i == s.index ? entries.value() : nullptr;
    } else if (from) {
      now = read(c, s, from, dict);
    }
    if (s.primary)
      objects[s.object] = now;
    return now;
  }
};

} // namespace tracehost::python
