#include "frames.h"

#include "guards/frame.h"
#include "guards/instructions.h"

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <unordered_map>

namespace tracehost::python {

namespace py = pybind11;

namespace {

struct Prefixes {
  std::string torch, standard_library, site_packages, tracehost;
};

std::string folder_of(const char *module) {
  const std::string file = py::str(py::module_::import(module).attr("__file__"));
  return file.substr(0, file.rfind('/') + 1);
}

const Prefixes &prefixes() {
  static const Prefixes p = [] {
    const py::dict paths = py::module_::import("sysconfig").attr("get_paths")();
    return Prefixes{folder_of("torch"), py::cast<std::string>(paths["stdlib"]) + "/",
                    py::cast<std::string>(paths["purelib"]) + "/", folder_of("tracehost")};
  }();
  return p;
}

Owner classify(std::string_view file) {
  const Prefixes &p = prefixes();
  if (file.starts_with(p.torch))
    return Owner::torch;
  if (file.starts_with(p.tracehost))
    return Owner::tracehost;
  if (file.starts_with("<frozen"))
    return Owner::standard_library;
  if (file.starts_with(p.standard_library) && !file.starts_with(p.site_packages) &&
      file.find("-packages/") == std::string_view::npos)
    return Owner::standard_library;
  return Owner::user;
}

} // namespace

Owner owner(PyCodeObject *code) {
  static std::unordered_map<std::string, Owner> known;
  Py_ssize_t size = 0;
  const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (!file) {
    PyErr_Clear();
    return Owner::user;
  }
  const std::string name(file, static_cast<std::size_t>(size));
  const auto found = known.find(name);
  if (found != known.end())
    return found->second;
  const Owner result = classify(name);
  if (known.size() > 10000) // notebooks make a file name a cell
    known.clear();
  return known[name] = result;
}

void prepare_frames() { prefixes(); }

Site user_line() {
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Site site;
    if (owner(code) == Owner::user)
      site = {PyUnicode_AsUTF8(code->co_filename), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject *back = site.line ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    if (site.line)
      return site;
    frame = back;
  }
  return {};
}

Site catching_line(PyFrameObject *outer) {
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  Site site;
  while (frame && frame != outer && !site.line) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    const Instructions *all = owner(code) == Owner::user ? instructions_of(code) : nullptr;
    const int unit = all ? unit_of(*frame_of(frame)) : -1;
    if (unit >= 0 && unit < static_cast<int>(all->size()) && (*all)[unit].caught)
      site = {PyUnicode_AsUTF8(code->co_filename), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return site;
}

} // namespace tracehost::python
