#include "environment/walker.h"

#include "environment/gil.h"
#include "environment/known.h"

#include <algorithm>

namespace tracehost::python {

namespace {

/// Collections could run finalizers and weak reference callbacks in the middle of a walk.
class NoCollection {
public:
  NoCollection() : enabled_(PyGC_Disable()) {}
  ~NoCollection() {
    if (enabled_)
      PyGC_Enable();
  }
  NoCollection(const NoCollection &) = delete;
  NoCollection &operator=(const NoCollection &) = delete;

private:
  int enabled_;
};

bool is_collection(PyObject *value) {
  return PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
         PyAnySet_CheckExact(value);
}

/// Whether it can change though it stays the same object, in a way that no slot shows: a numpy
/// array, a deque. What can change has no hash, by Python's custom.
bool is_opaque(PyObject *value) { return Py_TYPE(value)->tp_hash == PyObject_HashNotImplemented; }

bool is_beyond_bounds(PyObject *collection) {
  const Py_ssize_t length = PyDict_Check(collection)          ? PyDict_GET_SIZE(collection)
                            : PyAnySet_CheckExact(collection) ? PySet_GET_SIZE(collection)
                                                              : Py_SIZE(collection);
  return length > Walker::kElements;
}

std::string last_component(PyObject *file) {
  std::string text = utf8(file);
  return text.substr(text.rfind('/') + 1);
}

} // namespace

Walker::Walker() : names_(PySet_New(nullptr)) {
  for (PyObject *name : {known().parameters, known().buffers, known().modules})
    PySet_Add(names_, name);
}

Walker::~Walker() {
  for (Container &c : graph_.containers) {
    Py_XDECREF(c.dict);
    for (Slot &s : c.slots) {
      Py_XDECREF(s.key);
      Py_XDECREF(s.value);
    }
  }
  for (Object &o : graph_.objects) {
    Py_XDECREF(o.object);
    Py_XDECREF(reinterpret_cast<PyObject *>(o.type));
  }
  Py_XDECREF(names_);
}

// ---- entry points -------------------------------------------------------------------------------

void Walker::root(const Root &root) {
  const NoCollection guard;
  if (PyType_Check(root.object)) // what it has is watched as of any class
    reach_class(reinterpret_cast<PyTypeObject *>(root.object));
  if (objects_.contains(root.object))
    return drain();
  Object &o = graph_.objects[root_object(root.object, root.name)];
  o.argument = root.argument;
  o.typed = root.typed;
  o.instance = root.instance;
  drain();
}

void Walker::function(PyObject *function, std::string name, bool weak) {
  const NoCollection guard;
  int index;
  if (const auto known_object = objects_.find(function); known_object != objects_.end()) {
    index = known_object->second;
    for (const Container &c : graph_.containers)
      if (c.object == index && c.place == Place::function)
        return;
  } else if (const auto seen = functions_.find(function); seen != functions_.end()) {
    const auto [container, slot] = seen->second;
    lead_on(container, slot, Expect::object);
    index = graph_.containers[container].slots[slot].object;
  } else {
    index = root_object(function, std::move(name));
    graph_.objects[index].weak = weak;
  }
  expand_function(index);
  drain();
}

void Walker::globals(PyObject *dict, PyObject *file, const std::vector<PyObject *> &names) {
  const NoCollection guard;
  auto found = globals_.find(dict);
  if (found == globals_.end()) {
    // Not in objects_: the same dict may also be reached as a module's.
    const int object = static_cast<int>(graph_.objects.size());
    graph_.objects.push_back({});
    graph_.objects.back().object = Py_NewRef(dict);
    graph_.objects.back().type =
        reinterpret_cast<PyTypeObject *>(Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(dict))));
    graph_.objects.back().suffix = " (" + last_component(file) + ")";
    add_container(object, Place::globals);
    found = globals_.emplace(dict, static_cast<int>(graph_.containers.size()) - 1).first;
  }
  for (PyObject *name : names)
    if (!has_slot(graph_.containers[found->second], name)) {
      PyObject *value = PyDict_GetItemWithError(dict, name);
      record(found->second, name, -1, value);
    }
  drain();
}

