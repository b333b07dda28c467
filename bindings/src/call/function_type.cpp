#include "call/function_type.h"

#include "base/errors.h"
#include "base/object.h"
#include "call/context_probe.h"
#include "call/instances.h"
#include "call/plain_calls.h"
#include "call/python_call.h"
#include "call/stance.h"
#include "program/stack_pool.h"
#include "pytree/results.h"
#include "report/contrast.h"
#include "report/ledger.h"
#include "trace/tracer.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <structmember.h>

#include <unordered_set>

namespace tracehost::python {
namespace {

namespace py = pybind11;

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *dict;
  PyObject *weakrefs;
  PythonFunction *function; ///< owned; null before __init__
  PyObject *arguments;      ///< of __init__: an instance's Function is made from the same
  Instances *instances;     ///< owned; null until it is accessed on an instance
};

FunctionObject *cast(PyObject *self) { return reinterpret_cast<FunctionObject *>(self); }

PyObject *uncallable(PyObject *, PyObject *const *, std::size_t, PyObject *) {
  PyErr_SetString(PyExc_TypeError, "this Function was not initialised, or is being destroyed");
  return nullptr;
}

/// A call's arguments as they came.
struct Arguments {
  PyObject *const *args;
  std::size_t nargsf;
  PyObject *kwnames;
};

/// The body as it is, in place of a graph.
[[gnu::noinline, gnu::cold]] PyObject *eager(PythonFunction &f, const Arguments &a) {
  f.core->counters()->eager.fetch_add(1, std::memory_order_relaxed);
  return PyObject_Vectorcall(f.callable, a.args, a.nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET,
                             a.kwnames);
}

/// A call inside of a trace, ours or another's: its ops belong to that graph.
[[gnu::noinline, gnu::cold]] PyObject *inlined(PythonFunction &f, const Arguments &a) {
  if (trace::abandoned())
    return eager(f, a);
  PythonCall call(f, a.args, a.nargsf, a.kwnames);
  if (!call.bind())
    return nullptr;
  call.adapt();
  if (trace::recording() && is_being_traced(f)) {
    call.context = Context::now();
    try {
      if (is_being_traced(f, call.signature()))
        trace::refuse(
            trace::Refusal::trace,
            fmt::format(
                "{} calls itself with the signature that is being traced: the graph would have "
                "no end. Recur on a Python value that changes, or call its python_function.",
                f.name));
    } catch (const trace::Abandoned &) {
      return eager(f, a);
    }
  }
  f.core->counters()->inlined.fetch_add(1, std::memory_order_relaxed);
  return call.call_body();
}

[[gnu::noinline, gnu::cold]] bool warn_retraces(const PythonFunction &f) {
  while (const auto warning = report::ledger().take_warning(*f.core->counters()))
    if (PyErr_WarnExplicit(errors().retrace, warning->text.c_str(), warning->call.file.c_str(),
                           warning->call.line, nullptr, nullptr) != 0)
      return false;
  return true;
}

/// A trace was refused, and the body has run to its end without it.
bool warn_went_on(const PythonFunction &f, const PythonCall &call) {
  const std::string message = fmt::format(
      "{} has no graph for this signature, and runs as plain Python: {}", f.name, call.refusal);
  return PyErr_WarnEx(errors().trace_warning, message.c_str(), 1) == 0;
}

/// stance("fail_on_miss"): says what the call would have to be.
[[noreturn]] void refuse_miss(PythonFunction &f, PythonCall &call) {
  const auto explained = f.core->explain(call);
  const std::string what = explained.served    ? "One that would was made just now"
                           : explained.nearest ? "From the nearest specialization it differs so: " +
                                                     report::contrast(explained.differences)
                                               : "There is none yet";
  const std::string message = fmt::format("no specialization of {} serves this call, and the "
                                          "stance 'fail_on_miss' (no_retrace) forbids "
                                          "to trace one. {}. Make such a call before, or allow the "
                                          "trace by tracehost.stance('default').",
                                          f.name, what);
  report::ledger().on(FailEvent{f.core->counters(), call.caller(), "TraceError: " + message});
  raise(errors().trace, message);
}

/// A call that was not a hit. Warnings come after a trace was published: a filter may turn them
/// into errors.
[[gnu::noinline, gnu::cold]] PyObject *missed(PythonFunction &f, PythonCall &call,
                                              FunctionCore::Outcome outcome) {
  if (outcome == FunctionCore::Outcome::unserved) {
    if (call.stance == Stance::fail_on_miss)
      refuse_miss(f, call);
    f.core->counters()->eager.fetch_add(1, std::memory_order_relaxed);
    return call.call_body();
  }
  Owned result(call.take_result());
  f.drop_evicted();
  const bool warned = call.mismatch                              ? call.warn_mismatch()
                      : outcome == FunctionCore::Outcome::beside ? true
                      : outcome == FunctionCore::Outcome::traced ? call.warn() && warn_retraces(f)
                                                                 : warn_went_on(f, call);
  return warned ? result.release() : nullptr;
}

/// Sets the Python error. An op that failed in a graph gets a note with the user's line.
[[gnu::noinline, gnu::cold]] PyObject *failed(PythonFunction &f, const PythonCall &call,
                                              const Arguments &a) {
  set_from_failed_run(f.name);
  if (!call.has_run() && PyErr_ExceptionMatches(errors().signature))
    f.core->counters()->refused.fetch_add(1, std::memory_order_relaxed);
  // Arguments that can't be compared, or a mode that no graph honours. What does not fit a
  // declaration is the caller's mistake.
  if (call.stance == Stance::eager_on_error && !call.has_run() && !f.declaration &&
      PyErr_ExceptionMatches(errors().base)) {
    PyErr_Clear();
    return eager(f, a);
  }
  return nullptr;
}

/// What is around the call works on ops: its body runs, which is told once.
[[gnu::noinline, gnu::cold]] PyObject *plain(PythonFunction &f, const Arguments &a,
                                             const std::string &around) {
  if (f.plain.insert(around).second) {
    const std::string message =
        fmt::format("{} runs as plain Python under {}, which needs the ops themselves. Calls "
                    "outside of that run graphs.",
                    f.name, around);
    if (PyErr_WarnEx(errors().trace_warning, message.c_str(), 1) != 0)
      return nullptr;
  }
  return eager(f, a);
}

PyObject *call_function(PyObject *self, PyObject *const *args, std::size_t nargsf,
                        PyObject *kwnames);

/// In a checkpoint. What can't be traced without data runs as plain Python.
[[gnu::noinline, gnu::cold]] PyObject *call_traced_ahead(PyObject *self, const Arguments &a) {
  PythonFunction &f = *cast(self)->function;
  if (trace_ahead(self, a.args, a.nargsf, a.kwnames)) {
    const TracedAhead once(f);
    return call_function(self, a.args, a.nargsf, a.kwnames);
  }
  if (!PyErr_ExceptionMatches(errors().base))
    return nullptr;
  PyErr_Clear();
  return plain(f, a, "torch.utils.checkpoint");
}

PyObject *call_function(PyObject *self, PyObject *const *args, std::size_t nargsf,
                        PyObject *kwnames) {
  PythonFunction &f = *cast(self)->function;
  const Arguments arguments{args, nargsf, kwnames};
  PythonCall call(f, args, nargsf, kwnames);
  try {
    if (torch::jit::tracer::isTracing() || trace::active()) [[unlikely]]
      return inlined(f, arguments);
    const Stance stance = python::stance();
    if (stance == Stance::eager) [[unlikely]]
      return eager(f, arguments);
    if (!call.bind()) [[unlikely]]
      return nullptr;
    if (f.takes_arrays) [[unlikely]]
      call.convert_arrays();
    call.stance = stance == Stance::trace ? f.stance : stance;
    call.context = probe_context();
    PooledStack stack;
    SpecializationRef served;
    const auto outcome = f.core->call(call, *stack, served);
    if (outcome != FunctionCore::Outcome::hit) [[unlikely]]
      return missed(f, call, outcome);
    return build_result(served->outputs, *stack, call.given(), call.containers(*served));
  } catch (const RunsPlain &mode) {
    return plain(f, arguments, mode.around);
  } catch (const TraceAhead &) {
    return call_traced_ahead(self, arguments);
  } catch (...) {
    return failed(f, call, arguments);
  }
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
  cast(own.get())->function->instance = Py_NewRef(weak.get());
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

validate::Policy policy_of(long long validate) {
  using When = validate::Policy::When;
  if (validate > 0)
    return {When::every, static_cast<std::uint64_t>(validate)};
  return {validate ? When::first : When::never, 0};
}

// Function(callable, parameters, empty, name, file, line, site_key, limit, watch, reduces,
//          declaration or None, autograph, value_reads, validate, goes_on)
int initialise(PyObject *self, PyObject *args, PyObject *) {
  PyObject *callable = nullptr, *parameters = nullptr, *empty = nullptr, *declaration = nullptr;
  const char *name = nullptr, *file = nullptr;
  int line = 0, watch = 1, reduces = 0, autograph = 1, value_reads = 0, goes_on = 0;
  unsigned long long site_key = 0, limit = 0;
  long long validate = 0; // 0: never; -1: at traces; N: and every N hits
  if (!PyArg_ParseTuple(args, "OO!OssiKKppOpiLp", &callable, &PyList_Type, &parameters, &empty,
                        &name, &file, &line, &site_key, &limit, &watch, &reduces, &declaration,
                        &autograph, &value_reads, &validate, &goes_on))
    return -1;
  try {
    auto f = std::make_unique<PythonFunction>(callable, parameters, empty);
    Identity identity;
    identity.name = name;
    identity.definition = {file, line};
    identity.site_key = site_key;
    identity.reduces = reduces;
    if ((identity.declared = declaration != Py_None))
      f->declaration = std::make_unique<Declaration>(declaration);
    f->name = fmt::format("{} ({})", name, text(identity.definition));
    f->watch = watch;
    f->autograph = autograph;
    f->stance = goes_on ? Stance::eager_on_error : Stance::trace;
    f->value_reads = static_cast<trace::ValueReads>(value_reads);
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
    Py_VISIT(f->callable);
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
    Py_CLEAR(f->callable);
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
      "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:O,s:K,s:d}", "calls",
      c.hits.load() + c.traces.load() + c.eager.load() + c.failed.load() + c.refused.load(), "hits",
      c.hits.load(), "traces", c.traces.load(), "eager", c.eager.load(), "failed", c.failed.load(),
      "refused", c.refused.load(), "inlined", c.inlined.load(), "live", c.live.load(), "evicted",
      c.evicted.load(), "validated", c.validated.load(), "unvalidated", c.unvalidated.load(),
      "unvalidated_because", reasons.get(), "mismatches", c.mismatches.load(), "trace_ms",
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

PyObject *reduce(PyObject *self, PyObject *) {
  PyObject *module = PyImport_ImportModule("tracehost._function");
  PyObject *result = module ? PyObject_CallMethod(module, "reduce", "O", self) : nullptr;
  Py_XDECREF(module);
  return result;
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
  return instance ? PyMethod_New(f.callable, instance) : Py_NewRef(f.callable);
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

PyObject *copy(PyObject *self, PyObject *) { return Py_NewRef(self); }

PyObject *deep_copy(PyObject *self, PyObject *memo) {
  const Owned module(PyImport_ImportModule("tracehost._function"));
  return module.get() ? PyObject_CallMethod(module.get(), "deep_copy", "OO", self, memo) : nullptr;
}

PyMethodDef methods[] = {
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deep_copy, METH_O, nullptr},
    {"tracing_count", tracing_count, METH_NOARGS,
     "tracing_count() -> int\n\nTraces ever made, evicted ones included, inlined ones not."},
    {"experimental_get_tracing_count", tracing_count, METH_NOARGS,
     "tf's name for tracing_count()."},
    {"stats", stats, METH_NOARGS,
     "stats() -> dict\n\ncalls, hits, traces, eager (run without a graph), failed (the graph "
     "threw), "
     "refused (a SignatureError), inlined, live, evicted, "
     "validated, unvalidated (graphs compared with the body, and those that were not), mismatches "
     "(those found wrong): numbers; unvalidated_because: a dict of reasons and how often each "
     "was given; trace_ms: milliseconds."},
    {"clear", clear_cache, METH_NOARGS,
     "clear()\n\nDrops all specializations, of a method those of all instances; counters stay."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS,
     "Function[[int], Tensor], for annotations."},
    {}};

PyGetSetDef properties[] = {
    {"python_function", get_python_function, nullptr, "The callable as the user wrote it.",
     nullptr},
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
  return *cast(object)->function;
}

void set_from_failed_run(const std::string &name) {
  set_from_current_exception();
  const std::string where = Program::take_failed_at();
  if (where.empty())
    return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Owned cells(PyImport_ImportModule("tracehost._cells"));
  const Owned note(PyObject_CallMethod(cells.get(), "in_cells", "s",
                                       fmt::format("in {}, the op at {}", name, where).c_str()));
  const Owned done(PyObject_CallMethod(value, "add_note", "O", note.get()));
  PyErr_Restore(type, value, traceback);
}

PyObject *make_function_type() {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(make)},
                         {Py_tp_init, reinterpret_cast<void *>(initialise)},
                         {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void *>(bind_instance)},
                         {Py_tp_traverse, reinterpret_cast<void *>(visit_references)},
                         {Py_tp_clear, reinterpret_cast<void *>(clear)},
                         {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
                         {Py_tp_repr, reinterpret_cast<void *>(repr)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, properties},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec{"tracehost.Function", sizeof(FunctionObject), 0,
                   // Not METHOD_DESCRIPTOR: a call on an instance has to find that one's Function.
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  PyObject *type = PyType_FromSpec(&spec);
  if (!type)
    rethrow();
  return type;
}

void show_call(PyObject *type, PyObject *function) {
  // Into the dict itself: an attribute that is set would take the vectorcall's place.
  if (PyDict_SetItemString(reinterpret_cast<PyTypeObject *>(type)->tp_dict, "__call__", function))
    rethrow();
  PyType_Modified(reinterpret_cast<PyTypeObject *>(type));
}

} // namespace tracehost::python
