#include "call/function_type.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "call/instances.h"
#include "report/ledger.h"

#include <torch/csrc/Exceptions.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <structmember.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

FunctionObject *cast(PyObject *self) { return reinterpret_cast<FunctionObject *>(self); }

PyObject *uncallable(PyObject *, PyObject *const *, std::size_t, PyObject *) {
  PyErr_SetString(PyExc_TypeError, "this Function was not initialised, or is being destroyed");
  return nullptr;
}

int initialise(PyObject *self, PyObject *args, PyObject *);
PyObject *make(PyTypeObject *type, PyObject *, PyObject *);

/// The Function that `instance` is to have of its own: borrowed; null with an error set.
[[gnu::noinline, gnu::cold]] PyObject *make_for_instance(PyObject *self, PyObject *instance) {
  FunctionObject *of_class = cast(self);
  if (!of_class->function)
    return uncallable(self, nullptr, 0, nullptr);
  if (of_class->function->instance || !Instances::may_have_one(instance))
    return self;
  Owned weak(Instances::watch(self, instance));
  Owned own(weak ? make(Py_TYPE(self), nullptr, nullptr) : nullptr);
  if (!own || initialise(own.get(), of_class->arguments, nullptr))
    return nullptr;
  cast(own.get())->function->instance = Owned(Py_NewRef(weak.get()));
  cast(own.get())->dict = Py_XNewRef(of_class->dict);
  if (!of_class->instances)
    of_class->instances = new Instances;
  of_class->instances->add(instance, weak.release(), own.release());
  return of_class->instances->find(instance);
}

/// Hot: a method's call starts here.
PyObject *bind_instance(PyObject *self, PyObject *instance, PyObject *) {
  if (!instance || instance == Py_None)
    return Py_NewRef(self);
  Instances *known = cast(self)->instances;
  PyObject *own = known ? known->find(instance) : nullptr;
  if (!own && !(own = make_for_instance(self, instance))) [[unlikely]]
    return nullptr;
  return PyMethod_New(own, instance);
}

/// `train.Trainer.step`; empty for a callable without these names.
std::string qualified_name(PyObject *callable) {
  std::string result;
  for (const char *part : {"__module__", "__qualname__"}) {
    const Owned text(PyObject_GetAttrString(callable, part));
    forget_error();
    if (!text || !PyUnicode_Check(text.get()))
      return {};
    result += result.empty() ? "" : ".";
    result += utf8(text.get());
  }
  return result;
}

validate::Policy policy_of(long long validate) {
  using When = validate::Policy::When;
  if (validate > 0)
    return {When::every, static_cast<std::uint64_t>(validate)};
  return {validate ? When::first : When::never, 0};
}

// Function(callable, parameters, empty, name, file, line, site_key, limit, watch, reduces,
//          declaration or None, autograph, traces_reads, validate, goes_on, optimize)
int initialise(PyObject *self, PyObject *args, PyObject *) {
  PyObject *callable = nullptr, *parameters = nullptr, *empty = nullptr, *declaration = nullptr;
  const char *name = nullptr, *file = nullptr;
  int line = 0, watch = 1, reduces = 0, autograph = 1, traces_reads = 1, goes_on = 0, optimize = 0;
  unsigned long long site_key = 0, limit = 0;
  long long validate = 0; // 0: never; -1: at traces; N: and every N hits
  if (!PyArg_ParseTuple(args, "OO!OssiKKppOppLpi", &callable, &PyList_Type, &parameters, &empty,
                        &name, &file, &line, &site_key, &limit, &watch, &reduces, &declaration,
                        &autograph, &traces_reads, &validate, &goes_on, &optimize))
    return -1;
  try {
    auto f = std::make_unique<PythonFunction>(callable, parameters, empty);
    Identity identity;
    identity.name = name;
    identity.qualified = qualified_name(callable);
    identity.definition = {file, line};
    identity.site_key = site_key;
    identity.reduces = reduces;
    identity.optimize = static_cast<Optimize>(optimize);
    if ((identity.declared = declaration != Py_None))
      f->declaration = std::make_unique<Declaration>(declaration);
    f->name = fmt::format("{} ({})", name, text(identity.definition));
    f->watch = watch;
    f->autograph = autograph;
    f->stance = goes_on ? Stance::eager_on_error : Stance::trace;
    f->traces_reads = traces_reads;
    f->core = std::make_unique<FunctionCore>(std::move(identity), limit, report::ledger(),
                                             policy_of(validate));
    Py_XSETREF(cast(self)->arguments, Py_NewRef(args));
    delete std::exchange(cast(self)->function, f.release());
    cast(self)->vectorcall = call_function;
    return 0;
  } catch (...) {
    set_from_current_exception();
    return -1;
  }
}

int visit_references(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->dict);
  Py_VISIT(cast(self)->arguments);
  if (cast(self)->instances)
    if (const int stop = cast(self)->instances->traverse(visit, arg))
      return stop;
  if (const auto *f = cast(self)->function) {
    Py_VISIT(f->callable.get());
    if (f->declaration)
      Py_VISIT(f->declaration->object());
    if (const int stop = f->binder.traverse(visit, arg))
      return stop;
    return f->traverse_specializations(visit, arg);
  }
  return 0;
}

