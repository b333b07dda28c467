#pragma once

#include "base/object.h"
#include "pytree/leaf.h"

#include <Python.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

/// Which values are taken apart, and how. What one has besides its children (attributes of a
/// subclass's instance, a deque's maxlen, a defaultdict's factory) is its further state.
/// Requires for all: GIL held.

namespace tracehost::python {

/// How the children of a container are reached.
enum class Form : std::uint8_t {
  tuple,      ///< a tuple, or of a class derived from it: namedtuple, torch.Size
  list,       ///< a list, or of a class derived from it
  dict,       ///< a dict, or of a class derived from it: keys and values as it stores them
  ordered,    ///< an OrderedDict, which keeps its order apart
  mapping,    ///< any other Mapping: its keys, and what it gives for them
  sequence,   ///< a deque or frozenset: in the order of iteration
  record,     ///< attributes by name: dataclass, attrs class, slice, range, partial
  custom,     ///< by the function registered with torch.utils._pytree
  typed,      ///< an object whose trace type has to_tensors: the object by its type, those tensors
  attributed, ///< of a result: a tensor, whose further state are attributes that the body has set
};

/// The children of a container in the order of a Signature's nodes; null: an attribute that is
/// absent. A dict's are keys and values in turn; a custom one's first is what its class calls
/// context.
using Children = c10::SmallVector<Owned, 6>;

/// The class of a container, as the atom of its Node.
class ContainerType final : public PyAtom {
public:
  ContainerType(PyTypeObject *type, Form form);
  /// Form::typed. `compared`: the atom of the object.
  ContainerType(PyTypeObject *type, AtomRef compared);
  ~ContainerType() override;

  std::string field(std::size_t index) const override;
  std::string context() const override;
  std::string text() const override;

  Form form() const { return form_; }
  Kind kind() const;
  PyTypeObject *type() const { return reinterpret_cast<PyTypeObject *>(held()); }
  /// record: the attributes, interned.
  const std::vector<PyObject *> &fields() const { return fields_; }
  bool is_field(PyObject *name) const;
  /// Whether instances may have further state.
  bool has_more() const { return has_more_; }
  /// What instances of classes in C have besides their items: a deque's maxlen; null for nothing.
  const char *attribute_in_c() const { return attribute_in_c_; }
  /// Hot. record: whether the fields that are in an instance's dict are read from there: its class
  /// has neither `__getattribute__` nor a property in the way.
  bool fields_in_dict() const {
    if (type()->tp_version_tag != version_) [[unlikely]]
      learn_access();
    return fields_in_dict_;
  }

  /// Takes `object` apart. Throws what its code raises, or that of a registered flatten function.
  Children children(PyObject *object) const;
  /// Whether a container of this class itself holds what children() gives.
  bool holds_children() const { return form_ <= Form::dict; }
  /// custom: puts one together. A new reference, or null with an error set.
  PyObject *together(PyObject *children, PyObject *context) const;

  int traverse(visitproc visit, void *arg) const override;

private:
  friend std::shared_ptr<ContainerType> container_type(PyObject *object);
  friend std::shared_ptr<ContainerType> instance_type(PyObject *object);
  void learn_names(PyObject *object, PyObject *with_keys);
  void learn_access() const;

  static constexpr unsigned kNoVersion = ~0U;

  Form form_;
  bool has_more_;
  mutable bool fields_in_dict_ = false;
  mutable unsigned version_ = kNoVersion; ///< of the class, when fields_in_dict_ was found out
  const char *attribute_in_c_ = nullptr;
  std::vector<PyObject *> fields_;                  ///< strong
  PyObject *apart_ = nullptr, *together_ = nullptr; ///< custom; strong
  std::vector<std::string> names_;                  ///< custom: how the children are reached
  AtomRef compared_;                                ///< typed
};

/// How `object` is taken apart; null for what is a leaf, for tensors and sets. May look attributes
/// up on its class; runs no code of its instance but a registered flatten function that names
/// children. One for each class but custom ones, where it belongs to the object.
std::shared_ptr<ContainerType> container_type(PyObject *object);

/// How an instance of a user's class is taken apart that nothing else describes: by its `__slots__`
/// and its attributes. Null where object.__new__ and these can't make the instance again.
std::shared_ptr<ContainerType> instance_type(PyObject *object);

/// The class in C that instances of `type` are laid out by: its tp_new makes one without __init__.
PyTypeObject *class_in_c(PyTypeObject *type);

/// The keys and values of a dict, in turn.
Children items_of(PyObject *dict);

/// A field of a record: a new reference, null where it has none (no error is set). Throws what its
/// code raises.
Owned field_of(PyObject *object, PyObject *name);

/// A new dict with the further state; null if there is none.
Owned further_state(PyObject *object, const ContainerType &type);

} // namespace tracehost::python
