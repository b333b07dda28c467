#include "pytree/pytree.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/known.h"
#include "pytree/container.h"
#include "pytree/leaf.h"
#include "pytree/tensor_match.h"
#include "pytree/user_type.h"

#include <torch/csrc/autograd/python_variable.h>

namespace tracehost::python {
namespace {

/// One lockstep walk; `at` is the node that the next value is compared with.
class Matcher {
public:
  Matcher(const Signature &signature, Collected &found)
      : node_(signature.nodes.data()), slots_(signature.slots.data()), found_(found) {}

  [[gnu::always_inline]] bool value(PyObject *object) {
    const Node &node = node_[at];
    if (node.kind == Kind::tensor) {
      ++at;
      return tensor(node, object);
    }
    return node.is_container() ? container(node, object) : leaf_is(object);
  }
  /// A key of a dict.
  bool key(PyObject *object) {
    const Node &node = node_[at];
    if (node.kind == Kind::atom && !node.reserved[0] && atom_of(node).is(object)) [[likely]] {
      ++at;
      return true;
    }
    return PyTuple_Check(object) ? value(object) : leaf_is(object);
  }
  /// Whether it is the default that the parameter had at the trace, too.
  bool is_same_default(PyObject *object, PyObject *default_value) {
    const bool same = object == default_value && node_[at].reserved[1] == kDefault;
    at += same;
    return same;
  }
  /// Objects that others may come in the place of were different ones at the trace.
  bool are_distinct_objects() const;

  std::size_t at = 0;

private:
  static const PyAtom &atom_of(const Node &node) {
    return *static_cast<const PyAtom *>(node.payload.atom);
  }
  bool tensor(const Node &node, PyObject *object);
  [[gnu::noinline]] bool is_seen_tensor(std::uint32_t slot, PyObject *object) const;
  [[gnu::noinline]] bool leaf_is(PyObject *object);
  bool atom(const PyAtom &atom, PyObject *object);
  void root(PyObject *object, std::uint8_t mark);
  // Out of line: tensors and leaves in a row are not to pay for what these keep on the stack.
  [[gnu::noinline]] bool container(const Node &node, PyObject *object);
  bool children(const Node &node, PyObject *object);
  bool items(const Node &node, PyObject *object);
  bool dict(const Node &node, PyObject *object);
  bool record(const Node &node, PyObject *object, const ContainerType &type);
  [[gnu::noinline]] bool field(const Node &node, PyObject *object, PyObject *name);
  [[gnu::noinline]] bool typed(const Node &node, PyObject *object);
  [[gnu::noinline]] bool taken_apart(const Node &node, PyObject *object, const ContainerType &type);
  [[gnu::noinline]] bool further(const Node &node, PyObject *object, const ContainerType &type);
  PyObject *keep(Owned object) {
    found_.kept.push_back(std::move(object));
    return found_.kept.back().get();
  }

