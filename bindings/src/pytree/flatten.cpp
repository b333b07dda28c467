#include "pytree/flattener.h"

#include "base/errors.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "numbers/traced_number.h"
#include "pytree/arrays.h"
#include "pytree/container.h"
#include "pytree/leaf.h"
#include "pytree/user_type.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <span>

/// The walk over arguments and results alike: containers, leaves, tensors.

namespace tracehost::python {
namespace {

/// More than this is data, which belongs in a tensor.
constexpr std::size_t kMostNodes = 1'000'000;

/// Throws for leaves that would be something else at the next call.
void check_leaf(PyObject *object, Purpose purpose) {
  const PyTypeObject *type = Py_TYPE(object);
  const char *name = type->tp_name;
  const auto reject = [&](const char *why) {
    raise(errors().signature,
          fmt::format("{} {} {}", std::strchr("aeiou", *name) ? "an" : "a", name, why));
  };
  if (PyAnySet_Check(object))
    reject("has no fixed order. Use a tuple, or sorted(...) of it.");
  if (is_array(object) && purpose == Purpose::argument)
    reject("is no tensor. Use torch.as_tensor(value).");
  if (is_array(object) && !is_constant_scalar(object))
    reject("has memory that something else has too, or holds objects. Return array.copy(), or of "
           "objects array.tolist().");
  if (purpose == Purpose::result)
    return; // describe_result() reports what can't come back
  if (PyWeakref_Check(object))
    reject("may be dead at the next call. Pass the object itself.");
  if (PyMemoryView_Check(object) || std::string_view(name) == "array.array")
    reject("changes without notice. Pass torch.frombuffer(...), or bytes(...) of it.");
  if (std::string_view(Py_TYPE(type)->tp_name).starts_with("_ctypes."))
    reject("of ctypes changes without notice. Pass its values.");
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    const std::string_view text = name;
    if (text == "SymInt" || text == "SymFloat" || text == "SymBool")
      reject("belongs to another tracer. Pass int(value), or a tensor.");
    return;
  }
  if (PyIter_Check(object) && !std::string_view(name).starts_with("_io."))
    reject("is used up by the first call. Pass a list or a tuple.");
}

} // namespace

std::uint8_t mark_of(PyObject *object, const Node &node) {
  if (PyFunction_Check(object) || PyType_Check(object) || PyModule_Check(object) ||
      PyMethod_Check(object))
    return kRoot;
  if (THPDtype_Check(object) || THPLayout_Check(object) || PyCFunction_Check(object) ||
      PyUnicode_CheckExact(object))
    return 0;
  if (static_cast<const PyAtom *>(node.payload.atom)->compare() != PyAtom::Compare::equality)
    return kRoot;
  return has_user_attributes(Py_TYPE(object)) ? kEqualRoot : 0;
}

std::size_t Flattener::open(std::shared_ptr<const ContainerType> type) {
  nodes_.push_back({.kind = type->kind(), .payload = {.atom = type.get()}});
  objects.push_back(reinterpret_cast<PyObject *>(type->type()));
  atoms_.push_back(std::move(type));
  return nodes_.size() - 1;
}

/// Appends a leaf; a mark makes it a root.
void Flattener::add(Node node, PyObject *object, std::uint8_t mark) {
  const std::size_t index = nodes_.size();
  if (mark == kTypedRoot || mark == kEqualRoot || mark == kAlikeRoot) {
    const auto [first, is_new] = met_.try_emplace(object, index, roots.size());
    if (!is_new) {
      const auto [at, root] = first->second;
      node = {
          .kind = Kind::alias,
          .payload = {.alias = {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(root)}}};
      mark = 0;
    }
  }
  node.end = static_cast<std::uint32_t>(index + 1);
  if (mark) {
    node.reserved[0] = mark;
    roots.push_back(object);
    root_nodes.push_back(index);
  }
  objects.push_back(object);
  nodes_.push_back(node);
}

void Flattener::leaf_node(PyObject *object) {
  if (alike && !in_context_ && may_be_another(object)) {
    atoms_.push_back(std::make_shared<PyAtom>(object, PyAtom::Compare::of_class));
    return atom(object, kAlikeRoot);
  }
  Node node = leaf(object, atoms_, in_context_);
  const bool may_lead = node.kind == Kind::atom && !in_context_;
  add(node, object, may_lead ? mark_of(object, node) : 0);
}

void Flattener::typed(PyObject *object) {
  const UserValue *value = values_ ? &values_->of(object) : nullptr;
  const auto compared = std::make_shared<PyAtom>(
      value ? Owned(Py_NewRef(value->type.get())) : user_type(object), Py_TYPE(object));
  const bool opens = value && value->has_tensors;
  const std::size_t at =
      opens ? open(std::make_shared<ContainerType>(Py_TYPE(object), compared)) : 0;
  atoms_.push_back(compared);
  atom(object, kTypedRoot);
  if (!opens)
    return;
  for (std::size_t i = 0; i < value->tensors.size(); ++i)
    tensor(value->tensors[i].get(), value->specs.empty() ? nullptr : &value->specs[i]);
  close(at);
}