void Walker::imported(PyObject *name) {
  const NoCollection guard;
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = PyDict_GetItemWithError(modules, name);
  if (!module || !PyModule_Check(module) || is_library_module(module) || objects_.contains(module))
    return;
  root_object(module, utf8(name));
  drain();
}

void Walker::names(std::vector<PyObject *> names) {
  const NoCollection guard;
  std::size_t fresh = 0;
  for (PyObject *name : names)
    if (PySet_Contains(names_, name) == 0) {
      PySet_Add(names_, name);
      names[fresh++] = name;
    }
  names.resize(fresh);
  if (!fresh)
    return;
  // Containers made meanwhile take all names by themselves.
  const std::size_t before = graph_.containers.size();
  for (std::size_t c = 0; c < before; ++c)
    take_names(static_cast<int>(c), &names);
  drain();
}

void Walker::every_name() {
  if (every_name_)
    return;
  const NoCollection guard;
  every_name_ = true;
  const std::size_t before = graph_.containers.size();
  for (std::size_t c = 0; c < before; ++c)
    take_all(static_cast<int>(c));
  drain();
}

const Walker::Position *Walker::tensor(PyObject *object) const {
  const auto found = tensors_.find(object);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool Walker::counts(const Container &container, PyObject *key) const {
  return container.all || (PyUnicode_CheckExact(key) && PySet_Contains(names_, key) == 1);
}

// ---- objects ------------------------------------------------------------------------------------

int Walker::add_object(PyObject *object, int container, int slot, int depth) {
  const int index = static_cast<int>(graph_.objects.size());
  Object o;
  o.object = Py_NewRef(object);
  o.type =
      reinterpret_cast<PyTypeObject *>(Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(object))));
  o.container = container;
  o.slot = slot;
  o.depth = static_cast<std::uint8_t>(depth);
  graph_.objects.push_back(std::move(o));
  objects_.emplace(object, index);
  pending_.push_back(index);
  return index;
}

int Walker::root_object(PyObject *object, std::string name) {
  const int index = add_object(object, -1, -1, 0);
  graph_.objects[index].name = std::move(name);
  return index;
}

Container &Walker::add_container(int object, Place place) {
  Container c;
  c.place = place;
  c.object = object;
  c.dict = Py_XNewRef(dict_of(place, graph_.objects[object].object));
  if (c.dict)
    c.tag = version(c.dict);
  graph_.containers.push_back(std::move(c));
  return graph_.containers.back();
}

void Walker::record(int container, PyObject *key, int index, PyObject *value) {
  if (++slots_ > kSlots)
    return;
  Container &c = graph_.containers[container];
  Slot s;
  s.key = Py_XNewRef(key);
  s.index = index;
  s.value = Py_XNewRef(value);
  c.slots.push_back(std::move(s));
  classify(container, static_cast<int>(c.slots.size()) - 1);
}

