#include "hooks/forwarding.h"

#include "base/errors.h"
#include "base/lazy.h"
#include "numbers/traced_number.h"
#include "trace/lifted.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <structmember.h>

namespace tracehost::python {
namespace {

struct Method {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *original; ///< what the attribute was; strong
  const char *name;
  MethodGuard guard;
};

struct Property {
  PyObject_HEAD PyObject *original; ///< a data descriptor; strong
  const char *name;
  PropertyGuard guard;
};

/// A read of a traced tensor in an eager region is a read of the body. A size is specialized,
/// because the region needs a number.
template <class Plain, class Guard>
PyObject *guarded(PyObject *tensor, const Plain &plain, const Guard &guard) {
  const bool lifted = trace::lifted();
  if (lifted && !(THPVariable_Check(tensor) && trace::is_traced(THPVariable_Unpack(tensor))))
    return plain();
  const trace::Resumed resumed;
  PyObject *result = guard();
  return lifted && result ? specialize_sizes(result, "a size in init_scope") : result;
}

[[gnu::noinline, gnu::cold]] PyObject *guarded(const Method *m, PyObject *const *args,
                                               std::size_t nargsf, PyObject *kwnames) {
  try {
    return guarded(
        args[0], [&] { return PyObject_Vectorcall(m->original, args, nargsf, kwnames); },
        [&] { return m->guard(m->original, m->name, args, nargsf, kwnames); });
  } catch (const trace::Abandoned &) {
    return PyObject_Vectorcall(m->original, args, nargsf, kwnames);
  } catch (...) {
    set_from_current_exception();
    return nullptr;
  }
}

PyObject *unguarded(const Property *p, PyObject *tensor, PyObject *value) {
  PyTypeObject *type = Py_TYPE(p->original);
  if (!value)
    return type->tp_descr_get(p->original, tensor, reinterpret_cast<PyObject *>(Py_TYPE(tensor)));
  return type->tp_descr_set(p->original, tensor, value) ? nullptr : Py_NewRef(Py_None);
}

[[gnu::noinline, gnu::cold]] PyObject *guarded(const Property *p, PyObject *tensor,
                                               PyObject *value) {
  try {
    return guarded(
        tensor, [&] { return unguarded(p, tensor, value); },
        [&] { return p->guard(p->original, p->name, tensor, value); });
  } catch (const trace::Abandoned &) {
    return unguarded(p, tensor, value);
  } catch (...) {
    set_from_current_exception();
    return nullptr;
  }
}

[[gnu::noinline, gnu::cold]] PyObject *traced(const Method *m, PyObject *const *args,
                                              std::size_t nargsf, PyObject *kwnames) {
  if (trace::guarded() && PyVectorcall_NARGS(nargsf) > 0)
    return guarded(m, args, nargsf, kwnames);
  std::optional<trace::Paused> paused;
  if (trace::in_kernel())
    paused.emplace();
  return PyObject_Vectorcall(m->original, args, nargsf, kwnames);
}

[[gnu::noinline, gnu::cold]] PyObject *traced(const Property *p, PyObject *tensor) {
  if (trace::guarded())
    return guarded(p, tensor, nullptr);
  std::optional<trace::Paused> paused;
  if (trace::in_kernel())
    paused.emplace();
  return unguarded(p, tensor, nullptr);
}

PyObject *call_method(PyObject *self, PyObject *const *args, std::size_t nargsf,
                      PyObject *kwnames) {
  const auto *m = reinterpret_cast<Method *>(self);
  if (trace::active()) [[unlikely]]
    return traced(m, args, nargsf, kwnames);
  return PyObject_Vectorcall(m->original, args, nargsf, kwnames);
}

PyObject *bind_method(PyObject *self, PyObject *instance, PyObject *) {
  return instance ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject *get_of_method(PyObject *self, PyObject *name) {
  if (PyObject *own = PyObject_GenericGetAttr(self, name))
    return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Method *>(self)->original, name);
}

PyObject *repr_original(PyObject *self) {
  return PyObject_Repr(reinterpret_cast<Method *>(self)->original);
}

PyObject *get_property(PyObject *self, PyObject *instance, PyObject *owner) {
  const auto *p = reinterpret_cast<Property *>(self);
  if (!instance)
    return Py_NewRef(p->original); // as Tensor.shape gave before
  if (trace::active()) [[unlikely]]
    return traced(p, instance);
  return Py_TYPE(p->original)->tp_descr_get(p->original, instance, owner);
}

int set_property(PyObject *self, PyObject *instance, PyObject *value) {
  const auto *p = reinterpret_cast<Property *>(self);
  const bool deletes_grad = !value && std::string_view(p->name) == "grad"; // as `= None`
  if ((value || deletes_grad) && trace::guarded()) [[unlikely]] {
    PyObject *done = guarded(p, instance, value ? value : Py_None);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  const auto set = Py_TYPE(p->original)->tp_descr_set;
  if (set)
    return set(p->original, instance, value);
  PyErr_Format(PyExc_AttributeError,
               "attribute '%s' of 'torch._C.TensorBase' objects is not writable", p->name);
  return -1;
}

// Never freed: they are attributes of torch.Tensor for the process's life.
PyTypeObject *method_type() {
  static constinit Lazy<PyTypeObject *> made;
  return made([] {
    static constinit PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, nullptr}, {}};
    PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                           {Py_tp_descr_get, reinterpret_cast<void *>(bind_method)},
                           {Py_tp_getattro, reinterpret_cast<void *>(get_of_method)},
                           {Py_tp_repr, reinterpret_cast<void *>(repr_original)},
                           {Py_tp_members, members},
                           {0, nullptr}};
    PyType_Spec spec{"tracehost._tracehost.method", sizeof(Method), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                     slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  });
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

PyObject *original_of(PyTypeObject *type, const char *name) {
  PyObject *key = PyUnicode_InternFromString(name);
  PyObject *found = key ? _PyType_Lookup(type, key) : nullptr;
  Py_XDECREF(key);
  if (!found)
    throw std::runtime_error("tracehost: this torch has no Tensor." + std::string(name));
  return Py_NewRef(found);
}

void replace(PyTypeObject *type, const char *name, PyObject *descriptor) {
  const int failed = PyObject_SetAttrString(reinterpret_cast<PyObject *>(type), name, descriptor);
  Py_DECREF(descriptor);
  if (failed)
    rethrow();
}

} // namespace

void forward_method(PyTypeObject *type, const char *name, MethodGuard guard) {
  PyObject *original = original_of(type, name);
  auto *m = PyObject_New(Method, method_type());
  if (!m)
    rethrow();
  m->vectorcall = call_method;
  m->original = original;
  m->name = name;
  m->guard = guard;
  replace(type, name, reinterpret_cast<PyObject *>(m));
}

void forward_property(PyTypeObject *type, const char *name, PropertyGuard guard) {
  PyObject *original = original_of(type, name);
  auto *p = PyObject_New(Property, property_type());
  if (!p)
    rethrow();
  p->original = original;
  p->name = name;
  p->guard = guard;
  replace(type, name, reinterpret_cast<PyObject *>(p));
}

} // namespace tracehost::python
