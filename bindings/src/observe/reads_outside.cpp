#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "observe/reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

/// Reads: calls of C code that no rule knows, that read what no later call can compare, or that
/// matter only where the user's own code makes them.

namespace tracehost::python {

/// Whether C code without a row may find, or leave, something else in the object at a later call.
/// No such object is a tensor, an immutable value, a class or a generator.
bool Reads::is_from_outside(PyObject *object, int depth) const {
  if (!object || depth > 4 || is_tensor(object) || PyType_Check(object) ||
      PyGen_CheckExact(object) || is_traced_number(object))
    return false;
  if (PyCFunction_Check(object)) {
    PyObject *self = PyCFunction_GET_SELF(object);
    return self && !PyModule_Check(self) && is_from_outside(self, depth + 1);
  }
  if (PyMethod_Check(object))
    return is_from_outside(PyMethod_GET_SELF(object), depth + 1);
  PyTypeObject *type = Py_TYPE(object);
  if (is_plain(type, object) ||
      PyObject_TypeCheck(reinterpret_cast<PyObject *>(type), known().enum_type))
    return false;
  if (paths_.knows(object) && !PyTuple_Check(object) && !PyFrozenSet_CheckExact(object))
    return is_collection(object) || is_opaque(object) || has_inner_dict(type) ||
           PyWeakref_Check(object) || PyModule_Check(object) || !is_fixed(type);
  const std::vector<PyObject *> parts =
      is_collection(object) ? parts_of(object, /*all=*/true) : std::vector<PyObject *>();
  return std::ranges::any_of(
      parts, [&](PyObject *part) { return part != object && is_from_outside(part, depth + 1); });
}

/// C code without a row.
void Reads::apply_unknown(const Called &called, Arguments arguments) {
  const bool asks_its_module = called.callable && arguments.empty();
  const bool of_objects = std::ranges::any_of(
      arguments, [this](PyObject *argument) { return is_from_outside(argument); });
  if ((asks_its_module || of_objects) && !printing())
    paths_.serves_once(fmt::format("calls {} at {}, which is C code that tracehost does not know "
                                   "(if it only reads what it is given: "
                                   "tracehost.autograph.reads_only({}))",
                                   called.shown(), text(user_line()), called.path()));
  read_contents(arguments, /*may_store=*/true);
}

namespace {

/// Modules of Python's whose functions ask the file system for who calls them. Other modules do it
/// for themselves: `linecache` and `logging` ask for files and the time.
constexpr std::string_view kOfFiles[] = {"genericpath", "posixpath", "pathlib", "glob",
                                         "shutil",      "os",        "tempfile"};

bool ends_so(PyCodeObject *code, std::string_view end) {
  return std::string_view(utf8(code->co_filename)).ends_with(end);
}

bool is_of_files(PyCodeObject *code) {
  const std::string_view file = utf8(code->co_filename);
  return std::ranges::any_of(kOfFiles, [&](std::string_view module) {
    return file.ends_with(fmt::format("/{}.py", module)) ||
           file.find(fmt::format("/{}/", module)) != file.npos ||
           file == fmt::format("<frozen {}>", module);
  });
}

} // namespace

/// What the user's code has called, if the frame is its own, of Python's functions for files, or of
/// torch's for memory; else empty.
std::string Reads::called_by_user(const Called &called) const {
  std::string shown = called.shown();
  for (const Frame *frame = frame_; frame; frame = caller_of(*frame)) {
    const Origin origin = origin_of(frame->code);
    if (origin == Origin::user || origin == Origin::tracehost)
      return shown;
    const bool of_memory = ends_so(frame->code, "/torch/cuda/memory.py");
    if (!of_memory && (origin != Origin::python || !is_of_files(frame->code)))
      return {};
    shown = fmt::format("{}{}()", of_memory ? "torch.cuda." : "", utf8(frame->code->co_qualname));
  }
  return {};
}

void Reads::note_outside(const Called &called) {
  if (printing())
    return;
  std::string users = called_by_user(called);
  const bool is_users = !users.empty();
  UnknownCall call{is_users ? std::move(users) : called.shown(), user_line(), is_users};
  const bool seen = std::any_of(unknown_.begin(), unknown_.end(), [&](const UnknownCall &other) {
    return other.what == call.what && other.where.line == call.where.line &&
           other.where.file == call.where.file;
  });
  if (!seen)
    unknown_.push_back(std::move(call));
}

/// A later call would have to do it as well, and a graph has ops alone. What torch does around ops
/// of its own, as checkpoint() with random states, it does around the graph's ops no less.
void Reads::note_device(const Called &called) {
  std::string shown = called.shown();
  if (!printing() && is_users_device_call(shown))
    paths_.serves_once(fmt::format("calls {} at {}, which {}", shown, text(user_line()),
                                   called.name == "is_pinned"
                                       ? "no call compares"
                                       : "chooses a device or a stream or orders what runs there, "
                                         "and a graph does not repeat that"));
}

namespace {

/// Modules of torch's that hand a call of the user's on to the device.
constexpr std::string_view kOfDevices[] = {"/torch/cuda/__init__.py", "/torch/cuda/streams.py",
                                           "/torch/cuda/graphs.py",
                                           "/torch/accelerator/__init__.py"};

} // namespace

/// `shown`: becomes torch's function that the user calls.
bool Reads::is_users_device_call(std::string &shown) const {
  const Frame *frame = frame_;
  for (; frame; frame = caller_of(*frame)) {
    const Origin origin = origin_of(frame->code);
    const bool hands_on =
        std::ranges::any_of(kOfDevices, [&](auto end) { return ends_so(frame->code, end); });
    if (origin == Origin::torch && !hands_on)
      return false;
    if (origin != Origin::torch && origin != Origin::python)
      return true;
    if (PyObject *module = PyDict_GetItemString(frame->globals, "__name__"); hands_on && module)
      shown = fmt::format("{}.{}()", utf8(module), utf8(frame->code->co_qualname));
  }
  return true;
}

/// Whether code of the user's asks for a switch, by at most two calls of torch's: what modules and
/// functions of torch ask decides how they compute, and not what.
bool Reads::asks_for_itself() const {
  const Frame *frame = frame_;
  for (int i = 0; i < 3 && frame; ++i, frame = caller_of(*frame))
    if (!is_library(origin_of(frame->code)))
      return true;
  return false;
}

} // namespace tracehost::python
