#include "guards/elements.h"
#include "guards/graph_guards_reader.h"
#include "pytree/results.h"

#include <optional>

/// What each hit stores again, and the objects that it hands out.

namespace tracehost::python {

std::vector<Owned> GraphGuards::holders(PyObject *const *arguments) const {
  std::vector<Owned> result;
  std::optional<Reader> now;
  if (arguments && !rebindings_.empty())
    now.emplace(graph_, arguments);
  for (const Rebinding &r : rebindings_) {
    const Container &c = graph_.containers[r.container];
    result.emplace_back(Py_XNewRef(now ? now->owner(c) : present(graph_.objects[c.object])));
  }
  return result;
}

std::vector<Owned> GraphGuards::handed_out(PyObject *const *arguments) const {
  std::vector<Owned> result;
  std::optional<Reader> now;
  if (arguments && !handed_out_.empty())
    now.emplace(graph_, arguments);
  for (const std::int32_t object : handed_out_)
    result.emplace_back(Py_XNewRef(now ? now->objects[object] : present(graph_.objects[object])));
  return result;
}

/// A value that is there already is not stored again, because each store changes the dict's
/// version.
bool GraphGuards::put(const Rebinding &r, PyObject *holder, PyObject *value) const {
  const Container &c = graph_.containers[r.container];
  Slot probe;
  probe.key = r.key.get();
  probe.index = r.index;
  PyObject *before = read(c, probe, holder);
  if (before == value && !r.moves)
    return true;
  if (before && r.moves && value && !write(c.place, r.key.get(), r.index, holder, nullptr))
    return false;
  return write(c.place, r.key.get(), r.index, holder, value);
}

bool GraphGuards::store(const std::vector<Owned> &holders, RunValues &values) const {
  for (std::size_t i = 0; i < rebindings_.size(); ++i) {
    const Rebinding &r = rebindings_[i];
    PyObject *holder = holders[i].get();
    if (!holder)
      continue;
    const Owned value(r.tree ? build_stored(values, r.tree) : nullptr);
    if (r.tree && !value)
      return false;
    const bool stored = r.appends    ? append(holder, value.get())
                        : r.rewrites ? rewrite(holder, r.from, value.get())
                                     : put(r, holder, value.get());
    if (!stored)
      return false;
  }
  return true;
}

} // namespace tracehost::python