int clear(PyObject *self) {
  Py_CLEAR(cast(self)->dict);
  Py_CLEAR(cast(self)->arguments);
  if (cast(self)->instances)
    cast(self)->instances->clear();
  if (auto *f = cast(self)->function) {
    cast(self)->vectorcall = uncallable;
    f->core->clear();
    f->drop_evicted();
    f->declaration.reset();
    f->function = nullptr;
    f->callable = Owned();
  }
  return 0;
}

void deallocate(PyObject *self) {
  PyObject_GC_UnTrack(self);
  if (cast(self)->weakrefs)
    PyObject_ClearWeakRefs(self);
  PyTypeObject *type = Py_TYPE(self);
  clear(self);
  delete cast(self)->instances;
  delete cast(self)->function;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *make(PyTypeObject *type, PyObject *, PyObject *) {
  PyObject *self = type->tp_alloc(type, 0);
  if (self)
    cast(self)->vectorcall = uncallable;
  return self;
}

/// Null with a Python error set where __init__ has not run.
const Counters *counters(PyObject *self) {
  if (cast(self)->function)
    return cast(self)->function->core->counters().get();
  uncallable(self, nullptr, 0, nullptr);
  return nullptr;
}

PyObject *tracing_count(PyObject *self, PyObject *) {
  const Counters *c = counters(self);
  return c ? PyLong_FromUnsignedLongLong(c->traces.load()) : nullptr;
}

PyObject *stats(PyObject *self, PyObject *) {
  const Counters *found = counters(self);
  if (!found)
    return nullptr;
  const Counters &c = *found;
  Owned reasons(PyDict_New());
  for (const auto &[why, count] : c.unvalidated_because.counts()) {
    const Owned number(reasons ? PyLong_FromUnsignedLongLong(count) : nullptr);
    if (!number || PyDict_SetItemString(reasons.get(), why.c_str(), number.get()) != 0)
      return nullptr;
  }
  if (!reasons)
    return nullptr;
  return Py_BuildValue(
      "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:O,s:K,s:K,s:K,s:K,s:L,s:d}", "calls",
      c.hits.load() + c.traces.load() + c.eager.load() + c.failed.load() + c.rejected.load(),
      "hits", c.hits.load(), "traces", c.traces.load(), "eager", c.eager.load(), "failed",
      c.failed.load(), "rejected", c.rejected.load(), "inlined", c.inlined.load(), "live",
      c.live.load(), "evicted", c.evicted.load(), "validated", c.validated.load(), "unvalidated",
      c.unvalidated.load(), "unvalidated_because", reasons.get(), "mismatches", c.mismatches.load(),
      "captured", c.captured.load(), "not_captured", c.uncaptured.load(), "dropped",
      c.dropped.load(), "device_bytes", static_cast<long long>(c.device_bytes.load()), "trace_ms",
      static_cast<double>(c.trace_ns.load()) / 1e6);
}

PyObject *clear_cache(PyObject *self, PyObject *) {
  if (!counters(self))
    return nullptr;
  cast(self)->function->core->clear();
  cast(self)->function->drop_evicted();
  if (cast(self)->instances)
    cast(self)->instances->each([](PyObject *own) {
      cast(own)->function->core->clear();
      cast(own)->function->drop_evicted();
    });
  Py_RETURN_NONE;
}

PyObject *repr(PyObject *self) {
  const Counters *found = counters(self);
  if (!found)
    return nullptr;
  const Counters &c = *found;
  return PyUnicode_FromString(fmt::format("<tracehost.Function {} at {}, {} specialization{}>",
                                          c.identity.name, text(c.identity.definition),
                                          c.live.load(), c.live.load() == 1 ? "" : "s")
                                  .c_str());
}

PyObject *get_python_function(PyObject *self, void *) {
  if (!counters(self))
    return nullptr;
  const PythonFunction &f = *cast(self)->function;
  PyObject *instance = f.bound_to();
  return instance ? PyMethod_New(f.callable.get(), instance) : Py_NewRef(f.callable.get());
}
PyObject *get_body(PyObject *self, void *) {
  return counters(self) ? Py_NewRef(cast(self)->function->callable.get()) : nullptr;
}
PyObject *get_name(PyObject *self, void *) {
  const Counters *c = counters(self);
  return c ? PyUnicode_FromString(c->identity.name.c_str()) : nullptr;
}
PyObject *get_input_signature(PyObject *self, void *) {
  if (!counters(self))
    return nullptr;
  const auto &declared = cast(self)->function->declaration;
  return declared ? declared->input_signature() : Py_NewRef(Py_None);
}

/// An attribute that is missing: of tf's names the error says what to write (_counterparts.py).
PyObject *get_attribute(PyObject *self, PyObject *name) {
  PyObject *found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
    return found;
  Owned error = take_error();
  // From Python 3.14 on functools.update_wrapper() copies __annotate__ in their place.
  if (PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0 && cast(self)->function)
    return PyObject_GetAttr(cast(self)->function->callable.get(), name);
  const Owned counterparts(
      PyImport_GetModule(Owned(PyUnicode_FromString("tracehost._counterparts")).get()));
  const Owned hints(counterparts ? PyObject_GetAttrString(counterparts.get(), "OF_FUNCTION")
                                 : nullptr);
  if (hints && PyDict_GetItemWithError(hints.get(), name))
    return PyObject_CallMethod(counterparts.get(), "missing", "OsOO", self, "a Function", name,
                               hints.get());
  PyErr_Clear();
  set_error(std::move(error));
  return nullptr;
}

PyObject *copy(PyObject *self, PyObject *) { return Py_NewRef(self); }

PyMethodDef methods[] = {
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"tracing_count", tracing_count, METH_NOARGS,
     "tracing_count() -> int\n\nTraces ever made, evicted ones included, inlined ones not."},
    {"experimental_get_tracing_count", tracing_count, METH_NOARGS,
     "tf's name for tracing_count()."},
    {"stats", stats, METH_NOARGS,
     "stats() -> dict\n\nNumbers of calls: `calls`, `hits`, `traces`, `eager` (run without a "
     "graph), `failed` (the graph threw), `rejected` (a SignatureError), `inlined`. Numbers of "
     "graphs: `live`, `evicted`, `validated` (compared with the body), `unvalidated`, `mismatches` "
     "(found wrong). Of CUDA graphs: `captured`, `not_captured` (rejected), `dropped`, and the "
     "device memory that they have, `device_bytes`. `unvalidated_because` is a dict of reasons and "
     "how often each was given. "
     "`trace_ms` is in milliseconds."},
    {"clear", clear_cache, METH_NOARGS,
     "clear()\n\nDrops all specializations, of a method those of all instances; counters stay."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS,
     "Function[[int], Tensor], for annotations."},
    {}};

