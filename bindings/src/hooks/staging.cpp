#include "hooks/staging.h"

#include "base/unobserved.h"
#include "base/user_line.h"
#include "hooks/profile.h"
#include "staging/branches.h"
#include "staging/loop.h"
#include "staging/select.h"
#include "staging/tensor_array.h"
#include "trace/call.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <c10/util/ScopeExit.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;
using staging::Branches;
using staging::Loop;
using staging::TensorArray;

using Line = std::pair<std::string, int>; ///< a file's name and a number
using Tensors = std::vector<at::Tensor>;
using MaybeTensor = std::optional<at::Tensor>;

Site site(const Line &line) { return {line.first, line.second}; }

/// Undefined for None.
at::Tensor tensor(const MaybeTensor &given) { return given.value_or(at::Tensor()); }

Branches::Branch which(int branch) { return branch ? Branches::otherwise : Branches::then; }

/// Borrowed.
Sides::Held held_by(const py::list &objects) {
  Sides::Held held;
  for (const py::handle object : objects)
    held.insert(object.ptr());
  return held;
}

/// Runs the user's code of a branch or of a loop's body, which may have to be pure
/// (observe/sides.h). end() returns what of it was not pure.
class SideUnderWay {
public:
  explicit SideUnderWay(Sides::Held held) : recorder_(Profile::recorder()) {
    if (recorder_)
      recorder_->sides().begin_attempt(std::move(held));
  }
  SideUnderWay(Branches &branches, bool real, bool checkable, bool rest, Sides::Held held)
      : recorder_(Profile::recorder()) {
    if (recorder_)
      recorder_->sides().begin({real, checkable, rest, branches.name(), std::move(held),
                                [&branches] { branches.check(); },
                                [this, &branches] {
                                  recorder_->sides().note_check();
                                  branches.open();
                                },
                                [&branches](const std::string &why) { branches.reject(why); }});
  }
  ~SideUnderWay() { end(); }
  SideUnderWay(const SideUnderWay &) = delete;
  SideUnderWay &operator=(const SideUnderWay &) = delete;

  Sides::Side end() {
    Recorder *recorder = std::exchange(recorder_, nullptr);
    return recorder ? recorder->sides().end() : Sides::Side();
  }

private:
  Recorder *recorder_;
};

/// What the body had read and stored before a block that may be no part of the graph.
class Met {
public:
  Met() {
    if (Recorder *recorder = Profile::recorder())
      before_ = {recorder->paths().met(), recorder->stores().count()};
  }
  /// What the block has read and stored is nothing that the graph depends on, or does.
  void leave_out() const {
    Recorder *recorder = Profile::recorder();
    if (!recorder || !before_)
      return;
    recorder->paths().leave_out(before_->paths);
    recorder->stores().leave_out(before_->stores);
  }

private:
  struct Before {
    Paths::Met paths;
    std::size_t stores;
  };
  std::optional<Before> before_;
};

/// The branches of an `if`, as Python sees them.
struct PyBranches : Branches {
  using Branches::Branches;

  std::size_t run_side(int branch, const py::function &body, bool checkable, bool rest,
                       const py::list &held) {
    const bool real = condition() == (which(branch) == then);
    SideUnderWay side(*this, real, checkable, rest, held_by(held));
    if (!real && checkable)
      before.emplace();
    const auto end = c10::make_scope_exit([&] { impure = side.end().impure; });
    return run(which(branch), [&] { return py::cast<Tensors>(body()); });
  }

  /// The graph checks the condition, and has the side alone that the call takes.
  void take() {
    check();
    open();
    Recorder *recorder = Profile::recorder();
    if (!recorder)
      return;
    recorder->sides().note_check();
    if (before)
      before->leave_out();
  }

  std::string impure;        ///< what of the side that ran last was not pure
  std::optional<Met> before; ///< the other side, if that has run
};

/// The variables of a block: locals, attributes, elements. That tracehost reads and sets them is
/// nothing that the body does.
class BlockState {
public:
  BlockState(py::function get, py::function set) : get_(std::move(get)), set_(std::move(set)) {
    before = this->get();
    if (Recorder *recorder = Profile::recorder())
      stores_ = recorder->stores().noted();
  }
  py::object get() {
    py::object state;
    for (const Paths::Position at : quietly([&] { state = get_(); }))
      reads_.push_back(at);
    return state;
  }
  void set(const py::tuple &state) const {
    quietly([&] { set_(state); });
  }
  /// The graph has the block: each hit begins with such values.
  void read() const {
    Recorder *recorder = Profile::recorder();
    if (!recorder)
      return;
    recorder->paths().read_state(reads_);
    recorder->stores().join(stores_);
  }

  py::object before;

private:
  /// Returns the slots that `run` has read.
  static std::vector<Paths::Position> quietly(const std::function<void()> &run) {
    const Observed observed; // the slots are found by the instructions
    Recorder *recorder = Profile::recorder();
    if (!recorder || recorder->paths().in_state()) {
      run();
      return {};
    }
    Paths &paths = recorder->paths();
    paths.begin_state();
    try {
      run();
    } catch (...) {
      paths.end_state();
      throw;
    }
    return paths.end_state();
  }