void Walker::classify(int container, int slot) {
  Slot &s = graph_.containers[container].slots[slot];
  PyObject *value = s.value;
  if (value && !is_plain(Py_TYPE(value), value)) {
    PyTypeObject *type = Py_TYPE(value);
    if (is_tensor(value)) {
      s.expect = Expect::tensor;
      tensors_.try_emplace(value, Position{container, slot});
      return;
    }
    if (is_collection(value)) {
      s.opaque = is_beyond_bounds(value);
      if (graph_.objects[graph_.containers[container].object].depth < kDepth)
        return lead_on(container, slot, Expect::container);
    } else if (PyFunction_Check(value)) {
      functions_.try_emplace(value, Position{container, slot});
      auto *function = reinterpret_cast<PyFunctionObject *>(value);
      if (function->func_dict && graph_.containers[container].place != Place::names)
        lead_on(container, slot, Expect::object);
    } else if (PyModule_Check(value)) {
      if (!is_library_module(value))
        lead_on(container, slot, Expect::object);
    } else if (PyType_Check(value)) {
      reach_class(reinterpret_cast<PyTypeObject *>(value));
    } else if (PyMethod_Check(value) || type == known().partial || class_of(type).attributes) {
      lead_on(container, slot, Expect::object);
    } else {
      s.opaque = is_opaque(value);
      s.type = s.opaque ? type : nullptr;
    }
  }
  std::vector<AtomRef> atoms;
  Slot &now = graph_.containers[container].slots[slot];
  if (now.expect == Expect::container)
    return;
  now.node = leaf_of(value, atoms);
  if (!atoms.empty())
    now.atom = std::move(atoms.front());
}

void Walker::lead_on(int container, int slot, Expect expect) {
  Container &c = graph_.containers[container];
  Slot &s = c.slots[slot];
  s.expect = expect;
  s.type = Py_TYPE(s.value); // kept by the Object
  const auto found = objects_.find(s.value);
  if (found != objects_.end()) {
    s.object = found->second;
    return;
  }
  s.primary = true;
  const int depth = graph_.objects[c.object].depth + (expect == Expect::container ? 1 : 0);
  s.object = add_object(s.value, container, slot, depth);
  graph_.objects[s.object].typed = graph_.objects[graph_.containers[container].object].typed;
}

void Walker::drain() {
  while (!pending_.empty()) {
    const int object = pending_.back();
    pending_.pop_back();
    expand(object);
  }
}

// ---- names --------------------------------------------------------------------------------------

bool Walker::has_slot(const Container &container, PyObject *key) const {
  for (const Slot &s : container.slots)
    if (s.key == key)
      return true;
  return false;
}

void Walker::take_names(int container, const std::vector<PyObject *> *fresh) {
  Container &c = graph_.containers[container];
  if (c.place != Place::instance && c.place != Place::names)
    return;
  if (c.all || (every_name_ && !fresh))
    return take_all(container);
  if (every_name_ && c.place == Place::instance)
    return; // all are there
  PyObject *dict = c.dict;
  if (!dict || PyDict_GET_SIZE(dict) == 0)
    return;
  if (fresh && static_cast<Py_ssize_t>(fresh->size()) <= PyDict_GET_SIZE(dict)) {
    for (PyObject *name : *fresh)
      if (PyObject *value = PyDict_GetItemWithError(dict, name))
        record(container, name, -1, value);
    return;
  }
  // A name that counted before, and has no slot, was absent then: the body has stored it since.
  const auto is_fresh = [&](PyObject *key) {
    return std::any_of(fresh->begin(), fresh->end(), [&](PyObject *name) {
      return name == key || PyUnicode_Compare(name, key) == 0;
    });
  };
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (PyUnicode_CheckExact(key) && PySet_Contains(names_, key) == 1 && (!fresh || is_fresh(key)))
      record(container, key, -1, value);
}

void Walker::take_all(int container) {
  Container &c = graph_.containers[container];
  if ((c.place != Place::instance && c.place != Place::names) || !c.dict)
    return;
  c.all = c.all || c.place == Place::instance;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(c.dict, &at, &key, &value);) {
    if (!PyUnicode_CheckExact(key) || has_slot(graph_.containers[container], key))
      continue;
    // Of classes and modules: data, not the functions, classes and modules that they define.
    const bool data = !PyFunction_Check(value) && !PyType_Check(value) && !PyModule_Check(value);
    const bool dunder = utf8(key)[0] == '_' && utf8(key)[1] == '_';
    if (c.place == Place::instance || PySet_Contains(names_, key) == 1 || (data && !dunder))
      record(container, key, -1, value);
  }
}

} // namespace tracehost::python
