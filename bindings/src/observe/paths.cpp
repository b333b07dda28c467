#include "observe/paths.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"

#include <string_view>

/// Paths: where they start, the slots of modules, functions and callables, and identity.

namespace tracehost::python {

namespace {

std::string last_component(PyObject *file) {
  std::string text = utf8(file);
  return text.substr(text.rfind('/') + 1);
}

} // namespace

Paths::~Paths() {
  for (PyObject *dict : by_key_)
    Py_XDECREF(dict);
  for (Container &c : graph_.containers) {
    Py_XDECREF(c.dict);
    for (Slot &s : c.slots) {
      Py_XDECREF(s.key);
      Py_XDECREF(s.value);
      Py_XDECREF(s.answer);
    }
  }
  for (Object &o : graph_.objects) {
    Py_XDECREF(o.object);
    Py_XDECREF(reinterpret_cast<PyObject *>(o.type));
  }
}

// ---- where paths start --------------------------------------------------------------------------

void Paths::root(const Root &root) {
  if (PyType_Check(root.object))
    classes_.insert(reinterpret_cast<PyTypeObject *>(root.object));
  if (objects_.contains(root.object))
    return;
  Object &o = graph_.objects[root_object(root.object, root.name)];
  o.argument = root.argument;
  o.typed = root.typed;
  o.alike = o.by_class = root.alike;
  o.instance = root.instance;
}

void Paths::function(PyObject *function, std::string name, bool weak) {
  int object = number_of(function);
  if (object < 0) {
    object = root_object(function, std::move(name));
    graph_.objects[object].weak = weak;
  }
  const int c = container(object, Place::function);
  if (!called_.insert(object).second)
    return;
  auto *f = reinterpret_cast<PyFunctionObject *>(function);
  for (Py_ssize_t i = 0; f->func_closure && i < PyTuple_GET_SIZE(f->func_closure); ++i)
    cells_.try_emplace(PyTuple_GET_ITEM(f->func_closure, i), c, static_cast<int>(i));
  for (const auto &[index, field, value] :
       {std::tuple{kDefaults, "__defaults__", f->func_defaults},
        std::tuple{kKeywordDefaults, "__kwdefaults__", f->func_kwdefaults}})
    if (value) {
      const Owned key(PyUnicode_InternFromString(field));
      numbered(c, index, key.get(), value);
      whole(value, false);
    }
}

void Paths::imported(PyObject *name, bool replaced) {
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = PyDict_GetItemWithError(modules, name);
  if (!module || !PyModule_Check(module))
    return;
  if (number_of(module) < 0)
    graph_.objects[root_object(module, utf8(name))].library =
        is_library(origin_of_globals(PyModule_GetDict(module)));
  if (!replaced)
    return;
  if (number_of(modules) < 0)
    graph_.objects[root_object(modules, "sys.modules")].library = true;
  read(item(modules, name));
}

/// A module that the body has without an import statement of its own: importlib, an extension.
void Paths::find_module(PyObject *module) {
  const char *name = PyModule_GetName(module);
  forget_error();
  const Owned text(name ? PyUnicode_FromString(name) : nullptr);
  if (text && PyDict_GetItemWithError(PyImport_GetModuleDict(), text.get()) == module)
    imported(text.get(), /*replaced=*/false);
  forget_error();
}

void Paths::registry_of(PyObject *function) {
  this->function(function, "singledispatch", /*weak=*/true);
  PyObject *cells = reinterpret_cast<PyFunctionObject *>(function)->func_closure;
  for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); ++i) {
    PyObject *held = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (!held || !PyDict_CheckExact(held))
      continue;
    read(cell(PyTuple_GET_ITEM(cells, i)));
    whole(held, false);
  }
}

int Paths::globals(PyObject *dict, PyObject *file) {
  if (const auto found = globals_.find(dict); found != globals_.end())
    return found->second;
  // Not in objects_: the same dict may also be reached as a module's.
  const int object = new_object(dict);
  graph_.objects[object].suffix = " (" + last_component(file) + ")";
  graph_.objects[object].library = is_library(origin_of_globals(dict));
  const int c = container(object, Place::globals);
  globals_.emplace(dict, c);
  dicts_.try_emplace(dict, c);
  return c;
}

