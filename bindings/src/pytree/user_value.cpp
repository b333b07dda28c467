#include "pytree/user_value.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/known.h"
#include "base/lazy.h"
#include "pytree/tensor_spec.h"
#include "pytree/user_type.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

namespace tracehost::python {
namespace {

bool has(PyObject *type, const char *method) { return user_method(type, method) != nullptr; }

std::string name_of(PyObject *type) { return Py_TYPE(type)->tp_name; }

/// What `placeholder_value` and `cast` are given: a `tracehost._arguments.user_types.TypeContext`.
Owned context_of(PyObject *value, const std::vector<Owned> &tensors, const char *argument) {
  static constinit Lazy<PyObject *> type;
  PyObject *make = type([] {
    const Owned module = checked(PyImport_ImportModule("tracehost._arguments.user_types"));
    return checked(PyObject_GetAttrString(module.get(), "TypeContext")).release();
  });
  const Owned inputs = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(i), Py_NewRef(tensors[i].get()));
  return checked(PyObject_CallFunction(make, "OOz", value, inputs.get(), argument));
}

/// The items of a list or tuple that a method gave.
std::vector<Owned> items(PyObject *type, const char *method, PyObject *given, const char *of) {
  if (!PyList_Check(given) && !PyTuple_Check(given))
    reject_user_method(type, method,
                       fmt::format("returned {}. Return a list of {}.", shown_result(given), of));
  std::vector<Owned> result;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i)
    result.emplace_back(Py_NewRef(PySequence_Fast_GET_ITEM(given, i)));
  return result;
}

std::vector<Owned> to_tensors(PyObject *type, PyObject *value) {
  const Owned given = call_user_method(type, "to_tensors", value);
  std::vector<Owned> result = items(type, "to_tensors", given.get(), "tensors");
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!is_tensor(result[i].get()))
      reject_user_method(type, "to_tensors",
                         fmt::format("returned a list whose item {} is {}. Return a list of "
                                     "tensors.",
                                     i, shown_result(result[i].get())));
  return result;
}

/// The specs, checked with the tensors.
std::vector<TensorSpec> specs_of(PyObject *type, const std::vector<Owned> &tensors) {
  const Owned given = call_user_method(type, "flatten");
  const std::vector<Owned> found = items(type, "flatten", given.get(), "TensorSpecs");
  if (found.size() != tensors.size())
    reject_user_method(type, "flatten",
                       fmt::format("returned {} TensorSpecs, and to_tensors() {} tensors.",
                                   found.size(), tensors.size()));
  std::vector<TensorSpec> result;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const TensorSpec *spec = as_tensor_spec(found[i].get());
    if (!spec)
      reject_user_method(type, "flatten",
                         fmt::format("returned a list whose item {} is {}. Return a list of "
                                     "TensorSpecs.",
                                     i, shown_result(found[i].get())));
    const at::Tensor &tensor = THPVariable_Unpack(tensors[i].get());
    if (!is_compatible_with(*spec, tensor))
      reject_user_method(type, "flatten",
                         fmt::format("says {} of item {}, and to_tensors() gave {}.", spec->text(),
                                     i, TensorSpec::of(tensor).text()));
    result.push_back(*spec);
  }
  return result;
}

PyObject *from_tensors(const UserValue &v) {
  const Owned list = checked(PyList_New(static_cast<Py_ssize_t>(v.tensors.size())));
  for (std::size_t i = 0; i < v.tensors.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(v.tensors[i].get()));
  const Owned iterator = checked(PyObject_GetIter(list.get()));
  Owned made = call_user_method(v.type.get(), "from_tensors", iterator.get());
  const Py_ssize_t left = PyObject_LengthHint(iterator.get(), 0);
  if (left > 0)
    reject_user_method(v.type.get(), "from_tensors",
                       fmt::format("took {} of the {} tensors that to_tensors() gave.",
                                   v.tensors.size() - static_cast<std::size_t>(left),
                                   v.tensors.size()));
  return made.release();
}

} // namespace

UserValue user_value(PyObject *object, Owned type) {
  UserValue v;
  v.object = Owned(Py_NewRef(object));
  v.value = Owned(Py_NewRef(object));
  v.type = std::move(type);
  PyObject *of = v.type.get();
  if (!is_trace_type(of))
    return v;
  v.has_tensors = has(of, "to_tensors");
  const bool whole = v.has_tensors && has(of, "from_tensors");
  if (!v.has_tensors && has(of, "from_tensors"))
    raise(errors().signature,
          fmt::format("{} has from_tensors(), but no to_tensors(). Write both.", name_of(of)));
  if (has(of, "cast")) {
    v.value = call_user_method(of, "cast", object, context_of(object, {}, nullptr).get());
    if (v.value.get() != object && !whole)
      raise(errors().signature,
            fmt::format("{}.cast() returned another object than it was given, whose tensors the "
                        "graph would keep. Write to_tensors() and from_tensors(), too.",
                        name_of(of)));
  }
  if (v.has_tensors)
    v.tensors = to_tensors(of, v.value.get());
  if (v.has_tensors && has(of, "flatten"))
    v.specs = specs_of(of, v.tensors);
  return v;
}

PyObject *seen_by_body(const UserValue &v, const std::string &argument) {
  if (!is_trace_type(v.type.get()))
    return nullptr;
  if (has(v.type.get(), "from_tensors"))
    return from_tensors(v);
  if (!has(v.type.get(), "placeholder_value"))
    return nullptr;
  const Owned context = context_of(v.value.get(), v.tensors, argument.c_str());
  return call_user_method(v.type.get(), "placeholder_value", context.get()).release();
}

void UserValues::expect(std::vector<PyObject *> types) {
  expected_ = std::move(types);
  next_ = 0;
}

void UserValues::set_type(PyObject *object, PyObject *type) {
  types_.insert_or_assign(object, Owned(Py_NewRef(type)));
}

const UserValue &UserValues::of(PyObject *object) {
  if (const auto found = made_.find(object); found != made_.end())
    return found->second;
  const Owned given = user_type(object);
  Owned type(Py_NewRef(given.get()));
  if (const auto set = types_.find(object); set != types_.end()) {
    type = Owned(Py_NewRef(set->second.get()));
  } else if (next_ < expected_.size()) {
    PyObject *wanted = expected_[next_++];
    if (wanted && is_trace_type(wanted) && is_trace_type(given.get()) &&
        !same_user_type(wanted, Py_TYPE(wanted), given.get(), Py_TYPE(given.get())) &&
        is_subtype(given.get(), wanted))
      type = Owned(Py_NewRef(wanted));
  }
  return made_.emplace(object, user_value(object, std::move(type))).first->second;
}

} // namespace tracehost::python
