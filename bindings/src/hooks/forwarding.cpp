#include "hooks/forwarding.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/lazy.h"
#include "base/object.h"
#include "numbers/traced_number.h"
#include "trace/eager_region.h"
#include "trace/gradients.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <structmember.h>

namespace tracehost::python {
namespace {

struct Method {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *original; ///< what the attribute was; strong
  const char *name;
  MethodGuard guard;
  bool of_object; ///< as forward_object_property() says
};

struct Property {
  PyObject_HEAD PyObject *original; ///< a data descriptor; strong
  const char *name;
  PropertyGuard guard;
  bool of_object;
};

/// What has the `.grad` of `tensor`, in a body that continues without its trace.
Owned owner_of_grad(PyObject *tensor) {
  const at::Tensor &t = THPVariable_Unpack(tensor);
  const at::Tensor owner = trace::owner_of_grad(t);
  const bool alike = owner.requires_grad() == t.requires_grad(); // else it was set since
  return Owned(alike && !owner.is_same(t) ? THPVariable_Wrap(owner) : Py_NewRef(tensor));
}

/// A read of a traced tensor in an eager region is a read of the body. A size is specialized,
/// because the region needs a number.
template <class Plain, class Guard>
[[gnu::noinline, gnu::cold]] PyObject *guarded(PyObject *tensor, const Plain &plain,
                                               const Guard &guard) {
  try {
    const bool eager_region = trace::in_eager_region();
    if (eager_region &&
        !(THPVariable_Check(tensor) && trace::is_traced(THPVariable_Unpack(tensor))))
      return plain();
    const trace::Resumed resumed;
    PyObject *result = guard();
    return eager_region && result ? specialize_sizes(result, "a size in init_scope") : result;
  } catch (const trace::Abandoned &) {
    return plain();
  } catch (...) {
    set_from_current_exception();
    return nullptr;
  }
}

template <class Plain, class Guard>
[[gnu::noinline, gnu::cold]] PyObject *traced(PyObject *tensor, const Plain &plain,
                                              const Guard &guard) {
  if (trace::guarded())
    return guarded(tensor, plain, guard);
  std::optional<trace::Paused> paused;
  if (trace::in_kernel())
    paused.emplace();
  return plain();
}

/// A class method is called with its class first.
PyObject *call_of_class(PyObject *original, PyObject *const *args, std::size_t nargsf,
                        PyObject *kwnames) {
  const Owned bound(Py_TYPE(original)->tp_descr_get(original, nullptr, args[0]));
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf) - 1);
  return bound ? PyObject_Vectorcall(bound.get(), args + 1, given, kwnames) : nullptr;
}

template <vectorcallfunc plain>
PyObject *call(PyObject *self, PyObject *const *args, std::size_t nargsf, PyObject *kwnames) {
  const auto *m = reinterpret_cast<Method *>(self);
  if (PyVectorcall_NARGS(nargsf) == 0) [[unlikely]]
    return PyObject_Vectorcall(m->original, args, nargsf, kwnames); // raises
  if (m->of_object && trace::abandoned()) [[unlikely]] {
    const Owned owner = owner_of_grad(args[0]);
    std::vector<PyObject *> all(args, args + PyVectorcall_NARGS(nargsf) +
                                          (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    all[0] = owner.get();
    return plain(m->original, all.data(), static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)),
                 kwnames);
  }
  const auto call_plain = [&] { return plain(m->original, args, nargsf, kwnames); };
  if (trace::active()) [[unlikely]]
    return traced(args[0], call_plain,
                  [&] { return m->guard(m->original, m->name, args, nargsf, kwnames); });
  return call_plain();
}

PyObject *bind_method(PyObject *self, PyObject *instance, PyObject *) {
  return instance ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject *bind_class_method(PyObject *self, PyObject *instance, PyObject *owner) {
  return PyMethod_New(self, owner ? owner : reinterpret_cast<PyObject *>(Py_TYPE(instance)));
}

/// `__name__`, `__doc__` ...
PyObject *get_of_method(PyObject *self, PyObject *name) {
  if (PyObject *own = PyObject_GenericGetAttr(self, name))
    return own;
  forget_error();
  PyObject *original = reinterpret_cast<Method *>(self)->original;
  const Owned function(PyObject_HasAttrString(original, "__func__")
                           ? PyObject_GetAttrString(original, "__func__")
                           : Py_NewRef(original));
  return function ? PyObject_GetAttr(function.get(), name) : nullptr;
}

PyObject *repr_original(PyObject *self) {
  return PyObject_Repr(reinterpret_cast<Method *>(self)->original);
}

PyObject *get_property(PyObject *self, PyObject *instance, PyObject *owner) {
  const auto *p = reinterpret_cast<Property *>(self);
  if (!instance)
    return Py_NewRef(p->original); // as Tensor.shape gave before
  if (p->of_object && trace::abandoned()) [[unlikely]]
    return original_property(p->original, owner_of_grad(instance).get(), nullptr);
  const auto plain = [&] {
    return Py_TYPE(p->original)->tp_descr_get(p->original, instance, owner);
  };
  if (trace::active()) [[unlikely]]
    return traced(instance, plain,
                  [&] { return p->guard(p->original, p->name, instance, nullptr); });
  return plain();
}

int set_property(PyObject *self, PyObject *instance, PyObject *value) {
  const auto *p = reinterpret_cast<Property *>(self);
  const bool deletes_grad = !value && std::string_view(p->name) == "grad"; // as `= None`
  if ((value || deletes_grad) && trace::guarded()) [[unlikely]] {
    PyObject *now = value ? value : Py_None;
    const Owned done(guarded(
        instance, [&] { return original_property(p->original, instance, now); },
        [&] { return p->guard(p->original, p->name, instance, now); }));
    return done ? 0 : -1;
  }
  const auto set = Py_TYPE(p->original)->tp_descr_set;
  if (set && p->of_object && trace::abandoned()) [[unlikely]]
    return set(p->original, owner_of_grad(instance).get(), value);
  if (set)
    return set(p->original, instance, value);
  PyErr_Format(PyExc_AttributeError,
               "attribute '%s' of 'torch._C.TensorBase' objects is not writable", p->name);
  return -1;
}

// The types are never freed: they are of attributes of torch's classes for the process's life.
PyTypeObject *make_method_type(const char *name, descrgetfunc bind, unsigned long flags) {
  static constinit PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void *>(bind)},
                         {Py_tp_getattro, reinterpret_cast<void *>(get_of_method)},
                         {Py_tp_repr, reinterpret_cast<void *>(repr_original)},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec{name, sizeof(Method), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | flags),
                   slots};
  return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
}

