#include "hooks/block_stores.h"

#include "guards/trace_history.h"
#include "hooks/profile.h"
#include "observe/stores.h"

#include <string>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// One of them, as Python sees it: `path`, `where`, and of a slot `before` and `now`.
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

} // namespace

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
  module.def("begin_block", [] {
    Recorder *recorder = Profile::recorder();
    return recorder ? recorder->stores().begin_block() : 0;
  });
  module.def("in_block", &in_block);
  // What an earlier trace of this Function has noted about ifs, by their line.
  module.def("note_storing", [](std::string where) {
    Recorder *recorder = Profile::recorder();
    if (TraceHistory *history = recorder ? recorder->history() : nullptr)
      history->note_branch(std::move(where));
  });
  module.def("is_storing", [](const std::string &where) {
    Recorder *recorder = Profile::recorder();
    const TraceHistory *history = recorder ? recorder->history() : nullptr;
    return history && history->has_branch(where);
  });
  module.def("end_block", [](std::size_t begin, bool put_back) {
    if (Recorder *recorder = Profile::recorder())
      recorder->stores().end_block(begin, put_back);
  });
}

} // namespace tracehost::python
