#include "pytree/pytree.h"

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

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

namespace tracehost::python {
namespace {

/// More than this is data, which belongs in a tensor.
constexpr std::size_t kMostNodes = 1'000'000;

/// The leaf's mark: whether its attributes, cells and globals can be read by the body.
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

/// Throws for leaves that would be something else at the next call.
void check_leaf(PyObject *object, Purpose purpose) {
  const PyTypeObject *type = Py_TYPE(object);
  const char *name = type->tp_name;
  const auto refuse = [&](const char *why) {
    raise(errors().signature,
          fmt::format("{} {} {}", std::strchr("aeiou", *name) ? "an" : "a", name, why));
  };
  if (PyAnySet_Check(object))
    refuse("has no fixed order. Use a tuple, or sorted(...) of it.");
  if (is_array(object) && purpose == Purpose::argument)
    refuse("is no tensor. Use torch.as_tensor(value).");
  if (is_array(object) && !is_constant_scalar(object))
    refuse("has memory that something else has too, or holds objects. Return array.copy(), or of "
           "objects array.tolist().");
  if (purpose == Purpose::result)
    return; // what can't come back is told by describe_result()
  if (PyWeakref_Check(object))
    refuse("may be dead at the next call. Pass the object itself.");
  if (PyMemoryView_Check(object) || std::string_view(name) == "array.array")
    refuse("changes without being told. Pass torch.frombuffer(...), or bytes(...) of it.");
  if (std::string_view(Py_TYPE(type)->tp_name).starts_with("_ctypes."))
    refuse("of ctypes changes without being told. Pass its values.");
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    const std::string_view text = name;
    if (text == "SymInt" || text == "SymFloat" || text == "SymBool")
      refuse("belongs to another tracer. Pass int(value), or a tensor.");
    return;
  }
  if (PyIter_Check(object) && !std::string_view(name).starts_with("_io."))
    refuse("is used up by the first call. Pass a list or a tuple.");
}

class Flattener {
public:
  Flattener(std::vector<Node> &nodes, std::vector<AtomRef> &atoms, std::vector<PyObject *> &tensors,
            Purpose purpose, UserValues *values, ResultObjects *result = nullptr)
      : nodes_(nodes), atoms_(atoms), tensors_(tensors), purpose_(purpose), values_(values),
        result_(result) {}

  void value(PyObject *object);
  std::size_t open(std::shared_ptr<const ContainerType> type);
  void close(std::size_t index) { nodes_[index].end = static_cast<std::uint32_t>(nodes_.size()); }
  void leaf_node(PyObject *object);
  /// By identity, whatever its class says.
  void instance(PyObject *object);

  bool alike = false; ///< some objects are compared by their class: kAlikeRoot
  std::vector<PyObject *> roots;
  std::vector<std::size_t> root_nodes;
  std::vector<PyObject *> objects; ///< a leaf or a container's type for each node but tensors
  std::vector<Owned> kept;         ///< what only the walk itself holds
  /// By slot: what users' types say of the tensor; nothing where some place has it as it is.
  std::vector<std::optional<TensorSpec>> specs;

private:
  void slow(PyObject *object);
  void typed(PyObject *object);
  bool from_outside(PyObject *object);
  bool of_result(PyObject *object);
  void number_container(PyObject *object, std::size_t node);
  void again(PyObject *object, std::uint8_t what, Node::Payload payload);
  void container(PyObject *object, std::shared_ptr<ContainerType> type);
  void children(PyObject *object, const ContainerType &type);
  void dict(PyObject *object);
  void context(PyObject *object);
  void count_references(PyObject *object, const std::vector<PyObject *> &given);
  void further(PyObject *object, const ContainerType &type);
  void key(PyObject *object) {
    PyTuple_Check(object) || is_traced_number(object) ? value(object) : leaf_node(object);
  }
  void atom(PyObject *object, std::uint8_t mark);
  void tensor(PyObject *object, const TensorSpec *spec = nullptr);
  void add(Node node, PyObject *object, std::uint8_t mark);
  /// Holds a value that the walk has made, or got from a user's code, until the walk's owner goes.
  PyObject *keep(Owned object) {
    kept.push_back(std::move(object));
    return kept.back().get();
  }