  py::function get_, set_;
  std::vector<Paths::Position> reads_;
  std::size_t stores_ = 0; ///< noted before the block
};

void add_state(py::module_ &module) {
  py::class_<BlockState>(module, "BlockState")
      .def(py::init<py::function, py::function>())
      .def_readonly("before", &BlockState::before)
      .def("get", &BlockState::get)
      .def("set", &BlockState::set)
      .def("read", &BlockState::read);
}

void add_branches(py::module_ &module) {
  py::class_<PyBranches>(module, "Branches")
      .def(py::init<const at::Tensor &, const std::string &, std::string>())
      .def_property_readonly("condition", &Branches::condition)
      .def_property_readonly("taken", &Branches::taken)
      .def_property_readonly("comes_first", &Branches::comes_first)
      .def_readonly("impure", &PyBranches::impure)
      .def("run_side", &PyBranches::run_side)
      .def("run",
           [](PyBranches &branches, int branch, const py::function &body) {
             return branches.run(which(branch), [&] { return py::cast<Tensors>(body()); });
           })
      .def("raise_",
           [](PyBranches &branches, int branch, const std::string &type, const std::string &message,
              const std::string &details, const Line &line) {
             branches.raise(which(branch), type, message, details, site(line));
           })
      .def("can_be_checked", &Branches::can_be_checked)
      .def("reject", &PyBranches::reject)
      .def("take", &PyBranches::take)
      .def("join", [](PyBranches &branches, std::optional<std::size_t> then,
                      std::optional<std::size_t> otherwise, const MaybeTensor &actual) {
        return branches.join(then.value_or(Branches::kNone), otherwise.value_or(Branches::kNone),
                             tensor(actual));
      });
}

/// A loop of the graph, as Python sees it.
struct PyLoop : Loop {
  using Loop::Loop;

  void run_body(const Loop::Varying &varying, const py::function &f, const py::list &held) {
    SideUnderWay attempt(held_by(held));
    const auto end = c10::make_scope_exit([&] {
      Sides::Side ended = attempt.end();
      impure = std::move(ended.impure);
      in_side = ended.in_side;
    });
    body(varying, [&](const at::Tensor &index, const Tensors &carried) {
      auto [condition, next] = py::cast<std::pair<MaybeTensor, Tensors>>(f(index, carried));
      return Loop::Next{tensor(condition), std::move(next)};
    });
  }

  std::string impure;   ///< what of the body was not pure
  bool in_side = false; ///< and stands in a side of an `if`
};

void add_loop(py::module_ &module) {
  py::class_<PyLoop>(module, "Loop")
      .def(py::init([](const MaybeTensor &count, const MaybeTensor &condition, std::int64_t maximum,
                       Tensors carried) {
        const Loop::Bounds bounds{tensor(count), tensor(condition), maximum};
        return std::make_unique<PyLoop>(bounds, std::move(carried));
      }))
      .def("body", &PyLoop::run_body)
      .def_readonly("impure", &PyLoop::impure)
      .def_readonly("in_side", &PyLoop::in_side)
      .def("discard", &PyLoop::discard)
      // The loop runs: other threads may as well.
      .def("finish", &PyLoop::finish, py::call_guard<py::gil_scoped_release>());
}

/// The frame that has called the Function which this thread traces innermost.
py::object frame_of_call() {
  auto *found = reinterpret_cast<PyObject *>(python::outer_frame());
  return py::reinterpret_borrow<py::object>(found ? found : Py_None);
}

/// A tensor first: it says to pybind11 that it can be an int.
TensorArray::Index index_of(py::handle i) {
  if (THPVariable_Check(i.ptr()))
    return THPVariable_Unpack(i.ptr());
  return py::cast<std::int64_t>(i);
}

/// The sizes of an element, None before one is written; whether they depend on values.
py::object sizes_of(const TensorArray &array) {
  const auto &element = array.element();
  return element ? py::object(py::make_tuple(py::tuple(py::cast(element->sizes)), element->inexact))
                 : py::object(py::none());
}

/// What `tracehost.TensorArray` is while a function is traced.
void add_tensor_array(py::module_ &module) {
  py::class_<TensorArray>(module, "TensorArray")
      .def(py::init([](py::handle size) { return std::make_unique<TensorArray>(index_of(size)); }))
      .def("append", &TensorArray::append)
      .def("write", [](TensorArray &array, py::handle index,
                       const at::Tensor &value) { array.write(index_of(index), value); })
      .def("unstack", &TensorArray::unstack)
      .def("read", [](TensorArray &array, py::handle index) { return array.read(index_of(index)); })
      .def("stack", &TensorArray::stack)
      .def("size", &TensorArray::size)
      .def_property_readonly("sizes", &sizes_of);
}

/// A store in a staged block, as Python sees it: `path`, `where`, and of a slot `before` and `now`.
struct PyBlockStore {
  BlockStore store;
  py::object absent; ///< stands for nothing