PyTypeObject *method_type() {
  static constinit Lazy<PyTypeObject *> made;
  return made([] {
    return make_method_type("tracehost._tracehost.method", bind_method,
                            Py_TPFLAGS_METHOD_DESCRIPTOR);
  });
}

PyTypeObject *class_method_type() {
  static constinit Lazy<PyTypeObject *> made;
  return made([] { return make_method_type("tracehost._tracehost.apply", bind_class_method, 0); });
}

PyTypeObject *property_type() {
  static constinit Lazy<PyTypeObject *> made;
  return made([] {
    PyType_Slot slots[] = {{Py_tp_descr_get, reinterpret_cast<void *>(get_property)},
                           {Py_tp_descr_set, reinterpret_cast<void *>(set_property)},
                           {0, nullptr}};
    PyType_Spec spec{"tracehost._tracehost.property", sizeof(Property), 0, Py_TPFLAGS_DEFAULT,
                     slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  });
}

/// Puts a new descriptor of `made` in place of the attribute `name` of `type`.
template <class Descriptor, class Guard>
Descriptor *replace(PyTypeObject *type, const char *name, PyTypeObject *made, Guard guard) {
  const Owned key(PyUnicode_InternFromString(name));
  PyObject *found = key ? _PyType_Lookup(type, key.get()) : nullptr; // borrowed
  if (!found)
    throw std::runtime_error("tracehost: this torch has no Tensor." + std::string(name));
  auto *d = PyObject_New(Descriptor, made);
  if (!d)
    rethrow();
  d->original = Py_NewRef(found);
  d->name = name;
  d->guard = guard;
  d->of_object = false;
  const Owned held(reinterpret_cast<PyObject *>(d)); // the type has it from here on
  if (PyObject_SetAttr(reinterpret_cast<PyObject *>(type), key.get(), held.get()))
    rethrow();
  return d;
}

} // namespace

PyObject *original_property(PyObject *original, PyObject *tensor, PyObject *value) {
  PyTypeObject *type = Py_TYPE(original);
  if (!value)
    return type->tp_descr_get(original, tensor, reinterpret_cast<PyObject *>(Py_TYPE(tensor)));
  return type->tp_descr_set(original, tensor, value) ? nullptr : Py_NewRef(Py_None);
}

void forward_method(PyTypeObject *type, const char *name, MethodGuard guard) {
  replace<Method>(type, name, method_type(), guard)->vectorcall = call<PyObject_Vectorcall>;
}

void forward_class_method(PyTypeObject *type, const char *name, MethodGuard guard) {
  replace<Method>(type, name, class_method_type(), guard)->vectorcall = call<call_of_class>;
}

void forward_property(PyTypeObject *type, const char *name, PropertyGuard guard) {
  replace<Property>(type, name, property_type(), guard);
}

void forward_object_method(PyTypeObject *type, const char *name, MethodGuard guard) {
  auto *method = replace<Method>(type, name, method_type(), guard);
  method->vectorcall = call<PyObject_Vectorcall>;
  method->of_object = true;
}

void forward_object_property(PyTypeObject *type, const char *name, PropertyGuard guard) {
  replace<Property>(type, name, property_type(), guard)->of_object = true;
}

PyObject *plain_method(PyObject *original, const char *, PyObject *const *args, std::size_t nargsf,
                       PyObject *kwnames) {
  const trace::Paused paused;
  return PyObject_Vectorcall(original, args, nargsf, kwnames);
}

PyObject *plain_property(PyObject *original, const char *, PyObject *tensor, PyObject *value) {
  const trace::Paused paused;
  return original_property(original, tensor, value);
}

} // namespace tracehost::python