  const Node *node_;
  const TensorMeta *slots_;
  Collected &found_;
  c10::SmallVector<PyObject *, 4> replaceable_; ///< of the roots
};

[[gnu::always_inline]] inline bool Matcher::tensor(const Node &node, PyObject *object) {
  auto &tensors = found_.tensors;
  const std::uint32_t slot = node.payload.slot;
  if (slot < tensors.size())
    return object == tensors[slot] || is_seen_tensor(slot, object);
  const TensorMeta &meta = slots_[slot];
  if (Py_TYPE(object) != meta.type ||
      !fits(meta, *THPVariable_Unpack(object).unsafeGetTensorImpl()))
    return false;
  tensors.push_back(object);
  if (found_.is_careful()) [[unlikely]]
    found_.protect();
  return true;
}

/// Two objects of one tensor.
bool Matcher::is_seen_tensor(std::uint32_t slot, PyObject *object) const {
  return is_tensor(object) && THPVariable_Unpack(object).unsafeGetTensorImpl() ==
                                  THPVariable_Unpack(found_.tensors[slot]).unsafeGetTensorImpl();
}

bool Matcher::leaf_is(PyObject *object) {
  const Node &node = node_[at++];
  if (node.kind == Kind::atom) {
    if (!atom_of(node).is(object) && !atom(atom_of(node), object))
      return false;
  } else if (node.kind == Kind::alias) {
    if (found_.roots[node.payload.alias.root] != object)
      return false;
  } else if (!holds(node, object)) { // of tensors and containers none
    return false;
  }
  if (node.reserved[0])
    root(object, node.reserved[0]);
  return true;
}

/// Another object than the one that is held.
bool Matcher::atom(const PyAtom &atom, PyObject *object) {
  if (!atom.runs_code()) [[likely]]
    return atom.holds(object);
  found_.protect();
  keep(Owned(Py_NewRef(object)));
  found_.in_relation(atom.user_type() != nullptr);
  if (!atom.holds(object))
    return false;
  found_.in_relation(false);
  return true;
}

void Matcher::root(PyObject *object, std::uint8_t mark) {
  found_.roots.push_back(object);
  if (found_.is_careful()) [[unlikely]]
    found_.protect();
  if (mark != kRoot)
    replaceable_.push_back(object);
}

bool Matcher::container(const Node &node, PyObject *object) {
  const auto *type = static_cast<const ContainerType *>(node.payload.atom);
  if (!type || !type->is(reinterpret_cast<PyObject *>(Py_TYPE(object)))) [[unlikely]]
    return type && type->form() == Form::typed && has_user_type(Py_TYPE(object)) &&
           typed(node, object);
  ++at;
  Py_INCREF(object); // a user's code may let go of it meanwhile
  const bool same = children(node, object) && at == node.end;
  Py_DECREF(object);
  return same;
}

bool Matcher::children(const Node &node, PyObject *object) {
  const auto &type = *static_cast<const ContainerType *>(node.payload.atom);
  bool same = false;
  switch (type.form()) {
  case Form::tuple:
  case Form::list:
    same = items(node, object);
    break;
  case Form::dict:
    same = dict(node, object);
    break;
  case Form::record:
    return record(node, object, type);
  case Form::typed:
    --at;
    return typed(node, object);
  default:
    same = taken_apart(node, object, type);
  }
  return same && (!type.has_more() || further(node, object, type));
}

bool Matcher::items(const Node &node, PyObject *object) {
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
    if (at >= node.end || !value(PySequence_Fast_GET_ITEM(object, i)))
      return false;
  return true;
}

bool Matcher::dict(const Node &node, PyObject *object) {
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t place = 0;
  for (Py_ssize_t i = 0; i < PyDict_GET_SIZE(object); ++i) {
    if (at >= node.end || !PyDict_Next(object, &place, &name, &item))
      return false;
    Py_INCREF(item); // the key's equality may be a user's
    const bool same = key(name) && value(item);
    Py_DECREF(item);
    if (!same)
      return false;
  }
  return true;
}

/// Fields of an object whose dict has them in order, and nothing else, are read in one go.
bool Matcher::record(const Node &node, PyObject *object, const ContainerType &type) {
  PyObject **held = type.fields_in_dict() ? _PyObject_GetDictPtr(object) : nullptr;
  PyObject *dict = held && *held && PyDict_CheckExact(*held) ? *held : nullptr;
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t place = 0, found = 0;
  for (PyObject *field : type.fields()) {
    if (!dict || !PyDict_Next(dict, &place, &name, &item) || name != field) {
      dict = nullptr;
      if (!this->field(node, object, field))
        return false;
      continue;
    }
    ++found;
    Py_INCREF(item); // a user's code may let go of it, and of the dict
    const bool same = at < node.end && value(item);
    Py_DECREF(item);
    if (!same)
      return false;
    if (found_.is_careful()) [[unlikely]]
      dict = nullptr;
  }
  if (!type.has_more() || (dict && PyDict_GET_SIZE(dict) == found))
    return true;
  return further(node, object, type);
}

/// As the object itself says.
bool Matcher::field(const Node &node, PyObject *object, PyObject *name) {
  if (at >= node.end)
    return false;
  Owned item = field_of(object, name);
  if (!item)
    return node_[at++].kind == Kind::absent;
  return value(Py_REFCNT(item.get()) > 1 ? item.get() : keep(std::move(item)));
}

/// An object whose type gives its tensors. `at` is its node.
bool Matcher::typed(const Node &node, PyObject *object) {
  found_.protect();
  const Owned held(Py_NewRef(object));
  const Node &compared = node_[++at];
  if (!leaf_is(object))
    return false;
  if (compared.kind == Kind::alias) { // as are its tensors
    at = node.end;
    return true;
  }
  PyObject *type = static_cast<const PyAtom *>(compared.payload.atom)->user_type();
  UserValue made = user_value(object, Owned(Py_NewRef(type)));
  for (Owned &tensor : made.tensors)
    if (at >= node.end || !value(keep(std::move(tensor))))
      return false;
  return at == node.end;
}

/// By a user's code, or a copy: slow.
bool Matcher::taken_apart(const Node &node, PyObject *object, const ContainerType &type) {
  found_.protect();
  bool is_key = false;
  for (Owned &child : type.children(object)) { // registered functions are those of the trace
    is_key = type.kind() == Kind::dict && !is_key;
    PyObject *item = keep(std::move(child));
    if (at >= node.end || !(is_key ? key(item) : value(item)))
      return false;
  }
  return true;
}

bool Matcher::further(const Node &node, PyObject *object, const ContainerType &type) {
  if (type.form() == Form::custom)
    return true;
  Owned state = further_state(object, type);
  if (!state)
    return true;
  if (at >= node.end || node_[at].kind != Kind::further)
    return false;
  const Node &own = node_[at++];
  return dict(own, keep(std::move(state))) && at == own.end;
}

/// Whether no two of `count` are one; `get`: the address of each.
template <class Get> bool all_distinct(std::size_t count, const Get &get) {
  if (count <= 8) {
    for (std::size_t i = 1; i < count; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (get(i) == get(j))
          return false;
    return true;
  }
  // Open addressing in a table twice as large; the table stays with the thread.
  thread_local std::vector<const void *> kept;
  std::size_t size = 16;
  while (size < 2 * count)
    size *= 2;
  kept.assign(size, nullptr);
  const void **const table = kept.data();
  for (std::size_t i = 0; i < count; ++i) {
    const void *p = get(i);
    std::size_t h =
        (reinterpret_cast<std::uintptr_t>(p) * 0x9E3779B97F4A7C15ull >> 32) & (size - 1);
    for (; table[h]; h = (h + 1) & (size - 1))
      if (table[h] == p)
        return false;
    table[h] = p;
  }
  return true;
}

bool Matcher::are_distinct_objects() const {
  return all_distinct(replaceable_.size(),
                      [&](std::size_t i) -> const void * { return replaceable_[i]; });
}

/// Tensors of different slots must be different tensors.
bool distinct(const Collected &found) {
  const auto &t = found.tensors;
  return all_distinct(t.size(), [&](std::size_t i) -> const void * {
    return THPVariable_Unpack(t[i]).unsafeGetTensorImpl();
  });
}

} // namespace

void Collected::protect() {
  careful_ = true;
  for (; protected_tensors_ < tensors.size(); ++protected_tensors_)
    kept.emplace_back(Py_NewRef(tensors[protected_tensors_]));
  for (; protected_roots_ < roots.size(); ++protected_roots_)
    kept.emplace_back(Py_NewRef(roots[protected_roots_]));
}

void Collected::note_failure() {
  Owned error = take_error();
  if (in_relation_ && !failure)
    failure = std::move(error);
  in_relation_ = false;
}

void Collected::clear() {
  tensors.clear();
  roots.clear();
  protected_tensors_ = protected_roots_ = 0;
  careful_ = in_relation_ = false;
  if (!kept.empty()) [[unlikely]]
    kept.clear();
}

namespace {

[[gnu::flatten]] bool walk_arguments(const Signature &signature, const Binder &binder,
                                     const Bound &bound, Collected &found) {
  Matcher walk(signature, found);
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
          if (walk.at >= node.end || !walk.key(name) || !walk.value(value))
            return false;
      }
      if (walk.at != node.end)
        return false;
    } else {
      PyObject *value = bound.values[place++];
      if (!walk.is_same_default(value, p.default_value.get()) && !walk.value(value))
        return false;
    }
  }
  return found.tensors.size() == signature.slots.size() && distinct(found) &&
         walk.are_distinct_objects();
}

} // namespace

bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             Collected &found) {
  found.clear();
  try {
    return walk_arguments(signature, binder, bound, found);
  } catch (...) { // a user's code raised: flattening says so
    set_from_current_exception();
    if (PyErr_ExceptionMatches(PyExc_Exception))
      found.note_failure();
    return false;
  }
}

} // namespace tracehost::python