PyGetSetDef properties[] = {
    {"python_function", get_python_function, nullptr, "The callable as the user wrote it.",
     nullptr},
    {"_body", get_body, nullptr, "The same; of a method without its instance.", nullptr},
    {"name", get_name, nullptr, "The name in messages and reports.", nullptr},
    {"input_signature", get_input_signature, nullptr,
     "A tuple of what was declared; None: nothing was.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weakrefs), READONLY, nullptr},
    {}};

} // namespace

Instances *instances_of(PyObject *object) {
  return Py_TYPE(object)->tp_new == make ? cast(object)->instances : nullptr;
}

const Counters *counters_of(PyObject *object) {
  const bool is_one = Py_TYPE(object)->tp_new == make && cast(object)->function;
  return is_one ? cast(object)->function->core->counters().get() : nullptr;
}

PythonFunction &python_function(PyObject *object) {
  if (Py_TYPE(object)->tp_dealloc != deallocate)
    raise(PyExc_TypeError, fmt::format("not a tracehost.Function: {}", Py_TYPE(object)->tp_name));
  if (!counters(object))
    rethrow();
  PythonFunction &f = *cast(object)->function;
  if (f.has_new_code())
    f.take_new_code();
  return f;
}

void note_failed_op(const std::string &name, const std::string &where) {
  if (where.empty())
    return;
  Owned error = take_error();
  const Owned cells(PyImport_ImportModule("tracehost._cells"));
  const Owned note(PyObject_CallMethod(cells.get(), "in_cells", "s",
                                       fmt::format("in {}, the op at {}", name, where).c_str()));
  const Owned done(PyObject_CallMethod(error.get(), "add_note", "O", note.get()));
  set_error(std::move(error));
}

void set_from_failed_run(const std::string &name) {
  set_from_current_exception();
  note_failed_op(name, Program::take_failed_at());
}

PyObject *make_function_type() {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(make)},
                         {Py_tp_init, reinterpret_cast<void *>(initialise)},
                         {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void *>(bind_instance)},
                         {Py_tp_traverse, reinterpret_cast<void *>(visit_references)},
                         {Py_tp_clear, reinterpret_cast<void *>(clear)},
                         {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
                         {Py_tp_getattro, reinterpret_cast<void *>(get_attribute)},
                         {Py_tp_repr, reinterpret_cast<void *>(repr)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, properties},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec{"tracehost.Function", sizeof(FunctionObject), 0,
                   // Not METHOD_DESCRIPTOR: a call on an instance has to find that one's Function.
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  return checked(PyType_FromSpec(&spec)).release();
}

void show(PyObject *type, const char *name, PyObject *value) {
  // Into the dict itself: an attribute that is set would take the slot's place.
  if (PyDict_SetItemString(reinterpret_cast<PyTypeObject *>(type)->tp_dict, name, value))
    rethrow();
  PyType_Modified(reinterpret_cast<PyTypeObject *>(type));
}

} // namespace tracehost::python
