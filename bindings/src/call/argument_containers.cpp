#include "call/argument_containers.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/kinds.h"
#include "guards/elements.h"
#include "pytree/pytree.h"

#include <algorithm>

namespace tracehost::python {
namespace {

ContainerPath behind(const ContainerPath &path, PyObject *step, bool keyed) {
  ContainerPath result = copy(path);
  result.steps.emplace_back(Py_NewRef(step));
  result.keyed.push_back(keyed);
  return result;
}

Owned shallow_copy(PyObject *container) {
  return checked(PyDict_CheckExact(container) ? PyDict_Copy(container)
                                              : PySequence_List(container));
}

bool is_container(PyObject *value) { return PyList_CheckExact(value) || PyDict_CheckExact(value); }

bool same_content(PyObject *a, PyObject *b) {
  if (PyList_CheckExact(a)) {
    if (PyList_GET_SIZE(a) != PyList_GET_SIZE(b))
      return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a); ++i)
      if (PyList_GET_ITEM(a, i) != PyList_GET_ITEM(b, i))
        return false;
    return true;
  }
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b))
    return false;
  PyObject *key, *item, *other_key, *other;
  for (Py_ssize_t at = 0, b_at = 0; PyDict_Next(a, &at, &key, &item);)
    if (!PyDict_Next(b, &b_at, &other_key, &other) || key != other_key || item != other)
      return false;
  return true;
}

bool is_constant_key(PyObject *key) {
  return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyBool_Check(key) || key == Py_None;
}

bool same_keys_in_order(PyObject *a, PyObject *b) {
  PyObject *key, *other, *item;
  Py_ssize_t at = 0, b_at = 0;
  while (PyDict_Next(a, &at, &key, &item))
    if (!PyDict_Next(b, &b_at, &other, &item) || PyObject_RichCompareBool(key, other, Py_EQ) != 1) {
      forget_error();
      return false;
    }
  return !PyDict_Next(b, &b_at, &other, &item);
}

} // namespace

ContainerPath copy(const ContainerPath &path) {
  ContainerPath result;
  result.argument = path.argument;
  result.keyed = path.keyed;
  for (const Owned &step : path.steps)
    result.steps.emplace_back(Py_NewRef(step.get()));
  return result;
}

bool is_at(const ContainerPath &path, const ContainerPath &other) {
  return path.argument == other.argument &&
         std::equal(path.steps.begin(), path.steps.end(), other.steps.begin(), other.steps.end(),
                    [](const Owned &a, const Owned &b) {
                      return PyObject_RichCompareBool(a.get(), b.get(), Py_EQ) == 1;
                    });
}

bool restore(PyObject *container, PyObject *content) {
  if (PyList_CheckExact(container))
    return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), content) == 0;
  PyDict_Clear(container);
  return PyDict_Update(container, content) == 0;
}

PyObject *find(const ContainerPath &path, const Bound &bound, std::size_t fixed) {
  PyObject *at = path.argument < fixed                       ? bound.values[path.argument]
                 : path.argument - fixed < bound.extra_count ? bound.extra[path.argument - fixed]
                                                             : nullptr;
  for (std::size_t i = 0; at && i < path.steps.size(); ++i) {
    PyObject *step = path.steps[i].get();
    if (path.keyed[i]) {
      at = PyDict_CheckExact(at) ? PyDict_GetItemWithError(at, step) : nullptr;
    } else {
      const Py_ssize_t index = PyLong_AsSsize_t(step);
      const bool is_sequence = PyList_CheckExact(at) || PyTuple_CheckExact(at);
      at = is_sequence && index < Py_SIZE(at) ? PySequence_Fast_GET_ITEM(at, index) : nullptr;
    }
  }
  return at;
}

bool apply(const ContainerChange &change, PyObject *container, PyObject *values) {
  Py_ssize_t next = 0;
  const Py_ssize_t size =
      PyDict_CheckExact(container) ? PyDict_GET_SIZE(container) : Py_SIZE(container);
  if (size != change.size) {
    PyErr_SetString(PyExc_RuntimeError, "another thread has changed a list or dict among the "
                                        "arguments while the call ran. Pass each call its own.");
    return false;
  }
  if (PyDict_CheckExact(container)) {
    for (const Owned &key : change.deleted)
      if (PyDict_DelItem(container, key.get()))
        return false;
    for (const Owned &key : change.keys)
      if (PyDict_SetItem(container, key.get(), PyTuple_GET_ITEM(values, next++)))
        return false;
    return true;
  }
  return rewrite(container, change.from, values);
}

