#include "hooks/staging.h"

#include "base/errors.h"
#include "base/user_line.h"
#include "hooks/block_stores.h"
#include "hooks/profile.h"
#include "staging/branches.h"
#include "staging/loop.h"
#include "staging/select.h"
#include "staging/tensor_array.h"
#include "trace/call.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>
#include <utility>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;
using staging::Branches;
using staging::Loop;

at::Tensor tensor(py::handle object) {
  if (object.is_none())
    return {};
  if (!THPVariable_Check(object.ptr()))
    throw py::type_error("a tensor was expected, not " +
                         std::string(Py_TYPE(object.ptr())->tp_name));
  return THPVariable_Unpack(object.ptr());
}

std::vector<at::Tensor> tensors(const py::handle &list) {
  std::vector<at::Tensor> result;
  for (const py::handle item : list)
    result.push_back(tensor(item));
  return result;
}

py::object wrap(const at::Tensor &t) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(t));
}

py::list wrap(const std::vector<at::Tensor> &list) {
  py::list result;
  for (const at::Tensor &t : list)
    result.append(wrap(t));
  return result;
}

/// Calls `f` for Python: exceptions for unsupported programs and errors of ops become Python's.
template <class F> auto called(const F &f) -> decltype(f()) {
  try {
    return f();
  } catch (py::error_already_set &) {
    throw;
  } catch (...) {
    set_from_current_exception();
    throw py::error_already_set();
  }
}

using Line = std::pair<std::string, int>; ///< a file's name and a number

Site site(const Line &line) { return {line.first, line.second}; }

class PyBranches {
public:
  explicit PyBranches(py::handle condition)
      : branches_(called([&] { return Branches(tensor(condition)); })) {}

  py::object condition() const {
    const auto value = branches_.condition();
    return value ? py::object(py::bool_(*value)) : py::object(py::none());
  }
  std::size_t run(int branch, const py::function &body) {
    return called([&] { return branches_.run(which(branch), [&] { return tensors(body()); }); });
  }
  void raise(int branch, const std::string &type, const std::string &message, const Line &line) {
    called([&] { branches_.raise(which(branch), type, message, site(line)); });
  }
  void discard() { branches_.discard(); }
  bool can_be_checked() const { return branches_.can_be_checked(); }
  void take(const py::function &check) {
    called([&] { branches_.take([&] { check(); }); });
  }
  py::object join(py::handle then, py::handle otherwise, py::handle actual) {
    return called(
        [&] { return wrap(branches_.join(index(then), index(otherwise), tensor(actual))); });
  }

private:
  static Branches::Branch which(int branch) {
    return branch ? Branches::otherwise : Branches::then;
  }
  static std::size_t index(py::handle i) {
    return i.is_none() ? Branches::kNone : py::cast<std::size_t>(i);
  }

  Branches branches_;
};

class PyLoop {
public:
  PyLoop(py::handle count, py::handle condition, std::int64_t maximum, const py::list &carried)
      : loop_(called([&] {
          return Loop({tensor(count), tensor(condition), maximum}, tensors(carried));
        })) {}

  void body(const Loop::Varying &varying, const py::function &f) {
    called([&] {
      loop_.body(varying, [&](const at::Tensor &index, const std::vector<at::Tensor> &carried) {
        const auto next = py::cast<py::tuple>(f(wrap(index), wrap(carried)));
        return Loop::Next{tensor(next[0]), tensors(next[1])};
      });
    });
  }
  void discard() { loop_.discard(); }
  py::list finish() {
    const std::vector<at::Tensor> results = called([&] {
      const py::gil_scoped_release release; // the loop runs: other threads may as well
      return loop_.finish();
    });
    return wrap(results);
  }

private:
  Loop loop_;
};

/// The frame that has called the Function which this thread traces innermost.
py::object frame_of_call() {
  auto *found = reinterpret_cast<PyObject *>(python::outer_frame());
  return py::reinterpret_borrow<py::object>(found ? found : Py_None);
}

using staging::TensorArray;

TensorArray::Index index_of(py::handle i) {
  if (THPVariable_Check(i.ptr()))
    return tensor(i);
  return py::cast<std::int64_t>(i);
}

