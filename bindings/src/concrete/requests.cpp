#include "base/errors.h"
#include "base/object.h"
#include "call/context_probe.h"
#include "call/function_type.h"
#include "call/python_trace.h"
#include "concrete/concrete.h"
#include "trace/tracer.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

void reject_in_trace(const PythonFunction &function, const char *what) {
  if (torch::jit::tracer::isTracing() || trace::active())
    raise(errors().trace,
          fmt::format("{} of {} in a body that is being traced: ask for it outside.", what,
                      function.name));
}

/// The arguments of a request in the form of a vectorcall, with fake tensors that `maker` makes in
/// place of TensorSpecs.
class Call {
public:
  Call(PythonFunction &function, const char *what, const py::tuple &args, const py::dict &kwargs,
       py::handle maker)
      : fake_tensors_((reject_in_trace(function, what), maker.ptr())), names_(kwargs.size()),
        values_(Values(args, kwargs, names_)),
        call_(function, values_.data(), args.size(), kwargs.empty() ? nullptr : names_.ptr()) {
    if (!call_.bind())
      rethrow();
    call_.trace().use(fake_tensors_);
    call_.context = require_context();
  }
  PythonCall &operator*() { return call_; }
  PythonCall *operator->() { return &call_; }

private:
  static std::vector<PyObject *> Values(const py::tuple &args, const py::dict &kwargs,
                                        py::tuple &names) {
    std::vector<PyObject *> values;
    for (const py::handle a : args)
      values.push_back(a.ptr());
    std::size_t i = 0;
    for (const auto &[name, value] : kwargs) {
      names[i++] = name;
      values.push_back(value.ptr());
    }
    return values;
  }

  FakeTensors fake_tensors_;
  py::tuple names_;
  std::vector<PyObject *> values_; ///< borrowed
  PythonCall call_;
};

py::object request(py::handle object, const py::tuple &args, const py::dict &kwargs,
                   py::handle maker, const py::object &wrap) {
  PythonFunction &f = python_function(object.ptr());
  Call call(f, "get_concrete_function", args, kwargs, maker);
  const SpecializationRef found = f.core->request(*call);
  if (!call->trace().warn())
    rethrow();
  return concrete_function(f, found, call->trace().spec_names(), wrap);
}

std::string caller(const Site &site) { return site.line ? text(site) : ""; }

py::dict described(const Specialization &s) {
  py::list specialized;
  for (const SpecializedSize &p : s.specialized)
    specialized.append(py::make_tuple(p.path, p.dimension, p.why, caller(p.where)));
  py::dict result;
  result["number"] = s.number;
  result["signature"] = text(s.signature);
  result["hits"] = s.hits.load();
  result["trace_ms"] = static_cast<double>(s.trace_ns) / 1e6;
  result["first_call"] = caller(s.first_call);
  result["ops"] = s.program->ops();
  result["runs_by"] = s.program->runs_by();
  result["captures"] = static_cast<const PythonState &>(*s.front_end).captures;
  result["dynamic"] = s.signature.is_dynamic();
  result["specialized"] = specialized;
  result["calls_python"] = s.program->calls_python();
  const auto unguarded = static_cast<const PythonState &>(*s.front_end).guards->unguarded();
  result["unguarded"] = py::tuple(py::cast(unguarded));
  return result;
}

py::list specializations(py::handle object) {
  py::list result;
  for (const auto &s : python_function(object.ptr()).core->cache().list()->by_age())
    result.append(described(*s));
  return result;
}

py::dict explain(py::handle object, const py::tuple &args, const py::dict &kwargs,
                 py::handle maker) {
  PythonFunction &f = python_function(object.ptr());
  Call call(f, "explain", args, kwargs, maker);
  const FunctionCore::Explanation found = f.core->explain(*call);
  py::list differences;
  for (const Difference &d : found.differences)
    differences.append(py::make_tuple(d.path, name(d.cause), d.dimension, d.before, d.after));
  const SpecializationRef shown = found.served ? found.served : found.nearest;
  const Counters &c = *f.core->counters();
  const auto traces = c.traces.load();
  py::dict result;
  result["function"] = f.name;
  result["hit"] = found.served != nullptr;
  result["signature"] = text(found.signature);
  result["specialization"] = shown ? py::object(described(*shown)) : py::object(py::none());
  result["differences"] = differences;
  result["plain_calls"] = found.skips;
  result["cost_ms"] = traces ? py::object(py::float_(static_cast<double>(c.trace_ns.load()) / 1e6 /
                                                     static_cast<double>(traces)))
                             : py::object(py::none());
  return result;
}

/// Every live one, in the order of tracing.
py::list concrete_functions(py::handle object, const py::object &wrap) {
  PythonFunction &f = python_function(object.ptr());
  py::list result;
  for (const auto &s : f.core->cache().list()->by_age())
    result.append(concrete_function(f, s, {}, wrap));
  return result;
}

py::object declaration(py::handle object) {
  const auto &declared = python_function(object.ptr()).declaration;
  return declared ? py::reinterpret_borrow<py::object>(declared->object()) : py::object(py::none());
}

/// The instance whose method it is; None: no method, or one of all instances.
py::object instance(py::handle object) {
  PyObject *found = python_function(object.ptr()).bound_to();
  return py::reinterpret_borrow<py::object>(found ? found : Py_None);
}

} // namespace

void add_requests(py::module_ &module) {
  module.def("request", &request);
  module.def("explain", &explain);
  module.def("specializations", &specializations);
  module.def("concrete_functions", &concrete_functions);
  module.def("declaration", &declaration);
  module.def("instance", &instance);
}

} // namespace tracehost::python
