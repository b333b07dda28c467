#pragma once

#include "guards/graph_guards.h"

#include <vector>

namespace tracehost::python {

/// What all paths lead to now. Leaves no trace in the Guards.
struct GraphGuards::Reader {
  const Graph &graph;
  std::vector<PyObject *> objects;
  std::vector<std::vector<Owned>> values; ///< of slots, by container

  Reader(const Graph &of, PyObject *const *arguments)
      : graph(of), objects(of.objects.size()), values(of.containers.size()) {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const Object &o = graph.objects[i];
      if (o.argument >= 0)
        objects[i] = arguments[o.argument];
      else if (o.container < 0)
        objects[i] = present(o);
    }
    for (std::size_t c = 0; c < values.size(); ++c)
      for (const Slot &s : graph.containers[c].slots) { // holders come first
        values[c].emplace_back(Py_XNewRef(value(graph.containers[c], s)));
        if (s.primary)
          objects[s.object] = values[c].back().get();
      }
  }

  PyObject *owner(const Container &c) const {
    PyObject *object = objects[c.object];
    return object && Py_TYPE(object) == graph.objects[c.object].type ? object : nullptr;
  }

private:
  PyObject *value(const Container &c, const Slot &s) const {
    PyObject *from = owner(c);
    if (!from || s.key || c.place != Place::entries)
      return from ? read(c, s, from) : nullptr;
    Entries entries(dict_of(c.place, from)); // a key that is not kept: by position
    for (int i = 0; i <= s.index; ++i)
      if (!entries.next())
        return nullptr;
    return entries.value();
  }
};

} // namespace tracehost::python