void Flattener::instance(PyObject *object) {
  atoms_.push_back(std::make_shared<PyAtom>(object, PyAtom::Compare::weak_identity));
  atom(object, kRoot);
}

/// A leaf of the atom added last.
void Flattener::atom(PyObject *object, std::uint8_t mark) {
  add({.kind = Kind::atom, .payload = {.atom = atoms_.back().get()}}, object, mark);
}

/// Leaves of `known` open what both do.
static void meet(std::optional<TensorSpec> &known, const TensorSpec *spec) {
  if (!spec || !known || !known->shape || !spec->shape ||
      known->shape->size() != spec->shape->size()) {
    known.reset();
    return;
  }
  for (std::size_t d = 0; d < known->shape->size(); ++d)
    if ((*spec->shape)[d] != kAnySize)
      (*known->shape)[d] = (*spec->shape)[d];
}

void Flattener::tensor(PyObject *object, const TensorSpec *spec) {
  const auto *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
  const auto [known, added] = slots_.emplace(impl, static_cast<std::uint32_t>(tensors_.size()));
  if (added) {
    tensors_.push_back(object);
    kept.emplace_back(Py_NewRef(object));
    specs.push_back(spec ? std::optional(*spec) : std::nullopt);
  } else {
    meet(specs[known->second], spec);
  }
  nodes_.push_back({.kind = Kind::tensor,
                    .end = static_cast<std::uint32_t>(nodes_.size() + 1),
                    .payload = {.slot = known->second}});
}

void Flattener::value(PyObject *object) {
  if (nodes_.size() > kMostNodes)
    raise(errors().signature,
          fmt::format("more than {} values. Pass them as a tensor.", kMostNodes));
  if (is_tensor(object))
    return with_attributes(object) ? void() : tensor(object);
  if (object == Py_None || PyUnicode_CheckExact(object) || PyLong_CheckExact(object) ||
      PyFloat_CheckExact(object) || PyBool_Check(object))
    return leaf_node(object);
  slow(object);
}

void Flattener::slow(PyObject *object) {
  if (is_traced_number(object))
    return tensor(object);
  if (result_ && !in_context_ && (from_outside(object) || met_again(object)))
    return;
  const auto known = types_.find(Py_TYPE(object));
  if (known != types_.end())
    return container(object, known->second);
  if (has_user_type(Py_TYPE(object)))
    return of_result(object) ? void() : typed(object);
  auto type = container_type(object);
  if ((!type || type->form() == Form::mapping) && of_result(object))
    return;
  if (!type) {
    if (!in_context_)
      check_leaf(object, purpose_);
    return leaf_node(object);
  }
  if (type->form() != Form::custom)
    types_.emplace(Py_TYPE(object), type);
  container(object, std::move(type));
}

void Flattener::again(PyObject *object, std::uint8_t what, Node::Payload payload) {
  add({.kind = Kind::alias, .reserved = {0, what, 0}, .payload = payload}, object, 0);
}

void Flattener::container(PyObject *object, std::shared_ptr<ContainerType> type) {
  nesting_.enter(object);
  const Owned held(Py_NewRef(object)); // a user's code may let go of it
  const ContainerType &facts = *type;
  if (result_ && !in_context_)
    note_made(object, false); // a no-op for an instance, which is counted
  const std::size_t at = open(std::move(type));
  children(object, facts);
  if (facts.has_more() && facts.form() != Form::custom)
    further(object, facts);
  close(at);
  nesting_.leave();
  number_container(object, at);
}

void Flattener::children(PyObject *object, const ContainerType &type) {
  Children children = type.children(object);
  c10::SmallVector<PyObject *, 8> found;
  for (Owned &child : children)
    found.push_back(type.holds_children() ? child.get() : keep(std::move(child)));
  const bool custom = type.form() == Form::custom, keyed = type.kind() == Kind::dict;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (custom && i == 0) {
      context(found[i]);
    } else if (!found[i]) {
      add({.kind = Kind::absent}, Py_None, 0);
    } else if (keyed && i % 2 == 0) {
      key(found[i]);
    } else {
      value(found[i]);
    }
  }
  if (custom && result_)
    count_references(object, std::span(found).subspan(1));
}

/// Flattens what a registered flatten function gives besides the children. The context of an
/// argument is compared by value.
void Flattener::context(PyObject *object) {
  if (purpose_ == Purpose::result) // goes back to the unflatten function as it is
    return add({}, object, 0);
  const bool outer = std::exchange(in_context_, true);
  value(object);
  in_context_ = outer;
}

void Flattener::further(PyObject *object, const ContainerType &type) {
  Owned state = further_state(object, type);
  if (!state)
    return;
  objects.push_back(Py_None);
  const std::size_t at = nodes_.size();
  nodes_.push_back({.kind = Kind::further, .payload = {.atom = nullptr}});
  const Children items = items_of(keep(std::move(state)));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    key(items[i].get());
    value(items[i + 1].get());
  }
  close(at);
}

} // namespace tracehost::python