  std::vector<Node> &nodes_;
  std::vector<AtomRef> &atoms_;
  std::vector<PyObject *> &tensors_;
  const Purpose purpose_;
  UserValues *const values_;
  ResultObjects *const result_; ///< null: none are expected
  bool in_context_ = false;
  std::unordered_map<const c10::TensorImpl *, std::uint32_t> slots_;
  std::unordered_map<PyTypeObject *, std::shared_ptr<ContainerType>> types_;
  /// Objects that others may come in the place of: where they were met first.
  std::unordered_map<PyObject *, std::pair<std::size_t, std::size_t>> met_;
  Nesting nesting_;
};

std::size_t Flattener::open(std::shared_ptr<const ContainerType> type) {
  Node node;
  node.kind = type->kind();
  node.payload.atom = type.get();
  objects.push_back(reinterpret_cast<PyObject *>(type->type()));
  atoms_.push_back(std::move(type));
  nodes_.push_back(node);
  return nodes_.size() - 1;
}

/// Appends a leaf; a mark makes it a root.
void Flattener::add(Node node, PyObject *object, std::uint8_t mark) {
  const std::size_t index = nodes_.size();
  if (mark == kTypedRoot || mark == kEqualRoot || mark == kAlikeRoot) {
    const auto [first, is_new] = met_.try_emplace(object, index, roots.size());
    if (!is_new) {
      node = {};
      node.kind = Kind::again;
      node.payload.again = {static_cast<std::uint32_t>(first->second.first),
                            static_cast<std::uint32_t>(first->second.second)};
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
    const auto of_class = std::make_shared<PyAtom>(object, PyAtom::Compare::of_class);
    Node node;
    node.kind = Kind::atom;
    node.payload.atom = of_class.get();
    atoms_.push_back(of_class);
    return add(node, object, kAlikeRoot);
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
  Node node;
  node.kind = Kind::atom;
  node.payload.atom = atoms_.back().get();
  add(node, object, mark);
}

/// Leaves of `known` open what both do.
void meet(std::optional<TensorSpec> &known, const TensorSpec *spec) {
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
  Node node;
  node.kind = Kind::tensor;
  node.payload.slot = known->second;
  node.end = static_cast<std::uint32_t>(nodes_.size() + 1);
  nodes_.push_back(node);
}

void Flattener::value(PyObject *object) {
  if (nodes_.size() > kMostNodes)
    raise(errors().signature,
          fmt::format("more than {} values. Pass them as a tensor.", kMostNodes));
  if (is_tensor(object))
    return tensor(object);
  if (object == Py_None || PyUnicode_CheckExact(object) || PyLong_CheckExact(object) ||
      PyFloat_CheckExact(object) || PyBool_Check(object))
    return leaf_node(object);
  slow(object);
}

void Flattener::slow(PyObject *object) {
  if (is_traced_number(object))
    return tensor(object);
  if (result_ && !in_context_ && from_outside(object))
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
  Node node;
  node.kind = Kind::again;
  node.reserved[1] = what;
  node.payload = payload;
  add(node, object, 0);
}

/// The object's place in the list, where it may be put now.
std::size_t place_in(std::vector<PyObject *> &list, PyObject *object) {
  const auto found = std::find(list.begin(), list.end(), object);
  if (found != list.end())
    return static_cast<std::size_t>(found - list.begin());
  list.push_back(object);
  return list.size() - 1;
}

/// Whether each call may return this very object.
bool is_constant(PyObject *object) {
  if (PyType_Check(object) || PyFunction_Check(object) || is_enum_member(object))
    return true;
  if (has_user_type(Py_TYPE(object)) || container_type(object))
    return false;
  std::vector<AtomRef> atoms;
  const Node node = leaf(object, atoms);
  return node.kind != Kind::atom || !mark_of(object, node);
}

/// An object of a result that each call finds, and none makes.
bool Flattener::from_outside(PyObject *object) {
  if (is_constant(object))
    return false;
  const auto given = std::find(result_->given.begin(), result_->given.end(), object);
  std::size_t number = static_cast<std::size_t>(given - result_->given.begin());
  if (given == result_->given.end()) {
    if (!result_->reached || result_->reached->as(object) != ReachedObjects::As::whole)
      return false;
    number += place_in(result_->reached->objects, object);
  }
  again(object, kGiven, {.again = {0, static_cast<std::uint32_t>(number)}});
  return true;
}

/// An object of a result that can be made anew.
bool Flattener::of_result(PyObject *object) {
  if (!result_ || in_context_ || PyType_Check(object) || PyFunction_Check(object) ||
      is_enum_member(object))
    return false;
  if (const auto met = result_->made.find(object); met != result_->made.end()) {
    if (nodes_[met->second.node].end == 0)
      nesting_.enter(object); // throws: it contains itself
    ++met->second.references;
    nodes_[met->second.node].reserved[2] = kShared;
    again(object, kShared, {.again = {met->second.node, 0}});
    return true;
  }
  const bool array = is_new_array(object);
  auto type = array ? nullptr : instance_type(object);
  if (!array && !type)
    return false;
  result_->made.emplace(object, ResultObjects::Made{static_cast<std::uint32_t>(nodes_.size()), 1});
  array ? leaf_node(object) : container(object, std::move(type));
  return true;
}

/// Node::reserved[1] of a container from outside. A tuple is as good as another one.
void Flattener::number_container(PyObject *object, std::size_t node) {
  if (!result_ || PyTuple_Check(object))
    return;
  const auto &of = result_->containers;
  auto number = static_cast<std::size_t>(std::find(of.begin(), of.end(), object) - of.begin());
  if (number == of.size()) {
    if (!result_->reached || result_->reached->as(object) == ReachedObjects::As::none)
      return;
    number += place_in(result_->reached->containers, object);
  }
  if (number < 255)
    nodes_[node].reserved[1] = static_cast<std::uint8_t>(number + 1);
}

void Flattener::container(PyObject *object, std::shared_ptr<ContainerType> type) {
  nesting_.enter(object);
  const Owned held(Py_NewRef(object)); // a user's code may let go of it
  const ContainerType &facts = *type;
  const std::size_t at = open(std::move(type));
  children(object, facts);
  if (facts.has_more() && facts.form() != Form::custom)
    further(object, facts);
  close(at);
  nesting_.leave();
  number_container(object, at);
}

void Flattener::children(PyObject *object, const ContainerType &type) {
  switch (type.form()) {
  case Form::tuple:
  case Form::list:
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      const Owned item(Py_NewRef(PySequence_Fast_GET_ITEM(object, i)));
      value(item.get());
    }
    break;
  case Form::dict:
    dict(object);
    break;
  case Form::ordered:
  case Form::mapping: {
    bool is_key = false;
    for (Owned &part : parts(object, type.form())) {
      PyObject *item = keep(std::move(part));
      (is_key = !is_key) ? key(item) : value(item);
    }
    break;
  }
  case Form::sequence:
    for (Owned &part : parts(object, type.form()))
      value(keep(std::move(part)));
    break;
  case Form::record:
    for (PyObject *name : type.fields()) {
      Owned item = field_of(object, name);
      if (item) {
        value(keep(std::move(item)));
      } else {
        Node node;
        node.kind = Kind::absent;
        add(node, Py_None, 0);
      }
    }
    break;
  case Form::custom: {
    Owned found;
    auto items = type.apart(object, found);
    context(keep(std::move(found)));
    std::vector<PyObject *> given;
    for (Owned &item : items)
      given.push_back(keep(std::move(item)));
    for (PyObject *item : given)
      value(item);
    if (result_)
      count_references(object, given);
    break;
  }
  case Form::typed:
    break; // typed() takes those apart
  }
}

void Flattener::dict(PyObject *object) {
  PyObject *name = nullptr, *item = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(object, &place, &name, &item);) {
    const Owned held_name(Py_NewRef(name)), held_item(Py_NewRef(item));
    key(name);
    value(item);
  }
}

/// How often an object refers to another by itself, or by its attributes.
Py_ssize_t references(PyObject *from, PyObject *to) {
  struct Count {
    PyObject *to;
    Py_ssize_t found = 0;
  } count{to};
  const visitproc visit = [](PyObject *object, void *arg) {
    auto &state = *static_cast<Count *>(arg);
    state.found += object == state.to;
    return 0;
  };
  const auto ask = [&](PyObject *object) {
    if (PyObject_IS_GC(object))
      Py_TYPE(object)->tp_traverse(object, visit, &count);
  };
  ask(from);
  if (PyObject **dict = _PyObject_GetDictPtr(from); dict && *dict)
    ask(*dict);
  return count.found;
}

/// A registered class gives children as it likes: it may hold one more often than it gives it
/// (ModelOutput, as an item and as an attribute).
void Flattener::count_references(PyObject *object, const std::vector<PyObject *> &given) {
  for (auto &[child, made] : result_->made) {
    const auto times = std::count(given.begin(), given.end(), child);
    if (times > 0)
      made.references += references(object, child) - times;
  }
}

/// What a registered flatten function gives besides the children: by value, whatever it is.
void Flattener::context(PyObject *object) {
  if (purpose_ == Purpose::result) { // goes back to the unflatten function as it is
    Node node;
    return add(node, object, 0);
  }
  const bool outer = std::exchange(in_context_, true);
  value(object);
  in_context_ = outer;
}

void Flattener::further(PyObject *object, const ContainerType &type) {
  Owned state = further_state(object, type);
  if (!state)
    return;
  Node node;
  node.kind = Kind::further;
  node.payload.atom = nullptr;
  objects.push_back(Py_None);
  const std::size_t at = nodes_.size();
  nodes_.push_back(node);
  dict(keep(std::move(state)));
  close(at);
}

/// `place`: how many fixed parameters came before.
void parameter(Flattener &walk, const Parameter &p, const Bound &bound, const PyObject *self,
               std::size_t &place) {
  if (p.kind == Parameter::Kind::var_positional) {
    const std::size_t at = walk.open(std::make_shared<ContainerType>(&PyTuple_Type, Form::tuple));
    for (std::size_t i = 0; i < bound.extra_count; ++i)
      walk.value(bound.extra[i]);
    walk.close(at);
  } else if (p.kind == Parameter::Kind::var_keyword) {
    const std::size_t at = walk.open(std::make_shared<ContainerType>(&PyDict_Type, Form::dict));
    for (const auto &[name, value] : bound.keywords) {
      walk.leaf_node(name);
      walk.value(value);
    }
    walk.close(at);
  } else {
    PyObject *value = bound.values[place];
    place++ == 0 && value == self ? walk.instance(value) : walk.value(value);
  }
}

/// See kDefault.
void mark_default(Node &node, const Parameter &p, PyObject *value) {
  const bool leaf = !node.is_container() && node.kind != Kind::tensor && node.kind != Kind::again;
  if (value != p.default_value || !leaf || node.reserved[0])
    return;
  if (node.kind != Kind::atom || static_cast<const PyAtom *>(node.payload.atom)->is(value))
    node.reserved[1] = kDefault;
}

} // namespace

