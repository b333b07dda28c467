#include "walk.h"

#include "atoms.h"
#include "environment/known.h"

#include <torch/csrc/autograd/python_variable.h>

namespace tracehost::python {
namespace {

/// One lockstep walk; `at` is the node that the next value is compared with.
class Lockstep {
public:
  Lockstep(const Signature &signature, Collected &found)
      : node_(signature.nodes.data()), slots_(signature.slots.data()), found_(found) {}

  bool value(PyObject *object);
  bool leaf_is(PyObject *object);

  std::size_t at = 0;

private:
  bool tensor(const Node &node, PyObject *object);
  bool children(const Node &node, PyObject *object);
  bool record(const Node &node, PyObject *object);

  const Node *node_;
  const TensorMeta *slots_;
  Collected &found_;
};

bool Lockstep::tensor(const Node &node, PyObject *object) {
  auto &tensors = found_.tensors;
  const std::uint32_t slot = node.payload.slot;
  if (slot < tensors.size()) // seen before: must be the very tensor
    return object == tensors[slot] ||
           (is_tensor(object) && THPVariable_Unpack(object).unsafeGetTensorImpl() ==
                                     THPVariable_Unpack(tensors[slot]).unsafeGetTensorImpl());
  const TensorMeta &meta = slots_[slot];
  if (Py_TYPE(object) != meta.type)
    return false;
  const auto *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (!meta.matches(*impl))
    return false;
  tensors.push_back(object);
  return true;
}

bool Lockstep::leaf_is(PyObject *object) {
  const Node &node = node_[at++];
  if (node.is_container() || node.kind == Kind::tensor || !holds(node, object))
    return false;
  if (node.reserved[0])
    found_.roots.push_back(object);
  return true;
}

bool Lockstep::value(PyObject *object) {
  const Node &node = node_[at];
  if (node.kind == Kind::tensor) {
    ++at;
    return tensor(node, object);
  }
  if (!node.is_container())
    return leaf_is(object);
  if (!static_cast<const PyAtom *>(node.payload.atom)
           ->holds(reinterpret_cast<PyObject *>(Py_TYPE(object))))
    return false;
  return node.kind == Kind::record ? record(node, object) : children(node, object);
}

bool Lockstep::children(const Node &node, PyObject *object) {
  ++at;
  if (node.kind == Kind::dict) {
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(object, &place, &key, &item);)
      if (at >= node.end || !(PyTuple_Check(key) ? value(key) : leaf_is(key)) || !value(item))
        return false;
  } else {
    const Py_ssize_t size = Py_SIZE(object);
    for (Py_ssize_t i = 0; i < size; ++i)
      if (at >= node.end || i >= Py_SIZE(object) || !value(PySequence_Fast_GET_ITEM(object, i)))
        return false;
  }
  return at == node.end;
}

bool Lockstep::record(const Node &node, PyObject *object) {
  ++at;
  PyObject *fields =
      PyObject_GetAttrString(reinterpret_cast<PyObject *>(Py_TYPE(object)), "__dataclass_fields__");
  bool same = fields != nullptr;
  PyObject *name = nullptr, *field = nullptr;
  for (Py_ssize_t place = 0; same && PyDict_Next(fields, &place, &name, &field);) {
    PyObject *item = PyObject_GetAttr(object, name);
    same = item && at < node.end && value(item);
    Py_XDECREF(item); // the instance holds it
  }
  Py_XDECREF(fields);
  PyErr_Clear();
  return same && at == node.end;
}

/// Tensors of different slots must be different tensors.
bool distinct(const Collected &found) {
  const auto &t = found.tensors;
  const auto impl = [&](std::size_t i) { return THPVariable_Unpack(t[i]).unsafeGetTensorImpl(); };
  if (t.size() <= 8) {
    for (std::size_t i = 1; i < t.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (t[i] == t[j] || impl(i) == impl(j))
          return false;
    return true;
  }
  // Open addressing in a table twice as large; the table stays with the thread.
  thread_local std::vector<const void *> table;
  std::size_t size = 16;
  while (size < 2 * t.size())
    size *= 2;
  table.assign(size, nullptr);
  for (std::size_t i = 0; i < t.size(); ++i) {
    const void *p = impl(i);
    std::size_t h = (reinterpret_cast<std::uintptr_t>(p) >> 6) * 0x9E3779B97F4A7C15ull & (size - 1);
    for (; table[h]; h = (h + 1) & (size - 1))
      if (table[h] == p)
        return false;
    table[h] = p;
  }
  return true;
}

} // namespace

bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             Collected &found) {
  found.tensors.clear();
  found.roots.clear();
  Lockstep walk(signature, found);
  std::size_t place = 0;
  for (const Parameter &p : binder.parameters()) {
    if (p.kind == Parameter::Kind::var_positional || p.kind == Parameter::Kind::var_keyword)
        [[unlikely]] {
      const Node &node = signature.nodes[walk.at++];
      if (p.kind == Parameter::Kind::var_positional) {
        for (std::size_t i = 0; i < bound.extra_count; ++i)
          if (walk.at >= node.end || !walk.value(bound.extra[i]))
            return false;
      } else {
        for (const auto &[name, value] : bound.keywords)
          if (walk.at >= node.end || !walk.leaf_is(name) || !walk.value(value))
            return false;
      }
      if (walk.at != node.end)
        return false;
    } else if (!walk.value(bound.values[place++])) {
      return false;
    }
  }
  return found.tensors.size() == signature.slots.size() && distinct(found);
}

} // namespace tracehost::python