  py::object value(const Owned &held) const {
    return held ? py::reinterpret_borrow<py::object>(held.get()) : absent;
  }
  py::tuple key() const { return py::make_tuple(store.container, store.slot); }
  void set(py::handle value) const {
    if (Recorder *recorder = Profile::recorder())
      recorder->stores().store(store, value.ptr());
  }
};

std::vector<PyBlockStore> in_block(std::size_t begin, const py::object &absent) {
  std::vector<PyBlockStore> result;
  if (Recorder *recorder = Profile::recorder())
    for (BlockStore &store : recorder->stores().in_block(begin))
      result.push_back({std::move(store), absent});
  return result;
}

/// What staged blocks store in code that they call.
void add_block_stores(py::module_ &module) {
  py::class_<PyBlockStore>(module, "BlockStore")
      .def_property_readonly("key", &PyBlockStore::key)
      .def_property_readonly("is_slot", [](const PyBlockStore &s) { return s.store.slot >= 0; })
      .def_property_readonly("path", [](const PyBlockStore &s) { return s.store.path; })
      .def_property_readonly("where", [](const PyBlockStore &s) { return text(s.store.where); })
      .def_property_readonly("before",
                             [](const PyBlockStore &s) { return s.value(s.store.before); })
      .def_property_readonly("now", [](const PyBlockStore &s) { return s.value(s.store.now); })
      .def("set", &PyBlockStore::set);
  module.def("numbers_taken", [] {
    Recorder *recorder = Profile::recorder();
    return recorder ? recorder->paths().numbers().count() : 0;
  });
  module.def("put_numbers_again", [](std::size_t since) {
    if (Recorder *recorder = Profile::recorder())
      recorder->paths().numbers().put_again(since);
  });
  py::class_<Met>(module, "Met").def(py::init<>()).def("leave_out", &Met::leave_out);
  module.def("begin_block", [] {
    Recorder *recorder = Profile::recorder();
    return recorder ? recorder->stores().begin_block() : 0;
  });
  module.def("in_block", &in_block);
  // How many attributes of tensors the body has set.
  module.def("tensor_attributes_set", [] {
    Recorder *recorder = Profile::recorder();
    return recorder ? recorder->stores().of_tensors() : 0;
  });
  module.def("end_block", [](std::size_t begin, bool restore) {
    if (Recorder *recorder = Profile::recorder())
      recorder->stores().end_block(begin, restore);
  });
}

} // namespace

void add_staging(py::module_ &module) {
  module.def("unobserved", [](const py::function &function, const py::args &arguments) {
    const Unobserved unobserved;
    return function(*arguments);
  });
  module.def("observed", [](const py::function &function, const py::args &arguments) {
    const Observed observed;
    return function(*arguments);
  });
  add_state(module);
  add_branches(module);
  add_loop(module);
  add_tensor_array(module);
  module.def("select", &staging::select);
  module.def("row_count", &staging::row_count);
  module.def("raise_error",
             [](const std::string &type, const std::string &message, const std::string &details,
                const Line &line) { staging::raise_error(type, message, details, site(line)); });
  module.def("outer_frame", &frame_of_call);
  module.def("sizes_now", [](const at::Tensor &t) { return t.sizes().vec(); });
  module.def("recording", &trace::recording);
  module.def("has_unknown_sizes", [] { return trace::recording() && trace::has_unknown_sizes(); });
  module.def("abandoned", &trace::abandoned);
  module.def("abandons", &trace::abandons);
  module.def("forgive_rejection", &trace::forgive_rejection);
  module.def("is_rejected", [] { return trace::recording() && trace::is_rejected(); });
  module.def("repeat_rejection", [] {
    if (trace::active())
      trace::repeat_rejection();
  });
  module.def("traces_reads", [] { return trace::active() && trace::traces_reads(); });
  module.def("serves_once", [](std::string what) {
    if (Recorder *recorder = Profile::recorder())
      recorder->paths().serves_once(std::move(what));
  });
  add_block_stores(module);
  module.def("may_check", [] { return trace::recording() && trace::may_check(); });
  module.def("reaches", [](py::handle object) { return Profile::reaches(object.ptr()); });
  module.def("is_given", [](py::handle object) {
    Recorder *recorder = Profile::recorder();
    return recorder && recorder->paths().is_given_container(object.ptr());
  });
  module.def("_keeps_print", [](py::handle file) {
    Recorder *recorder = Profile::recorder();
    return recorder && recorder->paths().keeps_print(file.ptr());
  });
  module.def("without_data", [] { return trace::active() && trace::without_data(); });
  module.def("has_dynamic_sizes", [] { return trace::active() && trace::has_dynamic_sizes(); });
  module.def("note_raised", py::overload_cast<const std::string &>(&trace::note_raised));
  module.def("note_edited", [](const std::string &what) {
    if (trace::recording())
      trace::note_edited(what);
  });
  module.def("reject_staging",
             [](const std::string &message) { trace::reject(trace::Rejection::staging, message); });
}

} // namespace tracehost::python