Paths::Position Paths::global(PyObject *dict, PyObject *file, PyObject *name) {
  return named(globals(dict, file), name, nullptr);
}

Paths::Position Paths::cell(PyObject *cell) {
  const auto found = cells_.find(cell);
  if (found == cells_.end())
    return {};
  const auto [c, index] = found->second;
  auto *function =
      reinterpret_cast<PyFunctionObject *>(graph_.objects[graph_.containers[c].object].object);
  auto *code = reinterpret_cast<PyCodeObject *>(function->func_code);
  const Owned names(PyCode_GetFreevars(code));
  if (!names || index >= PyTuple_GET_SIZE(names.get()))
    return {};
  return numbered(c, index, PyTuple_GET_ITEM(names.get(), index), PyCell_GET(cell));
}

PyObject *Paths::inner(PyObject *object) {
  const int number = has_inner_dict(Py_TYPE(object)) ? number_of(object) : -1;
  PyObject *dict = number < 0 ? nullptr : inner_dict(object);
  if (dict)
    read(numbered(container(number, Place::inner), 0, nullptr, dict));
  return dict;
}

void Paths::serves_once(std::string what) {
  if (once_.empty())
    once_ = std::move(what);
}

/// Where the object lies, if a later call may find another one there that is as good: a tensor, a
/// list. Slots with other objects compare these by identity anyway.
Paths::Position Paths::position_of(PyObject *object) const {
  if (const Position *at = tensor(object))
    return *at;
  const auto found = objects_.find(object);
  if (found == objects_.end() || !is_collection(object))
    return {};
  const Object &o = graph_.objects[found->second];
  return {o.container, o.slot};
}

void Paths::identify(PyObject *a, PyObject *b) {
  if (in_state())
    return;
  if (a == b) { // by two paths to it, or by one
    read_metadata(a);
    return;
  }
  const Position at = position_of(a), other = position_of(b);
  if (at.container >= 0 && other.container >= 0)
    graph_.unlike.push_back({at.container, at.slot, other.container, other.slot});
  else if ((at.container >= 0 && given_.contains(b)) ||
           (other.container >= 0 && given_.contains(a)))
    unguarded("whether an argument is " + (at.container >= 0
                                               ? graph_.path(at.container, at.slot)
                                               : graph_.path(other.container, other.slot)));
}

void Paths::identified(PyObject *object) {
  if (in_state())
    return;
  if (const auto found = objects_.find(object); found != objects_.end()) {
    graph_.objects[found->second].alike = false;
    graph_.objects[found->second].identified = true;
  } else if (PyTuple_CheckExact(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      identified(PyTuple_GET_ITEM(object, i));
}

void Paths::callee(PyObject *callable) {
  const int object = number_of(callable);
  if (object < 0)
    return;
  using namespace std::string_view_literals;
  std::vector<const char *> fields;
  if (PyMethod_Check(callable))
    fields = {"__self__", "__func__"};
  else if (Py_TYPE(callable) == known().partial)
    fields = {"func", "args", "keywords"};
  else if (PyCFunction_Check(callable) || Py_TYPE(callable)->tp_name == "method-wrapper"sv)
    fields = {"__self__"};
  for (const char *field : fields) {
    const Owned key(PyUnicode_InternFromString(field));
    const Owned value(PyObject_GetAttr(callable, key.get()));
    forget_error();
    named(container(object, Place::fields), key.get(), value.get());
    if (value && (field == "args"sv || field == "keywords"sv))
      whole(value.get(), false);
  }
}

Paths::Position Paths::referent_of(PyObject *reference) {
  const int object = number_of(reference);
  return object < 0 ? Position{}
                    : numbered(container(object, Place::referent), 0, nullptr, referent(reference));
}

PyObject *Paths::behind(PyObject *object) {
  if (!PyWeakref_CheckProxy(object))
    return object;
  PyObject *found = referent(object); // borrowed
  if (!found)
    return object;
  read(referent_of(object));
  return found;
}

const Paths::Position *Paths::tensor(PyObject *object) const {
  const auto found = tensors_.find(object);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string Paths::path_of(PyObject *object) const {
  const Position *at = tensor(object);
  return at ? graph_.path(at->container, at->slot) : std::string();
}

} // namespace tracehost::python