void Nesting::enter(PyObject *container) {
  const char *name = Py_TYPE(container)->tp_name;
  if (std::find(open_.begin(), open_.end(), container) != open_.end())
    raise(errors().signature, fmt::format("a {} contains itself. Use it without the cycle.", name));
  if (open_.size() >= kDeepest)
    raise(errors().signature,
          fmt::format("nested deeper than {} levels, at a {}. Use flatter data.", kDeepest, name));
  open_.push_back(container);
}

void rethrow_about(const std::string &subject) {
  set_from_current_exception();
  if (!PyErr_ExceptionMatches(errors().signature))
    rethrow();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Owned text(PyObject_Str(value));
  const Owned args(Py_BuildValue("(s)", fmt::format("{}: {}", subject, utf8(text.get())).c_str()));
  if (!args || PyObject_SetAttrString(value, "args", args.get())) // in place: it may have a cause
    PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  rethrow();
}

void flatten(const Binder &binder, const Bound &bound, PyObject *self, UserValues &values,
             bool alike, Signature &signature, Flattened &found) {
  Flattener walk(signature.nodes, signature.atoms, found.tensors, Purpose::argument, &values);
  walk.alike = alike;
  std::size_t place = 0;
  for (const Parameter &p : binder.parameters()) {
    const std::size_t first = signature.nodes.size();
    try {
      parameter(walk, p, bound, self, place);
    } catch (...) {
      rethrow_about(fmt::format("argument '{}'", PyUnicode_AsUTF8(p.name)));
    }
    if (p.default_value)
      mark_default(signature.nodes[first], p, bound.values[place - 1]);
  }
  for (PyObject *t : found.tensors) {
    if (THPVariable_Unpack(t).is_nested())
      raise(errors().trace, "a nested tensor is passed. It has no sizes that a graph could be "
                            "traced for: pad it, and pass the lengths, too.");
    signature.slots.push_back(
        TensorMeta::of(THPVariable_Unpack(t), Py_TYPE(t), Py_TYPE(t)->tp_name));
  }
  for (std::size_t slot = 0; slot < walk.specs.size(); ++slot)
    for (std::size_t d = 0; walk.specs[slot] && d < signature.slots[slot].sizes.size(); ++d)
      if (!walk.specs[slot]->shape || (*walk.specs[slot]->shape)[d] == kAnySize)
        signature.slots[slot].relax(d);
  found.roots = std::move(walk.roots);
  found.root_nodes = std::move(walk.root_nodes);
  found.kept = std::move(walk.kept);
}

FlatValue flatten(PyObject *value, Purpose purpose, UserValues *values, ResultObjects *objects) {
  FlatValue result;
  Flattener walk(result.nodes, result.atoms, result.tensors, purpose, values, objects);
  walk.value(value);
  result.objects = std::move(walk.objects);
  result.kept = std::move(walk.kept);
  return result;
}

} // namespace tracehost::python
