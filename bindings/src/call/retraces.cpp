#include "call/retraces.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/lazy.h"
#include "base/object.h"
#include "report/contrast.h"
#include "report/ledger.h"

#include <array>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// The name of a node's kind, as words.replay knows it.
const char *name(Kind kind) {
  static constexpr std::array<const char *, 16> names = {
      "tensor", "none",  "bool",  "int",  "float", "...",    "device", "atom",
      "absent", "alias", "tuple", "list", "dict",  "record", "custom", "further"};
  return names[static_cast<std::size_t>(kind)];
}

py::list texts(const std::vector<std::string> &all) {
  py::list result;
  for (const std::string &one : all)
    result.append(text_of(one));
  return result;
}

py::dict facts_of(const Parameters &parameters) {
  static constexpr std::array<const char *, 4> kinds = {"positional", "rest", "keyword", "named"};
  py::list made;
  for (const Parameters::Kind kind : parameters.kinds)
    made.append(kinds[static_cast<std::size_t>(kind)]);
  py::dict result;
  result["names"] = texts(parameters.names);
  result["kinds"] = made;
  result["defaults"] = texts(parameters.defaults);
  return result;
}

py::object facts_of(const Sketch &sketch) {
  if (sketch.empty() || !sketch.parameters)
    return py::none();
  py::list nodes, tensors;
  for (const Sketch::Node &node : sketch.nodes)
    nodes.append(py::make_tuple(name(node.kind), node.end, text_of(node.text), text_of(node.path),
                                node.tensor));
  for (const Sketch::Tensor &tensor : sketch.tensors)
    tensors.append(py::make_tuple(dtype_name(tensor.dtype), py::tuple(py::cast(tensor.sizes))));
  py::dict result = facts_of(*sketch.parameters);
  result["nodes"] = nodes;
  result["tensors"] = tensors;
  return result;
}

py::dict facts_of(const Difference &difference) {
  py::dict result;
  result["cause"] = name(difference.cause);
  result["path"] = text_of(difference.path);
  result["dimension"] = difference.dimension;
  result["before"] = text_of(difference.before);
  result["after"] = text_of(difference.after);
  result["rank"] = difference.rank;
  result["where"] = text_of(difference.where);
  return result;
}

py::dict facts_of(const SpecializedSize &specialized) {
  py::dict result;
  result["path"] = text_of(specialized.path);
  result["dimension"] = specialized.dimension;
  result["sentence"] = text_of(report::sentence(specialized));
  return result;
}

py::dict facts_of(const report::TraceRecord &record, bool requests) {
  py::list differences, specialized;
  for (const Difference &difference : record.differences)
    differences.append(facts_of(difference));
  for (const SpecializedSize &one : record.specialized)
    specialized.append(facts_of(one));
  py::dict result;
  result["differences"] = differences;
  result["call"] = place(record.call);
  result["origin"] = report::name(record.origin);
  result["complete"] = record.complete;
  result["evicted"] = record.evicted;
  result["was_once"] = text_of(record.was_once);
  result["once"] = text_of(record.once);
  result["seen"] = record.seen;
  result["function"] = record.function;
  result["number"] = record.number;
  result["request"] = requests ? facts_of(record.request) : py::object(py::none());
  result["alike"] = py::cast(record.alike);
  result["exchangeable"] = texts(record.exchangeable);
  result["specialized"] = specialized;
  return result;
}

py::dict facts_of(const report::Due &due) {
  py::dict result;
  result["kind"] = report::name(due.kind);
  result["account"] = python::facts_of(due.account, true);
  result["traces"] = due.traces;
  result["calls"] = due.calls;
  result["evicted"] = text_of(due.evicted);
  result["call"] = place(due.call);
  result["first_call"] = place(due.first_call);
  return result;
}

/// `(text, whether it is shown)`, or None: there is nothing to say.
py::object worded(const report::Due &due) {
  static constinit Lazy<PyObject *> words;
  PyObject *const function = words([] {
    return py::object(py::module_::import("tracehost._reports.words.warning").attr("worded"))
        .release()
        .ptr();
  });
  return py::handle(function)(facts_of(due));
}

std::string bytes_of(const py::object &text) {
  const Owned bytes(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!bytes)
    throw py::error_already_set();
  return PyBytes_AsString(bytes.get());
}

} // namespace

py::str text_of(const std::string &bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

py::object place(const Site &site) {
  if (site.file.empty())
    return py::none();
  py::dict result;
  result["file"] = text_of(site.file);
  result["line"] = site.line;
  result["text"] = text_of(text(site));
  return result;
}

py::dict facts_of(const report::Account &account, bool requests) {
  py::list records;
  for (const report::RecordRef &record : account.records)
    records.append(facts_of(*record, requests));
  py::dict result;
  result["name"] = text_of(account.function.name);
  result["definition"] = place(account.function.definition);
  result["declared"] = account.function.declared;
  result["reduces"] = account.function.reduces;
  result["ms"] = static_cast<double>(account.nanoseconds) / 1e6;
  result["limit"] = account.limit;
  result["signatures"] = account.signatures;
  result["records"] = records;
  return result;
}

bool warn_retraces(const PythonFunction &f) {
  const Counters &counters = *f.core->counters();
  while (const auto due = report::ledger().take_due(counters)) {
    try {
      const py::object said = worded(*due);
      if (said.is_none())
        continue;
      const py::object text = said[py::int_(0)];
      report::ledger().note_warning(counters, due->call, bytes_of(text));
      if (!py::cast<bool>(said[py::int_(1)]))
        continue;
      const Owned file(PyUnicode_DecodeFSDefault(due->call.file.c_str()));
      if (!file || PyErr_WarnExplicitObject(errors().retrace, text.ptr(), file.get(),
                                            due->call.line, nullptr, nullptr) != 0)
        return false;
    } catch (py::error_already_set &error) {
      error.restore(); // of the words themselves: Ctrl-C
      return false;
    }
  }
  return true;
}

} // namespace tracehost::python
