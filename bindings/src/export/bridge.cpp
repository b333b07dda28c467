#include "base/forget_error.h"
#include "export/export.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/lazy.h"
#include "call/function_type.h"
#include "call/python_call.h"
#include "export/archive_sources.h"
#include "pytree/values.h"
#include "report/ledger.h"
#include "runtime/bridge.h"
#include "tracehost/error.h"

#include <torch/csrc/Exceptions.h>

#include <fmt/format.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// `decoder.Overflow`; without a module for those that are built in.
std::string qualified(PyTypeObject *type) {
  const std::string name = type->tp_name;
  const Owned module(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  forget_error();
  if (name.find('.') != name.npos || !module || !PyUnicode_Check(module.get()))
    return name;
  const std::string of = utf8(module.get());
  return of == "builtins" ? name : of + "." + name;
}

/// What a SignatureError says besides its message; empty where it does not.
std::string told(PyObject *error, const char *name) {
  const Owned text(PyObject_GetAttrString(error, name));
  forget_error();
  return text && PyUnicode_Check(text.get()) ? utf8(text.get()) : std::string();
}

/// `tracehost._embed.NotFound`; borrowed.
PyObject *not_found() {
  static constinit Lazy<PyObject *> found;
  return found([] {
    return py::object(py::module_::import("tracehost._embed").attr("NotFound")).release().ptr();
  });
}

/// A body that Python runs may have done anything before.
[[noreturn]] void throw_interrupted(PyObject *error) {
  const int code = py::cast<int>(py::handle(error).attr("args")[py::int_(1)]);
  throw Interrupted(static_cast<ErrorCode>(code), /*may_have_written=*/true);
}

/// Throws the Python error that is set as an exception without Python.
[[noreturn]] void throw_without_python() {
  const Owned error = take_error();
  PyObject *value = error.get(), *type = reinterpret_cast<PyObject *>(Py_TYPE(value));
  const Owned text(PyObject_Str(value)), trace(PyException_GetTraceback(value));
  const std::string message = text ? utf8(text.get()) : "an exception without a text";
  forget_error();
  const std::string name = qualified(reinterpret_cast<PyTypeObject *>(type));
  if (PyErr_GivenExceptionMatches(type, errors().signature))
    throw SignatureError(message, told(value, "parameter"), told(value, "expected"),
                         told(value, "got"), told(value, "nearest"));
  if (PyErr_GivenExceptionMatches(type, not_found()))
    throw Error(message);
  if (PyErr_GivenExceptionMatches(type, errors().interrupted))
    throw_interrupted(value);
  std::string traceback;
  try {
    const py::object lines =
        py::module_::import("traceback")
            .attr("format_exception")(py::handle(type), py::handle(value),
                                      trace ? py::handle(trace.get()) : py::none());
    traceback = py::cast<std::string>(py::str("").attr("join")(lines));
  } catch (py::error_already_set &e) {
    forget_error(e);
  }
  if (PyErr_GivenExceptionMatches(type, errors().base))
    throw TraceError(message + "\n" + traceback);
  throw PythonError(name, message, std::move(traceback));
}

/// Runs `f`; what it raises in Python leaves as an exception without Python.
template <class F> auto without_python(const F &f) {
  try {
    return f();
  } catch (python_error &e) {
    e.restore();
  } catch (py::error_already_set &e) {
    e.restore();
  }
  throw_without_python();
}

class Callee final : public runtime::PythonCallee {
public:
  Callee(py::object instance, py::object function)
      : instance_(std::move(instance)), function_(std::move(function)),
        core_(python_function(function_.ptr())),
        fit_(py::module_::import("tracehost._embed").attr("fitting")(function_)) {}

  const std::string &name() const override { return core_.core->counters()->identity.name; }

  Value call(std::span<const Argument> arguments) override {
    return without_python([&] {
      std::vector<Owned> kept;
      std::vector<PyObject *> args;
      if (instance_)
        args.push_back(instance_.ptr());
      py::list names;
      for (const Argument &argument : arguments) {
        if (!argument.name.empty())
          names.append(argument.name);
        else if (!names.empty())
          reject(fmt::format("{}() got an argument without a name after '{}'", name(),
                             py::cast<std::string>(names[0])));
        kept.push_back(to_python(argument.value));
        args.push_back(kept.back().get());
      }
      if (!fit_.is_none())
        fit(kept, args, names);
      const py::tuple keywords(names);
      PyObject *kwnames = keywords.empty() ? nullptr : keywords.ptr();
      const std::size_t positional = args.size() - keywords.size();
      check(args.data(), positional, kwnames);
      const Owned result(PyObject_Vectorcall(function_.ptr(), args.data(), positional, kwnames));
      if (!result)
        complete_and_rethrow();
      return from_python(result.get(), "the result of " + name());
    });
  }

  std::uint64_t state() const override {
    const Counters &counters = *core_.core->counters();
    return counters.traces.load() << 32 | counters.live.load();
  }
  std::shared_ptr<Counters> counters() const override { return core_.core->counters(); }

  archive::SourceFunction sources() override {
    return without_python([&] {
      return source_function(py::module_::import("tracehost._embed").attr("entry")(function_),
                             Unstored::skip);
    });
  }

private:
  [[noreturn]] void reject(const std::string &why) {
    core_.core->counters()->rejected.fetch_add(1, std::memory_order_relaxed);
    const auto told = py::cast<std::tuple<std::string, std::string, std::string, std::string>>(
        py::module_::import("tracehost._embed").attr("misfit")(function_, why));
    const auto &[parameter, expected, got, nearest] = told;
    throw SignatureError(why, parameter, expected, got, nearest);
  }

  /// The Python error that is set; a SignatureError with the signature that was declared.
  [[noreturn]] void complete_and_rethrow() {
    py::error_already_set error;
    if (error.matches(errors().signature))
      py::module_::import("tracehost._embed").attr("complete")(function_, error.value());
    error.restore();
    rethrow();
  }

  /// What does not fit the parameters is not what the body raises.
  void check(PyObject *const *args, std::size_t positional, PyObject *kwnames) {
    PythonCall call(core_, args, positional, kwnames);
    if (call.bind())
      return;
    const py::error_already_set error;
    reject(py::cast<std::string>(py::str(error.value())));
  }

  /// Dicts and strings become what the parameters' annotations say: instances of dataclasses,
  /// members of enums.
  void fit(std::vector<Owned> &kept, std::vector<PyObject *> &args, const py::list &names) {
    py::list values;
    for (PyObject *value : args)
      values.append(py::handle(value));
    try {
      const py::list made = fit_(values, names);
      for (std::size_t i = 0; i < args.size(); ++i) {
        args[i] = made[i].ptr();
        kept.emplace_back(Py_NewRef(args[i]));
      }
    } catch (py::error_already_set &error) {
      if (error.matches(errors().signature)) {
        core_.core->counters()->rejected.fetch_add(1, std::memory_order_relaxed);
        py::module_::import("tracehost._embed").attr("complete")(function_, error.value());
      }
      throw;
    }
  }

  py::object instance_; ///< a method's; null: none
  py::object function_;
  PythonFunction &core_; ///< function_'s
  py::object fit_;       ///< None: no annotation asks for it
};

class Bridge final : public runtime::Bridge {
public:
  std::unique_ptr<runtime::PythonCallee> find(const std::string &module,
                                              const std::string &name) override {
    return without_python([&]() -> std::unique_ptr<runtime::PythonCallee> {
      const py::tuple found = py::module_::import("tracehost._embed").attr("find")(module, name);
      const py::object instance = found[0];
      return std::make_unique<Callee>(instance.is_none() ? py::object() : instance, found[1]);
    });
  }
  std::string report() override {
    return without_python(
        [] { return py::cast<std::string>(py::module_::import("tracehost").attr("report")()); });
  }
};

} // namespace

void add_bridge(py::module_ &module) {
  static constinit Lazy<Bridge> bridge; // holds no Python object
  module.attr("bridge") = py::capsule(
      static_cast<runtime::Bridge *>(&bridge([] { return Bridge(); })), runtime::Bridge::kCapsule);
}

} // namespace tracehost::python
