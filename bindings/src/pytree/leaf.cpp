#include "pytree/leaf.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/known.h"
#include "base/lazy.h"
#include "base/object.h"
#include "pytree/user_type.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/autograd/python_variable.h>

#include <bit>
#include <limits>

namespace tracehost::python {

namespace {

/// Whether the type says itself what its values equal. A slice does not hash before 3.12, but is a
/// value all the same.
bool compares_by_value(PyTypeObject *type) {
  if (type == &PySlice_Type)
    return true;
  return type->tp_richcompare && type->tp_richcompare != PyBaseObject_Type.tp_richcompare &&
         type->tp_hash && type->tp_hash != PyBaseObject_Type.tp_hash &&
         type->tp_hash != PyObject_HashNotImplemented;
}

bool same_real(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
}

double canonical(double value) {
  return value == value ? value : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t packed(const at::Device &device) {
  return static_cast<std::int64_t>(device.type()) << 8 | (device.index() + 1);
}

/// Same exact type and `==`. An ordinary exception in a user's `__eq__` means not equal;
/// KeyboardInterrupt and the like stay set for the caller to find.
bool equal(PyObject *a, PyObject *b) {
  if (a == b)
    return true;
  if (Py_TYPE(a) != Py_TYPE(b))
    return false;
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_real(x.real, y.real) && same_real(x.imag, y.imag);
  }
  Py_INCREF(a);
  Py_INCREF(b);
  int result = PyObject_RichCompareBool(a, b, Py_EQ);
  // NaNs of a class derived from float.
  if (result == 0 && PyFloat_Check(a) && PyFloat_AS_DOUBLE(a) != PyFloat_AS_DOUBLE(a))
    result = PyFloat_AS_DOUBLE(b) != PyFloat_AS_DOUBLE(b);
  Py_DECREF(a);
  Py_DECREF(b);
  if (result < 0 && PyErr_ExceptionMatches(PyExc_Exception))
    forget_error();
  return result == 1;
}

PyAtom::Compare comparison(PyObject *object) {
  using Compare = PyAtom::Compare;
  PyTypeObject *type = Py_TYPE(object);
  if (PyFunction_Check(object) || PyType_Check(object) || PyModule_Check(object))
    return Compare::identity;
  if (PyMethod_Check(object))
    // A method of an object that cannot be referred to weakly compares itself: same self, same
    // function.
    return Py_TYPE(PyMethod_GET_SELF(object))->tp_weaklistoffset ? Compare::method
                                                                 : Compare::equality;
  if (is_tensor(object) || is_traced_number(object) || type == &PyTuple_Type)
    return Compare::weak_identity;
  if (is_enum_member(object))
    return Compare::identity;
  return compares_by_value(type) ? Compare::equality : Compare::weak_identity;
}

} // namespace

bool is_enum_member(PyObject *object) {
  PyTypeObject *meta = Py_TYPE(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (meta == &PyType_Type)
    return false;
  static constinit Lazy<PyTypeObject *> enum_meta;
  return PyType_IsSubtype(
      meta, enum_meta([] {
        const KeepError keep;
        const Owned module = checked(PyImport_ImportModule("enum"));
        return reinterpret_cast<PyTypeObject *>(
            checked(PyObject_GetAttrString(module.get(), "EnumMeta")).release());
      }));
}

// ---- PyAtom -------------------------------------------------------------------------------------

PyAtom::PyAtom(PyObject *object, Compare compare) : object_(object), compare_(compare) {
  runs_code_ = compare == Compare::equality && !PyUnicode_CheckExact(object) &&
               !PyBytes_CheckExact(object) && !PyLong_CheckExact(object) &&
               !PyComplex_CheckExact(object);
  if (compare == Compare::method) {
    function_ = Py_NewRef(PyMethod_GET_FUNCTION(object));
    object_ = PyWeakref_NewRef(PyMethod_GET_SELF(object), nullptr);
    if (object_)
      return;
    forget_error(); // cannot be referred to weakly: keep the method
    Py_CLEAR(function_);
    compare_ = Compare::equality;
    object_ = Py_NewRef(object);
    return;
  }
  if (compare == Compare::of_class)
    function_ = Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (compare == Compare::weak_identity || compare == Compare::of_class) {
    object_ = Py_TYPE(object)->tp_weaklistoffset ? PyWeakref_NewRef(object, nullptr) : nullptr;
    if (object_)
      return;
    forget_error();
    compare_ = Compare::identity;
    object_ = object;
  }
  Py_INCREF(object_);
}

PyAtom::PyAtom(Owned type, PyTypeObject *of)
    : object_(type.release()), function_(Py_NewRef(reinterpret_cast<PyObject *>(of))),
      compare_(Compare::typed), runs_code_(true) {}

PyAtom::~PyAtom() {
  if (!python_alive())
    return;
  const WithGil gil;
  const KeepError keep;
  Py_DECREF(object_);
  Py_XDECREF(function_);
}

bool PyAtom::holds_another(PyObject *candidate) const {
  if (!candidate)
    return false;
  switch (compare_) {
  case Compare::identity:
    return false;
  case Compare::weak_identity:
    return candidate == referent(object_);
  case Compare::equality:
    return equal(object_, candidate);
  case Compare::method:
    return PyMethod_Check(candidate) && PyMethod_GET_SELF(candidate) == referent(object_) &&
           PyMethod_GET_FUNCTION(candidate) == function_;
  case Compare::of_class:
    return reinterpret_cast<PyObject *>(Py_TYPE(candidate)) == function_;
  case Compare::typed:
    return serves(object_, reinterpret_cast<PyTypeObject *>(function_), candidate);
  }
  return false;
}

PyObject *PyAtom::object() const {
  switch (compare_) {
  case Compare::identity:
  case Compare::equality:
    return Py_NewRef(object_);
  case Compare::weak_identity:
  case Compare::of_class:
    return Py_XNewRef(referent(object_));
  case Compare::method:
    return referent(object_) ? PyMethod_New(function_, referent(object_)) : nullptr;
  case Compare::typed:
    return nullptr;
  }
  return nullptr;
}

PyObject *python_value(const Node &node) {
  switch (node.kind) {
  case Kind::none:
    Py_RETURN_NONE;
  case Kind::boolean:
    return PyBool_FromLong(node.payload.integer != 0);
  case Kind::integer:
    return PyLong_FromLongLong(node.payload.integer);
  case Kind::real:
    return PyFloat_FromDouble(node.payload.real);
  case Kind::ellipsis:
    return Py_NewRef(Py_Ellipsis);
  case Kind::device:
    return THPDevice_New(
        c10::Device(static_cast<c10::DeviceType>(node.payload.integer >> 8),
                    static_cast<c10::DeviceIndex>((node.payload.integer & 0xff) - 1)));
  case Kind::tensor:
  case Kind::absent:
    return nullptr;
  default:
    return static_cast<const PyAtom *>(node.payload.atom)->object();
  }
}

bool PyAtom::same(const Atom &other) const {
  const auto *that = dynamic_cast<const PyAtom *>(&other);
  if (!that || that->compare_ != compare_)
    return false;
  if (this == that)
    return alive();
  if (compare_ == Compare::of_class)
    return function_ == that->function_;
  // One object has one plain weak reference, so weak references compare by pointer as well.
  if (object_ == that->object_)
    return function_ == that->function_ && alive();
  const bool typed = compare_ == Compare::typed;
  if ((compare_ != Compare::equality && !typed) || !python_alive())
    return false;
  const WithGil gil;
  const KeepError keep;
  const auto of = [](const PyAtom *atom) {
    return reinterpret_cast<PyTypeObject *>(atom->function_);
  };
  const bool result = typed ? same_user_type(object_, of(this), that->object_, of(that))
                            : equal(object_, that->object_);
  forget_error();
  return result;
}

bool PyAtom::is_ordered() const {
  return compare_ == Compare::typed && python_alive() && is_trace_type(object_);
}

bool PyAtom::covers(const Atom &other) const {
  const auto *that = dynamic_cast<const PyAtom *>(&other);
  if (same(other) || !that || that->compare_ != Compare::typed || !is_ordered() ||
      !that->is_ordered())
    return same(other);
  const WithGil gil;
  const KeepError keep;
  try {
    return is_subtype(that->object_, object_);
  } catch (...) { // it says so when it is looked for
    forget_exception();
    return false;
  }
}

bool PyAtom::alive() const {
  // A read of one word: right without the GIL too, if perhaps a moment late.
  return (compare_ != Compare::weak_identity && compare_ != Compare::method) || referent(object_);
}

// ---- leaves -------------------------------------------------------------------------------------

/// An atom by equality over a copy: what it is made from may change in place.
AtomRef snapshot(PyObject *object) {
  const Owned copy =
      checked(PyByteArray_Check(object) ? PyByteArray_FromObject(object) : PySet_New(object));
  return std::make_shared<PyAtom>(copy.get(), PyAtom::Compare::equality);
}

Node leaf(PyObject *object, std::vector<AtomRef> &atoms, bool by_equality) {
  if (object == Py_None)
    return {};
  if (PyBool_Check(object))
    return {.kind = Kind::boolean, .payload = {.integer = object == Py_True}};
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow)
      return {.kind = Kind::integer, .payload = {.integer = value}};
  } else if (PyFloat_CheckExact(object)) {
    return {.kind = Kind::real, .payload = {.real = canonical(PyFloat_AS_DOUBLE(object))}};
  } else if (object == Py_Ellipsis) {
    return {.kind = Kind::ellipsis};
  } else if (THPDevice_Check(object)) {
    const std::int64_t device = packed(reinterpret_cast<THPDevice *>(object)->device);
    return {.kind = Kind::device, .payload = {.integer = device}};
  }
  const bool has_equality =
      Py_TYPE(object)->tp_richcompare != PyBaseObject_Type.tp_richcompare && !PyType_Check(object);
  if (PyByteArray_CheckExact(object) || (by_equality && Py_IS_TYPE(object, &PySet_Type)))
    atoms.push_back(snapshot(object));
  else
    atoms.push_back(std::make_shared<PyAtom>(
        object, by_equality && has_equality ? PyAtom::Compare::equality : comparison(object)));
  return {.kind = Kind::atom, .payload = {.atom = atoms.back().get()}};
}

bool holds(const Node &node, PyObject *object) {
  switch (node.kind) {
  case Kind::none:
    return object == Py_None;
  case Kind::boolean:
    return object == (node.payload.integer ? Py_True : Py_False);
  case Kind::integer: {
    if (!object || !PyLong_CheckExact(object))
      return false;
    int overflow = 0;
    return PyLong_AsLongLongAndOverflow(object, &overflow) == node.payload.integer && !overflow;
  }
  case Kind::real:
    // The node's NaN is canonical; a candidate's need not be.
    return object && PyFloat_CheckExact(object) &&
           same_real(PyFloat_AS_DOUBLE(object), node.payload.real);
  case Kind::ellipsis:
    return object == Py_Ellipsis;
  case Kind::device:
    return object && THPDevice_Check(object) &&
           packed(reinterpret_cast<THPDevice *>(object)->device) == node.payload.integer;
  case Kind::atom:
    return static_cast<const PyAtom *>(node.payload.atom)->holds(object);
  case Kind::absent:
    return object == nullptr;
  default: // tensors and containers are compared by who walks them
    return false;
  }
}

} // namespace tracehost::python