/// What `tracehost.TensorArray` is while a function is traced.
class PyTensorArray {
public:
  explicit PyTensorArray(py::handle size)
      : array_(called([&] { return TensorArray(index_of(size)); })) {}

  void append(py::handle value) {
    called([&] { array_.append(tensor(value)); });
  }
  void write(py::handle index, py::handle value) {
    called([&] { array_.write(index_of(index), tensor(value)); });
  }
  void unstack(py::handle rows) {
    called([&] { array_.unstack(tensor(rows)); });
  }
  py::object read(py::handle index) {
    return called([&] { return wrap(array_.read(index_of(index))); });
  }
  py::object stack() {
    return called([&] { return wrap(array_.stack()); });
  }
  py::object size() {
    const auto size = called([&] { return array_.size(); });
    const auto *t = std::get_if<at::Tensor>(&size);
    return t ? wrap(*t) : py::object(py::int_(std::get<std::int64_t>(size)));
  }
  /// The sizes of an element, None before one is written; whether they depend on values.
  py::object sizes() const {
    const auto &element = array_.element();
    return element
               ? py::object(py::make_tuple(py::tuple(py::cast(element->sizes)), element->inexact))
               : py::object(py::none());
  }

private:
  TensorArray array_;
};

py::object row_count(py::handle t) {
  return called([&] {
    const auto count = staging::row_count(tensor(t));
    return count ? wrap(*count) : py::object(py::none());
  });
}

py::object select(py::handle t, std::int64_t dimension, py::handle index) {
  return called([&] { return wrap(staging::select(tensor(t), dimension, tensor(index))); });
}

} // namespace

void add_staging(py::module_ &module) {
  py::class_<PyBranches>(module, "Branches")
      .def(py::init<py::handle>())
      .def_property_readonly("condition", &PyBranches::condition)
      .def("run", &PyBranches::run)
      .def("raise_", &PyBranches::raise)
      .def("discard", &PyBranches::discard)
      .def("can_be_checked", &PyBranches::can_be_checked)
      .def("take", &PyBranches::take)
      .def("join", &PyBranches::join);
  py::class_<PyLoop>(module, "Loop")
      .def(py::init<py::handle, py::handle, std::int64_t, const py::list &>())
      .def("body", &PyLoop::body)
      .def("discard", &PyLoop::discard)
      .def("finish", &PyLoop::finish);
  py::class_<PyTensorArray>(module, "TensorArray")
      .def(py::init<py::handle>())
      .def("append", &PyTensorArray::append)
      .def("write", &PyTensorArray::write)
      .def("unstack", &PyTensorArray::unstack)
      .def("read", &PyTensorArray::read)
      .def("stack", &PyTensorArray::stack)
      .def("size", &PyTensorArray::size)
      .def_property_readonly("sizes", &PyTensorArray::sizes);
  module.def("select", &select);
  module.def("row_count", &row_count);
  module.def("raise_error",
             [](const std::string &type, const std::string &message, const Line &line) {
               called([&] { staging::raise_error(type, message, site(line)); });
             });
  module.def("outer_frame", &frame_of_call);
  module.def("sizes_now", [](py::handle t) { return tensor(t).sizes().vec(); });
  module.def("recording", &trace::recording);
  module.def("has_unknown_sizes", [] { return trace::recording() && trace::has_unknown_sizes(); });
  module.def("abandoned", &trace::abandoned);
  module.def("forgive_rejection", &trace::forgive_rejection);
  module.def("traces_reads", [] { return trace::active() && trace::traces_reads(); });
  module.def("serves_once", [](std::string what) {
    if (Recorder *recorder = Profile::recorder())
      recorder->serves_once(std::move(what));
  });
  add_block_stores(module);
  module.def("may_check", [] { return trace::recording() && trace::may_check(); });
  module.def("reaches", [](py::handle object) { return Profile::reaches(object.ptr()); });
  module.def("without_data", [] { return trace::active() && trace::without_data(); });
  module.def("has_dynamic_sizes", [] { return trace::active() && trace::has_dynamic_sizes(); });
  module.def("note_raised", [](const std::string &message) { trace::note_raised(message); });
  module.def("reject_staging", [](const std::string &message) {
    called([&] { trace::reject(trace::Rejection::staging, message); });
  });
}

} // namespace tracehost::python
