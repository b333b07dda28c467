#include "base/origin.h"

#include "base/forget_error.h"
#include "base/object.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// What the answers go by. On the heap and never freed: no Python object lives in a C++ static when
/// the interpreter goes.
struct Origins {
  /// Folders with a slash at their end; a folder in another one comes first.
  std::vector<std::pair<std::string, Origin>> folders;
  PyObject *answers;  ///< dict: a file's name to its answer, an int
  PyObject *builtins; ///< sys.stdlib_module_names
  PyObject *file, *name, *module;
};

Origins *origins = nullptr;

/// Notebooks make a file name a cell.
constexpr Py_ssize_t kMostAnswers = 10000;

void add_folder(Origins &to, const py::object &folder, Origin origin) {
  if (folder.is_none())
    return;
  const py::object path = py::module_::import("os").attr("path");
  for (const char *form : {"abspath", "realpath"})
    to.folders.emplace_back(py::cast<std::string>(path.attr(form)(folder)) + "/", origin);
}

/// The folder of a package that is imported already, or that can be found without its import.
void add_package(Origins &to, const char *name, Origin origin) {
  const py::object spec = py::module_::import("importlib.util").attr("find_spec")(name);
  if (!spec.is_none() && !spec.attr("origin").is_none())
    add_folder(to, py::module_::import("os").attr("path").attr("dirname")(spec.attr("origin")),
               origin);
}

void find_folders(Origins &to) {
  for (const char *name : {"torch", "functorch", "torchgen"})
    add_package(to, name, Origin::torch);
  add_package(to, "tracehost", Origin::tracehost);
  add_package(to, "numpy", Origin::python);
  const py::module_ sysconfig = py::module_::import("sysconfig");
  for (const char *name : {"purelib", "platlib"})
    add_folder(to, sysconfig.attr("get_path")(name), Origin::package);
  const py::module_ site = py::module_::import("site");
  for (const py::handle folder : site.attr("getsitepackages")())
    add_folder(to, py::reinterpret_borrow<py::object>(folder), Origin::package);
  add_folder(to, site.attr("getusersitepackages")(), Origin::package);
  for (const char *name : {"stdlib", "platstdlib"})
    add_folder(to, sysconfig.attr("get_path")(name), Origin::python);
  std::stable_sort(to.folders.begin(), to.folders.end(),
                   [](const auto &a, const auto &b) { return a.first.size() > b.first.size(); });
}

Origin classify(std::string_view file) {
  if (file.starts_with("<frozen "))
    return Origin::python;
  for (const auto &[folder, origin] : origins->folders)
    if (file.starts_with(folder))
      return origin;
  return Origin::user;
}

PyObject *found_in(PyObject *dict, PyObject *key) {
  PyObject *found = PyDict_GetItemWithError(dict, key); // borrowed
  if (!found)
    forget_error();
  return found;
}

/// A module without a file: one built into the interpreter, a part of a C module, `__main__`.
Origin origin_of_name(PyObject *name) {
  if (!name || !PyUnicode_Check(name))
    return Origin::user;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(name);
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, length, 1);
  const Owned top(dot < 0 ? Py_NewRef(name) : PyUnicode_Substring(name, 0, dot));
  PyObject *module = top ? found_in(PyImport_GetModuleDict(), top.get()) : nullptr;
  if (module && PyModule_Check(module))
    if (PyObject *file = found_in(PyModule_GetDict(module), origins->file))
      return origin_of_file(file);
  const bool builtin = top && PySet_Contains(origins->builtins, top.get()) == 1;
  forget_error();
  return builtin ? Origin::python : Origin::user;
}

} // namespace

Origin origin_of_file(PyObject *file) {
  if (!PyUnicode_Check(file))
    return Origin::user;
  if (PyObject *answer = found_in(origins->answers, file))
    return static_cast<Origin>(PyLong_AsLong(answer));
  const Origin origin = classify(utf8(file));
  if (PyDict_GET_SIZE(origins->answers) > kMostAnswers)
    PyDict_Clear(origins->answers);
  const Owned answer(PyLong_FromLong(static_cast<long>(origin)));
  if (!answer || PyDict_SetItem(origins->answers, file, answer.get()) < 0)
    forget_error();
  return origin;
}

Origin origin_of(PyCodeObject *code) { return origin_of_file(code->co_filename); }

Origin origin_of_globals(PyObject *globals) {
  PyObject *file = found_in(globals, origins->file);
  if (file && PyUnicode_Check(file) && std::string_view(utf8(file)).starts_with('/'))
    return origin_of_file(file);
  return origin_of_name(found_in(globals, origins->name));
}

Origin origin_of_type(PyTypeObject *type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !type->tp_dict)
    return Origin::python;
  PyObject *name = found_in(type->tp_dict, origins->module);
  if (!name || !PyUnicode_Check(name))
    return Origin::user;
  PyObject *module = found_in(PyImport_GetModuleDict(), name);
  return module && PyModule_Check(module) ? origin_of_globals(PyModule_GetDict(module))
                                          : origin_of_name(name);
}

void add_origin(py::module_ &module) {
  auto *made = new Origins{};
  made->answers = PyDict_New();
  made->builtins =
      py::object(py::module_::import("sys").attr("stdlib_module_names")).release().ptr();
  made->file = PyUnicode_InternFromString("__file__");
  made->name = PyUnicode_InternFromString("__name__");
  made->module = PyUnicode_InternFromString("__module__");
  find_folders(*made);
  origins = made;
  module.def("origin", [](const py::str &file) {
    constexpr std::array kNames{"user", "package", "python", "torch", "tracehost"};
    return kNames[static_cast<std::size_t>(origin_of_file(file.ptr()))];
  });
}

} // namespace tracehost::python