ArgumentContainers::ArgumentContainers(const Bound &bound, std::size_t fixed) {
  for (std::size_t i = 0; i < fixed + bound.extra_count; ++i)
    if (PyObject *value = i < fixed ? bound.values[i] : bound.extra[i - fixed])
      add(value, {i, {}, {}}, 0);
}

void ArgumentContainers::add(PyObject *value, ContainerPath path, std::size_t depth) {
  if (depth > kDeepest || (!is_container(value) && !PyTuple_CheckExact(value)))
    return;
  if (is_container(value) && !known_.insert(value).second)
    return;
  const std::size_t at = all_.size();
  if (is_container(value))
    all_.push_back({copy(path), Owned(Py_NewRef(value)), shallow_copy(value), Owned()});
  PyObject *held = is_container(value) ? all_[at].before.get() : value;
  if (PyDict_CheckExact(held)) {
    PyObject *key, *item;
    for (Py_ssize_t i = 0; PyDict_Next(held, &i, &key, &item);)
      if (is_constant_key(key))
        add(item, behind(path, key, true), depth + 1);
    return;
  }
  for (Py_ssize_t i = 0; i < Py_SIZE(held); ++i) {
    const Owned index(PyLong_FromSsize_t(i));
    add(PySequence_Fast_GET_ITEM(held, i), behind(path, index.get(), false), depth + 1);
  }
}

std::vector<PyObject *> ArgumentContainers::objects() const {
  std::vector<PyObject *> result;
  for (const Container &container : all_)
    result.push_back(container.object.get());
  return result;
}

bool ArgumentContainers::compare() {
  bool any = false;
  for (Container &container : all_)
    if (!same_content(container.before.get(), container.object.get())) {
      container.after = shallow_copy(container.object.get());
      any = true;
    }
  return any;
}

void ArgumentContainers::put(Owned Container::*content) const {
  for (const Container &container : all_)
    if (container.after)
      static_cast<void>(restore(container.object.get(), (container.*content).get()));
}

std::optional<std::pair<ContainerChange, Owned>>
ArgumentContainers::change(Container &container) const {
  ContainerChange change;
  change.path = copy(container.path);
  change.size = PyObject_Size(container.before.get());
  PyObject *before = container.before.get(), *after = container.after.get();
  const Owned values(PyList_New(0));
  const auto add_value = [&](PyObject *value) { return PyList_Append(values.get(), value) == 0; };
  if (PyList_CheckExact(before)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(after); ++i) {
      PyObject *item = PyList_GET_ITEM(after, i);
      int from = -1;
      for (Py_ssize_t j = 0; from < 0 && j < PyList_GET_SIZE(before); ++j)
        if (PyList_GET_ITEM(before, j) == item)
          from = static_cast<int>(j);
      change.from.push_back(from);
      if (from < 0 && !add_value(item))
        return std::nullopt;
    }
  } else {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(before, &at, &key, &item);)
      if (!PyDict_Contains(after, key)) {
        if (!is_constant_key(key))
          return std::nullopt;
        change.deleted.emplace_back(Py_NewRef(key));
      }
    OrderKept order(before);
    for (Py_ssize_t at = 0; PyDict_Next(after, &at, &key, &item);) {
      PyObject *old = PyDict_GetItemWithError(before, key);
      const bool moved = !order.keeps(key) && old;
      if (old == item && !moved)
        continue;
      if (!is_constant_key(key) || !add_value(item))
        return std::nullopt;
      if (moved)
        change.deleted.emplace_back(Py_NewRef(key));
      change.keys.emplace_back(Py_NewRef(key));
    }
  }
  Owned tuple = checked(PyList_AsTuple(values.get()));
  if (PyDict_CheckExact(before)) { // the stores must leave the order that the body left
    const Owned tried = shallow_copy(before);
    if (!apply(change, tried.get(), tuple.get()))
      rethrow();
    if (!same_keys_in_order(tried.get(), after))
      return std::nullopt;
  }
  return std::pair{std::move(change), std::move(tuple)};
}

void ContainerUses::Delete::operator()(ContainerUses *uses) const {
  if (!python_alive())
    return;
  const WithGil gil;
  delete uses;
}

} // namespace tracehost::python
